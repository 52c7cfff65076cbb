//! `/v1/ports` and `/v1/nodes/U/ports`.

use http::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    Answer, Api, Outcome, Request,
    list::{Page, only},
    nodes::parse_uuid,
    patch,
    version::port_field_since,
};
use crate::{
    database::Tables,
    failure::Failure,
    node::{Port, mac},
    python, view,
};

/// What may be said of the switch port that a port is connected to.
const LINK_KEYS: [&str; 5] = ["hostname", "network_type", "port_id", "switch_id", "switch_info"];

/// What a listing shows when the client names no fields.
const LISTED: &str = "uuid,address";

impl Api {
    pub(super) fn ports(&self, request: &Request, rest: &[&str]) -> Outcome {
        match (&request.method, rest) {
            (&Method::GET, []) => self.list_ports(request, None, false),
            (&Method::POST, []) => self.create_port(request),
            (&Method::GET, ["detail"]) => self.list_ports(request, None, true),
            (&Method::GET, [ident]) => {
                let port = self.find_port(ident)?;
                let view = self.port_view(request, &port);
                Ok(Answer::ok(match request.fields() {
                    Some(fields) => only(view, &fields),
                    None => view,
                }))
            }
            (&Method::PATCH, [ident]) => self.update_port(request, ident),
            (&Method::DELETE, [ident]) => {
                let port = self.find_port(ident)?;
                self.conductor.database().tables().ports.retain(|_, other| other.uuid != port.uuid);
                Ok(Answer::nothing())
            }
            (_, [] | [_]) => Err(Failure::no_method()),
            (_, _) => Err(Failure::no_route()),
        }
    }

    pub(super) fn ports_of_node(&self, request: &Request, ident: &str, rest: &[&str]) -> Outcome {
        if request.method != Method::GET {
            return Err(Failure::no_method());
        }
        let node = self.find_node(ident)?.uuid;
        match rest {
            [] => self.list_ports(request, Some(node), false),
            ["detail"] => self.list_ports(request, Some(node), true),
            _ => Err(Failure::no_route()),
        }
    }

    fn find_port(&self, ident: &str) -> Result<Port, Failure> {
        let tables = self.conductor.database().tables();
        tables
            .find_port(ident)
            .cloned()
            .map_err(|_| Failure::not_found(format!("Port {ident} could not be found.")))
    }

    fn port_view(&self, request: &Request, port: &Port) -> Map<String, Value> {
        let mut fields = view::port_fields(port);
        fields.retain(|name, _| port_field_since(name).is_some_and(|since| since <= request.version));
        fields.insert("links".to_owned(), request.links(&format!("ports/{}", port.uuid)));
        fields
    }

    fn list_ports(&self, request: &Request, node: Option<Uuid>, detail: bool) -> Outcome {
        let known: Vec<&str> =
            Page::ARGUMENTS.into_iter().chain(["address", "node", "node_uuid", "fields", "detail"]).collect();
        request.expect_arguments(&known)?;
        let detail = detail || request.flag("detail");
        let address = match request.argument("address") {
            Some(text) => Some(mac(text).ok_or_else(|| not_a_mac(text))?),
            None => None,
        };
        let asked = request.argument("node_uuid").or(request.argument("node"));
        let owner = match (node, asked) {
            (Some(node), _) => Some(node),
            (None, Some(ident)) => Some(self.find_node(ident)?.uuid),
            (None, None) => None,
        };
        let page = Page::read(request, |key| port_field_since(key).is_some())?;
        let fields = request.fields();
        if let Some(unknown) = fields.iter().flatten().find(|field| port_field_since(field).is_none()) {
            return Err(Failure::invalid(format!("Field {unknown} is not a valid field.")));
        }
        let listed: Vec<&str> = fields.unwrap_or_else(|| LISTED.split(',').collect());
        let ports: Vec<Map<String, Value>> = {
            let tables = self.conductor.database().tables();
            tables
                .ports
                .values()
                .filter(|port| owner.is_none_or(|owner| port.node == owner))
                .filter(|port| address.as_ref().is_none_or(|address| port.address == *address))
                .map(|port| self.port_view(request, port))
                .collect()
        };
        let Some((ports, full)) = page.cut(ports) else {
            let marker = page.marker.as_deref().unwrap_or_default();
            return Err(Failure::not_found(format!("Port {marker} could not be found.")));
        };
        let next =
            ports.last().filter(|_| full).map(|last| page.next(request, "ports", &listed.join(","), last));
        let ports: Vec<Value> = ports
            .into_iter()
            .map(|port| Value::Object(if detail { port } else { only(port, &listed) }))
            .collect();
        let mut body = json!({ "ports": ports });
        if let Some(next) = next {
            body["next"] = next.into();
        }
        Ok(Answer::ok(body))
    }

