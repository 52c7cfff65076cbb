//! Which part of a file is sent, and whether it is sent at all (RFC 9110 sections 13 and 14).

use http::{HeaderMap, HeaderName, header};
use jiff::{Timestamp, fmt::rfc2822};

/// What to send of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    /// All of it.
    Whole,
    /// The bytes from the first to before the second.
    Part(usize, usize),
    /// The range that was asked for is not in the file.
    OutOfRange,
    /// The client has it already.
    Unmodified,
}

/// What a file is compared with.
pub(crate) struct Validators<'a> {
    pub(crate) etag: &'a str,
    pub(crate) modified: Timestamp,
}

/// A date as HTTP writes it, always in GMT (RFC 9110 section 5.6.7).
pub(crate) fn http_date(moment: Timestamp) -> String {
    rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&moment).unwrap_or_default()
}

/// Reads the headers. What makes no sense is ignored, as RFC 9110 wants.
pub(crate) fn portion(headers: &HeaderMap, length: usize, validators: &Validators<'_>) -> Portion {
    if is_unmodified(headers, validators) {
        return Portion::Unmodified;
    }
    let still_the_same = text(headers, &header::IF_RANGE)
        .is_none_or(|known| known == validators.etag || known == http_date(validators.modified));
    match text(headers, &header::RANGE).filter(|_| still_the_same) {
        Some(range) => read_range(range, length).unwrap_or(Portion::Whole),
        None => Portion::Whole,
    }
}

fn is_unmodified(headers: &HeaderMap, validators: &Validators<'_>) -> bool {
    if let Some(known) = text(headers, &header::IF_NONE_MATCH) {
        return known
            .split(',')
            .map(str::trim)
            .any(|known| known == "*" || known.trim_start_matches("W/") == validators.etag);
    }
    let since = text(headers, &header::IF_MODIFIED_SINCE).and_then(|date| rfc2822::parse(date).ok());
    // Dates are whole seconds.
    since.is_some_and(|since| validators.modified.as_second() <= since.timestamp().as_second())
}

/// One range; of several at once, which a server may ignore, the whole is sent. `None` if it is not a range.
fn read_range(range: &str, length: usize) -> Option<Portion> {
    let (first, last) = range.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.trim().parse::<usize>();
    if first.trim().is_empty() {
        let suffix = number(last).ok()?;
        let part = Portion::Part(length.saturating_sub(suffix), length);
        return Some(if suffix == 0 || length == 0 { Portion::OutOfRange } else { part });
    }
    let first = number(first).ok()?;
    let last = if last.trim().is_empty() { usize::MAX } else { number(last).ok()? };
    if last < first {
        return None;
    }
    Some(if first < length {
        Portion::Part(first, last.saturating_add(1).min(length))
    } else {
        Portion::OutOfRange
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_preconditions() {
        let modified = Timestamp::constant(1_600_000_000, 5);
        let validators = Validators { etag: "\"abc\"", modified };
        let date = "Sun, 13 Sep 2020 12:26:40 GMT";
        assert_eq!(http_date(modified), date);
        let earlier = "Sun, 13 Sep 2020 12:26:39 GMT";
        // headers                                                     portion of 10 bytes
        let cases: [(&[(&str, &str)], Portion); 22] = [
            (&[], Portion::Whole),
            (&[("range", "bytes=0-0")], Portion::Part(0, 1)),
            (&[("range", "bytes=2-5")], Portion::Part(2, 6)),
            (&[("range", "bytes=2-")], Portion::Part(2, 10)),
            (&[("range", "bytes=2-99")], Portion::Part(2, 10)),
            (&[("range", "bytes=-3")], Portion::Part(7, 10)),
            (&[("range", "bytes=-30")], Portion::Part(0, 10)),
            (&[("range", "bytes=-0")], Portion::OutOfRange),
            (&[("range", "bytes=10-")], Portion::OutOfRange),
            (&[("range", "bytes=5-2")], Portion::Whole),
            (&[("range", "bytes=0-1,4-5")], Portion::Whole),
            (&[("range", "lines=1-2")], Portion::Whole),
            (&[("range", "bytes=0-18446744073709551615")], Portion::Part(0, 10)),
            (&[("range", "bytes=0-1"), ("if-range", "\"abc\"")], Portion::Part(0, 2)),
            (&[("range", "bytes=0-1"), ("if-range", date)], Portion::Part(0, 2)),
            (&[("range", "bytes=0-1"), ("if-range", "\"old\"")], Portion::Whole),
            (&[("if-none-match", "\"abc\"")], Portion::Unmodified),
            (&[("if-none-match", "\"x\", W/\"abc\"")], Portion::Unmodified),
            (&[("if-none-match", "\"x\""), ("if-modified-since", date)], Portion::Whole),
            (&[("if-modified-since", date)], Portion::Unmodified),
            (&[("if-modified-since", earlier)], Portion::Whole),
            (&[("if-modified-since", "yesterday")], Portion::Whole),
        ];
        for (headers, expected) in cases {
            let map: HeaderMap =
                headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            assert_eq!(portion(&map, 10, &validators), expected, "{headers:?}");
        }
    }
}
