//! Writing: create, update, patch, delete.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Call, Cluster, Reply, check_identity, read};
use crate::{
    apply, object,
    patch::{self, PatchError},
    protobuf,
    resource::Resource,
    status::Failure,
    store::{DeleteOptions, Key, Moment, Part, Propagation},
};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

impl Cluster {
    pub(super) fn create(
        &mut self,
        resource: &Resource,
        call: &Call,
        moment: Moment,
    ) -> Result<Reply, Failure> {
        if resource.namespaced && call.target.namespace.is_empty() {
            return Err(Failure::bad_request("an empty namespace may not be set during creation"));
        }
        let mut new = read_object(resource, call)?;
        check_identity(call, &mut new)?;
        let warnings = normalize(resource, call, &mut new)?;
        let stored = self.store.create(resource, new, moment)?;
        Ok(Reply::Object { code: 201, value: read::one(resource, &stored, call, moment), warnings })
    }

    pub(super) fn update(
        &mut self,
        resource: &Resource,
        call: &Call,
        moment: Moment,
    ) -> Result<Reply, Failure> {
        let mut new = read_object(resource, call)?;
        check_identity(call, &mut new)?;
        let warnings = normalize(resource, call, &mut new)?;
        let key = Key::of(resource, &call.target.namespace, &call.target.name);
        if self.store.get(&key).is_none() && resource.creates_on_update() {
            object::metadata(&mut new).remove("resourceVersion");
            let stored = self.store.create(resource, new, moment)?;
            return Ok(Reply::Object {
                code: 201,
                value: read::one(resource, &stored, call, moment),
                warnings,
            });
        }
        self.replace(resource, &key, new, warnings, call, moment)
    }

    pub(super) fn patch(
        &mut self,
        resource: &Resource,
        call: &Call,
        moment: Moment,
    ) -> Result<Reply, Failure> {
        let key = Key::of(resource, &call.target.namespace, &call.target.name);
        let accepted: &[&str] = if resource.is_custom() {
            &[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
        } else {
            &[JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
        };
        if !accepted.contains(&call.content_type.as_str()) {
            return Err(Failure::unsupported_media_type(accepted));
        }
        let body: Value = serde_json::from_slice(&call.body)
            .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
        let current = self.store.get(&key).map(|stored| resource.show(stored));
        if call.content_type == APPLY_PATCH {
            return self.apply(resource, &key, current, body, call, moment);
        }
        let mut patched = current.ok_or_else(|| Failure::not_found(resource.about(&key.name)))?;
        match call.content_type.as_str() {
            MERGE_PATCH if !body.is_object() => {
                return Err(Failure::bad_request("error decoding patch: it must be an object"));
            }
            MERGE_PATCH => patch::merge(&mut patched, &body),
            STRATEGIC_PATCH => patch::strategic(&mut patched, &body).map_err(|e| unfit(&e))?,
            _ => patch::json_patch(&mut patched, &body).map_err(|e| unfit(&e))?,
        }
        check_kind(resource, &patched)?;
        check_identity(call, &mut patched)?;
        let warnings = normalize(resource, call, &mut patched)?;
        self.replace(resource, &key, patched, warnings, call, moment)
    }

    /// Server-side apply.
    fn apply(
        &mut self,
        resource: &Resource,
        key: &Key,
        current: Option<Value>,
        mut body: Value,
        call: &Call,
        moment: Moment,
    ) -> Result<Reply, Failure> {
        let query = &call.query;
        if query.field_manager.is_empty() {
            let cause = crate::status::Cause::required("fieldManager", "is required for apply patch");
            let about = crate::status::About { group: "meta.k8s.io", kind: "PatchOptions", name: "" };
            return Err(Failure::invalid(about, &[cause]));
        }
        check_kind(resource, &body)?;
        check_identity(call, &mut body)?;
        if object::at(&body, &["metadata", "managedFields"])
            .is_some_and(|v| v.as_array().is_none_or(|l| !l.is_empty()))
        {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        let manager = apply::Manager {
            name: &query.field_manager,
            force: query.force,
            subresource: &call.target.subresource,
            now: moment.now,
        };
        let existed = current.is_some();
        let mut new = apply::apply(resource, current, &body, manager)?;
        let warnings = normalize(resource, call, &mut new)?;
        if existed {
            return self.replace(resource, key, new, warnings, call, moment);
        }
        if !call.target.subresource.is_empty() {
            return Err(Failure::not_found(resource.about(&key.name)));
        }
        let stored = self.store.create(resource, new, moment)?;
        Ok(Reply::Object { code: 201, value: read::one(resource, &stored, call, moment), warnings })
    }

    /// Puts an object, or its status, in the place of what is stored.
    fn replace(
        &mut self,
        resource: &Resource,
        key: &Key,
        new: Value,
        warnings: Vec<String>,
        call: &Call,
        moment: Moment,
    ) -> Result<Reply, Failure> {
        let part = if call.target.subresource == "status" { Part::Status } else { Part::Main };
        let stored = self.store.update(resource, key, part, new, moment)?;
        Ok(Reply::Object { code: 200, value: read::one(resource, &stored, call, moment), warnings })
    }

    pub(super) fn delete(
        &mut self,
        resource: &Resource,
        call: &Call,
        moment: Moment,
    ) -> Result<Reply, Failure> {
        let options = delete_options(call)?;
        let key = Key::of(resource, &call.target.namespace, &call.target.name);
        if self.store.get(&key).is_none() {
            return Err(Failure::not_found(resource.about(&key.name)));
        }
        let (object, gone) = self.store.delete(&key, &options, moment)?;
        if !gone {
            return Ok(Reply::ok(read::one(resource, &object, call, moment)));
        }
        let mut details = json!({ "name": key.name, "kind": resource.plural, "uid": object::uid(&object) });
        if !resource.group.is_empty() {
            details["group"] = resource.group.clone().into();
        }
        Ok(Reply::ok(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        })))
    }

    pub(super) fn delete_collection(
        &mut self,
        resource: &Arc<Resource>,
        call: &Call,
        moment: Moment,
    ) -> Result<Reply, Failure> {
        let options = delete_options(call)?;
        let selector = read::selector(resource, call)?;
        let keys: Vec<Key> = self
            .store
            .list(&resource.stored_as(), &call.target.namespace)
            .filter(|(_, object)| selector.matches(object))
            .map(|(key, _)| key.clone())
            .collect();
        let mut deleted = Vec::new();
        for key in keys {
            // One that went along with another is gone by now.
            if self.store.get(&key).is_some() {
                deleted.push(self.store.delete(&key, &options, moment)?.0);
            }
        }
        let page: Vec<&Value> = deleted.iter().map(|object| &**object).collect();
        let metadata = json!({ "resourceVersion": self.store.revision().to_string() });
        Ok(Reply::ok(read::many(resource, &page, metadata, call, moment)))
    }
}

fn unfit(error: &PatchError) -> Failure {
    match error {
        PatchError::Malformed(why) => Failure::bad_request(why.clone()),
        PatchError::TooLarge(why) => Failure::too_large(why),
        PatchError::Unfit(why) => {
            tracing::debug!(why, "a patch does not fit");
            Failure::unfit_patch()
        }
    }
}

/// Reads the object in a body.
fn read_object(resource: &Resource, call: &Call) -> Result<Value, Failure> {
    let object: Value = match call.content_type.as_str() {
        // Clients that say nothing send JSON.
        JSON | "" => serde_json::from_slice(&call.body).map_err(|error| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {error}",
                resource.kind
            ))
        })?,
        PROTOBUF if !resource.is_custom() => protobuf::decode(&call.body).map_err(|error| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {error}",
                resource.kind
            ))
        })?,
        _ if resource.is_custom() => return Err(Failure::unsupported_media_type(&[JSON])),
        _ => return Err(Failure::unsupported_media_type(&[JSON, PROTOBUF])),
    };
    check_kind(resource, &object)?;
    Ok(object)
}

