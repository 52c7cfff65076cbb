//! What agents ask and tell.

use http::Method;
use serde_json::{Value, json};

use super::{Answer, Api, Outcome, Request, version::Version};
use crate::{
    conductor::Lookup,
    failure::Failure,
    node::{Node, mac},
    view,
};

/// How long an agent may be silent, in seconds, as it is told.
const HEARTBEAT_TIMEOUT: u64 = 300;

impl Api {
    /// `GET /v1/lookup`.
    pub(super) fn lookup(&self, request: &Request) -> Outcome {
        if request.method != Method::GET {
            return Err(Failure::no_method());
        }
        if request.version < Version(22) {
            return Err(Failure::no_resource());
        }
        request.expect_arguments(&["addresses", "node_uuid"])?;
        let addresses: Vec<String> =
            request.argument("addresses").unwrap_or_default().split(',').filter_map(mac).collect();
        let uuid = match request.argument("node_uuid") {
            Some(text) => Some(
                text.parse().map_err(|_| Failure::invalid(format!("Expected UUID for node_uuid: {text}")))?,
            ),
            None => None,
        };
        if addresses.is_empty() && uuid.is_none() {
            return Err(Failure::invalid(
                "At least one of 'addresses' and 'node_uuid' parameters is required",
            ));
        }
        let Lookup { node, token } = self.conductor.look_up(&addresses, uuid)?;
        Ok(Answer::ok(self.for_agent(request, &node, token.as_deref())))
    }

    /// What an agent is told of its node, and how it is to behave.
    fn for_agent(&self, request: &Request, node: &Node, token: Option<&str>) -> Value {
        let fields = view::node_fields(node, None);
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        json!({
            "node": {
                "uuid": node.uuid,
                "properties": field("properties"),
                "instance_info": field("instance_info"),
                "driver_internal_info": field("driver_internal_info"),
                "links": request.links(&format!("nodes/{}", node.uuid)),
            },
            "config": {
                "metrics": {
                    "backend": "noop",
                    "prepend_host": false,
                    "prepend_uuid": false,
                    "prepend_host_reverse": true,
                    "global_prefix": null,
                },
                "metrics_statsd": { "statsd_host": "localhost", "statsd_port": 8125 },
                "heartbeat_timeout": HEARTBEAT_TIMEOUT,
                "agent_token": token.unwrap_or(view::MASK),
                "agent_token_required": true,
                "agent_md5_checksum_enable": true,
                "disable_deep_image_inspection": false,
                "permitted_image_formats": ["raw", "gpt", "qcow2", "iso"],
            },
        })
    }

    /// `POST /v1/heartbeat/U`.
    pub(super) fn heartbeat(&self, request: &Request, ident: &str) -> Outcome {
        if request.method != Method::POST {
            return Err(Failure::no_method());
        }
        if request.version < Version(22) {
            return Err(Failure::no_resource());
        }
        let body = request.object(&[
            "callback_url",
            "agent_version",
            "agent_token",
            "agent_verify_ca",
            "agent_status",
            "agent_status_message",
        ])?;
        let text = |key: &str| body.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
        let callback_url = text("callback_url")
            .ok_or_else(|| Failure::invalid("Missing mandatory parameter: callback_url"))?;
        if text("agent_status").is_some_and(|status| !matches!(status.as_str(), "start" | "end" | "error")) {
            return Err(Failure::invalid("Agent status is invalid. Valid states are start,end,error."));
        }
        let node = self.find_node(ident)?;
        let token = text("agent_token")
            .ok_or_else(|| Failure::invalid("Agent token is required for heartbeat processing."))?;
        self.conductor.heartbeat(node.uuid, callback_url, &token, text("agent_version"))?;
        Ok(Answer::accepted())
    }

    /// `POST /v1/continue_inspection`.
    pub(super) async fn continue_inspection(&self, request: &Request) -> Outcome {
        if request.method != Method::POST {
            return Err(Failure::no_method());
        }
        if request.version < Version(84) {
            return Err(Failure::not_found("API version 1.84 or newer is required"));
        }
        let report = request.json()?.as_object().cloned().unwrap_or_default();
        let Some(inventory) = report.get("inventory") else {
            return Err(Failure::invalid("Schema error for data: 'inventory' is a required property"));
        };
        match inventory.get("interfaces").and_then(Value::as_array) {
            None => {
                return Err(Failure::invalid("Schema error for data: 'interfaces' is a required property"));
            }
            Some(interfaces) if interfaces.is_empty() => {
                return Err(Failure::invalid("Schema error for data: [] should be non-empty"));
            }
            Some(_) => {}
        }
        let node = self.conductor.continue_inspection(report).await?;
        // A token that went with the boot disc is not told again.
        let token = node.agent.token.as_deref().filter(|_| !node.agent.token_pregenerated);
        let body = self.for_agent(request, &node, token);
        Ok(Answer { body: Some(body), ..Answer::accepted() })
    }
}
