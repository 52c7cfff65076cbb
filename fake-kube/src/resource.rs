//! Kinds of objects: what is served, under which names, and the rules that hold for each.
//!
//! Some are built in; the others are read from CustomResourceDefinitions, which are objects in the store like any
//! other.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    kinds, object,
    schema::{BadSchema, Schema},
    status::{About, Cause, Failure},
    table::Column,
};

/// A served resource in one version.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// API group; empty for core.
    pub(crate) group: String,
    /// API version.
    pub(crate) version: String,
    /// Plural name, as in paths.
    pub(crate) plural: String,
    /// Singular name.
    pub(crate) singular: String,
    /// Kind of one object.
    pub(crate) kind: String,
    /// Kind of a list of objects.
    pub(crate) list_kind: String,
    /// Short names for kubectl.
    pub(crate) short_names: Vec<String>,
    /// Groups of resources that kubectl knows by one name, e.g. `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub(crate) namespaced: bool,
    /// Whether `/status` is written separately.
    pub(crate) has_status: bool,
    /// What kubectl prints, after the name.
    pub(crate) columns: Vec<Column>,
    /// The schema as published; null for built-in resources without one.
    pub(crate) published: Value,
    pub(crate) rules: Rules,
}

/// Which rules hold for a resource's objects.
#[derive(Clone, Debug)]
pub(crate) enum Rules {
    Namespace,
    Secret,
    ConfigMap,
    Event,
    /// `events.k8s.io/v1`: the same objects as core events, in other words.
    NewEvent,
    Lease,
    Definition,
    Custom(Arc<Schema>),
}

/// A CustomResourceDefinition that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadDefinition {
    /// A field that must be there is not.
    #[error("find {0}")]
    Missing(&'static str),
    /// A schema is wrong.
    #[error("read the schema of version {version}")]
    Schema {
        /// Of which version.
        version: String,
        /// What is wrong.
        source: BadSchema,
    },
    /// A printer column's path is wrong.
    #[error("read a printer column of version {version}")]
    Column {
        /// Of which version.
        version: String,
        /// What is wrong.
        source: crate::jsonpath::BadPath,
    },
}