    fn update_port(&self, request: &Request, ident: &str) -> Outcome {
        let operations = patch::read(&request.json()?)?;
        let mut port = self.find_port(ident)?;
        for operation in &operations {
            match operation.attribute() {
                "node_uuid" => return Err(Failure::server("'address'")),
                "address"
                | "extra"
                | "is_smartnic"
                | "local_link_connection"
                | "name"
                | "physical_network"
                | "pxe_enabled" => {}
                _ => {
                    return Err(Failure::invalid(format!(
                        "Cannot patch /{}. Only the following can be updated: address, extra, is_smartnic, \
                         local_link_connection, name, node_uuid, physical_network, portgroup_uuid, pxe_enabled",
                        operation.path.join("/")
                    )));
                }
            }
        }
        let mut document = view::port_fields(&port);
        patch::apply(&mut document, &operations)?;
        set(&mut port, &document)?;
        port.updated_at = Some(self.conductor.host().date());
        let mut tables = self.conductor.database().tables();
        unique(&tables, &port)?;
        // If it was deleted meanwhile, there is nothing left to write.
        if let Some(place) = tables.ports.values_mut().find(|other| other.uuid == port.uuid) {
            place.clone_from(&port);
        }
        drop(tables);
        Ok(Answer::ok(self.port_view(request, &port)))
    }

    /// A port can be made while its node is locked.
    fn create_port(&self, request: &Request) -> Outcome {
        let body = request.json()?.as_object().cloned().unwrap_or_default();
        let known = [
            "address",
            "extra",
            "is_smartnic",
            "local_link_connection",
            "name",
            "node_uuid",
            "physical_network",
            "pxe_enabled",
            "uuid",
        ];
        if let Some(key) = body.keys().find(|key| !known.contains(&key.as_str())) {
            let key = python::repr_text(key);
            return Err(schema(format!("Additional properties are not allowed ({key} was unexpected)")));
        }
        let Some(owner) = body.get("node_uuid").and_then(Value::as_str) else {
            let body = python::repr(&Value::Object(body));
            return Err(schema(format!(
                "{body} is not valid under any of the given schemas. Possible root cause: 'node_ident' is a required \
                 property"
            )));
        };
        let text = body.get("address").and_then(Value::as_str);
        let text = text.ok_or_else(|| schema("'address' is a required property"))?;
        let address = mac(text).ok_or_else(|| not_a_mac(text))?;
        // A node that is not there is the client's mistake here, not a missing page.
        let node = self.find_node(owner).map_err(|failure| Failure::invalid(failure.text))?.uuid;
        let uuid = match body.get("uuid") {
            None | Some(Value::Null) => self.conductor.host().uuid("port"),
            Some(uuid) => parse_uuid("uuid", uuid)?,
        };
        let mut port = Port {
            uuid,
            node,
            address,
            created_at: self.conductor.host().date(),
            updated_at: None,
            name: None,
            pxe_enabled: true,
            is_smartnic: false,
            physical_network: None,
            local_link_connection: Map::new(),
            extra: Map::new(),
        };
        set(&mut port, &body)?;
        let mut tables = self.conductor.database().tables();
        if tables.ports.values().any(|other| other.uuid == port.uuid) {
            return Err(Failure::conflict(format!("A port with UUID {uuid} already exists.")));
        }
        unique(&tables, &port)?;
        let id = tables.next_id();
        tables.ports.insert(id, port.clone());
        drop(tables);
        let location = format!("{}/v1/ports/{uuid}", request.base);
        Ok(Answer::created(self.port_view(request, &port), location))
    }
}

/// Sets what a client may set of a port at any time; what is not there keeps its value.
fn set(port: &mut Port, fields: &Map<String, Value>) -> Result<(), Failure> {
    let word = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
    for (key, value) in fields {
        match key.as_str() {
            "address" => {
                let text = value.as_str().unwrap_or_default();
                port.address = mac(text).ok_or_else(|| not_a_mac(text))?;
            }
            "name" => port.name = word(value),
            "physical_network" => port.physical_network = word(value),
            "pxe_enabled" => port.pxe_enabled = value.as_bool().unwrap_or(true),
            "is_smartnic" => port.is_smartnic = value.as_bool().unwrap_or_default(),
            "extra" => port.extra = map(value),
            "local_link_connection" => {
                let connection = map(value);
                if let Some(key) = connection.keys().find(|key| !LINK_KEYS.contains(&key.as_str())) {
                    return Err(Failure::invalid(format!(
                        "Schema error for local_link_connection: {} is not valid under any of the given schemas. \
                         Possible root cause: Additional properties are not allowed ({} was unexpected)",
                        python::repr(value),
                        python::repr_text(key)
                    )));
                }
                port.local_link_connection = connection;
            }
            // Of the others the caller takes care.
            _ => {}
        }
    }
    Ok(())
}

/// Refuses an address that another port has.
fn unique(tables: &Tables, port: &Port) -> Result<(), Failure> {
    if tables.ports.values().any(|other| other.uuid != port.uuid && other.address == port.address) {
        return Err(Failure::conflict(format!("A port with MAC address {} already exists.", port.address)));
    }
    Ok(())
}

fn schema(text: impl std::fmt::Display) -> Failure {
    Failure::invalid(format!("Schema error for port: {text}"))
}

fn not_a_mac(text: &str) -> Failure {
    Failure::invalid(format!("Expected valid MAC address for address: {text}"))
}
