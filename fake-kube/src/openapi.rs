//! OpenAPI documents, as far as `kubectl apply`, `edit` and `explain` read them.
//!
//! Version 3 for today's kubectl: it looks up the schema of a kind, and whether PATCH knows `fieldValidation` and
//! `dryRun`. Version 2 for old ones, which want it in protobuf.

pub(crate) mod proto;

use serde_json::{Map, Value, json};

use crate::{
    resource::{Registry, Resource},
    status::Failure,
};

/// `/openapi/v3`: where each group's document is.
pub(crate) fn v3_index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    let mut add = |path: String| {
        let url = format!("/openapi/v3/{path}");
        paths.insert(path, json!({ "serverRelativeURL": url }));
    };
    add("api/v1".into());
    for (group, versions) in registry.groups() {
        versions.iter().for_each(|version| add(format!("apis/{group}/{version}")));
    }
    json!({ "paths": paths })
}

/// `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn v3(registry: &Registry, group: &str, version: &str) -> Result<Value, Failure> {
    let served = registry.of(group, version);
    if served.is_empty() {
        return Err(Failure::no_such_path());
    }
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in &served {
        schemas.insert(definition_name(resource), definition(resource));
        paths.extend(operations(resource, |name, kind| {
            json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } })
        }));
    }
    schemas.insert(METADATA.into(), metadata_schema());
    Ok(json!({
        "openapi": "3.0.0", "info": { "title": "Kubernetes", "version": "v1.34.0" },
        "paths": paths, "components": { "schemas": point_at(schemas.into(), "#/components/schemas/") },
    }))
}

/// `/openapi/v2` as JSON.
pub(crate) fn v2(registry: &Registry) -> Value {
    let mut definitions = Map::new();
    let mut paths = Map::new();
    for resource in registry.all() {
        definitions.insert(definition_name(resource), definition(resource));
        paths.extend(operations(
            resource,
            |name, kind| json!({ "name": name, "in": "query", "type": kind, "uniqueItems": true }),
        ));
    }
    definitions.insert(METADATA.into(), metadata_schema());
    let mut definitions = point_at(definitions.into(), "#/definitions/");
    without_v3_words(&mut definitions);
    json!({
        "swagger": "2.0", "info": { "title": "Kubernetes", "version": "v1.34.0" }, "paths": paths,
        "definitions": definitions,
    })
}

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// References are written as `{"$ref": NAME}` and pointed at the right place afterwards.
fn point_at(mut value: Value, place: &str) -> Value {
    match &mut value {
        Value::Object(members) => {
            for (key, inner) in members.iter_mut() {
                match inner {
                    Value::String(name) if key == "$ref" => *name = format!("{place}{name}"),
                    _ => *inner = point_at(std::mem::take(inner), place),
                }
            }
        }
        Value::Array(entries) => {
            entries.iter_mut().for_each(|entry| *entry = point_at(std::mem::take(entry), place));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

/// What version 2 does not know: `nullable`; and defaults and rules that clients of it check wrongly.
fn without_v3_words(value: &mut Value) {
    if let Value::Object(members) = value {
        // Only in schemas: a property may have such a name.
        if members.get("nullable").is_some_and(Value::is_boolean) {
            members.remove("nullable");
            // "May be null" can only be said by not saying what it is.
            members.remove("type");
        }
        members.values_mut().for_each(without_v3_words);
    } else if let Value::Array(entries) = value {
        entries.iter_mut().for_each(without_v3_words);
    }
}

/// The group reversed, then version and kind: `io.metal3.v1alpha1.BareMetalHost`.
fn definition_name(resource: &Resource) -> String {
    let group: Vec<&str> = match resource.group.as_str() {
        "" => vec!["core", "api", "k8s", "io"],
        group => group.split('.').collect(),
    };
    let reversed: Vec<&str> = group.into_iter().rev().collect();
    format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
}

fn kind_of(resource: &Resource) -> Value {
    json!({ "group": resource.group, "version": resource.version, "kind": resource.kind })
}

fn definition(resource: &Resource) -> Value {
    let mut schema = resource.published.clone();
    let properties = crate::object::members(&mut schema, "properties");
    properties.insert("apiVersion".into(), json!({ "type": "string", "description": VERSION_TEXT }));
    properties.insert("kind".into(), json!({ "type": "string", "description": KIND_TEXT }));
    properties
        .insert("metadata".into(), json!({ "$ref": METADATA, "description": "Standard object's metadata." }));
    schema["x-kubernetes-group-version-kind"] = json!([kind_of(resource)]);
    schema
}

const VERSION_TEXT: &str = "The versioned schema of this representation of an object.";
const KIND_TEXT: &str = "The REST resource that this object represents, in CamelCase.";

fn metadata_schema() -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let time = json!({ "type": "string", "format": "date-time" });
    let number = json!({ "type": "integer", "format": "int64" });
    json!({
        "type": "object",
        "description": "What every object has, whatever its kind.",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
            "resourceVersion": text, "generation": number, "creationTimestamp": time, "deletionTimestamp": time,
            "deletionGracePeriodSeconds": number, "labels": texts, "annotations": texts,
            "finalizers": { "type": "array", "items": text, "x-kubernetes-patch-strategy": "merge" },
            "ownerReferences": {
                "type": "array", "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge",
                "items": {
                    "type": "object",
                    "properties": {
                        "apiVersion": text, "kind": text, "name": text, "uid": text,
                        "controller": { "type": "boolean" }, "blockOwnerDeletion": { "type": "boolean" },
                    },
                },
            },
            "managedFields": { "type": "array", "items": { "type": "object" } },
        },
    })
}

/// The PATCH operation of a resource, from which kubectl learns what the server can do.
fn operations(resource: &Resource, parameter: impl Fn(&str, &str) -> Value) -> Map<String, Value> {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let path = format!("{root}/{}{scope}/{}/{{name}}", resource.api_version(), resource.plural);
    let query = |name: &str| parameter(name, "string");
    let operation = json!({
        "patch": {
            "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": kind_of(resource),
            "parameters": [query("dryRun"), query("fieldManager"), query("fieldValidation"), parameter("force", "boolean")],
            "responses": { "200": { "description": "OK" } },
        },
    });
    Map::from_iter([(path, operation)])
}