/// The name under which CustomResourceDefinitions are stored.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl Resource {
    /// `GROUP/VERSION`, or the version alone for core.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `PLURAL.GROUP`, under which objects are stored: the same in all versions.
    pub(crate) fn stored_as(&self) -> String {
        match self.rules {
            Rules::NewEvent => "events".to_owned(),
            Rules::Namespace
            | Rules::Secret
            | Rules::ConfigMap
            | Rules::Event
            | Rules::Lease
            | Rules::Definition
            | Rules::Custom(_) => self.qualified(),
        }
    }

    fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The published and used schema, of custom resources.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match &self.rules {
            Rules::Custom(schema) => Some(schema),
            Rules::Namespace
            | Rules::Secret
            | Rules::ConfigMap
            | Rules::Event
            | Rules::NewEvent
            | Rules::Lease
            | Rules::Definition => None,
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.schema().is_some()
    }

    /// Whether `generation` counts the changes of what users want.
    pub(crate) fn counts_generations(&self) -> bool {
        matches!(self.rules, Rules::Custom(_) | Rules::Definition)
    }

    /// Whether an update without a resource version overwrites whatever is there.
    pub(crate) fn allows_blind_update(&self) -> bool {
        match self.rules {
            Rules::Namespace | Rules::Secret | Rules::ConfigMap | Rules::Event | Rules::NewEvent => true,
            Rules::Lease | Rules::Definition | Rules::Custom(_) => false,
        }
    }

    /// Whether an update of an object that is not there creates it.
    pub(crate) fn creates_on_update(&self) -> bool {
        match self.rules {
            Rules::Event | Rules::NewEvent | Rules::Lease => true,
            Rules::Namespace | Rules::Secret | Rules::ConfigMap | Rules::Definition | Rules::Custom(_) => {
                false
            }
        }
    }

    /// Whether tables begin with each object's name. Those of events end with it.
    pub(crate) fn names_rows(&self) -> bool {
        match self.rules {
            Rules::Event | Rules::NewEvent => false,
            Rules::Namespace
            | Rules::Secret
            | Rules::ConfigMap
            | Rules::Lease
            | Rules::Definition
            | Rules::Custom(_) => true,
        }
    }

    /// The fields by which objects can be selected.
    pub(crate) fn is_selectable(&self, field: &str) -> bool {
        let more: &[&str] = match self.rules {
            Rules::Secret => &["type"],
            Rules::Namespace => &["status.phase"],
            Rules::Event | Rules::NewEvent => &[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            Rules::ConfigMap | Rules::Lease | Rules::Definition | Rules::Custom(_) => &[],
        };
        matches!(field, "metadata.name" | "metadata.namespace") || more.contains(&field)
    }

    /// Names an object in an error.
    pub(crate) fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About { group: &self.group, kind: &self.plural, name }
    }

    /// An object that breaks rules.
    pub(crate) fn invalid(&self, name: &str, causes: &[Cause]) -> Failure {
        Failure::invalid(About { group: &self.group, kind: &self.kind, name }, causes)
    }

    /// Shows a stored object in this version.
    pub(crate) fn show(&self, stored: &Value) -> Value {
        let mut shown = match self.rules {
            Rules::NewEvent => kinds::to_new_event(stored),
            Rules::Namespace
            | Rules::Secret
            | Rules::ConfigMap
            | Rules::Event
            | Rules::Lease
            | Rules::Definition
            | Rules::Custom(_) => stored.clone(),
        };
        self.stamp(&mut shown);
        shown
    }

    /// Writes `apiVersion` and `kind`.
    pub(crate) fn stamp(&self, object: &mut Value) {
        let members = object::as_members(object);
        members.insert("apiVersion".into(), self.api_version().into());
        members.insert("kind".into(), self.kind.clone().into());
    }

    /// Reads the versions that a CustomResourceDefinition serves.
    pub(crate) fn from_definition(definition: &Value) -> Result<Vec<Self>, BadDefinition> {
        let text = |path: &[&str], what| match object::text(definition, path) {
            "" => Err(BadDefinition::Missing(what)),
            found => Ok(found.to_owned()),
        };
        let group = text(&["spec", "group"], "spec.group")?;
        let plural = text(&["spec", "names", "plural"], "spec.names.plural")?;
        let kind = text(&["spec", "names", "kind"], "spec.names.kind")?;
        let or = |path: &[&str], otherwise: String| match object::text(definition, path) {
            "" => otherwise,
            found => found.to_owned(),
        };
        let names = |path: &[&str]| {
            object::texts(definition, path).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let versions = object::at(definition, &["spec", "versions"])
            .and_then(Value::as_array)
            .ok_or(BadDefinition::Missing("spec.versions"))?;
        let mut resources = Vec::new();
        for raw in versions {
            let version = object::text(raw, &["name"]).to_owned();
            if version.is_empty() {
                return Err(BadDefinition::Missing("spec.versions[].name"));
            }
            let published = object::at(raw, &["schema", "openAPIV3Schema"])
                .ok_or(BadDefinition::Missing("spec.versions[].schema.openAPIV3Schema"))?;
            let schema = Schema::parse(published)
                .map_err(|source| BadDefinition::Schema { version: version.clone(), source })?;
            let columns = raw
                .get("additionalPrinterColumns")
                .and_then(Value::as_array)
                .map(|columns| columns.iter().map(Column::parse).collect::<Result<Vec<_>, _>>())
                .transpose()
                .map_err(|source| BadDefinition::Column { version: version.clone(), source })?
                // Without columns of its own a resource shows its age.
                .unwrap_or_else(|| vec![Column::age()]);
            if raw.get("served").and_then(Value::as_bool) != Some(true) {
                continue;
            }
            resources.push(Self {
                group: group.clone(),
                version,
                plural: plural.clone(),
                singular: or(&["spec", "names", "singular"], kind.to_lowercase()),
                kind: kind.clone(),
                list_kind: or(&["spec", "names", "listKind"], format!("{kind}List")),
                short_names: names(&["spec", "names", "shortNames"]),
                categories: names(&["spec", "names", "categories"]),
                namespaced: object::text(definition, &["spec", "scope"]) == "Namespaced",
                has_status: object::at(raw, &["subresources", "status"]).is_some(),
                columns,
                published: published.clone(),
                rules: Rules::Custom(Arc::new(schema)),
            });
        }
        Ok(resources)
    }
}

/// All that is served now.
#[derive(Clone, Debug)]
pub(crate) struct Registry(BTreeMap<(String, String, String), Arc<Resource>>);

impl Registry {
    /// The built-in resources alone.
    pub(crate) fn new() -> Self {
        let mut registry = Self(BTreeMap::new());
        kinds::built_in().into_iter().for_each(|resource| registry.add(resource));
        registry
    }

    /// The built-in resources and those that definitions define. Definitions that cannot be read define nothing; they
    /// are refused when they are written.
    pub(crate) fn with<'a>(definitions: impl Iterator<Item = &'a Value>) -> Self {
        let mut registry = Self::new();
        definitions
            .filter(|definition| !object::is_deleting(definition))
            .flat_map(|definition| Resource::from_definition(definition).unwrap_or_default())
            .for_each(|resource| registry.add(resource));
        registry
    }

    fn add(&mut self, resource: Resource) {
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.0.insert(key, Arc::new(resource));
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.0.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    /// The resource that a user calls `name`: plural, singular or short, with or without its group.
    pub(crate) fn called(&self, name: &str) -> Option<Arc<Resource>> {
        self.0
            .values()
            .find(|r| {
                r.plural == name
                    || r.singular == name
                    || r.qualified() == name
                    || r.short_names.iter().any(|short| short == name)
            })
            .cloned()
    }

    /// All resources, by group, version and name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.0.values()
    }

    /// Groups with their versions, without core.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (group, version, _) in self.0.keys().filter(|(group, ..)| !group.is_empty()) {
            let versions = groups.entry(group).or_default();
            if !versions.contains(&version.as_str()) {
                versions.push(version);
            }
        }
        groups
    }

    /// The resources of one group and version.
    pub(crate) fn of(&self, group: &str, version: &str) -> Vec<&Arc<Resource>> {
        self.all().filter(|r| r.group == group && r.version == version).collect()
    }
}

/// What can be done with objects of any resource here.
pub(crate) const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The empty object of a list.
pub(crate) fn list(api_version: &str, kind: &str, items: Vec<Value>, metadata: Value) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items })
}
