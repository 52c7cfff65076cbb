//! Ironic as a program: what starts it, and what stays when it dies.

use std::{io, sync::Arc};

use serde_json::json;
use wire::Host;

use crate::{
    api::Api, boot_server, conductor::Conductor, database::Database, fault::Faults, settings::Settings,
};

/// The API's port.
pub const API_PORT: u16 = 6385;

/// An Ironic: API, conductor and boot server in one process, as metal3 runs it. Cheap to clone; all clones are the
/// same.
#[derive(Clone, Debug)]
pub struct Ironic {
    settings: Arc<Settings>,
    database: Database,
    faults: Faults,
}

impl Ironic {
    /// An Ironic that is not running yet.
    pub fn new(settings: Settings, database: Database) -> Self {
        Self { settings: Arc::new(settings), database, faults: Faults::default() }
    }

    /// The same, with these faults. They may be shared with an Ironic that ran before.
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// Starts on a host, where it runs for as long as that lives: cleans up after a predecessor, then serves the API
    /// on port [`API_PORT`] and boot files on port 6180. After a crash it is called again with the restarted host;
    /// what was in memory alone is then gone. Must be called within a tokio runtime.
    pub fn serve(&self, host: Host) {
        let (settings, database) = (Arc::clone(&self.settings), self.database.clone());
        let conductor = Conductor::new(host.clone(), settings, database, self.faults.clone());
        drop(host.clone().spawn(async move {
            if let Err(error) = run(&host, conductor).await {
                tracing::error!(host = host.name(), %error, "Ironic ended");
                host.note("ironic", host.name(), json!({ "event": "ended", "error": error.to_string() }));
            }
        }));
    }
}

/// Returns only if a port cannot be had.
async fn run(host: &Host, conductor: Conductor) -> io::Result<()> {
    let boot_listener = host.listen(boot_server::PORT).await?;
    let api_listener = host.listen(API_PORT).await?;
    conductor.start_up();
    conductor.start_rounds();
    let (boot_host, boot_files) = (host.clone(), conductor.driver().boot_server_router());
    drop(host.spawn(async move {
        if let Err(error) = wire::http::serve_on(&boot_host, &boot_listener, boot_files).await {
            tracing::error!(host = boot_host.name(), %error, "the boot server ended");
        }
    }));
    wire::http::serve_on(host, &api_listener, Api::new(conductor).router()).await
}
