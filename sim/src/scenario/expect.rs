//! What must be seen in a run.

use std::{fmt, time::Duration};

use baremetal_operator::regression::Regression;
use serde::{Deserialize, Serialize};

use super::{condition::Condition, history::Episode, pattern::Pattern, time::Span};

/// One expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// What must be seen.
    pub what: Wanted,
    /// Part of the bug report: it is only asked of runs with this regression on, and shows that the bug looks there
    /// as it did in the field. All others are asked of every run.
    pub with: Option<Regression>,
    /// Its line in the scenario's file.
    pub line: usize,
}

/// A part of the timeline, from one moment to another; `None` is to the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first moment, since the timeline's zero.
    pub from: Duration,
    /// The last moment.
    pub until: Option<Duration>,
}

/// What must be seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Each of these hosts goes through exactly these standings.
    History {
        /// The hosts.
        hosts: Vec<String>,
        /// From the timeline's zero to the end of the run.
        states: Vec<Episode>,
    },
    /// The condition holds for none of its hosts at any moment.
    Never {
        /// The condition.
        condition: Condition,
        /// When it is asked.
        window: Window,
    },
    /// The condition holds for all its hosts at every moment.
    Always {
        /// The condition.
        condition: Condition,
        /// When it is asked.
        window: Window,
    },
    /// The condition holds for all its hosts at some moment.
    Eventually {
        /// The condition.
        condition: Condition,
        /// From when.
        from: Duration,
        /// By then, counted from `from`.
        within: Duration,
    },
    /// The condition holds for all its hosts during the last part of the run.
    Stable {
        /// The condition.
        condition: Condition,
        /// How long that part is.
        lasts: Duration,
    },
    /// So many facts are noted.
    Count {
        /// Which facts.
        of: Selector,
        /// How many.
        bound: Bound,
        /// When.
        window: Window,
    },
    /// The list of hosts that a user of `kubectl` would see.
    Table {
        /// When; `None` is at the end of the run.
        at: Option<Duration>,
        /// Its rows. The header names the columns that are compared.
        text: Table,
    },
}

/// How many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Exactly.
    Equals(u64),
    /// Not more.
    AtMost(u64),
    /// Not fewer.
    AtLeast(u64),
}

impl Bound {
    /// Whether a count is within it.
    pub fn admits(self, count: u64) -> bool {
        match self {
            Self::Equals(bound) => count == bound,
            Self::AtMost(bound) => count <= bound,
            Self::AtLeast(bound) => count >= bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(bound) => write!(f, "exactly {bound}"),
            Self::AtMost(bound) => write!(f, "at most {bound}"),
            Self::AtLeast(bound) => write!(f, "at least {bound}"),
        }
    }
}

/// The topics under which facts are noted.
pub const TOPICS: &[&str] = &[
    "agent",
    "boot",
    "disk",
    "fault",
    "files",
    "ironic",
    "kube",
    "media",
    "node",
    "power",
    "reconcile",
    "request",
    "step",
    "timeline",
    "user",
];

/// Which noted facts: `TOPIC[@HOST] SUBJECT [key=value …]`, each but the topic a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    /// The topic.
    pub topic: String,
    /// The network host that noted it.
    pub host: Pattern,
    /// The subject.
    pub subject: Pattern,
    /// Members of the data, by their paths with dots.
    pub data: Vec<(String, Pattern)>,
}

impl Selector {
    /// Reads a selector. Only an empty one is no selector; whether its names are known is for the check to say.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let first = words.next()?;
        let (topic, host) = first.split_once('@').unwrap_or((first, "*"));
        let (mut subject, mut data) = (Vec::new(), Vec::new());
        for word in words {
            match word.split_once('=') {
                Some((key, value)) if is_path(key) => data.push((key.to_owned(), Pattern::new(value))),
                Some(_) | None => subject.push(word),
            }
        }
        let subject = if subject.is_empty() { "*".to_owned() } else { subject.join(" ") };
        Some(Self { topic: topic.to_owned(), host: Pattern::new(host), subject: Pattern::new(subject), data })
    }

    /// Whether it selects a fact.
    pub fn selects(&self, entry: &wire::Entry) -> bool {
        self.topic == entry.topic
            && self.host.matches(&entry.host)
            && self.subject.matches(&entry.subject)
            && self.data.iter().all(|(path, pattern)| {
                let member = path.split('.').try_fold(&entry.data, |value, key| value.get(key));
                member.is_some_and(|value| match value {
                    serde_json::Value::String(text) => pattern.matches(text),
                    other => pattern.matches(&other.to_string()),
                })
            })
    }
}

/// Keys of data are words; what has other letters in it, as a path with a query, belongs to the subject.
fn is_path(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.topic)?;
        if self.host != Pattern::new("*") {
            write!(f, "@{}", self.host)?;
        }
        write!(f, " {}", self.subject)?;
        self.data.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

