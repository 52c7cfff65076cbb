//! Reading requests: paths, queries, accepted media types.

use std::time::Duration;

use http::Method;

use crate::table::Include;

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Plural.
    pub(crate) resource: String,
    /// Empty for all namespaces and for resources without.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    /// E.g. `status`; empty for the object itself.
    pub(crate) subresource: String,
}

impl Target {
    /// Reads a path below `/api/v1` or `/apis/GROUP/VERSION`; `None` if it names no resource.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/').map(decode);
        let (group, version) = match parts.next()?.as_str() {
            "api" => (String::new(), parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let rest: Vec<String> = parts.collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        // A namespace's own subresources look like resources in it.
        let (namespace, rest) = match rest[..] {
            ["namespaces", _, "status" | "finalize"] => ("", &rest[..]),
            ["namespaces", namespace, _, ..] => (namespace, &rest[2..]),
            _ => ("", &rest[..]),
        };
        let (resource, name, subresource) = match *rest {
            [resource] => (resource, "", ""),
            [resource, name] => (resource, name, ""),
            [resource, name, subresource] => (resource, name, subresource),
            _ => return None,
        };
        Some(Self {
            group,
            version,
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Add an object.
    Create,
    /// Replace one.
    Update,
    /// Change parts of one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

impl Verb {
    /// What a method means for a target; `None` if it is not allowed there.
    pub(crate) fn of(method: &Method, target: &Target, query: &Query) -> Option<Self> {
        let one = !target.name.is_empty();
        match *method {
            Method::GET if query.watch => Some(Self::Watch),
            Method::GET if one => Some(Self::Get),
            Method::GET => Some(Self::List),
            Method::POST if !one => Some(Self::Create),
            Method::PUT if one => Some(Self::Update),
            Method::PATCH if one => Some(Self::Patch),
            Method::DELETE if one => Some(Self::Delete),
            Method::DELETE => Some(Self::DeleteCollection),
            _ => None,
        }
    }

    /// Whether it changes anything.
    pub fn writes(self) -> bool {
        match self {
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection => true,
            Self::Get | Self::List | Self::Watch => false,
        }
    }
}

/// The parameters of a request that are understood here; others are ignored, as Kubernetes does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) limit: usize,
    pub(crate) continues: String,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_validation: String,
    pub(crate) field_manager: String,
    pub(crate) force: bool,
    pub(crate) include: Include,
    pub(crate) propagation: String,
    pub(crate) orphan: Option<bool>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(&value.replace('+', " "));
            let truth = matches!(value.as_str(), "true" | "1" | "");
            match key {
                "watch" => query.watch = truth,
                "labelSelector" => query.label_selector = value,
                "fieldSelector" => query.field_selector = value,
                "resourceVersion" => query.resource_version = value,
                "resourceVersionMatch" => query.resource_version_match = value,
                "limit" => query.limit = value.parse().unwrap_or_default(),
                "continue" => query.continues = value,
                "allowWatchBookmarks" => query.bookmarks = truth,
                "sendInitialEvents" => query.initial_events = Some(truth),
                "timeoutSeconds" => {
                    query.timeout = value.parse().ok().filter(|s| *s > 0).map(Duration::from_secs);
                }
                "dryRun" => query.dry_run.push(value),
                "fieldValidation" => query.field_validation = value,
                "fieldManager" => query.field_manager = value,
                "force" => query.force = truth,
                "propagationPolicy" => query.propagation = value,
                "orphanDependents" => query.orphan = Some(truth),
                "includeObject" => {
                    query.include = match value.as_str() {
                        "None" => Include::Nothing,
                        "Object" => Include::Object,
                        _ => Include::Metadata,
                    };
                }
                _ => {}
            }
        }
        query
    }
}

/// In which form a client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Plain,
    /// As `kubectl get` prints them.
    Table,
    /// Their metadata alone.
    Partial,
    /// All discovery in one document; the version of its format.
    Discovery(DiscoveryVersion),
    /// The protobuf form of the OpenAPI v2 document, which old kubectl reads.
    OpenApiProto,
}

/// The two versions of aggregated discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryVersion {
    V2,
    V2Beta1,
}

/// The forms that an `Accept` header allows, best first; those that are not served here are left out.
pub(crate) fn accepted(header: &str) -> Vec<Form> {
    let ranges = if header.trim().is_empty() { "*/*" } else { header };
    ranges
        .split(',')
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter =
                |key: &str| parameters.iter().find(|(k, _)| *k == key).map_or("", |(_, value)| *value);
            if media.starts_with("application/com.github.proto-openapi.spec.v2") {
                return Some(Form::OpenApiProto);
            }
            if !matches!(media, "application/json" | "application/*" | "*/*" | "text/*" | "text/plain") {
                return None;
            }
            match (parameter("as"), parameter("g"), parameter("v")) {
                ("", ..) => Some(Form::Plain),
                ("Table", "meta.k8s.io", "v1") => Some(Form::Table),
                ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                    Some(Form::Partial)
                }
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => {
                    Some(Form::Discovery(DiscoveryVersion::V2))
                }
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                    Some(Form::Discovery(DiscoveryVersion::V2Beta1))
                }
                _ => None,
            }
        })
        .collect()
}

/// Decodes `%XX`; what is not UTF-8 afterwards is replaced.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                bytes.push(hex(*high).unwrap_or_default() * 16 + hex(*low).unwrap_or_default());
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_what_kubernetes_takes_them_for() {
        for (path, read) in [
            ("/api/v1/secrets", Some(["", "v1", "secrets", "", "", ""])),
            ("/api/v1/namespaces", Some(["", "v1", "namespaces", "", "", ""])),
            ("/api/v1/namespaces/a", Some(["", "v1", "namespaces", "", "a", ""])),
            ("/api/v1/namespaces/a/status", Some(["", "v1", "namespaces", "", "a", "status"])),
            ("/api/v1/namespaces/a/secrets", Some(["", "v1", "secrets", "a", "", ""])),
            ("/api/v1/namespaces/a/secrets/s%2e1", Some(["", "v1", "secrets", "a", "s.1", ""])),
            (
                "/apis/metal3.io/v1alpha1/namespaces/a/baremetalhosts/b/status",
                Some(["metal3.io", "v1alpha1", "baremetalhosts", "a", "b", "status"]),
            ),
            ("/apis/metal3.io/v1alpha1", None),
            ("/api/v1/namespaces/a/secrets/b/c/d", None),
            ("/healthz", None),
        ] {
            let target = Target::parse(path);
            let parts = target.as_ref().map(|t| {
                [&t.group, &t.version, &t.resource, &t.namespace, &t.name, &t.subresource].map(String::as_str)
            });
            assert_eq!(parts, read, "{path}");
        }
    }

    #[test]
    fn the_first_form_that_is_served_is_chosen() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (header, forms) in [
            ("", vec![Form::Plain]),
            (table, vec![Form::Table, Form::Plain]),
            ("application/vnd.kubernetes.protobuf, */*", vec![Form::Plain]),
            ("application/vnd.kubernetes.protobuf", vec![]),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                vec![Form::Discovery(DiscoveryVersion::V2), Form::Plain],
            ),
        ] {
            assert_eq!(accepted(header), forms, "{header}");
        }
    }
}
