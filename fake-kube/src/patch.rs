//! Patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch.
//!
//! Strategic merge is known for the built-in kinds only, as in Kubernetes; the lists that it merges there are
//! `finalizers` (a set) and `ownerReferences` (by uid).

use serde_json::{Map, Value};

/// A patch that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The patch itself cannot be read.
    #[error("{0}")]
    Malformed(String),
    /// It does not fit the object.
    #[error("{0}")]
    Unfit(String),
    /// It asks for too much.
    #[error("{0}")]
    TooLarge(String),
}

/// The most operations of one JSON patch (`maxJSONPatchOperations` in `k8s.io/apiserver`).
const MOST_OPERATIONS: usize = 10_000;

/// How many bytes the copies of one JSON patch may add: a patch that copies the whole document into itself doubles it
/// each time (`JSONPatchMaxCopyBytes` in `k8s.io/apiserver`).
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// How deep a JSON patch may nest: no deeper than `serde_json` reads, as everything that walks an object is recursive.
const DEEPEST: usize = 128;

/// Applies an RFC 7386 patch.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    let members = crate::object::as_members(target);
    for (key, change) in changes {
        if change.is_null() {
            members.remove(key);
        } else {
            merge(members.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

/// Applies a strategic merge patch to an object of a built-in kind.
pub(crate) fn strategic(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    match changes.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let mut new = changes.clone();
            new.remove("$patch");
            *target = Value::Object(new);
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            return Err(PatchError::Malformed(format!("unknown patch type found: {other}")));
        }
    }
    let members = crate::object::as_members(target);
    if let Some(Value::Array(keep)) = changes.get("$retainKeys") {
        members.retain(|key, _| keep.iter().any(|kept| kept == key.as_str()));
    }
    for (key, change) in changes {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(entries)), Value::Array(gone)) = (members.get_mut(list), change) {
                entries.retain(|entry| !gone.contains(entry));
            }
            continue;
        }
        if key.starts_with('$') {
            continue;
        }
        match change {
            Value::Null => {
                members.remove(key);
            }
            Value::Object(_) => strategic(members.entry(key.clone()).or_insert(Value::Null), change)?,
            Value::Array(new) if key == "finalizers" => {
                let entries = as_entries(members.entry(key.clone()).or_insert(Value::Null));
                for entry in new.iter().filter(|entry| !entry.is_object()) {
                    if !entries.contains(entry) {
                        entries.push(entry.clone());
                    }
                }
            }
            Value::Array(new) if key == "ownerReferences" => {
                let entries = as_entries(members.entry(key.clone()).or_insert(Value::Null));
                merge_keyed(entries, new, "uid")?;
            }
            Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                members.insert(key.clone(), change.clone());
            }
        }
    }
    Ok(())
}

fn as_entries(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(entries) => entries,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            unreachable!("it was made a list just above")
        }
    }
}

fn merge_keyed(entries: &mut Vec<Value>, new: &[Value], key: &str) -> Result<(), PatchError> {
    for change in new {
        let wanted = change.get(key);
        if change.get("$patch").and_then(Value::as_str) == Some("replace") {
            entries.clear();
            continue;
        }
        if wanted.is_none() {
            return Err(PatchError::Unfit(format!(
                "map: {change} does not contain declared merge key: {key}"
            )));
        }
        let found = entries.iter().position(|entry| entry.get(key) == wanted);
        if change.get("$patch").and_then(Value::as_str) == Some("delete") {
            if let Some(index) = found {
                entries.remove(index);
            }
            continue;
        }
        match found {
            Some(index) => strategic(&mut entries[index], change)?,
            None => entries.push(change.clone()),
        }
    }
    Ok(())
}

