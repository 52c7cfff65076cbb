//! Server-side apply: who owns which field, and what one manager's configuration changes.
//!
//! Ownership is kept for appliers (`operation: Apply` in `managedFields`), not for plain updates. Lists are one value,
//! unless the schema says that they are maps or sets; `finalizers` and `ownerReferences` merge.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    object,
    resource::Resource,
    schema::Schema,
    status::{Cause, Failure},
};

/// Who applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manager<'a> {
    pub(crate) name: &'a str,
    /// Take fields from other managers.
    pub(crate) force: bool,
    /// `status` or nothing.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

/// A path into an object, in the notation of `FieldsV1`: `f:name`, `k:{"key":"value"}`, `v:value`.
type Path = Vec<String>;

/// The object that results when `config` is applied to `current`.
pub(crate) fn apply(
    resource: &Resource,
    current: Option<Value>,
    config: &Value,
    manager: Manager<'_>,
) -> Result<Value, Failure> {
    let schema = resource.schema();
    let mut wanted = BTreeSet::new();
    for (key, value) in config.as_object().into_iter().flatten() {
        match key.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => metadata_leaves(value, &mut wanted),
            _ => leaves(value, schema.and_then(|s| s.field(key)), &mut vec![format!("f:{key}")], &mut wanted),
        }
    }
    if !manager.subresource.is_empty() {
        let only = format!("f:{}", manager.subresource);
        wanted.retain(|path| path.first() == Some(&only));
    }
    let mut object = current.unwrap_or_else(|| json!({ "metadata": {} }));
    let mut entries = take_entries(&mut object);
    let is_mine = |entry: &Value| {
        object::text(entry, &["manager"]) == manager.name
            && object::text(entry, &["operation"]) == "Apply"
            && object::text(entry, &["subresource"]) == manager.subresource
    };
    let mine: BTreeSet<Path> = entries.iter().filter(|entry| is_mine(entry)).flat_map(paths_of).collect();
    entries.retain(|entry| !is_mine(entry));
    let differs = |path: &Path| lookup(&object, path) != lookup(config, path);
    let mut conflicts = Vec::new();
    for entry in &entries {
        let who = object::text(entry, &["manager"]);
        for path in paths_of(entry).intersection(&wanted).filter(|path| differs(path)) {
            let message = format!("conflict with {who:?} using {}", object::text(entry, &["apiVersion"]));
            conflicts.push(Cause { field: dotted(path), reason: "FieldManagerConflict", message });
        }
    }
    if !conflicts.is_empty() && !manager.force {
        return Err(Failure::apply_conflict(&conflicts));
    }
    for entry in &mut entries {
        let mut left = paths_of(entry);
        left.retain(|path| !(wanted.contains(path) && differs(path)));
        entry["fieldsV1"] = tree(&left);
    }
    let kept: BTreeSet<Path> = entries.iter().flat_map(paths_of).collect();
    // What was mine and is mine no longer goes, unless somebody else wants it too.
    for path in mine.difference(&wanted).filter(|path| !kept.contains(*path)) {
        erase(&mut object, path);
    }
    for path in &wanted {
        if let Some(value) = lookup(config, path) {
            store(&mut object, path, value.clone());
        }
    }
    entries.retain(|entry| entry["fieldsV1"].as_object().is_some_and(|fields| !fields.is_empty()));
    let mut entry = json!({
        "manager": manager.name, "operation": "Apply", "apiVersion": resource.api_version(),
        "time": object::time(manager.now), "fieldsType": "FieldsV1", "fieldsV1": tree(&wanted),
    });
    if !manager.subresource.is_empty() {
        entry["subresource"] = manager.subresource.into();
    }
    entries.push(entry);
    let metadata = object::metadata(&mut object);
    metadata.insert("managedFields".into(), entries.into());
    let revision = object::at(config, &["metadata", "resourceVersion"]);
    if let Some(revision) = revision {
        metadata.insert("resourceVersion".into(), revision.clone());
    }
    for identity in ["name", "namespace"] {
        if let Some(value) = object::at(config, &["metadata", identity]) {
            object::metadata(&mut object).insert(identity.into(), value.clone());
        }
    }
    Ok(object)
}

fn take_entries(object: &mut Value) -> Vec<Value> {
    match object::metadata(object).remove("managedFields") {
        Some(Value::Array(entries)) => entries,
        Some(_) | None => Vec::new(),
    }
}

fn metadata_leaves(metadata: &Value, into: &mut BTreeSet<Path>) {
    for (key, value) in metadata.as_object().into_iter().flatten() {
        let head = vec!["f:metadata".to_owned(), format!("f:{key}")];
        match key.as_str() {
            "labels" | "annotations" => leaves(value, None, &mut head.clone(), into),
            "finalizers" => {
                for entry in value.as_array().into_iter().flatten() {
                    into.insert([head.clone(), vec![format!("v:{entry}")]].concat());
                }
            }
            "ownerReferences" => {
                for entry in value.as_array().into_iter().flatten() {
                    let key = json!({ "uid": entry.get("uid") });
                    leaves(entry, None, &mut [head.clone(), vec![format!("k:{key}")]].concat(), into);
                }
            }
            // The rest of the metadata is the server's.
            _ => {}
        }
    }
}

