//! JSON patches, as far as Ironic takes them: `add`, `replace` and `remove` on plain paths.

use serde_json::{Map, Value};

use crate::{failure::Failure, python};

/// The longest path that is taken, lest a document grow deeper than what walks it recursively can go.
const DEEPEST: usize = 128;

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operation {
    verb: Verb,
    /// The path's parts; never empty.
    pub(super) path: Vec<String>,
    value: Value,
    /// As it was sent, for error texts.
    sent: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    Replace,
    Remove,
}

impl Operation {
    /// Whether the operation takes a whole attribute away.
    pub(super) fn removes(&self, attribute: &str) -> bool {
        self.verb == Verb::Remove && self.path == [attribute]
    }

    /// The attribute that it changes.
    pub(super) fn attribute(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }
}

fn schema(text: impl std::fmt::Display) -> Failure {
    Failure::invalid(format!("Schema error for patch: {text}"))
}

/// Reads a patch.
pub(super) fn read(patch: &Value) -> Result<Vec<Operation>, Failure> {
    let Value::Array(operations) = patch else {
        return Err(schema(format!("{} is not of type 'array'", python::repr(patch))));
    };
    operations.iter().map(read_operation).collect()
}

fn read_operation(sent: &Value) -> Result<Operation, Failure> {
    let Value::Object(map) = sent else {
        return Err(schema(format!("{} is not of type 'object'", python::repr(sent))));
    };
    if let Some(key) = map.keys().find(|key| !matches!(key.as_str(), "op" | "path" | "value")) {
        return Err(schema(format!(
            "Additional properties are not allowed ({} was unexpected)",
            python::repr_text(key)
        )));
    }
    let required = |key: &str| map.get(key).ok_or_else(|| schema(format!("'{key}' is a required property")));
    let path = required("path")?;
    let verb = required("op")?;
    let verb = match verb.as_str() {
        Some("add") => Verb::Add,
        Some("replace") => Verb::Replace,
        Some("remove") => Verb::Remove,
        Some(_) | None => {
            return Err(schema(format!("{} is not one of ['add', 'replace', 'remove']", python::repr(verb))));
        }
    };
    let parts = path.as_str().and_then(split_path).ok_or_else(|| {
        schema(format!("{} does not match {}", python::repr(path), python::repr_text("^(/[\\w-]+)+$")))
    })?;
    if parts.len() > DEEPEST {
        return Err(Failure::invalid(format!("A path of a patch has at most {DEEPEST} parts")));
    }
    if verb != Verb::Remove && !map.contains_key("value") {
        return Err(Failure::invalid("Value required for add/replace operations"));
    }
    let value = map.get("value").cloned().unwrap_or_default();
    Ok(Operation { verb, path: parts, value, sent: sent.clone() })
}

fn split_path(path: &str) -> Option<Vec<String>> {
    let parts: Vec<String> = path.strip_prefix('/')?.split('/').map(ToOwned::to_owned).collect();
    let fine =
        |part: &String| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    parts.iter().all(fine).then_some(parts)
}

/// Carries a patch out on a document.
pub(super) fn apply(document: &mut Map<String, Value>, operations: &[Operation]) -> Result<(), Failure> {
    for operation in operations {
        // An attribute is always there, if only as null.
        apply_one(document, operation).map_err(|reason| {
            let sent = in_order(&operation.sent);
            Failure::invalid(format!("Couldn't apply patch '{sent}'. Reason: {reason}"))
        })?;
    }
    Ok(())
}

/// An operation with its keys in the order in which they are always written.
fn in_order(sent: &Value) -> String {
    python::repr_pairs(["op", "path", "value"].into_iter().filter_map(|key| Some((key, sent.get(key)?))))
}

fn apply_one(document: &mut Map<String, Value>, operation: &Operation) -> Result<(), String> {
    let Some((last, parents)) = operation.path.split_last() else { return Ok(()) };
    let Some((first, between)) = parents.split_first() else {
        match operation.verb {
            Verb::Add | Verb::Replace => document.insert(last.clone(), operation.value.clone()),
            Verb::Remove => document.insert(last.clone(), Value::Null),
        };
        return Ok(());
    };
    let mut place = document.entry(first.clone()).or_insert(Value::Null);
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    for part in between {
        place = step(place, part).ok_or_else(|| format!("member '{part}' not found"))?;
    }
    match place {
        Value::Object(map) => change_object(map, last, operation),
        Value::Array(items) => change_array(items, last, operation),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(format!("invalid document type for '{last}'"))
        }
    }
}

