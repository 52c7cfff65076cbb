//! What is noted of each change.

use serde_json::{Value, json};

use crate::{object, store::Change};

/// The subject and the particulars of a change. Never what is in a Secret.
pub(crate) fn entry(change: &Change) -> (String, Value) {
    let key = &change.key;
    let plural = key.resource.split('.').next().unwrap_or_default();
    let subject = if key.namespace.is_empty() {
        format!("{plural}/{}", key.name)
    } else {
        format!("{plural}/{}/{}", key.namespace, key.name)
    };
    let object = &*change.object;
    let mut data = json!({
        "event": change.happening.word(),
        "resourceVersion": change.revision,
        "deleting": object::is_deleting(object),
    });
    let mut put = |name: &str, value: Option<&Value>| {
        if let Some(value) = value {
            data[name] = value.clone();
        }
    };
    match key.resource.as_str() {
        "baremetalhosts.metal3.io" => {
            put("state", object::at(object, &["status", "provisioning", "state"]));
            for field in ["operationalStatus", "errorType", "errorMessage", "errorCount", "poweredOn"] {
                put(field, object::at(object, &["status", field]));
            }
            put("online", object::at(object, &["spec", "online"]));
            put("consumer", object::at(object, &["spec", "consumerRef", "name"]));
            put("image", object::at(object, &["spec", "image", "url"]));
            put("customDeploy", object::at(object, &["spec", "customDeploy", "method"]));
            put("externallyProvisioned", object::at(object, &["spec", "externallyProvisioned"]));
        }
        "events" => {
            for field in ["reason", "message", "type", "count"] {
                put(field, object.get(field));
            }
            put("about", object::at(object, &["involvedObject", "name"]));
        }
        _ => {}
    }
    (subject, data)
}
