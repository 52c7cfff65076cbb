//! Why Ironic did not do what it was asked.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::version::UnknownVersion;

/// A request that failed. Holds the request's method and path, never its body, which may hold passwords.
#[derive(Debug, thiserror::Error)]
#[error("{request}")]
pub struct IronicError {
    /// What was asked, e.g. `PUT /nodes/…/states/power`, below the endpoint.
    pub request: String,
    /// Why it failed.
    #[source]
    pub cause: Cause,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Ironic answered, but not as hoped.
    #[error("{text} (status {})", status.as_u16())]
    Refused {
        /// The answer's status.
        status: StatusCode,
        /// Ironic's words.
        text: String,
    },
    /// No answer came. Whether the request was carried out is not known.
    #[error("talk to Ironic")]
    Unreachable(#[source] wire::http::Error),
    /// No answer came in time. Whether the request was carried out is not known.
    #[error("get an answer within {0:?}")]
    TimedOut(Duration),
    /// The answer was not what its status promised.
    #[error("understand the answer")]
    Garbled(#[source] serde_json::Error),
    /// Ironic offers no version of its API that can be read.
    #[error("understand Ironic's API versions")]
    Versions(#[from] UnknownVersion),
    /// The request could not even be written.
    #[error("write the request")]
    Unsendable(#[source] http::Error),
}

impl IronicError {
    /// The status of the answer, if there was one that was not hoped for.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.cause {
            Cause::Refused { status, .. } => Some(*status),
            Cause::Unreachable(_)
            | Cause::TimedOut(_)
            | Cause::Garbled(_)
            | Cause::Versions(_)
            | Cause::Unsendable(_) => None,
        }
    }

    /// 409: the node is locked, in transition, or already there.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(StatusCode::CONFLICT)
    }

    /// 404: there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }

    /// 400: Ironic finds the request wrong.
    pub fn is_bad_request(&self) -> bool {
        self.status() == Some(StatusCode::BAD_REQUEST)
    }
}

/// How much of an answer that is not Ironic's is quoted, in characters.
const QUOTED: usize = 200;

/// The words in the body of an error. Ironic wraps them in `error_message`: an object, or that object as a string.
pub(super) fn text(body: &[u8]) -> String {
    let words =
        serde_json::from_slice::<Value>(body).ok().and_then(|mut body| match body["error_message"].take() {
            Value::String(text) => match serde_json::from_str(&text) {
                Ok(Value::Object(fields)) => said(&Value::Object(fields)).or(Some(text)),
                Ok(_) | Err(_) => Some(text),
            },
            fields @ Value::Object(_) => said(&fields),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        });
    words.unwrap_or_else(|| match String::from_utf8_lossy(body).trim() {
        "" => "no explanation was given".to_owned(),
        other => other.chars().take(QUOTED).collect(),
    })
}

/// The words in one of the two kinds of object that Ironic uses.
fn said(fields: &Value) -> Option<String> {
    [&fields["faultstring"], &fields["description"]].into_iter().find_map(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ironics_words_are_found_in_each_of_its_wrappings() {
        let cases = [
            (
                r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node is locked\", \"debuginfo\": null}"}"#,
                "Node is locked",
            ),
            (r#"{"error_message": {"faultstring": "Node is locked"}}"#, "Node is locked"),
            (
                r#"{"error_message": "{\"code\": 406, \"title\": \"Not Acceptable\", \"description\": \"too new\"}"}"#,
                "too new",
            ),
            (r#"{"error_message": "Incorrect username or password"}"#, "Incorrect username or password"),
            (r#"{"error_message": "{}"}"#, "{}"),
            (r#"{"error": {"code": 503}}"#, r#"{"error": {"code": 503}}"#),
            ("<html>Bad Gateway</html>\n", "<html>Bad Gateway</html>"),
            ("", "no explanation was given"),
        ];
        for (body, expected) in cases {
            assert_eq!(text(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(text("ü".repeat(1000).as_bytes()).chars().count(), QUOTED);
    }
}