fn step<'a>(place: &'a mut Value, part: &str) -> Option<&'a mut Value> {
    match place {
        Value::Object(map) => map.get_mut(part),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn change_object(map: &mut Map<String, Value>, key: &str, operation: &Operation) -> Result<(), String> {
    match operation.verb {
        Verb::Add => drop(map.insert(key.to_owned(), operation.value.clone())),
        Verb::Replace => match map.get_mut(key) {
            Some(value) => value.clone_from(&operation.value),
            None => return Err(format!("can't replace a non-existent object '{key}'")),
        },
        Verb::Remove => {
            if map.remove(key).is_none() {
                return Err(format!("can't remove a non-existent object '{key}'"));
            }
        }
    }
    Ok(())
}

fn change_array(items: &mut Vec<Value>, key: &str, operation: &Operation) -> Result<(), String> {
    let index = if key == "-" { Some(items.len()) } else { key.parse().ok() };
    let index: usize = index.ok_or_else(|| format!("'{key}' is not a valid sequence index"))?;
    match operation.verb {
        Verb::Add if index <= items.len() => items.insert(index, operation.value.clone()),
        Verb::Add => return Err("can't insert outside of list".to_owned()),
        Verb::Replace => match items.get_mut(index) {
            Some(item) => item.clone_from(&operation.value),
            None => return Err("can't replace outside of list".to_owned()),
        },
        Verb::Remove if index < items.len() => drop(items.remove(index)),
        Verb::Remove => return Err(format!("can't remove a non-existent object '{key}'")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Result<Value, String> {
        let mut document = document.as_object().cloned().expect("an object");
        read(&patch)
            .and_then(|operations| apply(&mut document, &operations))
            .map(|()| Value::Object(document))
            .map_err(|failure| failure.text)
    }

    #[test]
    fn patches_change_documents() {
        let extra = json!({ "extra": { "a": 1, "list": [1, 2] }, "name": "x", "network_data": null });
        for (patch, pointer, value) in [
            (json!([]), "/extra/a", json!(1)),
            (json!([{ "op": "add", "path": "/extra/b", "value": { "c": 2 } }]), "/extra/b/c", json!(2)),
            (json!([{ "op": "replace", "path": "/extra/a", "value": 3 }]), "/extra/a", json!(3)),
            (json!([{ "op": "add", "path": "/extra/list/-", "value": 3 }]), "/extra/list", json!([1, 2, 3])),
            (json!([{ "op": "remove", "path": "/extra/list/0" }]), "/extra/list", json!([2])),
            (json!([{ "op": "remove", "path": "/name" }]), "/name", json!(null)),
            (
                json!([{ "op": "add", "path": "/network_data/x", "value": 1 }]),
                "/network_data",
                json!({ "x": 1 }),
            ),
        ] {
            let document = patched(extra.clone(), patch.clone()).expect("a patch that fits");
            assert_eq!(document.pointer(pointer), Some(&value), "{patch}");
        }
    }

    #[test]
    fn patches_do_not_nest_without_end() {
        for (parts, fits) in [(DEEPEST, true), (DEEPEST + 1, false)] {
            let patch = json!([{ "op": "remove", "path": "/a".repeat(parts) }]);
            assert_eq!(read(&patch).is_ok(), fits, "{parts} parts");
        }
    }

    /// The texts are those recorded from Ironic 39.0.0.
    #[test]
    fn patches_that_do_not_fit_are_refused() {
        for (patch, text) in [
            (
                json!([{ "op": "remove", "path": "/extra/absent" }]),
                "Couldn't apply patch '{'op': 'remove', 'path': '/extra/absent'}'. Reason: can't remove a \
                 non-existent object 'absent'",
            ),
            (
                json!([{ "op": "replace", "path": "/extra/absent", "value": 1 }]),
                "Couldn't apply patch '{'op': 'replace', 'path': '/extra/absent', 'value': 1}'. Reason: can't replace \
                 a non-existent object 'absent'",
            ),
            (
                json!([{ "op": "frobnicate", "path": "/extra/a", "value": 1 }]),
                "Schema error for patch: 'frobnicate' is not one of ['add', 'replace', 'remove']",
            ),
            (json!([{ "op": "add", "value": 1 }]), "Schema error for patch: 'path' is a required property"),
            (
                json!([{ "op": "add", "path": "noslash", "value": 1 }]),
                "Schema error for patch: 'noslash' does not match '^(/[\\\\w-]+)+$'",
            ),
            (json!({ "op": "add" }), "Schema error for patch: {'op': 'add'} is not of type 'array'"),
            (
                json!([{ "op": "copy", "from": "/name", "path": "/extra/n" }]),
                "Schema error for patch: Additional properties are not allowed ('from' was unexpected)",
            ),
        ] {
            assert_eq!(patched(json!({ "extra": {} }), patch), Err(text.to_owned()));
        }
    }
}
