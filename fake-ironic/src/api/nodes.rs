//! `/v1/nodes`: creating, showing, listing and deleting nodes. What changes them is in `update` and `states`.

use http::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    Answer, Api, Outcome, Request, is_true,
    list::{Page, only},
    version::{Version, node_field_since},
};
use crate::{
    failure::Failure,
    hardware::{HardwareType, Kind},
    node::Node,
    python,
    state::ProvisionState,
    view,
};

/// What a listing shows when the client names no fields.
const LISTED: &str = "instance_uuid,maintenance,power_state,provision_state,uuid,name";

/// What a listing can be narrowed down by.
const FILTERS: [&str; 11] = [
    "driver",
    "provision_state",
    "associated",
    "maintenance",
    "instance_uuid",
    "resource_class",
    "conductor_group",
    "owner",
    "fault",
    "retired",
    "shard",
];

/// Fields that are no columns, so that nothing can be sorted by them.
const UNSORTABLE: [&str; 17] = [
    "allocation_uuid",
    "chassis_uuid",
    "clean_step",
    "conductor",
    "deploy_step",
    "driver_info",
    "driver_internal_info",
    "extra",
    "health",
    "instance_info",
    "network_data",
    "ports",
    "properties",
    "raid_config",
    "service_step",
    "target_raid_config",
    "traits",
];

impl Api {
    pub(super) async fn nodes(&self, request: &Request, rest: &[&str]) -> Outcome {
        let method = &request.method;
        match rest {
            [] => match *method {
                Method::GET => self.list_nodes(request, false),
                Method::POST => self.create_node(request),
                _ => Err(Failure::no_method()),
            },
            ["detail"] if *method == Method::GET => self.list_nodes(request, true),
            [ident] => match *method {
                Method::GET => self.show_node(request, ident),
                Method::PATCH => self.update_node(request, ident).await,
                Method::DELETE => self.delete_node(ident).await,
                _ => Err(Failure::no_method()),
            },
            [ident, "states", rest @ ..] => self.states(request, ident, rest).await,
            [ident, "maintenance"] => self.maintenance(request, ident).await,
            [ident, "validate"] => self.get(request, || {
                let node = self.find_node(ident)?;
                Ok(Answer::ok(self.conductor.validate(node.uuid)?))
            }),
            [ident, "ports", rest @ ..] => self.ports_of_node(request, ident, rest),
            [ident, "bios"] => self.get(request, || {
                self.find_node(ident)?;
                Ok(Answer::ok(json!({ "bios": [] })))
            }),
            [ident, "firmware"] => self.get(request, || {
                self.find_node(ident)?;
                Ok(Answer::ok(json!({ "firmware": [] })))
            }),
            [ident, "inventory"] => self.get(request, || self.inventory(ident)),
            [ident, "history"] => self.get(request, || self.history(request, ident)),
            _ => Err(Failure::no_route()),
        }
    }

    fn get(&self, request: &Request, answer: impl FnOnce() -> Outcome) -> Outcome {
        if request.method == Method::GET { answer() } else { Err(Failure::no_method()) }
    }

    /// The node with this UUID or name.
    pub(super) fn find_node(&self, ident: &str) -> Result<Node, Failure> {
        let tables = self.conductor.database().tables();
        tables.find_node(ident).cloned().map_err(|_| Failure::no_node(ident))
    }

