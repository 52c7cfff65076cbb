//! Traces for tests, written fact by fact.

use std::time::Duration;

use engine::{Record, What};
use serde_json::{Value, json};
use wire::{Entry, Instant};

use super::Trace;

/// A trace of facts, with the seconds at which they were noted; it ends at `end` seconds.
pub(crate) fn trace(end: u64, facts: impl IntoIterator<Item = (u64, Entry)>) -> Trace {
    let records = facts.into_iter().zip(0..).map(|((at, entry), ordinal)| Record {
        at: Instant(Duration::from_secs(at)),
        ordinal,
        what: What::Entry(entry),
    });
    Trace {
        start: jiff::Timestamp::UNIX_EPOCH,
        end: Instant(Duration::from_secs(end)),
        records: records.collect(),
        hash: "0".repeat(64),
        failure: None,
    }
}

/// A fact.
pub(crate) fn fact(topic: &str, subject: &str, data: Value) -> Entry {
    Entry { host: "somebody".to_owned(), topic: topic.to_owned(), subject: subject.to_owned(), data }
}

/// The timeline begins.
pub(crate) fn zero() -> Entry {
    fact("timeline", "zero", json!({ "reached": true }))
}

/// A BareMetalHost as it is now, online and without a consumer.
pub(crate) fn host(name: &str, state: &str, error: &str, error_count: u64) -> Entry {
    let data = json!({
        "event": "MODIFIED",
        "state": state,
        "operationalStatus": if error.is_empty() { "OK" } else { "error" },
        "errorType": error,
        "errorMessage": if error.is_empty() { "" } else { "it failed" },
        "errorCount": error_count,
        "online": true,
        "poweredOn": true,
        "consumer": "",
    });
    fact("kube", &format!("baremetalhosts/metal3/{name}"), data)
}

/// A BareMetalHost is deleted.
pub(crate) fn gone(name: &str) -> Entry {
    fact("kube", &format!("baremetalhosts/metal3/{name}"), json!({ "event": "DELETED" }))
}

/// A step is taken.
pub(crate) fn step(line: usize, action: &str, hosts: &[&str]) -> Entry {
    fact("step", &line.to_string(), json!({ "action": action, "hosts": hosts }))
}

/// A pass over a host ends.
pub(crate) fn reconcile(name: &str, result: &str) -> Entry {
    fact("reconcile", &format!("metal3/{name}"), json!({ "result": result }))
}
