//! The built-in resources, and the rules for each kind's objects: what is filled in and what is refused.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::{
    jsonpath::JsonPath,
    object,
    resource::{Resource, Rules},
    status::Cause,
    table::{Cell, Column},
};

/// The resources that are there without any definition.
pub(crate) fn built_in() -> Vec<Resource> {
    let one = |group: &str, version: &str, plural: &str, kind: &str, short: &[&str], rules: Rules| Resource {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        short_names: short.iter().map(|&name| name.to_owned()).collect(),
        categories: if group == "apiextensions.k8s.io" { vec!["api-extensions".into()] } else { Vec::new() },
        namespaced: !matches!(rules, Rules::Namespace | Rules::Definition),
        has_status: matches!(rules, Rules::Namespace | Rules::Definition),
        columns: columns(&rules),
        published: published(&rules),
        rules,
    };
    vec![
        one("", "v1", "namespaces", "Namespace", &["ns"], Rules::Namespace),
        one("", "v1", "secrets", "Secret", &[], Rules::Secret),
        one("", "v1", "configmaps", "ConfigMap", &["cm"], Rules::ConfigMap),
        one("", "v1", "events", "Event", &["ev"], Rules::Event),
        one("events.k8s.io", "v1", "events", "Event", &["ev"], Rules::NewEvent),
        one("coordination.k8s.io", "v1", "leases", "Lease", &[], Rules::Lease),
        one(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            &["crd", "crds"],
            Rules::Definition,
        ),
    ]
}

/// The columns that kubectl prints, after the name (`pkg/printers/internalversion/printers.go`).
fn columns(rules: &Rules) -> Vec<Column> {
    let path = |name: &str, path: &str| {
        let path = JsonPath::parse(path).unwrap_or_else(|error| unreachable!("{error}: it is a constant"));
        Column::new(name, "string", Cell::Path(path))
    };
    match rules {
        Rules::Namespace => vec![path("Status", ".status.phase"), Column::age()],
        Rules::Secret => vec![
            path("Type", ".type"),
            Column::new("Data", "string", Cell::Count(vec!["data"])),
            Column::age(),
        ],
        Rules::ConfigMap => {
            vec![Column::new("Data", "string", Cell::Count(vec!["data", "binaryData"])), Column::age()]
        }
        Rules::Event | Rules::NewEvent => vec![
            Column::new("Last Seen", "string", Cell::LastSeen),
            path("Type", ".type"),
            path("Reason", ".reason"),
            Column::new("Object", "string", Cell::EventObject),
            path("Subobject", ".involvedObject.fieldPath").wide(),
            path("Source", ".source.component").wide(),
            Column::new("Message", "string", Cell::TrimmedMessage),
            Column::new("First Seen", "string", Cell::FirstSeen).wide(),
            path("Count", ".count").wide(),
            Column::new("Name", "string", Cell::Name).wide(),
        ],
        Rules::Lease => vec![path("Holder", ".spec.holderIdentity"), Column::age()],
        Rules::Definition => vec![path("Created At", ".metadata.creationTimestamp")],
        Rules::Custom(_) => Vec::new(),
    }
}

/// What `kubectl explain` and `apply` are told of the built-in kinds: their top-level fields.
fn published(rules: &Rules) -> Value {
    let text = json!({ "type": "string" });
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let map = |inner: Value| json!({ "type": "object", "additionalProperties": inner });
    let bytes = json!({ "type": "string", "format": "byte" });
    let properties = match rules {
        Rules::Namespace => json!({ "spec": open, "status": open }),
        Rules::Secret => json!({
            "data": map(bytes), "stringData": map(text.clone()), "type": text, "immutable": { "type": "boolean" },
        }),
        Rules::ConfigMap => json!({
            "data": map(text.clone()), "binaryData": map(bytes), "immutable": { "type": "boolean" },
        }),
        Rules::Event => json!({
            "involvedObject": open, "related": open, "source": open, "series": open, "reason": text,
            "message": text, "type": text, "action": text, "count": { "type": "integer", "format": "int32" },
            "eventTime": text, "firstTimestamp": text, "lastTimestamp": text, "reportingComponent": text,
            "reportingInstance": text,
        }),
        Rules::NewEvent => json!({
            "regarding": open, "related": open, "deprecatedSource": open, "series": open, "reason": text,
            "note": text, "type": text, "action": text, "deprecatedCount": { "type": "integer", "format": "int32" },
            "eventTime": text, "deprecatedFirstTimestamp": text, "deprecatedLastTimestamp": text,
            "reportingController": text, "reportingInstance": text,
        }),
        Rules::Lease => json!({ "spec": open }),
        Rules::Definition => json!({ "spec": open, "status": open }),
        Rules::Custom(_) => return Value::Null,
    };
    json!({ "type": "object", "properties": properties })
}

