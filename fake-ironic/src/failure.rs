//! Why a request is refused, in Ironic's words and error bodies.

use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::database::NotFound;

/// A refusal. Its text is Ironic's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    shape: Shape,
}

/// Ironic has two kinds of error bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// From the application.
    Fault,
    /// From routing and version negotiation, with this title.
    Routing(&'static str),
}

impl Failure {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), shape: Shape::Fault }
    }

    /// 400.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 404.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 404, for a node.
    pub(crate) fn no_node(ident: impl std::fmt::Display) -> Self {
        Self::not_found(format!("Node {ident} could not be found."))
    }

    /// 404, for agents: they are not told what is missing.
    pub(crate) fn no_resource() -> Self {
        Self::not_found("Resource could not be found.")
    }

    /// 409.
    pub(crate) fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    /// 409, because of the exclusive lock.
    pub(crate) fn locked(node: Uuid, holder: &str) -> Self {
        Self::conflict(format!(
            "Node {node} is locked by host {holder}, please retry after the current operation is completed."
        ))
    }

    /// 406, because a field or a verb is newer than the version asked for.
    pub(crate) fn not_acceptable() -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "Request not acceptable.")
    }

    /// 500.
    pub(crate) fn server(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// 503, because too much is going on already.
    pub(crate) fn no_free_worker() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Requested action cannot be performed due to lack of free conductor workers.",
        )
    }

    /// Any status, as a fault of this fake has it.
    pub(crate) fn injected(status: StatusCode) -> Self {
        let text = status.canonical_reason().unwrap_or("Injected failure");
        Self::new(status, text)
    }

    /// 404, for a path.
    pub(crate) fn no_route() -> Self {
        Self { status: StatusCode::NOT_FOUND, text: String::new(), shape: Shape::Routing("Not Found") }
    }

    /// 405.
    pub(crate) fn no_method() -> Self {
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            text: String::new(),
            shape: Shape::Routing("Method Not Allowed"),
        }
    }

    /// 406, from version negotiation.
    pub(crate) fn version(text: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_ACCEPTABLE,
            text: text.into(),
            shape: Shape::Routing("Not Acceptable"),
        }
    }

    /// 413.
    pub(crate) fn too_large() -> Self {
        Self {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            text: String::new(),
            shape: Shape::Routing("Request Entity Too Large"),
        }
    }

    /// The body: JSON that holds JSON as a string.
    pub(crate) fn body(&self) -> Value {
        let inner = match self.shape {
            Shape::Fault => {
                let code = if self.status.is_server_error() { "Server" } else { "Client" };
                json!({ "faultcode": code, "faultstring": self.text, "debuginfo": null })
            }
            Shape::Routing(title) => {
                json!({ "code": self.status.as_u16(), "title": title, "description": self.text })
            }
        };
        json!({ "error_message": inner.to_string() })
    }
}

impl From<NotFound> for Failure {
    /// For a node that went away while it was being worked on.
    fn from(NotFound: NotFound) -> Self {
        Self::no_resource()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_hold_json_as_a_string() {
        let inner = |failure: Failure| -> Value {
            let body = failure.body();
            let text = body["error_message"].as_str().expect("a string");
            serde_json::from_str(text).expect("JSON within")
        };
        assert_eq!(
            inner(Failure::no_node("x")),
            json!({ "faultcode": "Client", "faultstring": "Node x could not be found.", "debuginfo": null })
        );
        assert_eq!(inner(Failure::server("'interface'"))["faultcode"], "Server");
        assert_eq!(
            inner(Failure::no_route()),
            json!({ "code": 404, "title": "Not Found", "description": "" })
        );
    }
}
