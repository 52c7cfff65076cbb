//! Tables: what `kubectl get` prints.
//!
//! The server computes the cells (`meta.k8s.io/v1` `Table`), so ages come from the world's clock; kubectl only lines
//! them up. [`Table`]'s `Display` lines them up in the same way, for reports.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    jsonpath::{self, BadPath, JsonPath},
    object,
    resource::Resource,
};

/// One column after the name.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    /// 0 is always shown, more only by `-o wide`.
    priority: i64,
    cell: Cell,
}

/// How a cell is computed.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Path(JsonPath),
    Age(JsonPath),
    /// How many members the objects at these keys have.
    Count(Vec<&'static str>),
    LastSeen,
    FirstSeen,
    EventObject,
    TrimmedMessage,
    Name,
}

impl Column {
    pub(crate) fn new(name: &str, kind: &str, cell: Cell) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            cell,
        }
    }

    /// The time since the object was created.
    pub(crate) fn age() -> Self {
        let path = JsonPath::parse(".metadata.creationTimestamp")
            .unwrap_or_else(|error| unreachable!("{error}: it is a constant"));
        Self::new("Age", "date", Cell::Age(path))
    }

    pub(crate) fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// Reads one of `additionalPrinterColumns`.
    pub(crate) fn parse(raw: &Value) -> Result<Self, BadPath> {
        let path = JsonPath::parse(object::text(raw, &["jsonPath"]))?;
        let kind = object::text(raw, &["type"]);
        Ok(Self {
            name: object::text(raw, &["name"]).into(),
            kind: kind.into(),
            format: object::text(raw, &["format"]).into(),
            description: object::text(raw, &["description"]).into(),
            priority: raw.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            cell: if kind == "date" { Cell::Age(path) } else { Cell::Path(path) },
        })
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let since = |paths: &[&[&str]]| -> Value {
            let at = paths.iter().map(|path| object::text(object, path)).find(|text| !text.is_empty());
            at.map_or_else(|| "<unknown>".into(), |at| since(at, now))
        };
        match &self.cell {
            Cell::Path(path) => match (path.first(object), self.kind.as_str()) {
                (None | Some(Value::Null), _) => Value::Null,
                (Some(found), "string") => jsonpath::print(found).into(),
                (Some(found), "integer") if found.is_i64() => found.clone(),
                (Some(found), "number") if found.is_number() => found.clone(),
                (Some(found), "boolean") if found.is_boolean() => found.clone(),
                (Some(_), _) => Value::Null,
            },
            Cell::Age(path) => {
                path.first(object).and_then(Value::as_str).map_or(Value::Null, |at| since_or_invalid(at, now))
            }
            Cell::Count(keys) => {
                let count =
                    |key: &&str| object.get(*key).and_then(Value::as_object).map_or(0, serde_json::Map::len);
                keys.iter().map(count).sum::<usize>().into()
            }
            Cell::LastSeen => since(&[
                &["series", "lastObservedTime"],
                &["lastTimestamp"],
                &["eventTime"],
                &["firstTimestamp"],
                &["metadata", "creationTimestamp"],
            ]),
            Cell::FirstSeen => {
                since(&[&["firstTimestamp"], &["eventTime"], &["metadata", "creationTimestamp"]])
            }
            Cell::EventObject => {
                let kind = object::text(object, &["involvedObject", "kind"]).to_lowercase();
                format!("{kind}/{}", object::text(object, &["involvedObject", "name"])).into()
            }
            Cell::TrimmedMessage => object::text(object, &["message"]).trim().into(),
            Cell::Name => object::name(object).into(),
        }
    }
}

fn since(at: &str, now: Timestamp) -> Value {
    at.parse::<Timestamp>()
        .map_or_else(|_| "<unknown>".into(), |at| human(now.duration_since(at).as_secs()).into())
}

fn since_or_invalid(at: &str, now: Timestamp) -> Value {
    at.parse::<Timestamp>()
        .map_or_else(|_| "<invalid>".into(), |at| human(now.duration_since(at).as_secs()).into())
}

