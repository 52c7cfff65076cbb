//! Changes to a node, as a JSON patch that holds only what differs.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value};

/// What is done to a field. Ironic's `add` also replaces.
#[derive(Clone, PartialEq)]
pub enum Op {
    /// Sets it.
    Add(Value),
    /// Takes it away.
    Remove,
}

/// One change of a field.
#[derive(Clone, PartialEq)]
pub struct PatchOp {
    /// The field, e.g. `/driver_info/deploy_kernel`.
    pub path: String,
    /// What is done to it.
    pub op: Op,
}

impl PatchOp {
    /// Sets a key of a whole section that this change sets.
    pub fn put(&mut self, key: &str, value: Value) {
        if let Op::Add(Value::Object(section)) = &mut self.op {
            section.insert(key.to_owned(), value);
        }
    }
}

impl fmt::Debug for PatchOp {
    /// Shows no value of `driver_info`: it may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.op {
            Op::Remove => write!(f, "remove {}", self.path),
            Op::Add(_) if self.path.starts_with("/driver_info") => write!(f, "add {} …", self.path),
            Op::Add(value) => write!(f, "add {} {value}", self.path),
        }
    }
}

impl Serialize for PatchOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.op {
            Op::Add(value) => {
                map.serialize_entry("op", "add")?;
                map.serialize_entry("path", &self.path)?;
                map.serialize_entry("value", value)?;
            }
            Op::Remove => {
                map.serialize_entry("op", "remove")?;
                map.serialize_entry("path", &self.path)?;
            }
        }
        map.end()
    }
}

/// A JSON patch in the making. An equal value adds nothing to it, and neither does removing what is not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Patch(pub Vec<PatchOp>);

impl Patch {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wants a field to hold `wanted`, or to be absent.
    pub fn want(&mut self, path: impl Into<String>, current: Option<&Value>, wanted: Option<Value>) {
        let op = match (current.filter(|value| !value.is_null()), wanted) {
            (Some(current), Some(wanted)) if *current == wanted => return,
            (None, None) => return,
            (_, Some(wanted)) => Op::Add(wanted),
            (Some(_), None) => Op::Remove,
        };
        let path = path.into();
        // Two wishes for one field: the later counts.
        self.0.retain(|earlier| earlier.path != path);
        self.0.push(PatchOp { path, op });
    }

    /// Wants a key of a section such as `instance_info` to hold `wanted`, or to be absent.
    pub fn want_in(&mut self, section: &str, current: &Map<String, Value>, key: &str, wanted: Option<Value>) {
        self.want(format!("/{section}/{key}"), current.get(key), wanted);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_said() {
        let Value::Object(section) = json!({"same": 1, "other": 2, "extra": 3, "unset": null}) else {
            unreachable!("it was written as an object")
        };
        let mut patch = Patch::default();
        for (key, wanted) in
            [("same", Some(1)), ("other", Some(5)), ("new", Some(6)), ("extra", None), ("unset", None)]
        {
            patch.want_in("s", &section, key, wanted.map(Value::from));
        }
        assert_eq!(
            serde_json::to_value(&patch).expect("a patch is JSON"),
            json!([
                {"op": "add", "path": "/s/other", "value": 5},
                {"op": "add", "path": "/s/new", "value": 6},
                {"op": "remove", "path": "/s/extra"},
            ])
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let mut patch = Patch::default();
        patch.want("/driver_info", None, Some(json!({"redfish_password": "hunter2"})));
        assert!(!format!("{patch:?}").contains("hunter2"), "{patch:?}");
    }
}
