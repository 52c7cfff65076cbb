//! Hardware types and their interfaces: which exist, which are enabled for which, and which one is taken when a client
//! names none.

use std::fmt;

/// The interface of each kind that a node uses, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interfaces {
    pub(crate) bios: String,
    pub(crate) boot: String,
    pub(crate) console: String,
    pub(crate) deploy: String,
    pub(crate) firmware: String,
    pub(crate) inspect: String,
    pub(crate) management: String,
    pub(crate) network: String,
    pub(crate) power: String,
    pub(crate) raid: String,
    pub(crate) rescue: String,
    pub(crate) storage: String,
    pub(crate) vendor: String,
}

/// The kinds of interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bios,
    Boot,
    Console,
    Deploy,
    Firmware,
    Inspect,
    Management,
    Network,
    Power,
    Raid,
    Rescue,
    Storage,
    Vendor,
}

impl Kind {
    pub(crate) const ALL: [Self; 13] = [
        Self::Bios,
        Self::Boot,
        Self::Console,
        Self::Deploy,
        Self::Firmware,
        Self::Inspect,
        Self::Management,
        Self::Network,
        Self::Power,
        Self::Raid,
        Self::Rescue,
        Self::Storage,
        Self::Vendor,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bios => "bios",
            Self::Boot => "boot",
            Self::Console => "console",
            Self::Deploy => "deploy",
            Self::Firmware => "firmware",
            Self::Inspect => "inspect",
            Self::Management => "management",
            Self::Network => "network",
            Self::Power => "power",
            Self::Raid => "raid",
            Self::Rescue => "rescue",
            Self::Storage => "storage",
            Self::Vendor => "vendor",
        }
    }

    /// The node's field that holds it.
    pub(crate) fn field(self) -> String {
        format!("{}_interface", self.name())
    }

    /// The kind whose field this is.
    pub(crate) fn of_field(field: &str) -> Option<Self> {
        let name = field.strip_suffix("_interface")?;
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Interfaces {
    pub(crate) fn get(&self, kind: Kind) -> &str {
        match kind {
            Kind::Bios => &self.bios,
            Kind::Boot => &self.boot,
            Kind::Console => &self.console,
            Kind::Deploy => &self.deploy,
            Kind::Firmware => &self.firmware,
            Kind::Inspect => &self.inspect,
            Kind::Management => &self.management,
            Kind::Network => &self.network,
            Kind::Power => &self.power,
            Kind::Raid => &self.raid,
            Kind::Rescue => &self.rescue,
            Kind::Storage => &self.storage,
            Kind::Vendor => &self.vendor,
        }
    }

    fn slot(&mut self, kind: Kind) -> &mut String {
        match kind {
            Kind::Bios => &mut self.bios,
            Kind::Boot => &mut self.boot,
            Kind::Console => &mut self.console,
            Kind::Deploy => &mut self.deploy,
            Kind::Firmware => &mut self.firmware,
            Kind::Inspect => &mut self.inspect,
            Kind::Management => &mut self.management,
            Kind::Network => &mut self.network,
            Kind::Power => &mut self.power,
            Kind::Raid => &mut self.raid,
            Kind::Rescue => &mut self.rescue,
            Kind::Storage => &mut self.storage,
            Kind::Vendor => &mut self.vendor,
        }
    }
}

/// A hardware type: a family of machines that is driven alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HardwareType {
    Redfish,
    Ipmi,
}

/// An interface that the node can't have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InterfaceError {
    /// No hardware type has it.
    Unknown { kind: Kind, name: String },
    /// This hardware type has not.
    Unsupported { kind: Kind, name: String, hardware: HardwareType },
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { kind, name } => {
                let mut valid: Vec<&str> =
                    HardwareType::ALL.iter().flat_map(|hardware| hardware.enabled(*kind)).copied().collect();
                valid.sort_unstable();
                valid.dedup();
                let valid: Vec<String> = valid.into_iter().map(|name| format!("'{name}'")).collect();
                write!(
                    f,
                    "Could not find the following interface in the 'ironic.hardware.interfaces.{}' entrypoint: {name}. \
                     Valid interfaces are [{}].",
                    kind.name(),
                    valid.join(", ")
                )
            }
            Self::Unsupported { kind, name, hardware } => write!(
                f,
                "{} interface implementation '{name}' is not supported by hardware type {}.",
                kind.name(),
                hardware.class()
            ),
        }
    }
}

