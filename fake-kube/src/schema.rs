//! Structural schemas: what a CustomResourceDefinition says about its objects' fields.
//!
//! Three things are done with one, in this order, as the API server does them: unknown fields are pruned, defaults are
//! filled in, and the result is validated. See "Specifying a structural schema" in Kubernetes' documentation.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use crate::status::Cause;

/// One node of a structural schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    kind: Option<Kind>,
    nullable: bool,
    format: String,
    properties: BTreeMap<String, Self>,
    additional: Option<Box<Self>>,
    items: Option<Box<Self>>,
    required: Vec<String>,
    allowed: Vec<Value>,
    pattern: Option<Regex>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    default: Option<Value>,
    preserve_unknown: bool,
    int_or_string: bool,
    list_keys: Vec<String>,
    is_set: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// A schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("understand the schema at {path:?}: {reason}")]
pub(crate) struct BadSchema {
    /// Where in the schema.
    pub(crate) path: String,
    /// What is wrong.
    pub(crate) reason: String,
}

impl Schema {
    /// Reads an `openAPIV3Schema`.
    pub(crate) fn parse(raw: &Value) -> Result<Self, BadSchema> {
        Self::parse_at(raw, "")
    }

    fn parse_at(raw: &Value, path: &str) -> Result<Self, BadSchema> {
        let bad = |reason: String| BadSchema { path: path.to_owned(), reason };
        let number = |key: &str| raw.get(key).and_then(Value::as_u64);
        let flag = |key: &str| raw.get(key).and_then(Value::as_bool).unwrap_or_default();
        let kind = match raw.get("type").and_then(Value::as_str) {
            None => None,
            Some("object") => Some(Kind::Object),
            Some("array") => Some(Kind::Array),
            Some("string") => Some(Kind::String),
            Some("integer") => Some(Kind::Integer),
            Some("number") => Some(Kind::Number),
            Some("boolean") => Some(Kind::Boolean),
            Some(other) => return Err(bad(format!("unknown type {other:?}"))),
        };
        let pattern = match raw.get("pattern").and_then(Value::as_str) {
            None => None,
            Some(text) => Some(Regex::new(text).map_err(|error| bad(error.to_string()))?),
        };
        let mut properties = BTreeMap::new();
        for (name, inner) in raw.get("properties").and_then(Value::as_object).into_iter().flatten() {
            properties.insert(name.clone(), Self::parse_at(inner, &join(path, name))?);
        }
        let inner = |key: &str| -> Result<Option<Box<Self>>, BadSchema> {
            match raw.get(key) {
                Some(inner @ Value::Object(_)) => {
                    Ok(Some(Box::new(Self::parse_at(inner, &join(path, key))?)))
                }
                Some(Value::Bool(true)) => {
                    Ok(Some(Box::new(Self { preserve_unknown: true, ..Self::default() })))
                }
                Some(_) | None => Ok(None),
            }
        };
        let texts = |key: &str| -> Vec<String> {
            raw.get(key)
                .and_then(Value::as_array)
                .map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default()
        };
        let list_type = raw.get("x-kubernetes-list-type").and_then(Value::as_str);
        Ok(Self {
            kind,
            nullable: flag("nullable"),
            format: raw.get("format").and_then(Value::as_str).unwrap_or_default().to_owned(),
            properties,
            additional: inner("additionalProperties")?,
            items: inner("items")?,
            required: texts("required"),
            allowed: raw.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern,
            minimum: raw.get("minimum").and_then(Value::as_f64),
            maximum: raw.get("maximum").and_then(Value::as_f64),
            min_length: number("minLength"),
            max_length: number("maxLength"),
            min_items: number("minItems"),
            max_items: number("maxItems"),
            default: raw.get("default").cloned(),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list_keys: if list_type == Some("map") {
                texts("x-kubernetes-list-map-keys")
            } else {
                Vec::new()
            },
            is_set: list_type == Some("set"),
        })
    }

    /// The schema of one of an object's fields.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    /// The schema of a list's entries.
    pub(crate) fn entry(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    /// The fields by which the entries of a list are told apart; empty for lists that are one value as a whole.
    pub(crate) fn list_keys(&self) -> &[String] {
        &self.list_keys
    }

    /// Whether the list is a set of scalars.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set
    }

