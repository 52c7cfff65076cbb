//! What the network does to packets, as rules that come and go.
//!
//! Rules are named by what a client sees, not by what is done to a packet.

use std::time::Duration;

/// The handle of an installed rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub(crate) u64);

/// Something that befalls the packets between some hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Packets that come from this host; `None` for any.
    pub from: Option<String>,
    /// Packets that go to this host; `None` for any.
    pub to: Option<String>,
    /// What befalls them.
    pub effect: Effect,
}

/// What befalls a packet. No effect loses bytes of a TCP connection silently: a lost segment is sent again as Linux
/// would, until the connection times out.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// No answer at all, as of a machine that is gone or behind a cut cable.
    Unreachable,
    /// Each packet is lost with this probability (0 to 1).
    Loss(f64),
    /// Packets take this much longer.
    Delay(Duration),
    /// Packets wait until the rule is removed, then arrive in order.
    Hold,
    /// The machine answers that nothing listens: connections to its services are refused, open ones are reset. What it
    /// opened itself goes on.
    Refused,
    /// Connections to its services open, then are reset at the first byte. What it opened itself goes on.
    Reset,
}

/// A rule as installed.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) id: RuleId,
    pub(crate) from: Option<usize>,
    pub(crate) to: Option<usize>,
    pub(crate) effect: Effect,
    /// How many packets it befell.
    pub(crate) touched: u64,
}

impl Installed {
    pub(crate) fn concerns(&self, from: usize, to: usize) -> bool {
        self.from.is_none_or(|host| host == from) && self.to.is_none_or(|host| host == to)
    }
}
