//! How long a machine takes.
//!
//! Each time is drawn between two bounds from the machine's own stream of chance. The defaults are those of small
//! servers; large ones need minutes for their self test.

use std::time::Duration;

use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use wire::Dice;

/// A time that is drawn anew at each use. Written as a pair of seconds: `[30, 60]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "(f64, f64)", into = "(f64, f64)")]
pub struct Span {
    least: Duration,
    most: Duration,
}

/// The bounds are not a span of time.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("take {least} to {most} seconds as a span: two times are wanted, neither negative, the lesser first")]
pub struct BadSpan {
    least: f64,
    most: f64,
}

impl Span {
    /// From `least` to `most`; a `most` that is less counts as `least`.
    pub const fn new(least: Duration, most: Duration) -> Self {
        let most = if most.as_nanos() < least.as_nanos() { least } else { most };
        Self { least, most }
    }

    const fn seconds(least: u64, most: u64) -> Self {
        Self::new(Duration::from_secs(least), Duration::from_secs(most))
    }

    const fn millis(exactly: u64) -> Self {
        Self::new(Duration::from_millis(exactly), Duration::from_millis(exactly))
    }

    /// One time of it, on whole milliseconds, which is the grain of the clock.
    pub(crate) fn draw(self, dice: &mut Dice) -> Duration {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(dice.random_range(millis(self.least)..=millis(self.most)))
    }
}

impl TryFrom<(f64, f64)> for Span {
    type Error = BadSpan;

    fn try_from((least, most): (f64, f64)) -> Result<Self, BadSpan> {
        let bad = BadSpan { least, most };
        let read = |seconds| Duration::try_from_secs_f64(seconds).map_err(|_| bad);
        if most < least { Err(bad) } else { Ok(Self::new(read(least)?, read(most)?)) }
    }
}

impl From<Span> for (f64, f64) {
    fn from(span: Span) -> Self {
        (span.least.as_secs_f64(), span.most.as_secs_f64())
    }
}

/// How long each thing takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Timings {
    /// From the command to power good.
    pub power_on: Span,
    /// From cutting the power to the chassis reporting off.
    pub power_off: Span,
    /// The firmware's self test, from power good or a reset to the first try to boot.
    pub post: Span,
    /// A deploy ramdisk, from its kernel's start to its agent's.
    pub ramdisk: Span,
    /// An operating system on a disk, from its boot loader to its services.
    pub system: Span,
    /// An operating system's orderly end.
    pub shutdown: Span,
    /// How long a firmware that found nothing to boot waits before it looks again.
    pub retry: Span,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            power_on: Span::seconds(1, 2),
            power_off: Span::seconds(2, 4),
            post: Span::seconds(30, 60),
            ramdisk: Span::seconds(60, 90),
            system: Span::seconds(20, 40),
            shutdown: Span::seconds(5, 15),
            retry: Span::seconds(60, 60),
        }
    }
}

impl Timings {
    /// Tens of milliseconds each: for clients that wait in real time.
    pub const fn quick() -> Self {
        Self {
            power_on: Span::millis(20),
            power_off: Span::millis(20),
            post: Span::millis(50),
            ramdisk: Span::millis(50),
            system: Span::millis(50),
            shutdown: Span::millis(50),
            retry: Span::millis(1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_drawn_within_its_bounds_and_reads_like_a_pair() {
        let span: Span = serde_json::from_str("[0.5, 2]").unwrap();
        let mut dice = wire::Seed(1).stream("host", "test");
        for _ in 0..100 {
            let drawn = span.draw(&mut dice);
            assert!((Duration::from_millis(500)..=Duration::from_secs(2)).contains(&drawn), "{drawn:?}");
        }
        for bad in ["[2, 1]", "[-1, 1]", "[0, 1e300]", "[1]"] {
            assert!(serde_json::from_str::<Span>(bad).is_err(), "{bad}");
        }
    }
}