    /// Removes the fields that the schema does not know, and returns their paths. `apiVersion`, `kind` and `metadata`
    /// of the object itself stay.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut gone = Vec::new();
        self.prune_at(object, "", &mut gone);
        gone
    }

    fn prune_at(&self, value: &mut Value, path: &str, gone: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                members.retain(|name, inner| {
                    if path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                        return true;
                    }
                    let at = join(path, name);
                    match self.field(name) {
                        Some(schema) => schema.prune_at(inner, &at, gone),
                        None if self.preserve_unknown || self.int_or_string => {}
                        None => {
                            gone.push(at);
                            return false;
                        }
                    }
                    true
                });
            }
            Value::Array(entries) => {
                if let Some(schema) = self.entry() {
                    for (index, entry) in entries.iter_mut().enumerate() {
                        schema.prune_at(entry, &format!("{path}[{index}]"), gone);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Fills in defaults. A null where null is not allowed counts as absent.
    pub(crate) fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, inner| {
                    !inner.is_null()
                        || self.field(name).is_none_or(|schema| schema.nullable || schema.default.is_some())
                });
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default {
                        let absent = match members.get(name) {
                            None => true,
                            Some(found) => found.is_null() && !schema.nullable,
                        };
                        if absent {
                            members.insert(name.clone(), default.clone());
                        }
                    }
                }
                for (name, inner) in members.iter_mut() {
                    if let Some(schema) = self.field(name) {
                        schema.fill_defaults(inner);
                    }
                }
            }
            Value::Array(entries) => {
                if let Some(schema) = self.entry() {
                    entries.iter_mut().for_each(|entry| schema.fill_defaults(entry));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// What is wrong with an object; empty if nothing is.
    pub(crate) fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.validate_at(object, "", &mut causes);
        causes
    }

    fn validate_at(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        if value.is_null() && self.nullable {
            return;
        }
        if !self.fits_type(value) {
            let shown = if path.is_empty() { "<nil>" } else { path };
            causes.push(Cause::type_invalid(shown, type_name(value), self.type_word()));
            return;
        }
        if !self.allowed.is_empty() && !self.allowed.contains(value) {
            causes.push(Cause::not_supported(path, value, &self.allowed));
        }
        match value {
            Value::Object(members) => {
                for name in &self.required {
                    if !members.contains_key(name) {
                        causes.push(Cause::required(join(path, name), ""));
                    }
                }
                for (name, inner) in members {
                    if path.is_empty() && name == "metadata" {
                        continue;
                    }
                    if let Some(schema) = self.field(name) {
                        schema.validate_at(inner, &join(path, name), causes);
                    }
                }
            }
            Value::Array(entries) => self.validate_list(entries, path, causes),
            Value::String(text) => self.validate_text(text, value, path, causes),
            Value::Number(number) => {
                self.validate_number(number.as_f64().unwrap_or_default(), value, path, causes)
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn validate_list(&self, entries: &[Value], path: &str, causes: &mut Vec<Cause>) {
        if let Some(limit) = self.max_items.filter(|limit| entries.len() as u64 > *limit) {
            causes.push(Cause::too_many(path, entries.len(), limit));
        }
        if let Some(limit) = self.min_items.filter(|limit| (entries.len() as u64) < *limit) {
            let rule = format!("{path} in body should have at least {limit} items");
            causes.push(Cause::invalid(path, &entries.len().into(), rule));
        }
        let key = |entry: &Value| -> Value {
            if self.is_set {
                return entry.clone();
            }
            self.list_keys
                .iter()
                .map(|key| (key.clone(), entry.get(key).cloned().unwrap_or_default()))
                .collect()
        };
        let mut seen: Vec<Value> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let at = format!("{path}[{index}]");
            if self.is_set || !self.list_keys.is_empty() {
                let key = key(entry);
                if seen.contains(&key) {
                    causes.push(Cause::duplicate(&at, &key));
                } else {
                    seen.push(key);
                }
            }
            if let Some(schema) = self.entry() {
                schema.validate_at(entry, &at, causes);
            }
        }
    }

    fn validate_text(&self, text: &str, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let length = text.chars().count() as u64;
        if let Some(limit) = self.max_length.filter(|limit| length > *limit) {
            causes.push(Cause::too_long(path, limit));
        }
        if let Some(limit) = self.min_length.filter(|limit| length < *limit) {
            let rule = format!("{path} in body should be at least {limit} chars long");
            causes.push(Cause::invalid(path, value, rule));
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            causes.push(Cause::invalid(path, value, format!("{path} in body should match '{pattern}'")));
        }
        if self.format == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
            let rule = format!("{path} in body must be of type date-time: {value}");
            causes.push(Cause::invalid(path, value, rule));
        }
    }

    fn validate_number(&self, number: f64, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        if let Some(limit) = self.minimum.filter(|limit| number < *limit) {
            let rule = format!("{path} in body should be greater than or equal to {limit}");
            causes.push(Cause::invalid(path, value, rule));
        }
        if let Some(limit) = self.maximum.filter(|limit| number > *limit) {
            let rule = format!("{path} in body should be less than or equal to {limit}");
            causes.push(Cause::invalid(path, value, rule));
        }
    }

    fn fits_type(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_string() || is_integer(value);
        }
        match self.kind {
            None => true,
            Some(Kind::Object) => value.is_object(),
            Some(Kind::Array) => value.is_array(),
            Some(Kind::String) => value.is_string(),
            Some(Kind::Integer) => is_integer(value),
            Some(Kind::Number) => value.is_number(),
            Some(Kind::Boolean) => value.is_boolean(),
        }
    }

    fn type_word(&self) -> &'static str {
        match self.kind {
            None => "integer or string",
            Some(Kind::Object) => "object",
            Some(Kind::Array) => "array",
            Some(Kind::String) => "string",
            Some(Kind::Integer) => "integer",
            Some(Kind::Number) => "number",
            Some(Kind::Boolean) => "boolean",
        }
    }
}

