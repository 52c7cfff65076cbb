//! Why the Kubernetes API did not do what it was asked.

use std::time::Duration;

use super::Key;

/// A request that failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} {kind} {key}")]
pub struct ClusterError {
    /// What was asked, e.g. `update`.
    pub action: &'static str,
    /// Of which kind of object.
    pub kind: String,
    /// Of which object.
    pub key: Key,
    /// Why it failed.
    #[source]
    pub cause: Cause,
}

impl ClusterError {
    /// The object was changed since it was read.
    pub fn is_conflict(&self) -> bool {
        matches!(self.cause, Cause::Conflict(_))
    }

    /// There is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self.cause, Cause::NotFound(_))
    }

    /// The object to be created exists.
    pub fn is_already_exists(&self) -> bool {
        matches!(self.cause, Cause::AlreadyExists(_))
    }
}

/// Why a request failed; texts are the server's.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// 409: the object was changed since it was read.
    #[error("{0}")]
    Conflict(String),
    /// 404: there is no such object.
    #[error("{0}")]
    NotFound(String),
    /// 409: the object to be created exists.
    #[error("{0}")]
    AlreadyExists(String),
    /// The server understood and refused.
    #[error("{message} (status {code})")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// No answer came in time. Whether the request was carried out is not known.
    #[error("get an answer within {0:?}")]
    TimedOut(Duration),
    /// The request or its answer did not get through, or was not understood.
    #[error("talk to the Kubernetes API")]
    Broken(#[source] Box<kube::Error>),
}

/// How much of an answer is quoted, in characters: what is not Kubernetes' own may be a whole page.
const QUOTED: usize = 500;

impl From<kube::Error> for Cause {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_already_exists() => Self::AlreadyExists(status.message),
            kube::Error::Api(status) if status.is_conflict() => Self::Conflict(status.message),
            kube::Error::Api(status) if status.is_not_found() => Self::NotFound(status.message),
            kube::Error::Api(status) => Self::Refused {
                code: status.code,
                message: status.message.trim().chars().take(QUOTED).collect(),
            },
            other => Self::Broken(Box::new(other)),
        }
    }
}
