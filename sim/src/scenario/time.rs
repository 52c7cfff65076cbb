//! Spans of time and sizes, as a person writes them: `10s`, `1h30m`, `250ms`, `10s..20s`, `64KiB`.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// A span of time that is drawn between two bounds, both included. Equal bounds leave nothing to chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The shortest it can be.
    pub least: Duration,
    /// The longest it can be.
    pub most: Duration,
}

impl Range {
    /// Exactly this long.
    pub const fn exactly(span: Duration) -> Self {
        Self { least: span, most: span }
    }
}

/// Why a text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Nothing was written.
    #[error("the time is empty")]
    Empty,
    /// Times only go forward.
    #[error("a time cannot be negative")]
    Negative,
    /// A number without its unit.
    #[error("`{0}` has no unit")]
    NoUnit(String),
    /// A unit that is none.
    #[error("`{0}` is not a unit of time")]
    Unit(String),
    /// Something that is no number where one was expected.
    #[error("`{0}` is not a number")]
    Number(String),
    /// More than the clock can hold.
    #[error("the time is longer than 10 years")]
    TooLong,
    /// A range that ends before it begins.
    #[error("the range ends before it begins")]
    Backwards,
    /// Finer than the clock.
    #[error("the clock's grain is 1ms")]
    TooFine,
}

/// Longer than any world lives; keeps sums of times far from overflow.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Reads a span such as `90s`, `1.5h` or `1h 30m`.
pub fn parse(text: &str) -> Result<Duration, TimeError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(TimeError::Empty);
    }
    if rest.starts_with('-') {
        return Err(TimeError::Negative);
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if number.is_empty() {
            return Err(TimeError::Number(rest.to_owned()));
        }
        total = total.checked_add(part(number, unit)?).filter(|t| *t <= LONGEST).ok_or(TimeError::TooLong)?;
        rest = after.trim_start();
    }
    if !total.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(TimeError::TooFine);
    }
    Ok(total)
}

fn part(number: &str, unit: &str) -> Result<Duration, TimeError> {
    let nanos_of_unit: u128 = match unit {
        "" => return Err(TimeError::NoUnit(number.to_owned())),
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        other => return Err(TimeError::Unit(other.to_owned())),
    };
    let bad = || TimeError::Number(number.to_owned());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(bad());
    }
    if whole.len() > 15 || fraction.len() > 9 {
        return Err(TimeError::TooLong);
    }
    let mut nanos = whole.parse::<u128>().map_err(|_| bad())? * nanos_of_unit;
    if !fraction.is_empty() {
        let digits = u32::try_from(fraction.len()).map_err(|_| bad())?;
        nanos += fraction.parse::<u128>().map_err(|_| bad())? * nanos_of_unit / 10_u128.pow(digits);
    }
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| TimeError::TooLong)
}

/// Reads a span, or two with `..` between them.
pub fn parse_range(text: &str) -> Result<Range, TimeError> {
    let Some((least, most)) = text.split_once("..") else { return parse(text).map(Range::exactly) };
    let range = Range { least: parse(least)?, most: parse(most)? };
    if range.most < range.least { Err(TimeError::Backwards) } else { Ok(range) }
}

/// Reads a size in bytes such as `65536`, `64KiB` or `2 MB`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Shows a span as it would be written in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, millis) = (self.0.as_secs(), self.0.subsec_millis());
        if whole == 0 && millis == 0 {
            return f.pad("0s");
        }
        let mut text = String::new();
        for (count, unit) in [(whole / 86400, "d"), (whole / 3600 % 24, "h"), (whole / 60 % 60, "m")] {
            if count > 0 {
                text.push_str(&format!("{count}{unit}"));
            }
        }
        let seconds = whole % 60;
        match (seconds, millis) {
            (0, 0) => {}
            (_, 0) => text.push_str(&format!("{seconds}s")),
            (0, _) if text.is_empty() => text.push_str(&format!("{millis}ms")),
            (_, _) => text.push_str(&format!("{seconds}.{millis:03}s")),
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, millis) in [
            ("0s", 0),
            ("10s", 10_000),
            ("250ms", 250),
            ("1.5s", 1_500),
            ("1h30m", 5_400_000),
            ("1h 30 m", 5_400_000),
            ("2d", 172_800_000),
            (" 5min ", 300_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_its_reason() {
        use TimeError::{Backwards, Empty, Negative, NoUnit, Number, TooFine, TooLong, Unit};
        for (text, error) in [
            ("", Empty),
            ("-10s", Negative),
            ("10", NoUnit("10".into())),
            ("10 parsecs", Unit("parsecs".into())),
            ("10 20s", NoUnit("10".into())),
            ("10parsecs", Unit("parsecs".into())),
            ("s", Number("s".into())),
            ("1..2s", Backwards),
            ("1.", NoUnit("1.".into())),
            (".5s", Number(".5".into())),
            ("99999999999999999999s", TooLong),
            ("11000000h", TooLong),
            ("10us", TooFine),
            ("20s..10s", Backwards),
        ] {
            let got = if text.contains("..") { parse_range(text).map(|r| r.most) } else { parse(text) };
            match (text, got) {
                // Not a range: the first half lacks its unit.
                ("1..2s", got) => assert_eq!(got, Err(NoUnit("1".into()))),
                (_, got) => assert_eq!(got, Err(error), "{text}"),
            }
        }
    }

    #[test]
    fn a_shown_time_reads_back() {
        for millis in [0, 1, 250, 1_000, 1_500, 60_000, 61_001, 5_400_000, 90_061_007, 172_800_000] {
            let span = Duration::from_millis(millis);
            assert_eq!(parse(&Span(span).to_string()), Ok(span));
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64KiB"), Some(65536));
        assert_eq!(parse_size("2 MB"), Some(2_000_000));
        assert_eq!(parse_size("12"), Some(12));
        assert_eq!(parse_size("12 parsecs"), None);
        assert_eq!(parse_size("99999999999999999999"), None);
        assert_eq!(parse_size("99999999999GiB"), None);
    }
}