/// Collects the paths of all leaves of a value.
fn leaves(value: &Value, schema: Option<&Schema>, at: &mut Path, into: &mut BTreeSet<Path>) {
    let mut step = |step: String, value: &Value, schema: Option<&Schema>| {
        at.push(step);
        leaves(value, schema, at, into);
        at.pop();
    };
    match (value, schema) {
        (Value::Object(members), _) if !members.is_empty() => {
            for (key, inner) in members {
                step(format!("f:{key}"), inner, schema.and_then(|s| s.field(key)));
            }
        }
        (Value::Array(entries), Some(schema)) if !schema.list_keys().is_empty() => {
            for entry in entries {
                let key: Map<String, Value> = schema
                    .list_keys()
                    .iter()
                    .map(|key| (key.clone(), entry.get(key).cloned().unwrap_or_default()))
                    .collect();
                step(format!("k:{}", Value::Object(key)), entry, schema.entry());
            }
        }
        (Value::Array(entries), Some(schema)) if schema.is_set() => {
            for entry in entries {
                step(format!("v:{entry}"), entry, None);
            }
        }
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => {
            into.insert(at.clone());
        }
    }
}

/// The paths of a `managedFields` entry.
fn paths_of(entry: &Value) -> BTreeSet<Path> {
    fn walk(tree: &Value, at: &mut Path, into: &mut BTreeSet<Path>) {
        let members = tree.as_object().filter(|members| members.keys().any(|key| key != "."));
        match members {
            None => {
                into.insert(at.clone());
            }
            Some(members) => {
                for (step, inner) in members.iter().filter(|(step, _)| *step != ".") {
                    at.push(step.clone());
                    walk(inner, at, into);
                    at.pop();
                }
            }
        }
    }
    let mut paths = BTreeSet::new();
    if let Some(fields) = entry.get("fieldsV1") {
        walk(fields, &mut Vec::new(), &mut paths);
    }
    paths.remove(&Vec::new());
    paths
}

fn tree(paths: &BTreeSet<Path>) -> Value {
    let mut root = json!({});
    for path in paths {
        let mut at = &mut root;
        for step in path {
            at = object::as_members(at).entry(step.clone()).or_insert_with(|| json!({}));
        }
    }
    root
}

fn entry_index(entries: &[Value], step: &str) -> Option<usize> {
    if let Some(key) = step.strip_prefix("k:") {
        let key: Map<String, Value> = serde_json::from_str(key).ok()?;
        return entries.iter().position(|entry| {
            key.iter().all(|(name, value)| entry.get(name).unwrap_or(&Value::Null) == value)
        });
    }
    let value: Value = serde_json::from_str(step.strip_prefix("v:")?).ok()?;
    entries.iter().position(|entry| *entry == value)
}

fn lookup<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step.strip_prefix("f:") {
        Some(key) => value.get(key),
        None => {
            let entries = value.as_array()?;
            entries.get(entry_index(entries, step)?)
        }
    })
}

fn erase(value: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    if let Some(key) = step.strip_prefix("f:") {
        let Some(members) = value.as_object_mut() else { return };
        if rest.is_empty() {
            members.remove(key);
            return;
        }
        if let Some(inner) = members.get_mut(key) {
            erase(inner, rest);
            // Nothing of a map that held only what was erased stays behind.
            if inner.as_object().is_some_and(Map::is_empty) || inner.as_array().is_some_and(Vec::is_empty) {
                members.remove(key);
            }
        }
        return;
    }
    let Some(entries) = value.as_array_mut() else { return };
    let Some(index) = entry_index(entries, step) else { return };
    if !rest.is_empty() {
        erase(&mut entries[index], rest);
    }
    if rest.is_empty() || entries[index].as_object().is_some_and(Map::is_empty) {
        entries.remove(index);
    }
}

fn store(value: &mut Value, path: &[String], new: Value) {
    let Some((step, rest)) = path.split_first() else {
        *value = new;
        return;
    };
    if let Some(key) = step.strip_prefix("f:") {
        store(object::as_members(value).entry(key).or_insert(Value::Null), rest, new);
        return;
    }
    if !value.is_array() {
        *value = json!([]);
    }
    let Some(entries) = value.as_array_mut() else { return };
    let index = entry_index(entries, step).unwrap_or_else(|| {
        let fresh = step.strip_prefix("k:").and_then(|key| serde_json::from_str(key).ok());
        entries.push(fresh.unwrap_or_default());
        entries.len() - 1
    });
    store(&mut entries[index], rest, new);
}

/// A path as conflicts name it: `.spec.online`.
fn dotted(path: &[String]) -> String {
    path.iter()
        .map(|step| match step.strip_prefix("f:") {
            Some(key) => format!(".{key}"),
            None => {
                format!("[{}]", step.get(2..).unwrap_or_default().replace("\":", "=").replace(['{', '}'], ""))
            }
        })
        .collect()
}
