//! Label and field selectors.

use serde_json::Value;

use crate::{jsonpath, object};

/// Which objects a list or a watch is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTerm {
    Exists(String),
    Missing(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

/// A selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadSelector(String);

impl Selector {
    /// Reads the `labelSelector` and `fieldSelector` of a request; either may be empty. `known` tells which fields the
    /// resource can be selected by.
    pub(crate) fn parse(
        labels: &str,
        fields: &str,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<Self, BadSelector> {
        let labels = split(labels).into_iter().map(label_term).collect::<Result<_, _>>()?;
        let fields: Vec<FieldTerm> = fields
            .split(',')
            .filter(|term| !term.trim().is_empty())
            .map(|term| field_term(term.trim()))
            .collect::<Result<_, _>>()?;
        if let Some(term) = fields.iter().find(|term| !known(&term.path)) {
            return Err(BadSelector(format!("field label not supported: {}", term.path)));
        }
        Ok(Self { labels, fields })
    }

    /// Whether an object is selected.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object::at(object, &["metadata", "labels", key]).and_then(Value::as_str);
        let labels = self.labels.iter().all(|term| match term {
            LabelTerm::Exists(key) => label(key).is_some(),
            LabelTerm::Missing(key) => label(key).is_none(),
            LabelTerm::In(key, values) => label(key).is_some_and(|v| values.iter().any(|w| w == v)),
            LabelTerm::NotIn(key, values) => label(key).is_none_or(|v| values.iter().all(|w| w != v)),
        });
        labels && self.fields.iter().all(|term| (field(object, &term.path) == term.value) == term.equal)
    }

    /// Whether everything is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// A field as selectors compare it.
fn field(object: &Value, path: &str) -> String {
    // Kubernetes calls the component that reported an event its `source`.
    let path = if path == "source" { "source.component" } else { path };
    let keys: Vec<&str> = path.split('.').collect();
    object::at(object, &keys).map(jsonpath::print).unwrap_or_default()
}

/// Splits at the commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_u32, 0, Vec::new());
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn label_term(term: &str) -> Result<LabelTerm, BadSelector> {
    let bad = || BadSelector(format!("unable to parse requirement: {term}"));
    let key = |text: &str| {
        let text = text.trim();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if text.is_empty() || !text.chars().all(fits) { Err(bad()) } else { Ok(text.to_owned()) }
    };
    if let Some(rest) = term.strip_prefix('!') {
        return Ok(LabelTerm::Missing(key(rest)?));
    }
    for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((left, right)) = term.split_once(sign) {
            let values = vec![right.trim().to_owned()];
            return Ok(if equal {
                LabelTerm::In(key(left)?, values)
            } else {
                LabelTerm::NotIn(key(left)?, values)
            });
        }
    }
    if let Some((head, list)) = term.split_once('(') {
        let list = list.strip_suffix(')').ok_or_else(bad)?;
        let values = list.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        let (name, operator) = (words.next().ok_or_else(bad)?, words.next());
        return match operator {
            Some("in") => Ok(LabelTerm::In(key(name)?, values)),
            Some("notin") => Ok(LabelTerm::NotIn(key(name)?, values)),
            Some(_) | None => Err(bad()),
        };
    }
    Ok(LabelTerm::Exists(key(term)?))
}

fn field_term(term: &str) -> Result<FieldTerm, BadSelector> {
    for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((path, value)) = term.split_once(sign) {
            return Ok(FieldTerm { path: path.trim().to_owned(), value: value.trim().to_owned(), equal });
        }
    }
    Err(BadSelector(format!("invalid selector: '{term}'; can't understand '{term}'")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_select_what_kubernetes_selects() {
        let object = json!({ "metadata": { "labels": { "env": "prod", "tier": "1" } } });
        for (selector, selected) in [
            ("", true),
            ("env", true),
            ("!env", false),
            ("other", false),
            ("!other", true),
            ("env=prod", true),
            ("env==prod,tier=1", true),
            ("env=prod,tier=2", false),
            ("env!=prod", false),
            ("other!=prod", true),
            ("env in (dev, prod)", true),
            ("env notin (dev,prod)", false),
            ("other notin (dev)", true),
            ("other in (dev)", false),
        ] {
            let read = Selector::parse(selector, "", &|_| true).expect(selector);
            assert_eq!(read.matches(&object), selected, "{selector}");
        }
        for bad in ["env in prod", "env near (prod)", "=x", "en v"] {
            assert!(Selector::parse(bad, "", &|_| true).is_err(), "{bad}");
        }
    }

    #[test]
    fn field_selectors_select_by_the_fields_a_resource_offers() {
        let object = json!({ "metadata": { "name": "a" }, "source": { "component": "bmo" } });
        for (selector, selected) in
            [("metadata.name=a", true), ("metadata.name!=a", false), ("source=bmo", true), ("source=", false)]
        {
            let read = Selector::parse("", selector, &|_| true).expect(selector);
            assert_eq!(read.matches(&object), selected, "{selector}");
        }
        let refused = Selector::parse("", "spec.online=true", &|path| path.starts_with("metadata."));
        assert_eq!(refused.unwrap_err().to_string(), "field label not supported: spec.online");
    }
}