impl HardwareType {
    pub(crate) const ALL: [Self; 2] = [Self::Ipmi, Self::Redfish];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redfish => "redfish",
            Self::Ipmi => "ipmi",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Redfish => "RedfishHardware",
            Self::Ipmi => "IPMIHardware",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hardware| hardware.name() == name)
    }

    /// The enabled interfaces of a kind.
    pub(crate) fn enabled(self, kind: Kind) -> &'static [&'static str] {
        match (self, kind) {
            (_, Kind::Deploy) => &["direct", "custom-agent"],
            (_, Kind::Network) => &["noop"],
            (_, Kind::Console) => &["no-console"],
            (_, Kind::Rescue) => &["no-rescue"],
            (_, Kind::Storage) => &["noop"],
            (Self::Redfish, Kind::Bios) => &["no-bios", "redfish"],
            (Self::Redfish, Kind::Boot) => &["ipxe", "redfish-virtual-media", "pxe"],
            (Self::Redfish, Kind::Firmware) => &["no-firmware", "redfish"],
            (_, Kind::Inspect) => &["agent", "no-inspect"],
            (Self::Redfish, Kind::Management) => &["noop", "redfish"],
            (Self::Redfish, Kind::Power) => &["redfish"],
            (Self::Redfish, Kind::Raid) => &["no-raid", "redfish", "agent"],
            (Self::Redfish, Kind::Vendor) => &["no-vendor", "redfish"],
            (Self::Ipmi, Kind::Bios) => &["no-bios"],
            (Self::Ipmi, Kind::Boot) => &["ipxe", "pxe"],
            (Self::Ipmi, Kind::Firmware) => &["no-firmware"],
            (Self::Ipmi, Kind::Management) => &["noop", "ipmitool"],
            (Self::Ipmi, Kind::Power) => &["ipmitool"],
            (Self::Ipmi, Kind::Raid) => &["no-raid", "agent"],
            (Self::Ipmi, Kind::Vendor) => &["no-vendor", "ipmitool"],
        }
    }

    /// The interface taken when a client names none.
    pub(crate) fn default(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (_, Kind::Deploy) => "direct",
            (_, Kind::Network | Kind::Storage) => "noop",
            (_, Kind::Console) => "no-console",
            (_, Kind::Rescue) => "no-rescue",
            (_, Kind::Inspect) => "agent",
            (_, Kind::Boot) => "ipxe",
            (
                Self::Redfish,
                Kind::Bios | Kind::Firmware | Kind::Management | Kind::Power | Kind::Raid | Kind::Vendor,
            ) => "redfish",
            (Self::Ipmi, Kind::Bios) => "no-bios",
            (Self::Ipmi, Kind::Firmware) => "no-firmware",
            (Self::Ipmi, Kind::Raid) => "no-raid",
            (Self::Ipmi, Kind::Management | Kind::Power | Kind::Vendor) => "ipmitool",
        }
    }

    pub(crate) fn defaults(self) -> Interfaces {
        let name = |kind| self.default(kind).to_owned();
        Interfaces {
            bios: name(Kind::Bios),
            boot: name(Kind::Boot),
            console: name(Kind::Console),
            deploy: name(Kind::Deploy),
            firmware: name(Kind::Firmware),
            inspect: name(Kind::Inspect),
            management: name(Kind::Management),
            network: name(Kind::Network),
            power: name(Kind::Power),
            raid: name(Kind::Raid),
            rescue: name(Kind::Rescue),
            storage: name(Kind::Storage),
            vendor: name(Kind::Vendor),
        }
    }

    /// Sets one interface; `None` sets the default.
    pub(crate) fn set(
        self,
        interfaces: &mut Interfaces,
        kind: Kind,
        name: Option<&str>,
    ) -> Result<(), InterfaceError> {
        let name = name.unwrap_or_else(|| self.default(kind));
        if !self.enabled(kind).contains(&name) {
            let known = Self::ALL.iter().any(|hardware| hardware.enabled(kind).contains(&name));
            let name = name.to_owned();
            return Err(if known {
                InterfaceError::Unsupported { kind, name, hardware: self }
            } else {
                InterfaceError::Unknown { kind, name }
            });
        }
        name.clone_into(interfaces.slot(kind));
        Ok(())
    }

    /// Whether the node's interfaces all belong to this hardware type.
    pub(crate) fn accepts(self, interfaces: &Interfaces) -> Result<(), InterfaceError> {
        let mut copy = interfaces.clone();
        Kind::ALL.into_iter().try_for_each(|kind| self.set(&mut copy, kind, Some(interfaces.get(kind))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_enabled() {
        for hardware in HardwareType::ALL {
            assert_eq!(hardware.accepts(&hardware.defaults()), Ok(()));
            assert_eq!(HardwareType::of(hardware.name()), Some(hardware));
        }
    }

    #[test]
    fn every_kind_is_found_by_its_field() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_field(&kind.field()), Some(kind));
            assert!(kind.field().ends_with("_interface"));
        }
        assert_eq!(Kind::of_field("nope_interface"), None);
        assert_eq!(Kind::of_field("boot"), None);
    }
}