impl Resource {
    /// Brings what a client sent into the form in which it is stored: other words, unknown fields, defaults. Returns
    /// the paths of the fields that were dropped.
    pub(crate) fn normalize(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        match &self.rules {
            Rules::Namespace => {
                let name = object::name(object).to_owned();
                let labels = object::metadata(object).entry("labels").or_insert_with(|| json!({}));
                object::as_members(labels).insert("kubernetes.io/metadata.name".into(), name.into());
                object::members(object, "spec").entry("finalizers").or_insert_with(|| json!(["kubernetes"]));
                object::members(object, "status").entry("phase").or_insert_with(|| "Active".into());
            }
            Rules::Secret => normalize_secret(object),
            Rules::ConfigMap | Rules::Lease => {}
            Rules::Event => {
                let members = object::as_members(object);
                for (key, value) in [
                    ("metadata", json!({})),
                    ("reportingComponent", json!("")),
                    ("reportingInstance", json!("")),
                ] {
                    members.entry(key).or_insert(value);
                }
            }
            Rules::NewEvent => *object = from_new_event(object),
            Rules::Definition => normalize_definition(object),
            Rules::Custom(schema) => {
                unknown = schema.prune(object);
                schema.fill_defaults(object);
            }
        }
        unknown.extend(drop_unknown_metadata(object));
        unknown
    }

    /// What is wrong with an object that is about to be stored; `old` is what it replaces.
    pub(crate) fn faults_of(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let names_are_free = matches!(self.rules, Rules::Event | Rules::NewEvent);
        let mut causes = metadata_faults(object, old, names_are_free);
        match &self.rules {
            Rules::Namespace | Rules::Lease => {}
            Rules::ConfigMap => immutable(object, old, &["data", "binaryData"], &mut causes),
            Rules::Secret => {
                for (key, value) in
                    object::at(object, &["data"]).and_then(Value::as_object).into_iter().flatten()
                {
                    let decoded = value.as_str().map(|text| base64::prelude::BASE64_STANDARD.decode(text));
                    if !matches!(decoded, Some(Ok(_))) {
                        // The value may be a password in plain text: it is not repeated.
                        causes.push(Cause::invalid(
                            format!("data[{key}]"),
                            &"<hidden>".into(),
                            "must be base64 encoded",
                        ));
                    }
                }
                if old.is_some_and(|old| old.get("type") != object.get("type")) {
                    causes.push(Cause::invalid(
                        "type",
                        object.get("type").unwrap_or(&Value::Null),
                        "field is immutable",
                    ));
                }
                immutable(object, old, &["data"], &mut causes);
            }
            Rules::Event | Rules::NewEvent => {
                let about = object::text(object, &["involvedObject", "namespace"]);
                let home = object::namespace(object);
                // Events about things without a namespace are kept in "default".
                if about != home && !(about.is_empty() && home == "default") {
                    causes.push(Cause::invalid(
                        "involvedObject.namespace",
                        &about.into(),
                        "does not match event.namespace",
                    ));
                }
            }
            Rules::Definition => causes.extend(definition_faults(object)),
            Rules::Custom(schema) => causes.extend(schema.validate(object)),
        }
        causes
    }
}

fn immutable(object: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return };
    for field in fields.iter().chain(["immutable"].iter()) {
        if old.get(*field) != object.get(*field) {
            causes.push(Cause::forbidden(*field, "field is immutable when `immutable` is set"));
        }
    }
}

fn normalize_secret(object: &mut Value) {
    let members = object::as_members(object);
    if let Some(Value::Object(plain)) = members.remove("stringData") {
        let data = object::as_members(members.entry("data").or_insert_with(|| json!({})));
        for (key, value) in plain {
            let encoded = value.as_str().map(|text| base64::prelude::BASE64_STANDARD.encode(text));
            data.insert(key, encoded.map_or(value, Value::String));
        }
    }
    if members.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        members.insert("type".into(), "Opaque".into());
    }
}

/// A definition is taken into use at once.
fn normalize_definition(object: &mut Value) {
    let names = object::at(object, &["spec", "names"]).cloned().unwrap_or_default();
    let kind = object::text(&names, &["kind"]).to_owned();
    let spec = object::members(object, "spec");
    spec.entry("conversion").or_insert_with(|| json!({ "strategy": "None" }));
    let accepted = object::as_members(spec.entry("names").or_insert_with(|| json!({})));
    accepted.entry("singular").or_insert_with(|| kind.to_lowercase().into());
    accepted.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    let accepted = Value::Object(accepted.clone());
    let stored: Vec<Value> = object::at(object, &["spec", "versions"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "reason": reason, "message": message });
    object::as_members(object).insert(
        "status".into(),
        json!({
            "acceptedNames": accepted,
            "storedVersions": stored,
            "conditions": [
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
        }),
    );
}

fn definition_faults(object: &Value) -> Vec<Cause> {
    let group = object::text(object, &["spec", "group"]);
    let plural = object::text(object, &["spec", "names", "plural"]);
    let mut causes = Vec::new();
    let name = object::name(object);
    if name != format!("{plural}.{group}") {
        let rule = format!("must be spec.names.plural+\".\"+spec.group: {:?}", format!("{plural}.{group}"));
        causes.push(Cause::invalid("metadata.name", &name.into(), rule));
    }
    let scope = object::at(object, &["spec", "scope"]).cloned().unwrap_or_default();
    let scopes = [json!("Cluster"), json!("Namespaced")];
    if !scopes.contains(&scope) {
        causes.push(Cause::not_supported("spec.scope", &scope, &scopes));
    }
    if let Err(error) = Resource::from_definition(object) {
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            reason = format!("{reason}: {cause}");
            source = cause.source();
        }
        causes.push(Cause::invalid("spec", &name.into(), format!("cannot be served: failed to {reason}")));
    }
    causes
}

