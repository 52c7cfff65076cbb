//! Names and addresses, parsed once: BMC addresses and what follows from them, node names, MAC addresses.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use serde_json::{Map, Value};

use crate::{
    provisioner::{DriverInfo, NewNode},
    words::words,
};

words! {
    /// The kind of a BMC, which is the scheme of its address without `+http` or `+https`.
    pub enum BmcKind {
        /// IPMI over LAN.
        Ipmi => "ipmi",
        /// IPMI to a virtual BMC of libvirt. It cannot be told apart by its MAC address, so one must be given.
        Libvirt => "libvirt",
        /// Redfish, booting by PXE.
        Redfish => "redfish",
        /// Redfish on an HPE iLO 5, booting by PXE.
        Ilo5Redfish => "ilo5-redfish",
        /// Redfish on a Dell iDRAC, booting by PXE.
        IdracRedfish => "idrac-redfish",
        /// Redfish, booting from a virtual CD.
        RedfishVirtualMedia => "redfish-virtualmedia",
        /// Redfish on an HPE iLO 5, booting from a virtual CD.
        Ilo5VirtualMedia => "ilo5-virtualmedia",
        /// Redfish on a Dell iDRAC, booting from a virtual CD.
        IdracVirtualMedia => "idrac-virtualmedia",
        /// Redfish, booting by UEFI HTTP.
        RedfishUefiHttp => "redfish-uefihttp",
    }
}

impl BmcKind {
    /// Whether the BMC is spoken to by IPMI.
    pub const fn is_ipmi(self) -> bool {
        match self {
            Self::Ipmi | Self::Libvirt => true,
            Self::Redfish
            | Self::Ilo5Redfish
            | Self::IdracRedfish
            | Self::RedfishVirtualMedia
            | Self::Ilo5VirtualMedia
            | Self::IdracVirtualMedia
            | Self::RedfishUefiHttp => false,
        }
    }

    const fn is_idrac(self) -> bool {
        matches!(self, Self::IdracRedfish | Self::IdracVirtualMedia)
    }

    /// Whether the agent can be booted from an ISO image, without a provisioning network. Such hosts never wait for
    /// others.
    pub const fn boots_iso(self) -> bool {
        match self {
            Self::RedfishVirtualMedia
            | Self::Ilo5VirtualMedia
            | Self::IdracVirtualMedia
            | Self::RedfishUefiHttp => true,
            Self::Ipmi | Self::Libvirt | Self::Redfish | Self::Ilo5Redfish | Self::IdracRedfish => false,
        }
    }

    /// Whether secure boot can be turned on, and hardware be inspected, through the BMC.
    pub const fn is_redfish(self) -> bool {
        !self.is_ipmi()
    }

    const fn boot_interface(self) -> &'static str {
        match self {
            Self::Ipmi | Self::Libvirt | Self::Redfish | Self::Ilo5Redfish | Self::IdracRedfish => "ipxe",
            Self::RedfishVirtualMedia | Self::Ilo5VirtualMedia => "redfish-virtual-media",
            Self::IdracVirtualMedia => "idrac-redfish-virtual-media",
            Self::RedfishUefiHttp => "redfish-https",
        }
    }
}

/// Where a BMC is and how to speak to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BmcAddress {
    /// What it is.
    pub kind: BmcKind,
    /// `http` or `https`; only Redfish knows the difference.
    tls: bool,
    /// Name or address; an IPv6 address without brackets.
    host: String,
    port: Option<u16>,
    /// With a leading slash, or empty.
    path: String,
    privilege: Option<String>,
}

/// Why a text is no BMC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// The scheme is not one of ours.
    #[error("use BMC address {address}: its kind {kind:?} is not known")]
    Kind {
        /// The scheme.
        kind: String,
        /// The whole address.
        address: String,
    },
    /// The host is neither an IP address nor a DNS name.
    #[error("use BMC address {0}: there is no valid host in it")]
    Host(String),
    /// The port is not a number up to 65535.
    #[error("use BMC address {0}: its port is not a number up to 65535")]
    Port(String),
}

impl FromStr for BmcAddress {
    type Err = BadAddress;

    /// Reads `<kind>[+http|+https]://<host>[:port][/path][?query]`; without a scheme, the BMC speaks IPMI.
    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("ipmi", text));
        let (name, tls) = match scheme.split_once('+') {
            Some((name, "http")) => (name, Some(false)),
            Some((name, "https")) => (name, Some(true)),
            Some(_) | None => (scheme, None),
        };
        let kind = name
            .parse()
            .ok()
            .filter(|kind: &BmcKind| kind.is_redfish() || tls.is_none())
            .ok_or_else(|| BadAddress::Kind { kind: scheme.to_owned(), address: text.to_owned() })?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let (host, port) = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let is_address = host.parse::<Ipv6Addr>().is_ok();
        let is_name = !authority.starts_with('[')
            && host.split('.').all(|label| {
                let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                inner
                    && !label.is_empty()
                    && label.len() <= 63
                    && !label.starts_with('-')
                    && !label.ends_with('-')
            });
        if !(is_address || is_name) {
            return Err(BadAddress::Host(text.to_owned()));
        }
        let port = match port.filter(|port| !port.is_empty()) {
            Some(port) => Some(port.parse().map_err(|_| BadAddress::Port(text.to_owned()))?),
            None => None,
        };
        let privilege =
            query.split('&').find_map(|pair| pair.strip_prefix("privilegelevel=")).map(str::to_owned);
        Ok(Self {
            kind,
            tls: tls.unwrap_or(true),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            privilege,
        })
    }
}

