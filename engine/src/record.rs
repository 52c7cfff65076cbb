//! The record of a run: every packet, log line and noted fact, in order, and the hash of it all.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wire::{Entry, Instant};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When, in the world's time (seconds and nanoseconds since it began).
    pub at: Instant,
    /// Its place among all records of the run.
    pub ordinal: u64,
    /// What.
    pub what: What,
}

/// What a record tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A fact that a component noted.
    Entry(Entry),
    /// A packet and what became of it.
    Packet(Segment),
    /// A log line of level `INFO` or above.
    Log {
        /// The host whose task logged; empty for the world itself.
        host: String,
        /// The level.
        level: String,
        /// The module.
        target: String,
        /// The message with its fields.
        message: String,
    },
}

/// A packet, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Sender and its port.
    pub from: String,
    /// Receiver and its port.
    pub to: String,
    /// `tcp` with its flags in netstat's letters, or `udp`.
    pub kind: String,
    /// Bytes of payload.
    pub length: usize,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It arrived.
    Delivered,
    /// It was lost; a TCP sender will send it again.
    Lost,
    /// It was answered in the receiver's place: no such port.
    Refused,
    /// It was answered in the receiver's place: connection reset.
    Reset,
    /// It waits until its link is released.
    Held,
}

/// What to keep of a run. The hash covers everything, kept or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracing {
    /// Facts and log lines.
    #[default]
    Facts,
    /// Packets too.
    Everything,
}

/// Collects the records.
pub(crate) struct Recorder {
    tracing: Tracing,
    hash: Sha256,
    ordinal: u64,
    records: Vec<Record>,
}

impl Recorder {
    pub(crate) fn new(tracing: Tracing) -> Self {
        Self { tracing, hash: Sha256::new(), ordinal: 0, records: Vec::new() }
    }

    pub(crate) fn fact(&mut self, at: Instant, what: What) {
        let line = serde_json::to_string(&(at, &what)).unwrap_or_default();
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
        self.keep(at, what);
    }

    /// Adds a packet. `describe` is only called when packets are kept.
    pub(crate) fn packet(
        &mut self,
        at: Instant,
        head: &PacketHead,
        payload: &[u8],
        describe: impl FnOnce() -> Segment,
    ) {
        self.hash.update(at.0.as_nanos().to_le_bytes());
        head.hash(&mut self.hash);
        self.hash.update(payload);
        match self.tracing {
            Tracing::Everything => self.keep(at, What::Packet(describe())),
            Tracing::Facts => self.ordinal += 1,
        }
    }

    fn keep(&mut self, at: Instant, what: What) {
        self.records.push(Record { at, ordinal: self.ordinal, what });
        self.ordinal += 1;
    }

    /// The records kept so far, and the hash of all.
    pub(crate) fn finish(&mut self) -> (Vec<Record>, String) {
        let digest = std::mem::take(&mut self.hash).finalize();
        let mut hash = String::with_capacity(64);
        for byte in digest {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02x}");
        }
        (std::mem::take(&mut self.records), hash)
    }
}

/// What identifies a packet besides its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketHead {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) ports: (u16, u16),
    pub(crate) sequence: (u32, u32),
    pub(crate) flags: u8,
    pub(crate) fate: Fate,
}

impl PacketHead {
    fn hash(&self, hash: &mut Sha256) {
        for number in [self.from, self.to, self.sequence.0, self.sequence.1] {
            hash.update(number.to_le_bytes());
        }
        hash.update(self.ports.0.to_le_bytes());
        hash.update(self.ports.1.to_le_bytes());
        hash.update([self.flags, self.fate as u8]);
    }
}
