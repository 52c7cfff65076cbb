//! Discovery: which groups, versions and resources there are, in the old form and in the aggregated one.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::{
    request::DiscoveryVersion,
    resource::{Registry, Resource, VERBS},
    status::Failure,
};

/// The version that the server says it is. kubectl compares it with its own only for `kubectl version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

/// `/api`.
pub(crate) fn core_versions(address: IpAddr, port: u16) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            { "clientCIDR": "0.0.0.0/0", "serverAddress": format!("{address}:{port}") },
        ],
    })
}

/// `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        registry.groups().iter().map(|(name, versions)| group_entry(name, versions)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/GROUP`.
pub(crate) fn group(registry: &Registry, name: &str) -> Result<Value, Failure> {
    let versions = registry.groups().remove(name).ok_or_else(Failure::no_such_path)?;
    let mut entry = group_entry(name, &versions);
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Ok(entry)
}

fn group_entry(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    json!({ "name": name, "preferredVersion": versions.first(), "versions": versions })
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Result<Value, Failure> {
    let served = registry.of(group, version);
    let Some(first) = served.first() else { return Err(Failure::no_such_path()) };
    let mut list = Vec::new();
    for resource in &served {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": VERBS,
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        list.push(entry);
        if resource.has_status {
            list.push(json!({
                "name": format!("{}/status", resource.plural), "singularName": "", "kind": resource.kind,
                "namespaced": resource.namespaced, "verbs": STATUS_VERBS,
            }));
        }
    }
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": first.api_version(), "resources": list,
    }))
}

const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// `/api` (core) or `/apis` (all others) with everything below them.
pub(crate) fn aggregated(registry: &Registry, core: bool, version: DiscoveryVersion) -> Value {
    let kind = |resource: &Resource| json!({ "group": resource.group, "version": resource.version, "kind": resource.kind });
    let entry = |resource: &Resource| {
        let mut entry = json!({
            "resource": resource.plural, "responseKind": kind(resource),
            "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": resource.singular, "verbs": VERBS,
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        if resource.has_status {
            entry["subresources"] =
                json!([{ "subresource": "status", "responseKind": kind(resource), "verbs": STATUS_VERBS }]);
        }
        entry
    };
    let versions = |group: &str, versions: &[&str]| -> Vec<Value> {
        versions
            .iter()
            .map(|version| {
                let resources: Vec<Value> =
                    registry.of(group, version).into_iter().map(|r| entry(r)).collect();
                json!({ "version": version, "freshness": "Current", "resources": resources })
            })
            .collect()
    };
    let items: Vec<Value> = if core {
        vec![json!({ "metadata": {}, "versions": versions("", &["v1"]) })]
    } else {
        let groups = registry.groups();
        groups
            .iter()
            .map(|(name, v)| json!({ "metadata": { "name": name }, "versions": versions(name, v) }))
            .collect()
    };
    let version = match version {
        DiscoveryVersion::V2 => "v2",
        DiscoveryVersion::V2Beta1 => "v2beta1",
    };
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {},
        "items": items,
    })
}