/// `metav1.ObjectMeta` and nothing else.
const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

fn drop_unknown_metadata(object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    object::metadata(object).retain(|key, value| {
        // Go clients send what they leave out as null or as empty.
        let known = METADATA.contains(&key.as_str()) || key == "managedFields";
        if !known {
            unknown.push(format!("metadata.{key}"));
        }
        let empty = value.is_null()
            || value.as_object().is_some_and(Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty);
        known && !empty
    });
    unknown
}

/// What is wrong with an object's metadata. Events may have any name that fits into a path.
fn metadata_faults(object: &Value, old: Option<&Value>, names_are_free: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object::name(object);
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if object::text(object, &["kind"]) == "Event" {
        // Events are named after their reason, capitals and all: their names need only fit into a path.
        if name == "." || name == ".." || name.contains(['/', '%']) {
            causes.push(Cause::invalid(
                "metadata.name",
                &name.into(),
                "may not be '.' or '..' or contain '/' or '%'",
            ));
        }
    } else if names_are_free {
        if name == "." || name == ".." || name.contains(['/', '%']) {
            causes.push(Cause::invalid(
                "metadata.name",
                &name.into(),
                "may not be '.' or '..' or contain '/' or '%'",
            ));
        }
    } else if !is_subdomain(name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), SUBDOMAIN));
    }
    for map in ["labels", "annotations"] {
        for (key, value) in
            object::at(object, &["metadata", map]).and_then(Value::as_object).into_iter().flatten()
        {
            if !value.is_string() {
                causes.push(Cause::invalid(format!("metadata.{map}.{key}"), value, "must be a string"));
            } else if map == "labels" && !is_label_value(value.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid("metadata.labels", value, LABEL));
            }
        }
    }
    for finalizer in object::finalizers(object).into_iter().filter(|name| name.is_empty()) {
        causes.push(Cause::invalid("metadata.finalizers", &finalizer.into(), "name part must be non-empty"));
    }
    let references = object::at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    let references = references.map(Vec::as_slice).unwrap_or_default();
    for (index, reference) in references.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if object::text(reference, &[field]).is_empty() {
                let at = format!("metadata.ownerReferences[{index}].{field}");
                let rule =
                    if field == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                causes.push(Cause::invalid(at, &"".into(), rule));
            }
        }
    }
    if references.iter().filter(|r| r.get("controller") == Some(&Value::Bool(true))).count() > 1 {
        let rule = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid("metadata.ownerReferences", &references.to_vec().into(), rule));
    }
    if let Some(old) = old.filter(|old| object::is_deleting(old)) {
        let before = object::finalizers(old);
        let new: Vec<&str> =
            object::finalizers(object).into_iter().filter(|name| !before.contains(name)).collect();
        if !new.is_empty() {
            let rule = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                new.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", rule));
        }
    }
    causes
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_subdomain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|part| {
            part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|c| plain(c) || c == '-')
        })
}

fn is_label_value(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    value.len() <= 63
        && (value.is_empty()
            || value.starts_with(plain)
                && value.ends_with(plain)
                && value.chars().all(|c| plain(c) || matches!(c, '-' | '_' | '.')))
}

/// The fields of events that have other names in `events.k8s.io/v1` (core, new).
const EVENT_WORDS: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename(object: &Value, new_name: impl Fn(&str) -> String) -> Value {
    object.as_object().into_iter().flatten().map(|(key, value)| (new_name(key), value.clone())).collect()
}

/// A core event in the words of `events.k8s.io/v1`.
pub(crate) fn to_new_event(event: &Value) -> Value {
    rename(event, |key| {
        EVENT_WORDS.iter().find(|(core, _)| *core == key).map_or(key, |(_, new)| new).to_owned()
    })
}

fn from_new_event(event: &Value) -> Value {
    rename(event, |key| {
        EVENT_WORDS.iter().find(|(_, new)| *new == key).map_or(key, |(core, _)| core).to_owned()
    })
}