/// Applies an RFC 6902 patch: all of it or, on error, none of it that counts.
pub(crate) fn json_patch(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let operations = patch.as_array().ok_or_else(|| {
        PatchError::Malformed("json: cannot unmarshal object into Go value of type jsonpatch.Patch".into())
    })?;
    if operations.len() > MOST_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut copied_bytes = 0;
    for operation in operations {
        let text = |key: &str| operation.get(key).and_then(Value::as_str);
        let name = text("op").ok_or_else(|| PatchError::Malformed("missing operation".into()))?;
        let path = text("path").ok_or_else(|| PatchError::Malformed("missing path".into()))?;
        let from = || text("from").ok_or_else(|| PatchError::Malformed("missing from".into()));
        let value =
            || operation.get("value").cloned().ok_or_else(|| PatchError::Malformed("missing value".into()));
        match name {
            "add" => add(target, path, value()?)?,
            "remove" => drop(remove(target, path)?),
            "replace" => {
                let value = value()?;
                fits_below(path, &value)?;
                *find(target, path).ok_or_else(|| missing(name, path))? = value;
            }
            "move" => {
                let moved = remove(target, from()?)?;
                add(target, path, moved)?;
            }
            "copy" => {
                let copied = find(target, from()?).cloned().ok_or_else(|| missing(name, path))?;
                copied_bytes += copied.to_string().len();
                if copied_bytes > MOST_COPIED {
                    return Err(PatchError::Unfit(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, \
                         exceeding the limit {MOST_COPIED}"
                    )));
                }
                add(target, path, copied)?;
            }
            "test" => {
                let wanted = operation.get("value").cloned().unwrap_or_default();
                let found = find(target, path).cloned().unwrap_or_default();
                if found != wanted {
                    return Err(PatchError::Unfit(format!("testing value {path} failed: test failed")));
                }
            }
            other => return Err(PatchError::Malformed(format!("unexpected kind: {other}"))),
        }
    }
    Ok(())
}

fn missing(operation: &str, path: &str) -> PatchError {
    PatchError::Unfit(format!(
        "{operation} operation does not apply: doc is missing path: {path}: missing value"
    ))
}

/// The steps of a JSON pointer (RFC 6901).
fn steps(path: &str) -> Result<Vec<String>, PatchError> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let rest =
        path.strip_prefix('/').ok_or_else(|| PatchError::Malformed(format!("invalid path: {path}")))?;
    Ok(rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

fn find<'a>(target: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    target.pointer_mut(path)
}

fn parent<'a>(
    target: &'a mut Value,
    path: &str,
    operation: &str,
) -> Result<(&'a mut Value, String), PatchError> {
    let mut steps = steps(path)?;
    let last = steps.pop().ok_or_else(|| missing(operation, path))?;
    let above = &path[..path.rfind('/').unwrap_or_default()];
    let parent = find(target, above).ok_or_else(|| missing(operation, path))?;
    Ok((parent, last))
}

/// Refuses what would nest too deep at a path.
fn fits_below(path: &str, value: &Value) -> Result<(), PatchError> {
    if path.matches('/').count() + depth(value) > DEEPEST {
        return Err(PatchError::Unfit(format!("exceeded max depth {DEEPEST}")));
    }
    Ok(())
}

