//! A trace as JSON lines: a head, the records one a line, and a foot.

use std::io::{self, BufRead, Write};

use engine::Record;
use serde::{Deserialize, Serialize};
use wire::Instant;

use super::Trace;

/// The first line: what the lines after it are.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    start: jiff::Timestamp,
}

/// The last line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Foot {
    end: Instant,
    hash: String,
    failure: Option<String>,
}

/// Why lines are no trace.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// They cannot be read.
    #[error("read the trace")]
    Io(#[from] io::Error),
    /// A line is not what it should be.
    #[error("understand line {line} of the trace")]
    Line {
        /// Which, from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// The foot is missing.
    #[error("find the end of the trace: it was cut off")]
    CutOff,
}

/// Writes a trace.
pub fn write(trace: &Trace, mut to: impl Write) -> io::Result<()> {
    let mut line = |value: serde_json::Result<String>| writeln!(to, "{}", value?);
    line(serde_json::to_string(&Head { start: trace.start }))?;
    for record in &trace.records {
        line(serde_json::to_string(record))?;
    }
    let foot = Foot { end: trace.end, hash: trace.hash.clone(), failure: trace.failure.clone() };
    line(serde_json::to_string(&foot))?;
    to.flush()
}

/// Reads what [`write()`] wrote.
pub fn read(from: impl BufRead) -> Result<Trace, ReadError> {
    let mut lines = from.lines().enumerate().peekable();
    let Some((_, head)) = lines.next() else { return Err(ReadError::CutOff) };
    let Head { start } = parse(1, &head?)?;
    let mut records: Vec<Record> = Vec::new();
    while let Some((index, line)) = lines.next() {
        let line = line?;
        if lines.peek().is_none() {
            let Foot { end, hash, failure } = parse(index + 1, &line)?;
            return Ok(Trace { start, end, records, hash, failure });
        }
        records.push(parse(index + 1, &line)?);
    }
    Err(ReadError::CutOff)
}

fn parse<'a, T: Deserialize<'a>>(line: usize, text: &'a str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|source| ReadError::Line { line, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture::{host, trace, zero};

    #[test]
    fn a_trace_reads_back_as_it_was_written() {
        let mut written = trace(10, [(0, zero()), (3, host("node-0", "registering", "", 0))]);
        written.failure = Some("it broke".to_owned());
        let mut lines = Vec::new();
        write(&written, &mut lines).expect("memory takes everything");
        assert_eq!(read(lines.as_slice()).expect("it was written whole"), written);
    }

    #[test]
    fn a_trace_that_was_cut_off_is_refused() {
        let mut lines = Vec::new();
        write(&trace(10, [(0, zero())]), &mut lines).expect("memory takes everything");
        for length in [0, lines.len() / 3, lines.len() - 10] {
            assert!(read(&lines[..length]).is_err(), "{length}");
        }
        let text = String::from_utf8(lines).expect("JSON is UTF-8");
        let (without_foot, _) = text.trim_end().rsplit_once('\n').expect("there are three lines");
        assert!(matches!(read(without_foot.as_bytes()), Err(ReadError::Line { line: 2, .. })));
    }
}
