//! What sushy makes of a BMC's bad answers, and what Ironic then says.

use std::fmt;

use http::{Method, StatusCode};
use serde_json::Value;
use uuid::Uuid;

use super::super::{
    DriverError,
    requests::{Answer, Failure},
};
use crate::python::repr;

/// Why a request to a BMC failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The transport failed until patience ended.
    #[error("Unable to connect to {url}. Error: {failure}")]
    Connection { url: String, failure: Failure },
    /// The BMC answered with an error.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The answer is not JSON. Python's own exception, which Ironic does not expect.
    #[error("{0}")]
    NotJson(String),
    /// A resource lacks something.
    #[error("The attribute {attribute} is missing from the resource {resource}")]
    MissingAttribute { attribute: &'static str, resource: String },
    /// The BMC made a session without a token.
    #[error("No X-Auth-Token returned from remote host when attempting to establish a session. Error: {0}")]
    MissingToken(String),
}

/// An error that a BMC answered.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The whole body, for those who look for message ids.
    pub(super) body: String,
    text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error {
    /// The status that the BMC answered, if it did.
    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::Connection { .. }
            | Self::NotJson(_)
            | Self::MissingAttribute { .. }
            | Self::MissingToken(_) => None,
        }
    }

    /// Whether the answer's body names a message.
    pub(super) fn mentions(&self, message: &str) -> bool {
        match self {
            Self::Refused(refusal) => refusal.body.contains(message),
            Self::Connection { .. }
            | Self::NotJson(_)
            | Self::MissingAttribute { .. }
            | Self::MissingToken(_) => false,
        }
    }

    pub(super) fn is_access(&self) -> bool {
        matches!(self.status(), Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
    }

    /// What Ironic makes of a failure to find a system.
    pub(super) fn finding(self, node: Uuid) -> DriverError {
        match &self {
            Self::Connection { .. } => DriverError::RedfishConnection { node, error: self.to_string() },
            Self::Refused(refusal) if refusal.status == StatusCode::NOT_FOUND || self.is_access() => {
                DriverError::Redfish(self.to_string())
            }
            Self::Refused(_) | Self::NotJson(_) | Self::MissingAttribute { .. } | Self::MissingToken(_) => {
                DriverError::Sushy(self.to_string())
            }
        }
    }
}

impl From<Error> for DriverError {
    fn from(error: Error) -> Self {
        Self::Sushy(error.to_string())
    }
}

/// Reads an answer's body.
pub(super) fn decode(body: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(body).map_err(|error| {
        // Where Python's reader would stop: at the first thing that is no value.
        let position =
            body.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(|line| line.len() + 1);
        let position = position.sum::<usize>() + error.column().saturating_sub(1);
        let (line, column) = (error.line().max(1), error.column().max(1));
        Error::NotJson(format!("Expecting value: line {line} column {column} (char {position})"))
    })
}

/// Tells good answers from bad ones.
pub(super) fn raise_for_status(method: &Method, url: &str, answer: Answer) -> Result<Answer, Error> {
    let status = answer.status;
    if status.as_u16() < 400 {
        return Ok(answer);
    }
    let text = if status == StatusCode::NOT_FOUND {
        format!("Resource {url} not found")
    } else {
        let (error, extended) = complaint(&answer.body);
        format!(
            "HTTP {method} {url} returned code {}. {error} Extended information: {extended}",
            status.as_u16()
        )
    };
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    Err(Error::Refused(Box::new(Refusal { status, body, text })))
}

/// What an error body says, and its extended information as Python shows it.
fn complaint(body: &[u8]) -> (String, String) {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return ("unknown error".to_owned(), "None".to_owned());
    };
    let error = body.get("error").unwrap_or(&Value::Null);
    let code = error.get("code").and_then(Value::as_str).unwrap_or("Base.1.0.GeneralError");
    let extended = error.get("@Message.ExtendedInfo").unwrap_or(&Value::Null);
    let messages = match extended {
        Value::Array(messages) => messages.as_slice(),
        single => std::slice::from_ref(single),
    };
    let severe = messages.iter().find(|message| {
        let severity = ["MessageSeverity", "Severity"].iter().find_map(|key| message.get(key)?.as_str());
        matches!(severity, Some("Critical" | "Warning"))
    });
    let message = severe.or_else(|| messages.first()).and_then(|message| message.get("Message")?.as_str());
    let message = message.or_else(|| error.get("message")?.as_str()).unwrap_or("unknown error.");
    (format!("{code}: {message}"), repr(extended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_are_read_as_sushy_reads_them() {
        for (body, error, extended) in [
            ("", "unknown error", "None"),
            (
                r#"{"error":{"code":"Base.1.0.GeneralError","message":"injected"}}"#,
                "Base.1.0.GeneralError: injected",
                "None",
            ),
            (
                r#"{"error":{"code":"A","message":"general","@Message.ExtendedInfo":[{"Message":"first"},{"Message":"second","Severity":"Critical"}]}}"#,
                "A: second",
                "[{'Message': 'first'}, {'Message': 'second', 'Severity': 'Critical'}]",
            ),
        ] {
            assert_eq!(complaint(body.as_bytes()), (error.to_owned(), extended.to_owned()), "{body}");
        }
    }

    #[test]
    fn what_is_not_json_is_complained_about_as_python_does() {
        for (body, text) in [
            ("<html>", "Expecting value: line 1 column 1 (char 0)"),
            ("", "Expecting value: line 1 column 1 (char 0)"),
        ] {
            assert_eq!(decode(body.as_bytes()).expect_err("not JSON").to_string(), text, "{body}");
        }
    }
}