    /// A node as a client sees it, with all fields that its version has.
    pub(super) fn node_view(&self, request: &Request, node: &Node) -> Map<String, Value> {
        let uuid = node.uuid;
        let mut fields = view::node_fields(node, self.conductor.holder(node));
        fields.insert("conductor".to_owned(), self.conductor.name().into());
        fields.insert("allocation_uuid".to_owned(), Value::Null);
        fields.insert("chassis_uuid".to_owned(), Value::Null);
        for name in ["ports", "states", "portgroups", "volume"] {
            fields.insert(name.to_owned(), request.links(&format!("nodes/{uuid}/{name}")));
        }
        if request.version < Version(2) && node.provision_state == ProvisionState::Available {
            fields.insert("provision_state".to_owned(), Value::Null);
        }
        if request.version < Version(39) && node.provision_state == ProvisionState::InspectWait {
            fields.insert("provision_state".to_owned(), ProvisionState::Inspecting.as_str().into());
        }
        fields.retain(|name, _| node_field_since(name).is_some_and(|since| since <= request.version));
        fields.insert("links".to_owned(), request.links(&format!("nodes/{uuid}")));
        fields
    }

    /// Refuses fields that a request's version has not.
    fn check_version_of_fields<'a>(
        &self,
        request: &Request,
        fields: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        let too_new = |field: &str| node_field_since(field).is_some_and(|since| since > request.version);
        if fields.into_iter().any(too_new) { Err(Failure::not_acceptable()) } else { Ok(()) }
    }

    fn show_node(&self, request: &Request, ident: &str) -> Outcome {
        request.expect_arguments(&["fields"])?;
        let fields = request.fields();
        if let Some(fields) = &fields {
            self.check_version_of_fields(request, fields.iter().copied())?;
            if let Some(unknown) = fields.iter().find(|field| node_field_since(field).is_none()) {
                return Err(Failure::invalid(format!("Field {unknown} is not a valid field.")));
            }
        }
        let view = self.node_view(request, &self.find_node(ident)?);
        Ok(Answer::ok(match fields {
            Some(fields) => only(view, &fields),
            None => view,
        }))
    }

    fn list_nodes(&self, request: &Request, detail: bool) -> Outcome {
        let known: Vec<&str> =
            FILTERS.into_iter().chain(Page::ARGUMENTS).chain(["fields", "detail", "conductor"]).collect();
        request.expect_arguments(&known)?;
        let detail = detail || request.flag("detail");
        let fields = request.fields();
        if detail && fields.is_some() {
            return Err(Failure::invalid("Can not specify ?detail=True and fields in the same request."));
        }
        let page = Page::read(request, |key| node_field_since(key).is_some() && !UNSORTABLE.contains(&key))?;
        if let Some(state) = request.argument("provision_state")
            && state.parse::<ProvisionState>().is_err()
        {
            return Err(Failure::invalid(format!("Provision state \"{state}\" is not valid")));
        }
        if let Some(fields) = &fields {
            self.check_version_of_fields(request, fields.iter().copied())?;
            // Listings read columns, and stumble over what is none.
            if let Some(unknown) = fields.iter().find(|field| !is_column(field)) {
                return Err(Failure::server(format!("type object 'Node' has no attribute '{unknown}'")));
            }
        }
        let listed: Vec<&str> = fields.clone().unwrap_or_else(|| LISTED.split(',').collect());
        let nodes: Vec<Map<String, Value>> = self
            .conductor
            .database()
            .nodes()
            .iter()
            .filter(|node| self.passes(request, node))
            .map(|node| self.node_view(request, node))
            .collect();
        let Some((nodes, full)) = page.cut(nodes) else {
            return Err(Failure::no_node(page.marker.as_deref().unwrap_or_default()));
        };
        let next =
            nodes.last().filter(|_| full).map(|last| page.next(request, "nodes", &listed.join(","), last));
        let nodes: Vec<Value> = nodes
            .into_iter()
            .map(|node| Value::Object(if detail { node } else { only(node, &listed) }))
            .collect();
        let mut body = json!({ "nodes": nodes });
        if let Some(next) = next {
            body["next"] = next.into();
        }
        Ok(Answer::ok(body))
    }

    /// Whether a node passes all filters.
    fn passes(&self, request: &Request, node: &Node) -> bool {
        let fields = view::node_fields(node, None);
        FILTERS.iter().all(|filter| {
            let Some(wanted) = request.argument(filter) else { return true };
            match *filter {
                "associated" => node.instance_uuid.is_some() == is_true(wanted),
                "maintenance" => node.maintenance == is_true(wanted),
                "retired" => (fields.get("retired") == Some(&Value::Bool(true))) == is_true(wanted),
                field => fields.get(field).and_then(Value::as_str) == Some(wanted),
            }
        })
    }

    fn create_node(&self, request: &Request) -> Outcome {
        let body = match request.json()? {
            Value::Object(body) => body,
            other => {
                let other = python::repr(&other);
                return Err(schema(format!("{other} is not of type 'object'")));
            }
        };
        if let Some(key) = body.keys().find(|key| !is_creatable(key)) {
            let key = python::repr_text(key);
            return Err(schema(format!("Additional properties are not allowed ({key} was unexpected)")));
        }
        self.check_version_of_fields(request, body.keys().map(String::as_str))?;
        let driver = match body.get("driver") {
            None => return Err(schema("'driver' is a required property")),
            Some(driver) => driver.as_str().unwrap_or_default(),
        };
        let hardware = HardwareType::of(driver).ok_or_else(|| no_conductor(driver, ""))?;
        let uuid = match body.get("uuid") {
            None | Some(Value::Null) => self.conductor.host().uuid("node"),
            Some(uuid) => parse_uuid("uuid", uuid)?,
        };
        let mut node = Node::new(uuid, hardware, self.conductor.host().date());
        for (key, value) in &body {
            if matches!(key.as_str(), "driver" | "uuid") {
                continue;
            }
            super::update::set(&mut node, key, value, "node")?;
        }
        for kind in Kind::ALL {
            if let Some(Value::String(name)) = body.get(&kind.field()) {
                hardware
                    .set(&mut node.interfaces, kind, Some(name))
                    .map_err(|error| Failure::invalid(error.to_string()))?;
            }
        }
        if let Some(name) = &node.name
            && !is_name(name)
        {
            return Err(Failure::invalid(format!("Cannot create node with invalid name '{name}'")));
        }
        let mut tables = self.conductor.database().tables();
        if tables.node(uuid).is_ok() {
            return Err(Failure::conflict(format!("A node with UUID {uuid} already exists.")));
        }
        unique(&tables, &node)?;
        let id = tables.next_id();
        node.id = id;
        tables.nodes.insert(id, node.clone());
        drop(tables);
        self.conductor.note_new(&node);
        let location = format!("{}/v1/nodes/{uuid}", request.base);
        Ok(Answer::created(self.node_view(request, &node), location))
    }

    async fn delete_node(&self, ident: &str) -> Outcome {
        let uuid = self.find_node(ident)?.uuid;
        let lock = self.conductor.lock(uuid).await?;
        let allowed = self.conductor.database().node(uuid).map_err(|_| Failure::no_node(ident)).and_then(|node| {
            let settings = &self.conductor.settings().conductor;
            if node.maintenance {
                return Ok(node);
            }
            if let Some(instance) = node.instance_uuid {
                return Err(Failure::conflict(format!("Node {uuid} is associated with instance {instance}.")));
            }
            if !node.provision_state.is_deletable(settings.allow_deleting_available_nodes) {
                let available = if settings.allow_deleting_available_nodes { ", 'available'" } else { "" };
                return Err(Failure::conflict(format!(
                    "Can not delete node \"{uuid}\" while it is in provision state \"{}\". Valid provision states to \
                     perform deletion are: \"('manageable', 'enroll', 'adopt failed'{available})\", or set the node \
                     into maintenance mode",
                    node.provision_state
                )));
            }
            Ok(node)
        });
        match allowed {
            Ok(node) => {
                self.conductor.remove(&node);
                // Its lock goes with it.
                drop(lock);
                Ok(Answer::nothing())
            }
            Err(failure) => {
                lock.release();
                Err(failure)
            }
        }
    }

    fn inventory(&self, ident: &str) -> Outcome {
        let node = self.find_node(ident)?;
        match self.conductor.database().tables().inventories.get(&node.uuid) {
            Some(inventory) => Ok(Answer::ok(inventory.clone())),
            // It is the database's own number that shows here.
            None => Err(Failure::not_found(format!(
                "Node inventory record for node {} could not be found.",
                node.id
            ))),
        }
    }

    fn history(&self, request: &Request, ident: &str) -> Outcome {
        let node = self.find_node(ident)?;
        let detail = request.flag("detail");
        let tables = self.conductor.database().tables();
        let entries: Vec<Value> = tables
            .histories
            .get(&node.uuid)
            .into_iter()
            .flatten()
            .map(|entry| {
                let path = format!("nodes/{}/history/{}", node.uuid, entry.uuid);
                let mut line = json!({
                    "uuid": entry.uuid,
                    "created_at": view::moment(entry.created_at),
                    "severity": "ERROR",
                    "event": entry.event,
                    "links": [{ "href": format!("{}/v1/{path}", request.base), "rel": "self" }],
                });
                if detail {
                    line["event_type"] = entry.event_type.into();
                    line["conductor"] = entry.conductor.clone().into();
                    line["user"] = Value::Null;
                }
                line
            })
            .collect();
        Ok(Answer::ok(json!({ "history": entries })))
    }
}