impl BmcAddress {
    /// The key of `driver_info` that holds the address.
    pub const fn address_key(&self) -> &'static str {
        if self.kind.is_ipmi() { "ipmi_address" } else { "redfish_address" }
    }

    /// How Ironic reaches the BMC.
    pub fn driver_info(&self, username: &str, password: &str, verify: bool) -> DriverInfo {
        let mut info = Map::new();
        let mut put = |key: &str, value: Value| info.insert(key.to_owned(), value);
        if self.kind.is_ipmi() {
            put("ipmi_address", self.host.clone().into());
            put("ipmi_port", self.port.unwrap_or(623).to_string().into());
            put("ipmi_username", username.into());
            put("ipmi_password", password.into());
            put("ipmi_priv_level", self.privilege.as_deref().unwrap_or("ADMINISTRATOR").into());
            if !verify {
                put("ipmi_verify_ca", false.into());
            }
        } else {
            put("redfish_address", self.redfish_root().into());
            put("redfish_username", username.into());
            put("redfish_password", password.into());
            // A path to the service root names no system: Ironic then takes the only one there is.
            let names_system = !matches!(self.path.trim_end_matches('/'), "" | "/redfish/v1");
            if names_system || self.kind == BmcKind::RedfishUefiHttp {
                put("redfish_system_id", self.path.clone().into());
            }
            if !verify {
                put("redfish_verify_ca", false.into());
            }
        }
        DriverInfo(info)
    }

    fn redfish_root(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }

    /// A new node's driver and interfaces (upstream `pkg/hardwareutils/bmc`).
    pub fn describe(&self, node: &mut NewNode) {
        let kind = self.kind;
        node.driver = match kind {
            _ if kind.is_ipmi() => "ipmi",
            _ if kind.is_idrac() => "idrac",
            _ => "redfish",
        }
        .to_owned();
        node.boot_interface = kind.boot_interface();
        if kind.is_ipmi() {
            node.raid_interface = "no-raid";
            return;
        }
        node.firmware_interface = "redfish";
        node.raid_interface = "redfish";
        if kind.is_idrac() {
            for interface in [
                &mut node.bios_interface,
                &mut node.management_interface,
                &mut node.power_interface,
                &mut node.raid_interface,
                &mut node.vendor_interface,
            ] {
                *interface = "idrac-redfish";
            }
        }
    }

    /// The interface that inspects through the BMC; `None` if the BMC cannot.
    pub const fn fast_inspection(&self) -> Option<&'static str> {
        if self.kind.is_redfish() { Some("redfish") } else { None }
    }
}

impl fmt::Display for BmcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.kind, self.host)
    }
}

/// The name of a host's node: `<namespace>~<name>`.
pub fn node_name(namespace: &str, name: &str) -> String {
    format!("{namespace}~{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_tells_ironic_where_the_bmc_is() {
        for (address, info) in [
            (
                "ipmi://192.168.111.1:6230",
                json!({"ipmi_address": "192.168.111.1", "ipmi_port": "6230", "ipmi_username": "u", "ipmi_password": "p",
                    "ipmi_priv_level": "ADMINISTRATOR"}),
            ),
            (
                "bmc-0.lab?privilegelevel=OPERATOR",
                json!({"ipmi_address": "bmc-0.lab", "ipmi_port": "623", "ipmi_username": "u", "ipmi_password": "p",
                    "ipmi_priv_level": "OPERATOR"}),
            ),
            (
                "redfish-virtualmedia+http://bmc-1:8000/redfish/v1/Systems/1",
                json!({"redfish_address": "http://bmc-1:8000", "redfish_system_id": "/redfish/v1/Systems/1",
                    "redfish_username": "u", "redfish_password": "p"}),
            ),
            (
                "idrac-redfish://[fd00::1]/redfish/v1/",
                json!({"redfish_address": "https://[fd00::1]", "redfish_username": "u", "redfish_password": "p"}),
            ),
        ] {
            let parsed: BmcAddress = address.parse().unwrap_or_else(|error| panic!("{address}: {error}"));
            assert_eq!(Value::Object(parsed.driver_info("u", "p", true).0), info, "{address}");
        }
        let unchecked = "redfish://a".parse::<BmcAddress>().expect("an address").driver_info("u", "p", false);
        assert_eq!(unchecked.0["redfish_verify_ca"], json!(false));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "irmc://10.0.0.1",
            "ipmi+http://10.0.0.1",
            "redfish+ftp://a",
            "redfish://",
            "ipmi://a_b",
            "-a.b",
            "a:70000",
            "redfish://[::1",
            "redfish://[not-six]",
        ] {
            assert!(text.parse::<BmcAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn drivers_and_interfaces_follow_the_kind() {
        for (address, driver, boot, raid, power) in [
            ("ipmi://a", "ipmi", "ipxe", "no-raid", ""),
            ("redfish://a", "redfish", "ipxe", "redfish", ""),
            ("redfish-virtualmedia+https://a", "redfish", "redfish-virtual-media", "redfish", ""),
            (
                "idrac-virtualmedia://a",
                "idrac",
                "idrac-redfish-virtual-media",
                "idrac-redfish",
                "idrac-redfish",
            ),
            ("redfish-uefihttp://a", "redfish", "redfish-https", "redfish", ""),
        ] {
            let mut node = NewNode::default();
            address.parse::<BmcAddress>().expect("an address").describe(&mut node);
            assert_eq!(
                (node.driver.as_str(), node.boot_interface, node.raid_interface, node.power_interface),
                (driver, boot, raid, power),
                "{address}"
            );
        }
    }
}
