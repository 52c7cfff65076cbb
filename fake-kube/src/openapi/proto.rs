//! The OpenAPI v2 document as protobuf, which kubectl before 1.27 asks for and nothing else.
//!
//! Field numbers as in gnostic's `OpenAPIv2.proto`. Vendor extensions are YAML texts there; JSON is YAML.

use serde_json::Value;

/// Encodes a document made by [`super::v2`].
pub(crate) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, document.get("swagger"));
    let mut info = Message::default();
    info.text(1, document.pointer("/info/title"));
    info.text(2, document.pointer("/info/version"));
    out.message(2, &info);
    let mut paths = Message::default();
    for (path, item) in members(document.get("paths")) {
        let mut value = Message::default();
        if let Some(patch) = item.get("patch") {
            value.message(8, &operation(patch));
        }
        paths.message(2, &named(path, &value));
    }
    out.message(8, &paths);
    out.message(9, &schemas(document.get("definitions")));
    out.0
}

/// An operation: its parameters, responses and extensions.
fn operation(raw: &Value) -> Message {
    let mut out = Message::default();
    for parameter in raw.get("parameters").and_then(Value::as_array).into_iter().flatten() {
        // ParametersItem.parameter . Parameter.non_body_parameter . NonBodyParameter.query_parameter_sub_schema
        let mut query = Message::default();
        query.text(2, parameter.get("in"));
        query.text(4, parameter.get("name"));
        query.text(6, parameter.get("type"));
        out.message(8, &wrap(1, &wrap(2, &wrap(3, &query))));
    }
    let mut responses = Message::default();
    for (code, response) in members(raw.get("responses")) {
        let mut value = Message::default();
        value.text(1, response.get("description"));
        responses.message(1, &named(code, &wrap(1, &value)));
    }
    out.message(9, &responses);
    extensions(raw, 13, &mut out);
    out
}

/// A list of schemas by name: `Definitions` and `Properties` look the same.
fn schemas(raw: Option<&Value>) -> Message {
    let mut out = Message::default();
    for (name, raw) in members(raw) {
        out.message(1, &named(name, &schema(raw)));
    }
    out
}

fn schema(raw: &Value) -> Message {
    let mut out = Message::default();
    for (number, key) in [(1, "$ref"), (2, "format"), (4, "description"), (13, "pattern")] {
        out.text(number, raw.get(key));
    }
    for required in raw.get("required").and_then(Value::as_array).into_iter().flatten() {
        out.text(19, Some(required));
    }
    for allowed in raw.get("enum").and_then(Value::as_array).into_iter().flatten() {
        out.message(20, &any(allowed));
    }
    match raw.get("additionalProperties") {
        Some(inner @ Value::Object(_)) => out.message(21, &wrap(1, &schema(inner))),
        Some(Value::Bool(true)) => {
            let mut item = Message::default();
            item.number(2, 1);
            out.message(21, &item);
        }
        Some(_) | None => {}
    }
    if let Some(kind) = raw.get("type") {
        let mut item = Message::default();
        item.text(1, Some(kind));
        out.message(22, &item);
    }
    if let Some(items) = raw.get("items") {
        out.message(23, &wrap(1, &schema(items)));
    }
    if raw.get("properties").is_some() {
        out.message(25, &schemas(raw.get("properties")));
    }
    extensions(raw, 31, &mut out);
    out
}

fn extensions(raw: &Value, number: u64, out: &mut Message) {
    for (key, value) in members(Some(raw)).filter(|(key, _)| key.starts_with("x-")) {
        out.message(number, &named(key, &any(value)));
    }
}

/// `Any`: its `yaml` is what readers use.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(2, Some(&Value::String(value.to_string())));
    out
}

/// `NamedX`: a name and a value.
fn named(name: &str, value: &Message) -> Message {
    let mut out = Message::default();
    out.bytes(1, name.as_bytes());
    out.message(2, value);
    out
}

fn wrap(number: u64, inner: &Message) -> Message {
    let mut out = Message::default();
    out.message(number, inner);
    out
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// A protobuf message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or_default());
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Writes a text; what is none is left out.
    fn text(&mut self, field: u64, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: u64, inner: &Self) {
        self.bytes(field, &inner.0);
    }
}
