//! What the operator asks of an Ironic that is ready: reads, and the requests that decisions have made.
//!
//! Each insists on the answer that upstream's client insists on; anything else is an error, and what that means is
//! said by [`Request::reaction`].

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{Answered, Ironic, IronicError, Microversion};
use crate::provisioner::{Answer, ConfigDrive, Node, Port, ProvisionTarget, Request, SetPower, Validation};

/// Ironic, found ready a moment ago, and the API version agreed on.
#[derive(Clone, Debug)]
pub struct Session {
    ironic: Ironic,
    version: Microversion,
}

impl Session {
    pub(super) fn new(ironic: Ironic, version: Microversion) -> Self {
        Self { ironic, version }
    }

    /// The API version that is spoken.
    pub fn version(&self) -> Microversion {
        self.version
    }

    /// A node, by id or name.
    pub async fn get_node(&self, node: &str) -> Result<Node, IronicError> {
        self.get(&path(&["nodes", node], &[])).await?.json()
    }

    /// All nodes, with their id, name, provision state and boot interface.
    pub async fn list_nodes(&self) -> Result<Vec<Node>, IronicError> {
        self.list("nodes", &[("fields", "uuid,name,provision_state,boot_interface")]).await
    }

    /// The ports of a node.
    pub async fn ports_of(&self, node: &str) -> Result<Vec<Port>, IronicError> {
        self.list("ports", &[("node_uuid", node), ("fields", PORT_FIELDS)]).await
    }

    /// The ports with a MAC address; there is at most one.
    pub async fn ports_at(&self, mac: &str) -> Result<Vec<Port>, IronicError> {
        self.list("ports", &[("address", mac), ("fields", PORT_FIELDS)]).await
    }

    /// Whether a node has what deploying it needs.
    pub async fn validate(&self, node: &str) -> Result<Validation, IronicError> {
        let found: Validated = self.get(&path(&["nodes", node, "validate"], &[])).await?.json()?;
        Ok(Validation { boot: found.boot.objection(), deploy: found.deploy.objection() })
    }

    /// What the last inspection found, as Ironic keeps it; 404 if there was none.
    pub async fn inventory(&self, node: &str) -> Result<Value, IronicError> {
        self.get(&path(&["nodes", node, "inventory"], &[])).await?.json()
    }

    /// Asks for what a decision wants.
    pub async fn execute(&self, request: &Request) -> Result<Answer, IronicError> {
        match request {
            Request::CreateNode(node) => {
                let answer = self.send(Method::POST, &["nodes"], Some(json!(node)), CREATED).await?;
                Ok(Answer::Node(Box::new(answer.json()?)))
            }
            Request::PatchNode { node, patch } => {
                let answer = self.send(Method::PATCH, &["nodes", node], Some(json!(patch)), OK).await?;
                Ok(Answer::Node(Box::new(answer.json()?)))
            }
            Request::CreatePort { node, address, pxe_enabled } => {
                let port = json!({ "node_uuid": node, "address": address, "pxe_enabled": pxe_enabled });
                self.send(Method::POST, &["ports"], Some(port), CREATED).await.map(accepted)
            }
            Request::Provision { node, target, configdrive, deploy_steps } => {
                let wish = provision(*target, configdrive.as_deref(), deploy_steps);
                self.send(Method::PUT, &["nodes", node, "states", "provision"], Some(wish), ACCEPTED)
                    .await
                    .map(accepted)
            }
            Request::Power { node, power } => {
                let wish = set_power(power);
                self.send(Method::PUT, &["nodes", node, "states", "power"], Some(wish), ACCEPTED)
                    .await
                    .map(accepted)
            }
            Request::SetMaintenance { node, reason } => {
                let wish = json!({ "reason": reason });
                self.send(Method::PUT, &["nodes", node, "maintenance"], Some(wish), ACCEPTED)
                    .await
                    .map(accepted)
            }
            Request::UnsetMaintenance { node } => {
                self.send(Method::DELETE, &["nodes", node, "maintenance"], None, ACCEPTED).await.map(accepted)
            }
            Request::DeleteNode { node } => {
                self.send(Method::DELETE, &["nodes", node], None, DELETED).await.map(accepted)
            }
        }
    }

