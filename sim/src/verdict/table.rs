//! The list of hosts that a user of `kubectl` would have seen at a moment.

use std::time::Duration;

use wire::Instant;

use super::walk::view_at;
use crate::{
    scenario::{expect::Table, time::Span},
    trace::Trace,
};

/// The columns that `kubectl get baremetalhosts` prints.
pub const COLUMNS: &[&str] = &["NAME", "STATE", "CONSUMER", "ONLINE", "ERROR", "AGE"];

/// The hosts at a moment, in the order of their names.
pub fn table(trace: &Trace, moment: Instant) -> Table {
    let view = view_at(trace, moment);
    let rows = view.hosts.iter().filter_map(|(name, host)| {
        let resource = host.resource.as_ref()?;
        let age = host.created.map(|created| age(moment.since(created))).unwrap_or_default();
        let cells =
            [name, &resource.state, &resource.consumer, &resource.online.to_string(), &resource.error, &age];
        Some(cells.map(String::clone).to_vec())
    });
    Table { columns: COLUMNS.iter().map(|column| (*column).to_owned()).collect(), rows: rows.collect() }
}

/// An age as kubectl shows it: two units at most, and the finer one only while it says something.
pub fn age(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |whole: u64, unit: &str, rest: u64, finer: &str| {
        if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{rest}{finer}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// The moment of an expected table, in words.
pub fn moment(at: Option<Duration>) -> String {
    at.map_or_else(|| "at the end".to_owned(), |at| format!("at {}", Span(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_as_kubectl_shows_them() {
        for (seconds, shown) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), shown, "{seconds}");
        }
    }
}
