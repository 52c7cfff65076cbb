//! Microversions: which one a request speaks, and since when fields exist.

use std::fmt;

use http::HeaderMap;

/// A microversion `1.N`, by its minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u16);

/// The oldest.
pub(super) const MINIMUM: Version = Version(1);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// What comes of a request's headers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Negotiation {
    Agreed(Version),
    /// Why not.
    Refused(String),
}

/// Reads the version that a request asks for. Without one, the oldest is meant.
pub(super) fn negotiate(headers: &HeaderMap, maximum: u16) -> Negotiation {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let standard = text("openstack-api-version").and_then(|value| value.trim().strip_prefix("baremetal "));
    let Some(asked) = text("x-openstack-ironic-api-version").or(standard).map(str::trim) else {
        return Negotiation::Agreed(MINIMUM);
    };
    if asked == "latest" {
        return Negotiation::Agreed(Version(maximum));
    }
    let parsed = asked.split_once('.').and_then(|(major, minor)| {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (digits(major) && digits(minor)).then_some((major.parse::<u16>().ok()?, minor.parse::<u16>().ok()?))
    });
    let range = format!("The supported version range is: [{MINIMUM}, {}].", Version(maximum));
    match parsed {
        None => Negotiation::Refused("Invalid value for X-OpenStack-Ironic-API-Version header".to_owned()),
        Some((1, minor)) if (MINIMUM.0..=maximum).contains(&minor) => Negotiation::Agreed(Version(minor)),
        Some((1, _)) => Negotiation::Refused(format!(
            "Version {asked} was requested but the minor version is not supported by this service. {range}"
        )),
        Some(_) => Negotiation::Refused(format!(
            "Mutually exclusive versions requested. Version {asked} requested but not supported by this service. {range}"
        )),
    }
}

/// Since which microversion a node's fields are there (`ironic/api/controllers/v1/versions.py`).
const NODE_FIELDS: &[(&str, u16)] = &[
    ("allocation_uuid", 52),
    ("automated_clean", 47),
    ("bios_interface", 40),
    ("boot_interface", 31),
    ("boot_mode", 75),
    ("chassis_uuid", 1),
    ("clean_step", 7),
    ("conductor", 49),
    ("conductor_group", 46),
    ("console_enabled", 1),
    ("console_interface", 31),
    ("created_at", 1),
    ("deploy_interface", 31),
    ("deploy_step", 44),
    ("description", 51),
    ("disable_power_off", 95),
    ("driver", 1),
    ("driver_info", 1),
    ("driver_internal_info", 3),
    ("extra", 1),
    ("fault", 42),
    ("firmware_interface", 86),
    ("health", 109),
    ("inspect_interface", 31),
    ("inspection_finished_at", 6),
    ("inspection_started_at", 6),
    ("instance_info", 1),
    ("instance_name", 104),
    ("instance_uuid", 1),
    ("last_error", 1),
    ("lessee", 65),
    ("maintenance", 1),
    ("maintenance_reason", 1),
    ("management_interface", 31),
    ("name", 5),
    ("network_data", 66),
    ("network_interface", 20),
    ("owner", 50),
    ("parent_node", 83),
    ("portgroups", 24),
    ("ports", 1),
    ("power_interface", 31),
    ("power_state", 1),
    ("properties", 1),
    ("protected", 48),
    ("protected_reason", 48),
    ("provision_state", 1),
    ("provision_updated_at", 1),
    ("raid_config", 12),
    ("raid_interface", 31),
    ("rescue_interface", 38),
    ("reservation", 1),
    ("resource_class", 21),
    ("retired", 61),
    ("retired_reason", 61),
    ("secure_boot", 75),
    ("service_step", 87),
    ("shard", 82),
    ("states", 14),
    ("storage_interface", 33),
    ("target_power_state", 1),
    ("target_provision_state", 1),
    ("target_raid_config", 12),
    ("traits", 37),
    ("updated_at", 1),
    ("uuid", 1),
    ("vendor_interface", 31),
    ("volume", 32),
];