/// A table as `kubectl get` prints it: columns at fixed places, at least two spaces between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The cells of each row; as many as columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a table as `kubectl get` prints it: a cell begins below its column's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let header: Vec<char> = lines.next().ok_or("the table is empty")?.chars().collect();
        let starts: Vec<usize> =
            (0..header.len()).filter(|&at| header[at] != ' ' && (at == 0 || header[at - 1] == ' ')).collect();
        let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
        let bounds: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
        let cells = |line: &[char]| -> Vec<String> {
            let cell = |&(start, end): &(usize, usize)| {
                line.iter().skip(start).take(end - start).collect::<String>().trim().to_owned()
            };
            bounds.iter().map(cell).collect()
        };
        let columns = cells(&header);
        let mut rows = Vec::new();
        for line in lines {
            let line: Vec<char> = line.chars().collect();
            let split =
                |&&(start, _): &&(usize, usize)| start > 0 && line.get(start - 1).is_some_and(|c| *c != ' ');
            if let Some((start, _)) = bounds.iter().find(split) {
                let name = &columns[starts.partition_point(|s| s < start)];
                return Err(format!(
                    "in the row of `{}` a word runs into the column {name}",
                    cells(&line)[0]
                ));
            }
            rows.push(cells(&line));
        }
        Ok(Self { columns, rows })
    }

    /// The table with only the columns of another, in its order.
    pub fn like(&self, other: &Self) -> Self {
        let places: Vec<_> =
            other.columns.iter().map(|column| self.columns.iter().position(|mine| mine == column)).collect();
        let cells = |row: &Vec<String>| {
            places.iter().map(|place| place.map_or_else(String::new, |place| row[place].clone())).collect()
        };
        Self { columns: other.columns.clone(), rows: self.rows.iter().map(cells).collect() }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = || [&self.columns].into_iter().chain(&self.rows);
        let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for row in rows() {
            let line: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            writeln!(f, "{}", line.join("   ").trim_end())?;
        }
        Ok(())
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::History { hosts, .. } => write!(f, "history of {}", hosts.join(", ")),
            Self::Never { condition, window } => write!(f, "never{window}: {condition}"),
            Self::Always { condition, window } => write!(f, "always{window}: {condition}"),
            Self::Eventually { condition, from, within } if from.is_zero() => {
                write!(f, "eventually, within {}: {condition}", Span(*within))
            }
            Self::Eventually { condition, from, within } => {
                write!(f, "eventually, within {} from {}: {condition}", Span(*within), Span(*from))
            }
            Self::Stable { condition, lasts } => {
                write!(f, "stable for the last {}: {condition}", Span(*lasts))
            }
            Self::Count { of, bound, window } => write!(f, "count{window} of `{of}`: {bound}"),
            Self::Table { at: Some(at), .. } => write!(f, "table at {}", Span(*at)),
            Self::Table { at: None, .. } => write!(f, "table at the end"),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { from, until: None } if from.is_zero() => Ok(()),
            Self { from, until: None } => write!(f, " from {}", Span(*from)),
            Self { from, until: Some(until) } => write!(f, " from {} to {}", Span(*from), Span(*until)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "
NAME              STATE                    CONSUMER                      ONLINE   ERROR
ostest-master-0   externally provisioned   ostest-g6bq8-master-0         true     provisioned registration error
ostest-worker-0   provisioned                                            true
";

    #[test]
    fn a_table_is_read_by_the_places_of_its_columns() {
        let table = Table::parse(REPORT).expect("a table");
        assert_eq!(table.columns, ["NAME", "STATE", "CONSUMER", "ONLINE", "ERROR"]);
        assert_eq!(table.rows[0][1], "externally provisioned");
        assert_eq!(table.rows[1], ["ostest-worker-0", "provisioned", "", "true", ""]);
    }

    #[test]
    fn a_shown_table_reads_back() {
        let table = Table::parse(REPORT).expect("a table");
        assert_eq!(Table::parse(&table.to_string()), Ok(table));
    }

    #[test]
    fn a_broken_table_is_refused() {
        assert_eq!(Table::parse(" \n"), Err("the table is empty".to_owned()));
        let error = Table::parse("NAME   STATE\nworker-0-and-more provisioned\n").expect_err("it runs over");
        assert!(error.contains("STATE"), "{error}");
    }

    #[test]
    fn a_selector_matches_topic_host_subject_and_data() {
        let entry = wire::Entry {
            host: "ironic".into(),
            topic: "request".into(),
            subject: "PUT /v1/nodes/12/states/provision".into(),
            data: serde_json::json!({ "status": 202, "target": "active", "deep": { "er": true } }),
        };
        for (text, selects) in [
            ("request", true),
            ("request@ironic", true),
            ("request@kube", false),
            ("node", false),
            ("request PUT *", true),
            ("request@ironic PUT /v1/nodes/*/states/provision target=active", true),
            ("request PUT * target=deleted", false),
            ("request PUT * status=2*", true),
            ("request deep.er=true", true),
            ("request deep.er.still=true", false),
        ] {
            let selector = Selector::parse(text).expect(text);
            assert_eq!(selector.selects(&entry), selects, "{text}");
            assert_eq!(Selector::parse(&selector.to_string()), Some(selector));
        }
        assert_eq!(Selector::parse("  "), None);
        let query = Selector::parse("request GET /v1/nodes?fields=uuid").expect("a selector");
        assert_eq!(query.subject, Pattern::new("GET /v1/nodes?fields=uuid"));
    }
}
