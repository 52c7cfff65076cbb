//! Whether a node's fields are enough for what is asked of it. Nothing here reaches the network.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Conductor;
use crate::{failure::Failure, hardware::Kind, node::Node};

/// Why a node can't be deployed.
pub(super) enum Invalid {
    /// Ironic's words.
    Reason(String),
    /// An image address that Ironic has no client for, which it answers with 500.
    Scheme(String),
}

impl Conductor {
    /// `GET /v1/nodes/U/validate`: per kind of interface, whether it would work.
    pub(crate) fn validate(&self, uuid: Uuid) -> Result<Map<String, Value>, Failure> {
        let node = self.database().node(uuid).map_err(|_| Failure::no_node(uuid))?;
        let target = self.target(&node);
        let power = self.driver().validate(&target).map_err(|error| error.to_string());
        let boot = self.driver().validate_boot(&target).map_err(|error| error.to_string());
        let deploy = match validate_deploy(&node) {
            Ok(()) => boot.clone(),
            Err(Invalid::Reason(reason)) => Err(reason),
            Err(Invalid::Scheme(text)) => return Err(Failure::server(text)),
        };
        let mut verdicts = Map::new();
        for kind in Kind::ALL {
            let name = node.interfaces.get(kind);
            let verdict = match kind {
                Kind::Power => power.clone(),
                Kind::Management if name != "noop" => power.clone(),
                Kind::Boot => boot.clone(),
                Kind::Deploy => deploy.clone(),
                Kind::Bios | Kind::Console | Kind::Firmware | Kind::Inspect | Kind::Raid | Kind::Rescue
                    if name.starts_with("no-") =>
                {
                    Err(format!(
                        "Driver {} does not support {} (disabled or not implemented).",
                        node.driver,
                        kind.name()
                    ))
                }
                Kind::Vendor => continue,
                Kind::Management
                | Kind::Bios
                | Kind::Console
                | Kind::Firmware
                | Kind::Inspect
                | Kind::Raid
                | Kind::Rescue
                | Kind::Network
                | Kind::Storage => Ok(()),
            };
            let verdict = match verdict {
                Ok(()) => json!({ "result": true }),
                Err(reason) => json!({ "result": false, "reason": reason }),
            };
            verdicts.insert(kind.name().to_owned(), verdict);
        }
        Ok(verdicts)
    }

    /// What Ironic checks before it accepts `active` or `rebuild`.
    pub(super) fn validate_before_deploy(&self, node: &Node) -> Result<(), Failure> {
        let target = self.target(node);
        let checked = self
            .driver()
            .validate(&target)
            .and_then(|()| self.driver().validate_boot(&target))
            .map_err(|error| Invalid::Reason(error.to_string()))
            .and_then(|()| validate_deploy(node));
        match checked {
            Ok(()) => Ok(()),
            Err(Invalid::Scheme(text)) => Err(Failure::server(text)),
            Err(Invalid::Reason(reason)) => Err(Failure::invalid(format!(
                "Failed to validate deploy or power info for node {}: {reason}",
                node.uuid
            ))),
        }
    }
}

/// Whether the image is named well enough.
fn validate_deploy(node: &Node) -> Result<(), Invalid> {
    let text =
        |key: &str| node.instance_info.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some(source) = text("image_source") else {
        if node.interfaces.deploy == "custom-agent" {
            return Ok(());
        }
        return Err(Invalid::Reason(format!(
            "Node {} failed to validate deploy image info. Some parameters were missing. Missing are: \
             ['instance_info.image_source']",
            node.uuid
        )));
    };
    let scheme = source.split_once("://").map(|(scheme, _)| scheme);
    if !matches!(scheme, Some("http" | "https")) {
        let scheme = scheme.unwrap_or("None");
        return Err(Invalid::Scheme(format!(
            "Validation of image href {source} failed, reason: Image download protocol {scheme} is not supported."
        )));
    }
    let hash = text("image_os_hash_algo").is_some() && text("image_os_hash_value").is_some();
    if text("image_checksum").is_none() && !hash {
        return Err(Invalid::Reason(format!(
            "image_source's \"image_checksum\", or \"image_os_hash_algo\" and \"image_os_hash_value\" must be provided \
             in instance_info for node {}",
            node.uuid
        )));
    }
    Ok(())
}