fn schema(text: impl std::fmt::Display) -> Failure {
    Failure::invalid(format!("Schema error for node: {text}"))
}

/// Nobody serves such a node.
pub(super) fn no_conductor(driver: &str, group: &str) -> Failure {
    Failure::invalid(format!(
        "No valid host was found. Reason: No conductor service registered which supports driver {driver} for conductor \
         group \"{group}\". Ensure the driver is valid and enabled."
    ))
}

/// Whether a field is one of the table's columns.
fn is_column(field: &str) -> bool {
    node_field_since(field).is_some()
        && !matches!(
            field,
            "conductor" | "allocation_uuid" | "chassis_uuid" | "ports" | "states" | "portgroups" | "volume"
        )
}

/// Whether a client may give a field when it creates a node.
fn is_creatable(key: &str) -> bool {
    let plain = [
        "automated_clean",
        "disable_power_off",
        "driver",
        "driver_info",
        "extra",
        "instance_info",
        "instance_uuid",
        "name",
        "network_data",
        "properties",
        "uuid",
    ];
    let label = view::LABELS.iter().any(|(name, _)| *name == key) && !key.starts_with("protected");
    plain.contains(&key) || label || Kind::of_field(key).is_some()
}

/// Whether a text can be a node's name: letters that need no escaping in a path.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~'))
}

