//! The part of JSONPath that printer columns use: keys, indices, `[*]` and `[?(@.key=="value")]`.
//!
//! Syntax as in `k8s.io/client-go/util/jsonpath`, "simple" paths only, which is what a CustomResourceDefinition may
//! hold in `additionalPrinterColumns`.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(i64),
    All,
    Where { path: Vec<String>, equal: bool, value: Value },
}

/// A path that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("understand the JSON path {0:?}")]
pub(crate) struct BadPath(String);

impl JsonPath {
    /// Reads a path like `.status.conditions[?(@.type=="Ready")].status`.
    pub(crate) fn parse(text: &str) -> Result<Self, BadPath> {
        let bad = || BadPath(text.to_owned());
        let mut rest = text.trim().strip_prefix('.').ok_or_else(bad)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let end = closing(inner).ok_or_else(bad)?;
                steps.push(bracket(&inner[..end]).ok_or_else(bad)?);
                rest = &inner[end + 1..];
                rest = rest.strip_prefix('.').unwrap_or(rest);
                continue;
            }
            let mut key = String::new();
            let mut characters = rest.char_indices();
            let end = loop {
                match characters.next() {
                    None => break rest.len(),
                    Some((_, '\\')) => key.extend(characters.next().map(|(_, c)| c)),
                    Some((index, '.' | '[')) => break index,
                    Some((_, c)) => key.push(c),
                }
            };
            if key.is_empty() {
                return Err(bad());
            }
            steps.push(Step::Key(key));
            rest = &rest[end..];
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
        Ok(Self(steps))
    }

    /// The first value the path leads to.
    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.from(value)).collect();
        }
        found.first().copied()
    }
}

impl Step {
    fn from<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Key(key) => value.get(key).into_iter().collect(),
            Self::Index(index) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
            }
            Self::All => match value {
                Value::Object(members) => members.values().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    items.iter().collect()
                }
            },
            Self::Where { path, equal, value: wanted } => items
                .iter()
                .filter(|item| {
                    let found = path.iter().try_fold(*item, |value, key| value.get(key));
                    found.is_some_and(|found| (found == wanted) == *equal)
                })
                .collect(),
        }
    }
}

/// Where the bracket that was opened before `text` closes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (None, ']') => return Some(index),
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(key) = unquote(text) {
        return Some(Step::Key(key.to_owned()));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let (sign, equal) = if filter.contains("!=") { ("!=", false) } else { ("==", true) };
        let (left, right) = filter.split_once(sign)?;
        let path = left.trim().strip_prefix("@.")?.split('.').map(str::to_owned).collect();
        let right = right.trim();
        let value = match unquote(right) {
            Some(text) => text.into(),
            None => serde_json::from_str(right).ok()?,
        };
        return Some(Step::Where { path, equal, value });
    }
    text.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> Option<&str> {
    ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

/// A value as kubectl and printer columns show it: texts bare, everything else as JSON.
pub(crate) fn print(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_where_kubernetes_leads_them() {
        let value = json!({
            "spec": { "online": true, "a.b": 1 },
            "list": [{ "type": "x", "v": 1 }, { "type": "y", "v": 2 }],
        });
        for (path, found) in [
            (".spec.online", Some(json!(true))),
            (".spec.missing.deeper", None),
            (".spec.a\\.b", Some(json!(1))),
            (".spec['a.b']", Some(json!(1))),
            (".list[0].v", Some(json!(1))),
            (".list[-1].v", Some(json!(2))),
            (".list[*].v", Some(json!(1))),
            (".list[?(@.type==\"y\")].v", Some(json!(2))),
            (".list[?(@.type!='y')].v", Some(json!(1))),
            (".list[?(@.type==\"z\")].v", None),
        ] {
            let read = JsonPath::parse(path).expect(path);
            assert_eq!(read.first(&value), found.as_ref(), "{path}");
        }
        for bad in ["spec", ".a[", ".a[?(x)]", ".a..b"] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
    }
}