fn check_kind(resource: &Resource, object: &Value) -> Result<(), Failure> {
    if !object.is_object()
        || object.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null())
    {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): it and its metadata must be objects",
            resource.kind
        )));
    }
    let (kind, version) = (object::text(object, &["kind"]), object::text(object, &["apiVersion"]));
    if (!kind.is_empty() || resource.is_custom()) && kind != resource.kind {
        return Err(Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for this resource",
            resource.kind
        )));
    }
    if (!version.is_empty() || resource.is_custom()) && version != resource.api_version() {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    Ok(())
}

/// Brings an object into its stored form. Returns warnings about unknown fields, unless they are ignored or refused.
fn normalize(resource: &Resource, call: &Call, object: &mut Value) -> Result<Vec<String>, Failure> {
    resource.stamp(object);
    let unknown: Vec<String> =
        resource.normalize(object).into_iter().map(|field| format!("unknown field {field:?}")).collect();
    // Events and the like are stored in one version.
    if resource.stored_as() == "events" {
        let members = object::as_members(object);
        members.insert("apiVersion".into(), "v1".into());
    }
    match call.query.field_validation.as_str() {
        "Ignore" => Ok(Vec::new()),
        "Strict" if !unknown.is_empty() => Err(Failure::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            unknown.join(", ")
        ))),
        _ => Ok(unknown),
    }
}

fn delete_options(call: &Call) -> Result<DeleteOptions, Failure> {
    let body: Value = match call.content_type.as_str() {
        _ if call.body.is_empty() => Value::Null,
        PROTOBUF => protobuf::decode(&call.body).map_err(|error| Failure::bad_request(error.to_string()))?,
        _ => serde_json::from_slice(&call.body).map_err(|error| Failure::bad_request(error.to_string()))?,
    };
    let precondition = |key: &str| match object::text(&body, &["preconditions", key]) {
        "" => None,
        found => Some(found.to_owned()),
    };
    let asked = match object::text(&body, &["propagationPolicy"]) {
        "" => call.query.propagation.as_str(),
        found => found,
    };
    let orphan = body.get("orphanDependents").and_then(Value::as_bool).or(call.query.orphan);
    let propagation = match (asked, orphan) {
        ("", None | Some(false)) | ("Background", _) => Propagation::Background,
        ("", Some(true)) | ("Orphan", _) => Propagation::Orphan,
        ("Foreground", _) => Propagation::Foreground,
        (other, _) => {
            let allowed = [json!("Foreground"), json!("Background"), json!("Orphan")];
            let cause = crate::status::Cause::not_supported("propagationPolicy", &other.into(), &allowed);
            let about = crate::status::About { group: "meta.k8s.io", kind: "DeleteOptions", name: "" };
            return Err(Failure::invalid(about, &[cause]));
        }
    };
    Ok(DeleteOptions { uid: precondition("uid"), revision: precondition("resourceVersion"), propagation })
}
