//! The requests that the operator makes of an Ironic that is ready.
//!
//! Each insists on the answer that upstream's client insists on; anything else is an error. What an answer means is
//! not known here: bodies come out as whatever type the caller reads them into.

use http::{Method, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Answered, Ironic, IronicError, Microversion};

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
    pub async fn get_node<T: DeserializeOwned>(&self, node: &str) -> Result<T, IronicError> {
        self.get(&path(&["nodes", node], &[])).await?.json()
    }

    /// All nodes, with these fields of each.
    pub async fn list_nodes<T: DeserializeOwned>(&self, fields: &[&str]) -> Result<Vec<T>, IronicError> {
        self.list("nodes", &[("fields", &fields.join(","))]).await
    }

    /// Creates a node and returns it.
    pub async fn create_node<T: DeserializeOwned>(&self, node: &Value) -> Result<T, IronicError> {
        let expected = [StatusCode::CREATED, StatusCode::ACCEPTED];
        self.send(Method::POST, &path(&["nodes"], &[]), Some(node), &expected).await?.json()
    }

    /// Changes a node by a JSON patch and returns it.
    pub async fn patch_node<T: DeserializeOwned>(&self, node: &str, patch: &Value) -> Result<T, IronicError> {
        self.send(Method::PATCH, &path(&["nodes", node], &[]), Some(patch), &[StatusCode::OK]).await?.json()
    }

    /// Removes a node.
    pub async fn delete_node(&self, node: &str) -> Result<(), IronicError> {
        let expected = [StatusCode::NO_CONTENT, StatusCode::ACCEPTED];
        self.send(Method::DELETE, &path(&["nodes", node], &[]), None, &expected).await.map(drop)
    }

    /// Asks for a change of the provision state. `wish` names the `target` and what else the change needs.
    pub async fn change_provision_state(&self, node: &str, wish: &Value) -> Result<(), IronicError> {
        self.put_state(node, "provision", wish).await
    }

    /// Asks for a change of power. `wish` names the `target`, and a `timeout` in seconds if it has one.
    pub async fn change_power(&self, node: &str, wish: &Value) -> Result<(), IronicError> {
        self.put_state(node, "power", wish).await
    }

    /// Takes a node into maintenance.
    pub async fn set_maintenance(&self, node: &str, reason: &str) -> Result<(), IronicError> {
        let path = path(&["nodes", node, "maintenance"], &[]);
        let body = json!({ "reason": reason });
        self.send(Method::PUT, &path, Some(&body), &[StatusCode::ACCEPTED]).await.map(drop)
    }

    /// Takes a node out of maintenance.
    pub async fn unset_maintenance(&self, node: &str) -> Result<(), IronicError> {
        let path = path(&["nodes", node, "maintenance"], &[]);
        self.send(Method::DELETE, &path, None, &[StatusCode::ACCEPTED]).await.map(drop)
    }

    /// Whether each of a node's interfaces has what it needs.
    pub async fn validate<T: DeserializeOwned>(&self, node: &str) -> Result<T, IronicError> {
        self.get(&path(&["nodes", node, "validate"], &[])).await?.json()
    }

    /// What the last inspection found.
    pub async fn inventory<T: DeserializeOwned>(&self, node: &str) -> Result<T, IronicError> {
        self.get(&path(&["nodes", node, "inventory"], &[])).await?.json()
    }

    /// The ports of a node, with these fields of each.
    pub async fn ports_of<T: DeserializeOwned>(&self, node: &str, fields: &[&str]) -> Result<Vec<T>, IronicError> {
        self.list("ports", &[("node_uuid", node), ("fields", &fields.join(","))]).await
    }

    /// The ports with a MAC address, with these fields of each.
    pub async fn ports_at<T: DeserializeOwned>(&self, mac: &str, fields: &[&str]) -> Result<Vec<T>, IronicError> {
        self.list("ports", &[("address", mac), ("fields", &fields.join(","))]).await
    }

    /// Creates a port.
    pub async fn create_port(&self, port: &Value) -> Result<(), IronicError> {
        let expected = [StatusCode::CREATED, StatusCode::ACCEPTED];
        self.send(Method::POST, &path(&["ports"], &[]), Some(port), &expected).await.map(drop)
    }

    async fn put_state(&self, node: &str, kind: &str, wish: &Value) -> Result<(), IronicError> {
        let path = path(&["nodes", node, "states", kind], &[]);
        self.send(Method::PUT, &path, Some(wish), &[StatusCode::ACCEPTED]).await.map(drop)
    }

    /// A whole collection. Ironic gives it in pages: a page that is not the last has a `next`, and the following one
    /// begins after the last thing of it.
    async fn list<T: DeserializeOwned>(&self, kind: &str, query: &[(&str, &str)]) -> Result<Vec<T>, IronicError> {
        let mut things: Vec<Value> = Vec::new();
        loop {
            let last = things.last().and_then(|thing| thing["uuid"].as_str()).map(str::to_owned);
            let mut query = query.to_vec();
            query.extend(last.as_deref().map(|uuid| ("marker", uuid)));
            let answer = self.get(&path(&[kind], &query)).await?;
            let request = answer.request.clone();
            let garbled = |error| IronicError { request: request.clone(), cause: super::Cause::Garbled(error) };
            let mut page: Page = answer.json()?;
            let more: Vec<Value> =
                page.rest.remove(kind).map(serde_json::from_value).transpose().map_err(garbled)?.unwrap_or_default();
            let ended = page.next.is_none() || more.last().is_none_or(|thing| !thing["uuid"].is_string());
            things.extend(more);
            if ended {
                return things.into_iter().map(|thing| serde_json::from_value(thing).map_err(garbled)).collect();
            }
        }
    }

    async fn get(&self, path: &str) -> Result<Answered, IronicError> {
        self.send(Method::GET, path, None, &[StatusCode::OK]).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        expected: &[StatusCode],
    ) -> Result<Answered, IronicError> {
        self.ironic.request(Some(self.version), method, path, body, expected).await
    }
}

/// A page of a collection; what it holds is under the collection's name.
#[derive(Deserialize)]
struct Page {
    next: Option<String>,
    #[serde(flatten)]
    rest: std::collections::BTreeMap<String, Value>,
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

    #[test]
    fn nothing_from_outside_leaves_its_place_in_a_path() {
        let mac = "00:11:22:33:44:55";
        // segments                          query                                     path
        let cases: [(&[&str], &[(&str, &str)], &str); 4] = [
            (&["nodes", "metal3~host-0"], &[], "/nodes/metal3~host-0"),
            (&["ports"], &[("address", mac), ("fields", "a,b")], "/ports?address=00:11:22:33:44:55&fields=a,b"),
            (&["nodes", "../ports?a=b#c"], &[], "/nodes/..%2Fports%3Fa%3Db%23c"),
            (&["nodes"], &[("name", "a&b=ü")], "/nodes?name=a%26b%3D%C3%BC"),
        ];
        for (segments, query, expected) in cases {
            assert_eq!(path(segments, query), expected);
            assert!(expected.parse::<http::Uri>().is_ok());
        }
    }
}
