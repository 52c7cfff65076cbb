//! What an inspection finds out, as HardwareData and a host's status hold it.

use serde::{Deserialize, Serialize};

use super::spec::absent;
use crate::words::words;

/// A machine's hardware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareDetails {
    /// Who made it.
    #[serde(skip_serializing_if = "absent")]
    pub system_vendor: SystemVendor,
    /// Its firmware.
    #[serde(skip_serializing_if = "absent")]
    pub firmware: Firmware,
    /// Memory, in MiB.
    #[serde(skip_serializing_if = "absent")]
    pub ram_mebibytes: u64,
    /// Network interfaces; one with two addresses is listed twice.
    #[serde(skip_serializing_if = "absent")]
    pub nics: Vec<Nic>,
    /// Disks.
    #[serde(skip_serializing_if = "absent")]
    pub storage: Vec<Disk>,
    /// Processors.
    #[serde(skip_serializing_if = "absent")]
    pub cpu: Cpu,
    /// The name that the inspected system had.
    #[serde(skip_serializing_if = "absent")]
    pub hostname: String,
}

/// Who made a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemVendor {
    /// The maker.
    #[serde(skip_serializing_if = "absent")]
    pub manufacturer: String,
    /// The model.
    #[serde(skip_serializing_if = "absent")]
    pub product_name: String,
    /// The machine's serial number.
    #[serde(skip_serializing_if = "absent")]
    pub serial_number: String,
}

/// A machine's firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Firmware {
    /// The BIOS or UEFI firmware.
    pub bios: Bios,
}

/// The BIOS or UEFI firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bios {
    /// When it was built.
    #[serde(skip_serializing_if = "absent")]
    pub date: String,
    /// Who made it.
    #[serde(skip_serializing_if = "absent")]
    pub vendor: String,
    /// Its version.
    #[serde(skip_serializing_if = "absent")]
    pub version: String,
}

/// Processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// Architecture, e.g. `x86_64`.
    #[serde(skip_serializing_if = "absent")]
    pub arch: String,
    /// The model's name.
    #[serde(skip_serializing_if = "absent")]
    pub model: String,
    /// Clock, in MHz.
    #[serde(skip_serializing_if = "absent")]
    pub clock_megahertz: f64,
    /// Features, sorted.
    #[serde(skip_serializing_if = "absent")]
    pub flags: Vec<String>,
    /// How many.
    #[serde(skip_serializing_if = "absent")]
    pub count: u64,
}

/// A network interface, or one address of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nic {
    /// The name in the inspected system.
    #[serde(skip_serializing_if = "absent")]
    pub name: String,
    /// Vendor and product id.
    #[serde(skip_serializing_if = "absent")]
    pub model: String,
    /// MAC address.
    #[serde(skip_serializing_if = "absent")]
    pub mac: String,
    /// IP address.
    #[serde(skip_serializing_if = "absent")]
    pub ip: String,
    /// Speed, in Gbit/s.
    #[serde(skip_serializing_if = "absent")]
    pub speed_gbps: u64,
    /// VLANs that the switch announced.
    #[serde(skip_serializing_if = "absent")]
    pub vlans: Vec<Vlan>,
    /// The untagged VLAN.
    #[serde(skip_serializing_if = "absent")]
    pub vlan_id: u16,
    /// Whether the machine boots from it.
    #[serde(skip_serializing_if = "absent")]
    pub pxe: bool,
    /// What the switch said of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lldp: Option<Lldp>,
    /// Where it sits on the bus.
    #[serde(skip_serializing_if = "absent")]
    pub pci_address: String,
}

/// A VLAN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vlan {
    /// Its number.
    #[serde(skip_serializing_if = "absent")]
    pub id: u16,
    /// Its name.
    #[serde(skip_serializing_if = "absent")]
    pub name: String,
}

/// What a switch says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lldp {
    /// The switch's id.
    #[serde(rename = "switchID", skip_serializing_if = "absent")]
    pub switch_id: String,
    /// The port's id.
    #[serde(rename = "portID", skip_serializing_if = "absent")]
    pub port_id: String,
    /// The switch's name.
    #[serde(skip_serializing_if = "absent")]
    pub switch_system_name: String,
}

words! {
    /// The kind of a disk.
    pub enum DiskType {
        /// It spins.
        Hdd => "HDD",
        /// It does not.
        Ssd => "SSD",
        /// It does not, and sits on the PCI bus.
        Nvme => "NVME",
    }
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// A path that stays the same over reboots, where there is one.
    #[serde(skip_serializing_if = "absent")]
    pub name: String,
    /// All its paths.
    #[serde(skip_serializing_if = "absent")]
    pub alternate_names: Vec<String>,
    /// Whether it spins.
    #[serde(skip_serializing_if = "absent")]
    pub rotational: bool,
    /// Its kind.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub disk_type: Option<DiskType>,
    /// Its size.
    #[serde(skip_serializing_if = "absent")]
    pub size_bytes: u64,
    /// Who made it.
    #[serde(skip_serializing_if = "absent")]
    pub vendor: String,
    /// The model.
    #[serde(skip_serializing_if = "absent")]
    pub model: String,
    /// Its serial number.
    #[serde(skip_serializing_if = "absent")]
    pub serial_number: String,
    /// World Wide Name.
    #[serde(skip_serializing_if = "absent")]
    pub wwn: String,
    /// The vendor's extension of it.
    #[serde(skip_serializing_if = "absent")]
    pub wwn_vendor_extension: String,
    /// The whole of both.
    #[serde(skip_serializing_if = "absent")]
    pub wwn_with_extension: String,
    /// SCSI address.
    #[serde(skip_serializing_if = "absent")]
    pub hctl: String,
}
