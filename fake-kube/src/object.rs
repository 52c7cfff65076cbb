//! Reading and changing the parts of an object that every Kubernetes object has.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The value at a path of keys.
pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The text at a path of keys; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of the list at a path of keys.
pub(crate) fn texts<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    at(object, path)
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    texts(object, &["metadata", "finalizers"])
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

/// The members of the value at `key`, which becomes an object if it is none.
pub(crate) fn members<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let value = match object {
        Value::Object(map) => map.entry(key).or_insert_with(|| Value::Object(Map::new())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            *object = Value::Object(Map::new());
            &mut object[key]
        }
    };
    as_members(value)
}

/// The members of a value, which becomes an object if it is none.
pub(crate) fn as_members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("it was made an object just above")
        }
    }
}

pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    members(object, "metadata")
}

pub(crate) fn set_revision(object: &mut Value, revision: u64) {
    metadata(object).insert("resourceVersion".into(), revision.to_string().into());
}

/// Takes over `key` of `from`: sets it, or removes it where `from` has none.
pub(crate) fn carry(into: &mut Map<String, Value>, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => into.insert(key.into(), value.clone()),
        None => into.remove(key),
    };
}

/// A time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}