/// JSON has one kind of number: 2.0 is an integer too, 2.5 is not.
fn is_integer(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::parse(&json!({
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "required": ["online"],
                    "properties": {
                        "online": { "type": "boolean" },
                        "mode": { "type": "string", "enum": ["a", "b"], "default": "a" },
                        "mac": { "type": "string", "pattern": "^[0-9]+$" },
                        "count": { "type": "integer", "minimum": 1 },
                        "when": { "type": "string", "format": "date-time", "nullable": true },
                        "names": { "type": "array", "maxItems": 1, "items": { "type": "string" } },
                        "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    },
                },
            },
        }))
        .expect("schema")
    }

    #[test]
    fn each_rule_is_reported_as_kubernetes_words_it() {
        for (spec, said) in [
            (json!({}), vec!["spec.online: Required value"]),
            (
                json!({ "online": "yes" }),
                vec![
                    "spec.online: Invalid value: \"string\": spec.online in body must be of type boolean: \"string\"",
                ],
            ),
            (
                json!({ "online": true, "mode": "c" }),
                vec!["spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\""],
            ),
            (
                json!({ "online": true, "mac": "x" }),
                vec!["spec.mac: Invalid value: \"x\": spec.mac in body should match '^[0-9]+$'"],
            ),
            (
                json!({ "online": true, "count": 0 }),
                vec!["spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"],
            ),
            (
                json!({ "online": true, "count": 1.5 }),
                vec![
                    "spec.count: Invalid value: \"number\": spec.count in body must be of type integer: \"number\"",
                ],
            ),
            (
                json!({ "online": true, "names": ["a", "b"] }),
                vec!["spec.names: Too many: 2: must have at most 1 items"],
            ),
            (json!({ "online": true, "when": null, "labels": { "a": "b" } }), vec![]),
            (
                json!({ "online": true, "labels": { "a": 1 } }),
                vec![
                    "spec.labels.a: Invalid value: \"integer\": spec.labels.a in body must be of type string: \"integer\"",
                ],
            ),
        ] {
            let causes = schema().validate(&json!({ "spec": spec }));
            let texts: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
            assert_eq!(texts, said, "{spec}");
        }
    }

    #[test]
    fn unknown_fields_are_pruned_and_defaults_filled_in() {
        let mut object = json!({
            "kind": "X", "metadata": { "anything": 1 }, "extra": 1,
            "spec": { "online": true, "typo": 1, "count": null, "mode": null, "when": null, "free": { "any": { "thing": 1 } }, "labels": { "x": "y" } },
        });
        assert_eq!(schema().prune(&mut object), ["extra", "spec.typo"]);
        schema().fill_defaults(&mut object);
        let wanted = json!({
            "kind": "X", "metadata": { "anything": 1 },
            "spec": { "online": true, "mode": "a", "when": null, "free": { "any": { "thing": 1 } }, "labels": { "x": "y" } },
        });
        assert_eq!(object, wanted);
    }
}
