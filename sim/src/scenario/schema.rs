//! The JSON Schema of scenarios, by which editors complete and check them.

use serde_json::{Map, Value, json};

/// The schema, with Ironic's settings taken from their defaults.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(super::raw::Scenario).to_value();
    let settings = serde_json::to_value(fake_ironic::settings::Settings::default()).unwrap_or_default();
    if let Some(ironic) = schema.pointer_mut("/properties/ironic") {
        let about = ironic.get("description").cloned();
        *ironic = like(&settings);
        if let (Some(about), Value::Object(ironic)) = (about, ironic) {
            ironic.insert("description".to_owned(), about);
        }
    }
    schema
}

/// The schema of values of the same kind, whose members are all optional and have these defaults.
fn like(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(_) => json!({ "type": "boolean", "default": value }),
        Value::Number(_) => json!({ "type": "number", "default": value }),
        Value::String(_) => json!({ "type": "string", "default": value }),
        Value::Array(_) => json!({ "type": "array", "default": value }),
        Value::Object(members) => {
            let properties: Map<_, _> =
                members.iter().map(|(key, value)| (key.clone(), like(value))).collect();
            json!({ "type": "object", "properties": properties })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_knows_every_key_and_ironics_settings() {
        let schema = schema();
        for (pointer, kind) in [
            ("/properties/about/type", "string"),
            ("/properties/ironic/properties/redfish/properties/connection_attempts/type", "number"),
            ("/$defs/Step/properties/at/description", "At this moment"),
            ("/$defs/Fault/properties/for/description", "How long"),
            ("/$defs/Expect/properties/history/description", "Hosts go through"),
        ] {
            let found = schema.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            assert!(found.starts_with(kind), "{pointer}: {found}");
        }
        // Editors mark unknown keys only then.
        assert_eq!(schema.pointer("/additionalProperties"), Some(&Value::Bool(false)));
    }
}