pub(super) fn parse_uuid(field: &str, value: &Value) -> Result<Uuid, Failure> {
    let text = value.as_str().unwrap_or_default();
    text.parse().map_err(|_| {
        let shown = value.as_str().map_or_else(|| python::repr(value), ToOwned::to_owned);
        Failure::invalid(format!("Expected UUID for {field}: {shown}"))
    })
}

/// Refuses a name or instance that another node has.
pub(super) fn unique(tables: &crate::database::Tables, node: &Node) -> Result<(), Failure> {
    let others = || tables.nodes.values().filter(|other| other.uuid != node.uuid);
    if let Some(name) = &node.name
        && others().any(|other| other.name.as_ref() == Some(name))
    {
        return Err(Failure::conflict(format!("A node with name {name} already exists.")));
    }
    if let Some(instance) = node.instance_uuid
        && others().any(|other| other.instance_uuid == Some(instance))
    {
        return Err(Failure::conflict(format!(
            "Instance {instance} is already associated with a node, it cannot be associated with this other node {}",
            node.uuid
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_escaping() {
        for (name, fine) in
            [("ns~host-a", true), ("host.example", true), ("", false), ("bad name!", false), ("a/b", false)]
        {
            assert_eq!(is_name(name), fine, "{name}");
        }
    }
}