/// A time span as kubectl shows it (`k8s.io/apimachinery/pkg/util/duration.HumanDuration`).
fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let pair = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(hours / 24, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{}d", hours / 24),
        63_072_000..252_288_000 => pair(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        252_288_000.. => format!("{}y", hours / 24 / 365),
    }
}

/// How much of each object goes with its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    #[default]
    Metadata,
    Nothing,
    Object,
}

/// A `Table` object. Objects are as stored; `columns` is false for all but the first event of a watch.
pub(crate) fn to_value(
    resource: &Resource,
    objects: &[&Value],
    list_metadata: Value,
    now: Timestamp,
    include: Include,
    columns: bool,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|stored| {
            let name = resource.names_rows().then(|| object::name(stored).into());
            let cells: Vec<Value> = name
                .into_iter()
                .chain(resource.columns.iter().map(|column| column.cell(stored, now)))
                .collect();
            let mut row = json!({ "cells": cells });
            match include {
                Include::Nothing => row["object"] = Value::Null,
                Include::Metadata => {
                    row["object"] = partial(stored);
                }
                Include::Object => row["object"] = resource.show(stored),
            }
            row
        })
        .collect();
    let definitions: Vec<Value> = if columns {
        let name = json!({
            "name": "Name", "type": "string", "format": "name", "priority": 0,
            "description": "Name must be unique within a namespace.",
        });
        let name = resource.names_rows().then_some(name);
        name.into_iter().chain(resource.columns.iter().map(Column::definition)).collect()
    } else {
        Vec::new()
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// An object's metadata alone.
pub(crate) fn partial(stored: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.get("metadata").cloned().unwrap_or_default(),
    })
}

/// What `kubectl get` prints for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The columns' names, in capitals as kubectl prints them.
    pub columns: Vec<String>,
    /// One list of cells for each object, in order of their names.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The columns that kubectl shows without `-o wide`.
    pub(crate) fn of(resource: &Resource, objects: &[&Value], now: Timestamp) -> Self {
        let shown: Vec<&Column> = resource.columns.iter().filter(|column| column.priority == 0).collect();
        let columns = resource
            .names_rows()
            .then_some("Name")
            .into_iter()
            .chain(shown.iter().map(|column| column.name.as_str()));
        let row = |stored: &&Value| {
            let cells = shown.iter().map(|column| jsonpath::print(&column.cell(stored, now)));
            let name = resource.names_rows().then(|| object::name(stored).to_owned());
            name.into_iter().chain(cells).collect()
        };
        Self { columns: columns.map(str::to_uppercase).collect(), rows: objects.iter().map(row).collect() }
    }

    /// The table without one column; as it is if there is no such column.
    pub fn without(mut self, column: &str) -> Self {
        if let Some(index) = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column)) {
            self.columns.remove(index);
            self.rows.iter_mut().for_each(|row| drop(row.remove(index)));
        }
        self
    }
}

impl fmt::Display for Table {
    /// As Go's tabwriter does it for kubectl: columns of at least 6, 3 blanks between, nothing after the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.columns).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|index| {
                let longest =
                    lines().filter_map(|line| line.get(index)).map(|cell| cell.chars().count()).max();
                (longest.unwrap_or_default() + 3).max(6)
            })
            .collect();
        for line in lines() {
            for (index, (cell, width)) in line.iter().zip(&widths).enumerate() {
                if index + 1 == line.len() { write!(f, "{cell}")? } else { write!(f, "{cell:<width$}")? }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (659, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_172_000, "2y1d"),
            (260_000_000, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn columns_line_up_as_kubectl_lines_them_up() {
        let table = Table {
            columns: ["NAME", "STATE", "AGE"].map(str::to_owned).to_vec(),
            rows: vec![
                ["worker-0", "", "5s"].map(str::to_owned).to_vec(),
                ["w", "available", "120m"].map(str::to_owned).to_vec(),
            ],
        };
        assert_eq!(
            table.to_string(),
            "NAME       STATE       AGE\nworker-0               5s\nw          available   120m\n"
        );
        assert_eq!(table.without("Age").columns, ["NAME", "STATE"]);
    }
}
