//! What can be broken about Ironic itself, as a scenario names it.
//!
//! Faults are named by what a client sees and begin and end when the scenario says. How often each one changed
//! anything is counted, so that a fault that touched nothing shows. Losing the database is no fault but an event:
//! [`Database::lose`](crate::Database::lose).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Requests are answered with an error status; nothing is done.
    Status {
        /// The HTTP status, 400 to 599.
        code: u16,
        /// Which requests.
        #[serde(default)]
        on: Requests,
    },
    /// Requests are never answered; nothing is done.
    Stall {
        /// Which requests.
        #[serde(default)]
        on: Requests,
    },
    /// The connection is reset instead of an answer; nothing is done.
    Reset {
        /// Which requests.
        #[serde(default)]
        on: Requests,
    },
    /// What was asked for is done, but the connection is reset instead of an answer.
    LoseAnswer {
        /// Which requests.
        #[serde(default)]
        on: Requests,
    },
    /// A conductor that is no more holds the lock of nodes.
    LockHeld {
        /// The nodes' names, or UUIDs if they have none; `*` stands for any letters.
        node: String,
    },
}

/// Which requests a fault befalls. Empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Requests {
    /// The HTTP method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path without its query, e.g. `/v1/nodes/*/states/provision`; `*` stands for any letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first of the matching requests that is befallen, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// How many are befallen at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Requests {
    fn covers(&self, method: &Method, path: &str) -> bool {
        let method_fits =
            self.method.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(method.as_str()));
        method_fits && self.path.as_ref().is_none_or(|pattern| glob(pattern, path))
    }
}

/// Why a fault can't be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// The status is none of an error.
    #[error("use {0} as the status of an error: it must be from 400 to 599")]
    Status(u16),
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Status(StatusCode),
    Stall,
    Reset,
    LoseAnswer,
}

/// The faults that are on. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<BTreeMap<String, Record>>>);

#[derive(Debug)]
struct Record {
    fault: Fault,
    on: bool,
    matched: u64,
    touched: u64,
}

impl Faults {
    /// Begins a fault under an id of the caller's. One that was there under the same id ends.
    pub fn begin(&self, id: &str, fault: Fault) -> Result<(), FaultError> {
        if let Fault::Status { code, .. } = fault
            && !(400..600).contains(&code)
        {
            return Err(FaultError::Status(code));
        }
        self.records().insert(id.to_owned(), Record { fault, on: true, matched: 0, touched: 0 });
        Ok(())
    }

    /// Ends a fault.
    pub fn end(&self, id: &str) {
        if let Some(record) = self.records().get_mut(id) {
            record.on = false;
        }
    }

    /// How often a fault changed anything, so far or until it ended.
    pub fn touched(&self, id: &str) -> u64 {
        self.records().get(id).map_or(0, |record| record.touched)
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of a request; `None`: what should.
    pub(crate) fn judge(&self, method: &Method, path: &str) -> Option<Verdict> {
        let mut verdict = None;
        for record in self.records().values_mut().filter(|record| record.on) {
            let (requests, outcome) = match &record.fault {
                Fault::Status { code, on } => (
                    on,
                    Verdict::Status(StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)),
                ),
                Fault::Stall { on } => (on, Verdict::Stall),
                Fault::Reset { on } => (on, Verdict::Reset),
                Fault::LoseAnswer { on } => (on, Verdict::LoseAnswer),
                Fault::LockHeld { .. } => continue,
            };
            if !requests.covers(method, path) {
                continue;
            }
            record.matched += 1;
            let begun = record.matched >= requests.nth.unwrap_or(1);
            let left = requests.count.is_none_or(|count| record.touched < count);
            if begun && left && verdict.is_none() {
                record.touched += 1;
                verdict = Some(outcome);
            }
        }
        verdict
    }

    /// Whether a lost conductor holds the lock of the node with this label.
    pub(crate) fn holds_lock(&self, label: &str, counts: bool) -> bool {
        let mut held = false;
        for record in self.records().values_mut().filter(|record| record.on) {
            match &record.fault {
                Fault::LockHeld { node } if glob(node, label) => {
                    held = true;
                    record.touched += u64::from(counts);
                }
                Fault::LockHeld { .. }
                | Fault::Status { .. }
                | Fault::Stall { .. }
                | Fault::Reset { .. }
                | Fault::LoseAnswer { .. } => {}
            }
        }
        held
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any letters.
fn glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, fits) in [
            ("/v1/nodes", "/v1/nodes", true),
            ("/v1/nodes", "/v1/nodes/x", false),
            ("*", "", true),
            ("/v1/nodes/*/states/*", "/v1/nodes/u/states/provision", true),
            ("/v1/nodes/*/states/*", "/v1/nodes/u/maintenance", false),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("*~host", "ns~host", true),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_fault_strikes_from_its_nth_match_for_its_count() {
        let faults = Faults::default();
        let on = Requests { method: Some("put".into()), nth: Some(2), count: Some(2), ..Requests::default() };
        faults.begin("f", Fault::Status { code: 503, on }).expect("a status of an error");
        let put = |faults: &Faults| faults.judge(&Method::PUT, "/v1/x").is_some();
        assert!(faults.judge(&Method::GET, "/v1/x").is_none());
        assert_eq!([put(&faults), put(&faults), put(&faults), put(&faults)], [false, true, true, false]);
        assert_eq!(faults.touched("f"), 2);
        faults.end("f");
        assert_eq!((faults.touched("f"), faults.touched("g")), (2, 0));
    }

    #[test]
    fn faults_are_data() {
        for (text, fine) in [
            (json!({ "kind": "status", "code": 503, "on": { "method": "PUT", "count": 1 } }), true),
            (json!({ "kind": "lose-answer", "on": { "path": "/v1/nodes" } }), true),
            (json!({ "kind": "lock-held", "node": "*" }), true),
            (json!({ "kind": "status" }), false),
            (json!({ "kind": "stall", "on": { "verb": "PUT" } }), false),
            (json!({ "kind": "explode" }), false),
        ] {
            assert_eq!(serde_json::from_value::<Fault>(text.clone()).is_ok(), fine, "{text}");
        }
        let faults = Faults::default();
        let code = 200;
        assert_eq!(
            faults.begin("x", Fault::Status { code, on: Requests::default() }),
            Err(FaultError::Status(200))
        );
    }
}
