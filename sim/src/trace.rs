//! What happened, frozen: the records of a run, their hash, and how the run ended.
//!
//! # The facts that are read here
//!
//! Components note facts by topic and subject (see [`wire::Entry`]). Whoever judges a run reads these:
//!
//! | topic | subject | noted by | data |
//! |---|---|---|---|
//! | `timeline` | `zero` | the world | the prologue is over: `{"reached": true}` if every host came to its initial state |
//! | `step` | the step's line | the world | a step is taken: [`Action::told`](crate::scenario::step::Action::told) |
//! | `fault` | the step's line | the world | a fault is over, or the run is: `{"touched": N}`, it befell N requests or packets |
//! | `kube` | `baremetalhosts/NAMESPACE/NAME` | the API server | the host as it is now: see [`view`] |
//! | `node` | the node's name | Ironic | the node as it is now |
//! | `power`, `disk` | the machine's name | the machines | the machine as it is now |
//! | `media`, `boot` | the machine's name | the machines | a medium or a start of the machine |
//! | `user` | `METHOD /path` | the users | a command is given up: `{"did_nothing": WHY}` |
//! | `files` | the server's name | the image servers | `{"moved-away": [FILE]}` or `{"restored": [FILE]}` |
//! | `request` | `METHOD /path` | every HTTP server | an answered request |

#[cfg(test)]
pub(crate) mod fixture;
pub mod lines;
pub mod view;

use std::time::Duration;

use engine::{Record, What};
use serde::{Deserialize, Serialize};
use wire::{Entry, Instant};

/// A frozen run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The calendar date at which the world's clock read zero.
    pub start: jiff::Timestamp,
    /// The moment at which the run ended.
    pub end: Instant,
    /// What was kept, in order.
    pub records: Vec<Record>,
    /// The hash over everything that happened, kept or not: 64 hex digits.
    pub hash: String,
    /// What ended the run before its time: a panic, a livelock.
    pub failure: Option<String>,
}

impl Trace {
    /// The noted facts with their moments.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (Instant, &Entry)> {
        self.records.iter().filter_map(|record| match &record.what {
            What::Entry(entry) => Some((record.at, entry)),
            What::Packet(_) | What::Log { .. } => None,
        })
    }

    /// The facts of one topic.
    pub fn about(&self, topic: &str) -> impl DoubleEndedIterator<Item = (Instant, &Entry)> {
        self.entries().filter(move |(_, entry)| entry.topic == topic)
    }

    /// The moment at which the timeline began: the end of the prologue, or the beginning of the world.
    pub fn zero(&self) -> Instant {
        self.about("timeline")
            .find(|(_, entry)| entry.subject == "zero")
            .map(|(at, _)| at)
            .unwrap_or_default()
    }

    /// Whether the prologue brought every host to its initial state, so that the timeline could begin.
    pub fn began(&self) -> bool {
        let zero = self.entries().find(|(_, entry)| is_zero(entry));
        zero.and_then(|(_, entry)| entry.data.get("reached")?.as_bool()).unwrap_or(true)
    }

    /// A moment as the time since the timeline's zero; `None` in the prologue.
    pub fn on_timeline(&self, at: Instant) -> Option<Duration> {
        at.0.checked_sub(self.zero().0)
    }

    /// The calendar date of a moment.
    pub fn date(&self, at: Instant) -> jiff::Timestamp {
        self.start.checked_add(at.0).unwrap_or(jiff::Timestamp::MAX)
    }
}

/// Whether a fact is the beginning of the timeline.
pub(crate) fn is_zero(entry: &Entry) -> bool {
    entry.topic == "timeline" && entry.subject == "zero"
}