/// Since which microversion a port's fields are there.
const PORT_FIELDS: &[(&str, u16)] = &[
    ("address", 1),
    ("category", 101),
    ("created_at", 1),
    ("description", 97),
    ("extra", 1),
    ("internal_info", 18),
    ("is_smartnic", 53),
    ("local_link_connection", 19),
    ("name", 88),
    ("node_uuid", 1),
    ("physical_network", 34),
    ("portgroup_uuid", 24),
    ("pxe_enabled", 19),
    ("updated_at", 1),
    ("uuid", 1),
    ("vendor", 100),
];

fn since(fields: &[(&str, u16)], field: &str) -> Option<Version> {
    fields.iter().find(|(name, _)| *name == field).map(|(_, version)| Version(*version))
}

/// Since when a node has a field; `None`: never.
pub(super) fn node_field_since(field: &str) -> Option<Version> {
    since(NODE_FIELDS, field)
}

/// Since when a port has a field; `None`: never.
pub(super) fn port_field_since(field: &str) -> Option<Version> {
    since(PORT_FIELDS, field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(name: &'static str, value: &str) -> Negotiation {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header's value"));
        negotiate(&headers, 115)
    }

    #[test]
    fn versions_are_negotiated() {
        const OURS: &str = "x-openstack-ironic-api-version";
        let agreed = |minor| Negotiation::Agreed(Version(minor));
        assert_eq!(negotiate(&HeaderMap::new(), 115), agreed(1));
        for (value, minor) in [("1.1", 1), ("1.109", 109), ("1.115", 115), ("latest", 115), (" 1.81 ", 81)] {
            assert_eq!(ask(OURS, value), agreed(minor), "{value}");
        }
        assert_eq!(ask("openstack-api-version", "baremetal 1.81"), agreed(81));
        assert_eq!(ask("openstack-api-version", "compute 2.1"), agreed(1));
        let range = "The supported version range is: [1.1, 1.115].";
        for (value, text) in [
            ("banana", "Invalid value for X-OpenStack-Ironic-API-Version header".to_owned()),
            ("1", "Invalid value for X-OpenStack-Ironic-API-Version header".to_owned()),
            ("1.+2", "Invalid value for X-OpenStack-Ironic-API-Version header".to_owned()),
            (
                "1.999",
                format!(
                    "Version 1.999 was requested but the minor version is not supported by this service. {range}"
                ),
            ),
            (
                "0.9",
                format!(
                    "Mutually exclusive versions requested. Version 0.9 requested but not supported by this service. \
                     {range}"
                ),
            ),
        ] {
            assert_eq!(ask(OURS, value), Negotiation::Refused(text));
        }
    }

    /// The keys of a node as recorded from Ironic 39.0.0 at two versions.
    #[test]
    fn fields_come_with_their_version() {
        let at = |minor: u16| -> Vec<&str> {
            NODE_FIELDS.iter().filter(|(_, since)| *since <= minor).map(|(name, _)| *name).collect()
        };
        let first = "chassis_uuid console_enabled created_at driver driver_info extra instance_info instance_uuid \
                     last_error maintenance maintenance_reason ports power_state properties provision_state \
                     provision_updated_at reservation target_power_state target_provision_state updated_at uuid";
        assert_eq!(at(1), first.split_whitespace().collect::<Vec<_>>());
        let missing: Vec<&str> =
            NODE_FIELDS.iter().map(|(name, _)| *name).filter(|name| !at(81).contains(name)).collect();
        let newer =
            "disable_power_off firmware_interface health instance_name parent_node service_step shard";
        assert_eq!(missing, newer.split_whitespace().collect::<Vec<_>>());
        assert_eq!(at(109).len(), NODE_FIELDS.len());
    }
}
