//! What happened, as data.
//!
//! Components write facts here that a reader of the run may want: a power change, a node's new provision state, an
//! answered request. In a simulated world the entries become the trace; on real sockets they become log lines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One fact: on which host, about what, and the particulars. Never holds credentials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The network host that noted it.
    pub host: String,
    /// What kind of fact it is, e.g. `power`, `node`, `request`.
    pub topic: String,
    /// Whom it is about, e.g. a machine's or a node's name.
    pub subject: String,
    /// The particulars.
    pub data: Value,
}

/// Where entries go.
pub trait Journal: Send + Sync + 'static {
    /// Keeps one entry.
    fn note(&self, entry: Entry);
}

/// Writes entries to the log and forgets them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Journal for Silent {
    fn note(&self, entry: Entry) {
        tracing::debug!(target: "journal", host = entry.host, topic = entry.topic, subject = entry.subject, data = %entry.data);
    }
}
