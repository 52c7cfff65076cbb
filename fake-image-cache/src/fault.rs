//! The ways in which an image server fails its clients, as data that a scenario can name.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::Pattern;

/// A fault, named by what clients see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Fault {
    /// The files are not found (404) until the fault ends.
    MoveAway {
        /// The images, with which go their checksum files, or other files.
        #[serde(default)]
        files: Pattern,
    },
    /// The server answers with an error.
    Status {
        /// Which, from 400 to 599.
        code: StatusCode,
        /// Whom.
        #[serde(default)]
        on: Selector,
    },
    /// The body comes slowly.
    Slow {
        /// How slowly.
        bytes_per_second: NonZeroU64,
        /// To whom.
        #[serde(default)]
        on: Selector,
    },
    /// The connection is closed when so much of the body was sent, before its end.
    Truncate {
        /// How much is sent.
        bytes: u64,
        /// To whom.
        #[serde(default)]
        on: Selector,
    },
    /// The connection is reset.
    Reset {
        /// How much of the answer's body is sent before; by default there is no answer at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_bytes: Option<u64>,
        /// Whose.
        #[serde(default)]
        on: Selector,
    },
    /// The server falls silent, and the connection stays.
    Stall {
        /// How much of the answer's body is sent before; by default there is no answer at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_bytes: Option<u64>,
        /// Before whom.
        #[serde(default)]
        on: Selector,
    },
    /// Checksum files hold another image's checksum.
    WrongChecksum {
        /// Which; an image stands for its checksum files.
        #[serde(default)]
        on: Selector,
    },
}

/// Which requests a fault befalls: of those that ask for matching files with a matching method, and whose answer it
/// can change, those from the `nth` on, at most `count`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// The files; all by default.
    #[serde(default)]
    pub files: Pattern,
    /// The method; GET and HEAD by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// The first such request that it befalls, counted from 1 since the fault began; the first by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<NonZeroU64>,
    /// How many it befalls; all further ones by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<NonZeroU64>,
}

impl Selector {
    /// Whether the request that matches as the `number`th is one of those befallen.
    pub(crate) fn includes(&self, number: u64) -> bool {
        let first = self.nth.map_or(1, NonZeroU64::get);
        let past = number.checked_sub(first);
        past.is_some_and(|past| self.count.is_none_or(|count| past < count.get()))
    }
}

/// A method that the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Fetches a file.
    Get,
    /// Asks for the head of the answer to a GET.
    Head,
}

/// The status of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct StatusCode(u16);

impl StatusCode {
    pub(crate) fn http(self) -> http::StatusCode {
        http::StatusCode::from_u16(self.0).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// A number is not the status of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not the status of an error, which is from 400 to 599")]
pub struct UnfitStatus(u16);

impl TryFrom<u16> for StatusCode {
    type Error = UnfitStatus;

    fn try_from(code: u16) -> Result<Self, UnfitStatus> {
        if (400..600).contains(&code) { Ok(Self(code)) } else { Err(UnfitStatus(code)) }
    }
}

impl From<StatusCode> for u16 {
    fn from(code: StatusCode) -> Self {
        code.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_are_written_as_data() {
        let cases = [
            json!({ "kind": "move-away" }),
            json!({ "kind": "move-away", "files": "images/*" }),
            json!({ "kind": "status", "code": 503, "on": { "files": "*.img", "method": "HEAD", "nth": 2, "count": 1 } }),
            json!({ "kind": "slow", "bytes_per_second": 1000 }),
            json!({ "kind": "truncate", "bytes": 0 }),
            json!({ "kind": "reset" }),
            json!({ "kind": "stall", "after_bytes": 5 }),
            json!({ "kind": "wrong-checksum", "on": { "files": "a" } }),
        ];
        for case in cases {
            let fault: Fault = serde_json::from_value(case.clone()).unwrap();
            let again: Fault = serde_json::from_value(serde_json::to_value(&fault).unwrap()).unwrap();
            assert_eq!(fault, again, "{case}");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        let cases = [
            json!({ "kind": "explode" }),
            json!({ "kind": "move-away", "file": "a" }),
            json!({ "kind": "status" }),
            json!({ "kind": "status", "code": 200 }),
            json!({ "kind": "status", "code": 503, "on": { "path": "a" } }),
            json!({ "kind": "status", "code": 503, "on": { "nth": 0 } }),
            json!({ "kind": "slow", "bytes_per_second": 0 }),
            json!({ "kind": "slow", "bytes-per-second": 1 }),
            json!({ "kind": "truncate" }),
        ];
        for case in cases {
            assert!(serde_json::from_value::<Fault>(case.clone()).is_err(), "{case}");
        }
    }

    #[test]
    fn a_selector_counts_from_one() {
        let selector = |nth, count| Selector {
            nth: NonZeroU64::new(nth),
            count: NonZeroU64::new(count),
            ..Selector::default()
        };
        let included =
            |selector: Selector| (1..=5).filter(|number| selector.includes(*number)).collect::<Vec<_>>();
        assert_eq!(included(selector(0, 0)), [1, 2, 3, 4, 5]);
        assert_eq!(included(selector(3, 0)), [3, 4, 5]);
        assert_eq!(included(selector(0, 2)), [1, 2]);
        assert_eq!(included(selector(2, 2)), [2, 3]);
    }
}
