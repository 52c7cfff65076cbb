//! The same fakes and the same timeline on loopback sockets, in real time.

use std::path::PathBuf;

use crate::{schedule::Schedule, trace::Trace};

/// How a world is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the kubeconfig is written.
    pub kubeconfig: PathBuf,
}

/// Why a world cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It is not there yet.
    #[error("serve {0}: not implemented")]
    Missing(String),
}

/// Serves a world until its timeline is over or it is interrupted.
pub fn serve(schedule: Schedule, _options: &Options) -> Result<Trace, ServeError> {
    Err(ServeError::Missing(schedule.name))
}