/// How many levels of objects and lists a value has.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        Value::Array(entries) => 1 + entries.iter().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    fits_below(path, &value)?;
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, last) = parent(target, path, "add")?;
    match parent {
        Value::Object(members) => {
            members.insert(last, value);
            Ok(())
        }
        Value::Array(entries) => {
            let index = if last == "-" { Some(entries.len()) } else { last.parse().ok() };
            match index.filter(|index| *index <= entries.len()) {
                Some(index) => entries.insert(index, value),
                None => {
                    return Err(PatchError::Unfit(format!(
                        "add operation does not apply: doc is missing path: {path:?}: invalid index referenced"
                    )));
                }
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(missing("add", path)),
    }
}

fn remove(target: &mut Value, path: &str) -> Result<Value, PatchError> {
    let (parent, last) = parent(target, path, "remove")?;
    match parent {
        Value::Object(members) => members.remove(&last).ok_or_else(|| missing("remove", path)),
        Value::Array(entries) => match last.parse::<usize>().ok().filter(|index| *index < entries.len()) {
            Some(index) => Ok(entries.remove(index)),
            None => Err(missing("remove", path)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(missing("remove", path)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patches_as_the_rfc_tabulates_them() {
        for (target, patch, result) in [
            (json!({ "a": "b" }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": "b" }), json!({ "b": "c" }), json!({ "a": "b", "b": "c" })),
            (json!({ "a": "b", "b": "c" }), json!({ "a": null }), json!({ "b": "c" })),
            (json!({ "a": [{ "b": "c" }] }), json!({ "a": [1] }), json!({ "a": [1] })),
            (
                json!({ "a": { "b": "c" } }),
                json!({ "a": { "b": "d", "c": null } }),
                json!({ "a": { "b": "d" } }),
            ),
            (json!([1, 2]), json!({ "a": "b", "c": null }), json!({ "a": "b" })),
            (json!({}), json!({ "a": { "bb": { "ccc": null } } }), json!({ "a": { "bb": {} } })),
        ] {
            let mut patched = target.clone();
            merge(&mut patched, &patch);
            assert_eq!(patched, result, "{target} + {patch}");
        }
    }

    #[test]
    fn json_patches_cannot_blow_an_object_up() {
        let doubling = json!({ "op": "copy", "from": "/a", "path": "/a/-" });
        let deeper = |steps: usize| json!({ "op": "add", "path": "/d".repeat(steps), "value": {} });
        let deepening = (1..=DEEPEST).map(deeper).collect::<Vec<_>>();
        for (operations, fits) in [
            (vec![doubling.clone(); 5], true),
            (vec![doubling; 40], false),
            (deepening[..DEEPEST - 1].to_vec(), true),
            (deepening, false),
            (vec![json!({ "op": "test", "path": "/a/0", "value": 1 }); MOST_OPERATIONS], true),
            (vec![json!({ "op": "test", "path": "/a/0", "value": 1 }); MOST_OPERATIONS + 1], false),
        ] {
            let patched = json_patch(&mut json!({ "a": [1] }), &operations.into());
            assert_eq!(patched.is_ok(), fits, "{patched:?}");
        }
    }

    #[test]
    fn json_patches_change_what_they_point_at_or_say_why_not() {
        let document = json!({ "a": { "b~/c": [1, 2] }, "d": 3 });
        for (operation, result) in [
            (
                json!({ "op": "add", "path": "/a/b~0~1c/1", "value": 9 }),
                Some(json!({ "a": { "b~/c": [1, 9, 2] }, "d": 3 })),
            ),
            (
                json!({ "op": "add", "path": "/a/b~0~1c/-", "value": 9 }),
                Some(json!({ "a": { "b~/c": [1, 2, 9] }, "d": 3 })),
            ),
            (json!({ "op": "remove", "path": "/a" }), Some(json!({ "d": 3 }))),
            (
                json!({ "op": "replace", "path": "/d", "value": null }),
                Some(json!({ "a": { "b~/c": [1, 2] }, "d": null })),
            ),
            (json!({ "op": "move", "from": "/d", "path": "/a" }), Some(json!({ "a": 3 }))),
            (
                json!({ "op": "copy", "from": "/d", "path": "/e" }),
                Some(json!({ "a": { "b~/c": [1, 2] }, "d": 3, "e": 3 })),
            ),
            (json!({ "op": "test", "path": "/d", "value": 3 }), Some(document.clone())),
            (json!({ "op": "test", "path": "/d", "value": 4 }), None),
            (json!({ "op": "remove", "path": "/x" }), None),
            (json!({ "op": "add", "path": "/x/y", "value": 1 }), None),
            (json!({ "op": "add", "path": "/a/b~0~1c/7", "value": 1 }), None),
            (json!({ "op": "jump", "path": "/a" }), None),
        ] {
            let mut patched = document.clone();
            let outcome = json_patch(&mut patched, &json!([operation]));
            assert_eq!(outcome.ok().map(|()| patched), result, "{operation}");
        }
    }

    #[test]
    fn strategic_patches_merge_the_lists_they_know() {
        let mut target = json!({
            "metadata": { "finalizers": ["a", "b"], "ownerReferences": [{ "uid": "1", "name": "x" }] },
            "data": { "k": "v", "l": "w" },
        });
        let patch = json!({
            "metadata": {
                "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b", "c"],
                "ownerReferences": [{ "uid": "2", "name": "y" }, { "uid": "1", "$patch": "delete" }],
            },
            "data": { "l": null },
        });
        strategic(&mut target, &patch).expect("a fitting patch");
        assert_eq!(target["metadata"]["finalizers"], json!(["b", "c"]));
        assert_eq!(target["metadata"]["ownerReferences"], json!([{ "uid": "2", "name": "y" }]));
        assert_eq!(target["data"], json!({ "k": "v" }));
    }
}