    /// A whole collection. Ironic gives it in pages: a page that is not the last has a `next`, and the following one
    /// begins after the last thing of it.
    async fn list<T: DeserializeOwned>(
        &self,
        kind: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, IronicError> {
        let mut things: Vec<Value> = Vec::new();
        loop {
            let last = things.last().and_then(|thing| thing["uuid"].as_str()).map(str::to_owned);
            let mut query = query.to_vec();
            query.extend(last.as_deref().map(|uuid| ("marker", uuid)));
            let answer = self.get(&path(&[kind], &query)).await?;
            let request = answer.request.clone();
            let garbled =
                |error| IronicError { request: request.clone(), cause: super::Cause::Garbled(error) };
            let mut page: Page = answer.json()?;
            let more: Vec<Value> = page
                .rest
                .remove(kind)
                .map(serde_json::from_value)
                .transpose()
                .map_err(garbled)?
                .unwrap_or_default();
            let ended = page.next.is_none() || more.last().is_none_or(|thing| !thing["uuid"].is_string());
            things.extend(more);
            if ended {
                return things
                    .into_iter()
                    .map(|thing| serde_json::from_value(thing).map_err(garbled))
                    .collect();
            }
        }
    }

    async fn get(&self, path: &str) -> Result<Answered, IronicError> {
        self.ironic.request(Some(self.version), Method::GET, path, None, OK).await
    }

    async fn send(
        &self,
        method: Method,
        segments: &[&str],
        body: Option<Value>,
        expected: &[StatusCode],
    ) -> Result<Answered, IronicError> {
        self.ironic.request(Some(self.version), method, &path(segments, &[]), body.as_ref(), expected).await
    }
}

/// What is asked of ports; the id lets a list go on after it.
const PORT_FIELDS: &str = "node_uuid,uuid,address";

/// What upstream's client takes for success.
const OK: &[StatusCode] = &[StatusCode::OK];
const CREATED: &[StatusCode] = &[StatusCode::CREATED, StatusCode::ACCEPTED];
const ACCEPTED: &[StatusCode] = &[StatusCode::ACCEPTED];
const DELETED: &[StatusCode] = &[StatusCode::NO_CONTENT, StatusCode::ACCEPTED];

fn accepted(_: Answered) -> Answer {
    Answer::Accepted
}

fn provision(target: ProvisionTarget, configdrive: Option<&ConfigDrive>, deploy_steps: &[Value]) -> Value {
    let mut wish = Map::from_iter([("target".to_owned(), json!(target.as_str()))]);
    wish.extend(configdrive.map(|drive| ("configdrive".to_owned(), json!(drive))));
    wish.extend((!deploy_steps.is_empty()).then(|| ("deploy_steps".to_owned(), json!(deploy_steps))));
    Value::Object(wish)
}

fn set_power(power: &SetPower) -> Value {
    let mut wish = Map::from_iter([("target".to_owned(), json!(power.target.as_str()))]);
    wish.extend(power.timeout.map(|timeout| ("timeout".to_owned(), json!(timeout.as_secs()))));
    Value::Object(wish)
}

/// The answer to a validation, of the interfaces that matter.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Validated {
    boot: Opinion,
    deploy: Opinion,
}

/// What one interface says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Opinion {
    /// `None`: the interface does not validate, which upstream takes for a refusal.
    result: Option<bool>,
    reason: Option<String>,
}

impl Opinion {
    fn objection(self) -> Option<String> {
        (self.result != Some(true)).then(|| self.reason.unwrap_or_default())
    }
}

/// A page of a collection; what it holds is under the collection's name.
#[derive(Deserialize)]
struct Page {
    next: Option<String>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// A path below the endpoint. Ids and names come from outside, so what may not stand in a URL is escaped.
fn path(segments: &[&str], query: &[(&str, &str)]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.push_str(&escape(segment, ""));
    }
    for (number, (key, value)) in query.iter().enumerate() {
        path.push(if number == 0 { '?' } else { '&' });
        path.push_str(&escape(key, ""));
        path.push('=');
        path.push_str(&escape(value, ",:"));
    }
    path
}

/// Escapes all but what RFC 3986 calls unreserved, and the characters of `kept`.
fn escape(text: &str, kept: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~".contains(character) || kept.contains(character) {
            escaped.push(character);
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    type Query<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn nothing_from_outside_leaves_its_place_in_a_path() {
        let mac = "00:11:22:33:44:55";
        // segments                          query                                     path
        let cases: [(&[&str], Query<'_>, &str); 4] = [
            (&["nodes", "metal3~host-0"], &[], "/nodes/metal3~host-0"),
            (
                &["ports"],
                &[("address", mac), ("fields", "a,b")],
                "/ports?address=00:11:22:33:44:55&fields=a,b",
            ),
            (&["nodes", "../ports?a=b#c"], &[], "/nodes/..%2Fports%3Fa%3Db%23c"),
            (&["nodes"], &[("name", "a&b=ü")], "/nodes?name=a%26b%3D%C3%BC"),
        ];
        for (segments, query, expected) in cases {
            assert_eq!(path(segments, query), expected);
            assert!(expected.parse::<http::Uri>().is_ok());
        }
    }
}
