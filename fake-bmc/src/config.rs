//! How a machine and its BMC are set up.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{BootSource, Credentials, DiskContent, Inventory, MacAddress, Nic, Timings};

/// Which protocols a BMC speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Redfish alone.
    #[default]
    Redfish,
    /// IPMI alone.
    Ipmi,
    /// Redfish and IPMI.
    Both,
}

impl Protocol {
    /// Whether Redfish is served.
    pub fn has_redfish(self) -> bool {
        matches!(self, Self::Redfish | Self::Both)
    }

    /// Whether IPMI is served.
    pub fn has_ipmi(self) -> bool {
        matches!(self, Self::Ipmi | Self::Both)
    }
}

/// How a machine and its BMC are set up. Begin with [`Config::new`] and change what differs.
#[derive(Clone, Debug)]
pub struct Config {
    /// The machine's name: the subject of its journal entries and its Redfish `Name`.
    pub name: String,
    /// The address of the NIC that boots from the network.
    pub mac: MacAddress,
    /// Who may use the BMC. IPMI takes names of up to 16 and passwords of up to 20 bytes.
    pub credentials: Credentials,
    /// What the BMC speaks.
    pub protocol: Protocol,
    /// What the machine is made of.
    pub inventory: Inventory,
    /// The system's id in Redfish URIs; its UUID if there is none, as sushy-tools has it.
    pub system_id: Option<String>,
    /// Where the firmware gets its iPXE script from, as `host` or `host:port`. Without one there is no PXE.
    pub boot_server: Option<String>,
    /// What the firmware tries, in this order, when nothing else was set.
    pub boot_order: Vec<BootSource>,
    /// Whether the machine is on at the beginning. One that is on and has a system on disk is running it.
    pub powered: bool,
    /// What the first disk holds at the beginning.
    pub disk: DiskContent,
    /// Whether what runs on the machine ignores the power button.
    pub ignores_soft_off: bool,
    /// How long things take.
    pub timings: Timings,
}

impl Config {
    /// A machine that is off, with a blank disk, behind a Redfish BMC.
    pub fn new(name: impl Into<String>, mac: MacAddress, credentials: Credentials) -> Self {
        Self {
            name: name.into(),
            mac,
            credentials,
            protocol: Protocol::default(),
            inventory: Inventory::default(),
            system_id: None,
            boot_server: None,
            boot_order: vec![BootSource::Hdd, BootSource::Pxe],
            powered: false,
            disk: DiskContent::Blank,
            ignores_soft_off: false,
            timings: Timings::default(),
        }
    }

    /// The inventory with what it leaves open filled in.
    pub(crate) fn whole_inventory(&self) -> Inventory {
        let mut inventory = self.inventory.clone();
        inventory.uuid.get_or_insert_with(|| self.derived_uuid());
        let serial = || format!("SN{}", self.mac.to_string().replace(':', "").to_uppercase());
        inventory.serial_number.get_or_insert_with(serial);
        if !inventory.nics.iter().any(|nic| nic.mac == self.mac) {
            inventory.nics.insert(0, Nic::new("enp1s0", self.mac));
        }
        inventory
    }

    /// The same machine has the same UUID in every world, so that it can be named in a BMC's address beforehand. It
    /// is one of version 5, which clients that guess an IPMI GUID's byte order recognize.
    fn derived_uuid(&self) -> Uuid {
        let digest = Sha256::new().chain_update(self.mac.octets()).chain_update(&self.name).finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_sha1_bytes(bytes).into_uuid()
    }
}
