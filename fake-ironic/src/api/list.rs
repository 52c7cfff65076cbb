//! Listings: pages, order and fields.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::Request;
use crate::failure::Failure;

/// The longest page.
const MAX_LIMIT: usize = 1000;

/// How a client wants a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) limit: usize,
    pub(super) marker: Option<String>,
    pub(super) sort_key: String,
    pub(super) descending: bool,
}

impl Page {
    /// The query arguments that it reads.
    pub(super) const ARGUMENTS: [&'static str; 4] = ["limit", "marker", "sort_key", "sort_dir"];

    pub(super) fn read(request: &Request, sortable: impl Fn(&str) -> bool) -> Result<Self, Failure> {
        let limit = match request.argument("limit") {
            None => MAX_LIMIT,
            Some(text) => match text.parse::<i64>() {
                Err(_) => return Err(Failure::invalid(format!("Expected an integer for limit: {text}"))),
                Ok(limit) if limit <= 0 => return Err(Failure::invalid("Limit must be positive")),
                Ok(limit) => usize::try_from(limit).unwrap_or(MAX_LIMIT).min(MAX_LIMIT),
            },
        };
        let sort_key = request.argument("sort_key").unwrap_or("id").to_owned();
        if sort_key != "id" && !sortable(&sort_key) {
            return Err(Failure::invalid(format!(
                "The sort_key value {sort_key} is an invalid field for sorting"
            )));
        }
        let descending = match request.argument("sort_dir").unwrap_or("asc") {
            "asc" => false,
            "desc" => true,
            other => {
                return Err(Failure::invalid(format!(
                    "Invalid sort direction: {other}. Acceptable values are 'asc' or 'desc'"
                )));
            }
        };
        Ok(Self { limit, marker: request.argument("marker").map(ToOwned::to_owned), sort_key, descending })
    }

    /// The page of `things`, which come in the order of their numbers, and whether more may follow. `None` if the
    /// marker is not among them.
    pub(super) fn cut(&self, mut things: Vec<Map<String, Value>>) -> Option<(Vec<Map<String, Value>>, bool)> {
        if self.sort_key != "id" {
            things.sort_by(|a, b| compare(a.get(&self.sort_key), b.get(&self.sort_key)));
        }
        if self.descending {
            things.reverse();
        }
        if let Some(marker) = &self.marker {
            let at =
                things.iter().position(|thing| thing.get("uuid").and_then(Value::as_str) == Some(marker))?;
            things.drain(..=at);
        }
        things.truncate(self.limit);
        let full = things.len() == self.limit;
        Some((things, full))
    }

    /// The address of the page after one that ends with `last`.
    pub(super) fn next(
        &self,
        request: &Request,
        path: &str,
        fields: &str,
        last: &Map<String, Value>,
    ) -> String {
        let order = if self.descending { "desc" } else { "asc" };
        let marker = last.get("uuid").and_then(Value::as_str).unwrap_or_default();
        format!(
            "{}/v1/{path}?sort_key={}&sort_dir={order}&fields={fields}&limit={}&marker={marker}",
            request.base, self.sort_key, self.limit
        )
    }
}

/// The database's order: nothing first, then by value.
fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    };
    text(a).cmp(&text(b))
}

/// A thing with these fields and its links alone.
pub(super) fn only(mut thing: Map<String, Value>, fields: &[&str]) -> Map<String, Value> {
    thing.retain(|key, _| key == "links" || fields.contains(&key.as_str()));
    thing
}
