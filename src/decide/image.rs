//! How images and boot settings are spelled in a node's fields.

use serde_json::{Map, Value, json};

use super::pass::Pass;
use crate::{
    bmh::{BootMode, CustomDeploy, Image, RootDeviceHints},
    provisioner::{Node, Patch},
};

/// The boot mode in force.
pub(super) fn boot_mode(pass: &Pass<'_>) -> BootMode {
    pass.status.provisioning.boot_mode.or(pass.spec().boot_mode).unwrap_or(BootMode::Uefi)
}

/// A node's `capabilities` (`name:value,…`) with the boot mode in force. Those of others are kept.
pub(super) fn capabilities(current: &str, pass: &Pass<'_>) -> String {
    let mode = boot_mode(pass);
    let secure = mode == BootMode::UefiSecureBoot;
    let mut pairs: Vec<(&str, &str)> = current.split(',').filter_map(|pair| pair.split_once(':')).collect();
    pairs.retain(|(name, _)| *name != "secure_boot" || secure);
    for (name, value, wanted) in [("boot_mode", mode.capability(), true), ("secure_boot", "true", secure)] {
        match pairs.iter_mut().find(|(known, _)| *known == name) {
            Some(pair) => pair.1 = value,
            None if wanted => pairs.push((name, value)),
            None => {}
        }
    }
    pairs.iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>().join(",")
}

/// The interface that puts this onto a machine; empty for Ironic's default.
pub(super) fn deploy_interface(image: Option<&Image>, custom: Option<&CustomDeploy>) -> &'static str {
    match (image, custom) {
        (Some(image), _) if image.is_live_iso() => "ramdisk",
        (_, Some(_)) => "custom-agent",
        (_, None) => "",
    }
}

/// The fields of `instance_info` that say which image is, or is to be, on a machine. An absent one is to be removed.
pub(super) fn image_fields(image: Option<&Image>) -> Vec<(&'static str, Option<Value>)> {
    let mut fields = Map::new();
    match image {
        Some(image) if image.is_live_iso() => {
            fields.insert("boot_iso".to_owned(), image.url.clone().into());
        }
        Some(image) => {
            fields.insert("image_source".to_owned(), image.url.clone().into());
            if !image.format.is_empty() {
                fields.insert("image_disk_format".to_owned(), image.format.clone().into());
            }
            match image.checksum_type.as_str() {
                _ if image.checksum.is_empty() => {}
                "" | "auto" => {
                    fields.insert("image_checksum".to_owned(), image.checksum.clone().into());
                }
                kind => {
                    fields.insert("image_os_hash_algo".to_owned(), kind.into());
                    fields.insert("image_os_hash_value".to_owned(), image.checksum.clone().into());
                }
            }
        }
        None => {}
    }
    FIELDS.iter().map(|field| (*field, fields.remove(*field))).collect()
}

/// All fields that [`image_fields`] may set.
const FIELDS: [&str; 6] = [
    "boot_iso",
    "image_source",
    "image_disk_format",
    "image_checksum",
    "image_os_hash_algo",
    "image_os_hash_value",
];

/// Wants the node's `instance_info` to name this image and no other.
pub(super) fn want_image(patch: &mut Patch, node: &Node, image: Option<&Image>) {
    for (field, wanted) in image_fields(image) {
        patch.want_in("instance_info", &node.instance_info, field, wanted);
    }
}

/// Whether the node was last told to hold this image.
pub(super) fn has_image(node: &Node, image: Option<&Image>) -> bool {
    image_fields(image).iter().filter(|(field, _)| *field != "image_disk_format").all(|(field, wanted)| {
        node.instance_info.get(*field).filter(|value| !value.is_null()) == wanted.as_ref()
    })
}

/// What is wrong with an image before it is tried.
pub(super) fn objection(image: &Image) -> Option<String> {
    let is_oci = image.url.starts_with("oci://");
    if is_oci && !image.checksum.is_empty() {
        return Some("an image from an OCI registry must have no checksum".to_owned());
    }
    if !is_oci && !image.is_live_iso() && image.checksum.is_empty() {
        return Some("image data is incomplete: there is no checksum".to_owned());
    }
    match image.checksum_type.as_str() {
        "" | "auto" | "md5" | "sha256" | "sha512" => None,
        kind => Some(format!("unknown checksum type {kind}")),
    }
}

/// Root device hints in Ironic's words; `None` if there are none.
pub(super) fn root_device(hints: &RootDeviceHints) -> Option<Value> {
    let equals = |text: &str| (!text.is_empty()).then(|| format!("s== {text}"));
    let contains = |text: &str| (!text.is_empty()).then(|| format!("<in> {text}"));
    let size = (hints.min_size_gigabytes > 0).then(|| format!(">= {}", hints.min_size_gigabytes));
    let wanted: Map<String, Value> = [
        ("name", equals(&hints.device_name)),
        ("hctl", equals(&hints.hctl)),
        ("model", contains(&hints.model)),
        ("vendor", contains(&hints.vendor)),
        ("serial", equals(&hints.serial_number)),
        ("size", size),
        ("wwn", equals(&hints.wwn)),
        ("wwn_with_extension", equals(&hints.wwn_with_extension)),
        ("wwn_vendor_extension", equals(&hints.wwn_vendor_extension)),
        ("rotational", hints.rotational.map(|rotational| rotational.to_string())),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?.into())))
    .collect();
    (!wanted.is_empty()).then_some(Value::Object(wanted))
}

/// `instance_info.capabilities` of a deployment.
pub(super) fn instance_capabilities(pass: &Pass<'_>) -> Value {
    match boot_mode(pass) {
        BootMode::UefiSecureBoot => json!({"secure_boot": "true"}),
        BootMode::Uefi | BootMode::Legacy => json!({}),
    }
}
