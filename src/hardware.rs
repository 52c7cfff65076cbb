//! From Ironic's inventory to the hardware details of a host (upstream `pkg/provisioner/ironic/hardwaredetails`).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::bmh::{Bios, Cpu, Disk, DiskType, Firmware, HardwareDetails, Lldp, Nic, SystemVendor};

/// Reads the body of `GET /v1/nodes/{node}/inventory`.
pub fn details(inventory: &Value) -> Result<HardwareDetails, serde_json::Error> {
    let Document { inventory, plugin_data } = Document::deserialize(inventory)?;
    let vendor = inventory.system_vendor;
    Ok(HardwareDetails {
        firmware: Firmware {
            bios: Bios {
                date: vendor.firmware.build_date,
                vendor: vendor.firmware.vendor,
                version: vendor.firmware.version,
            },
        },
        system_vendor: SystemVendor {
            manufacturer: vendor.manufacturer,
            product_name: vendor.product_name,
            serial_number: vendor.serial_number,
        },
        ram_mebibytes: inventory.memory.physical_mb,
        nics: inventory.interfaces.iter().flat_map(|interface| nics(interface, &plugin_data)).collect(),
        storage: inventory.disks.into_iter().map(disk).collect(),
        cpu: cpu(inventory.cpu),
        hostname: inventory.hostname,
    })
}

/// One entry for each address of an interface, or one without an address.
fn nics(interface: &Interface, plugins: &PluginData) -> Vec<Nic> {
    let lldp = plugins.parsed_lldp.get(&interface.name).cloned().unwrap_or_default();
    let lldp = Lldp {
        switch_id: lldp.switch_chassis_id,
        port_id: lldp.switch_port_id,
        switch_system_name: lldp.switch_system_name,
    };
    let nic = Nic {
        name: interface.name.clone(),
        model: format!("{} {}", interface.vendor, interface.product).trim().to_owned(),
        mac: interface.mac_address.clone(),
        speed_gbps: u64::try_from(interface.speed_mbps / 1000).unwrap_or_default(),
        pxe: plugins.all_interfaces.get(&interface.name).is_some_and(|known| known.pxe_enabled),
        pci_address: interface.pci_address.clone(),
        lldp: (lldp != Lldp::default()).then_some(lldp),
        ..Nic::default()
    };
    let addresses = [&interface.ipv4_address, &interface.ipv6_address];
    let mut nics: Vec<Nic> = addresses
        .into_iter()
        .filter(|address| !address.is_empty())
        .map(|address| Nic { ip: address.clone(), ..nic.clone() })
        .collect();
    if nics.is_empty() {
        nics.push(nic);
    }
    nics
}

fn disk(disk: FoundDisk) -> Disk {
    let disk_type = match (disk.rotational, disk.name.starts_with("/dev/nvme")) {
        (true, _) => DiskType::Hdd,
        (false, true) => DiskType::Nvme,
        (false, false) => DiskType::Ssd,
    };
    let name = if disk.by_path.is_empty() { &disk.name } else { &disk.by_path };
    Disk {
        alternate_names: [&disk.name, &disk.by_path]
            .into_iter()
            .filter(|path| !path.is_empty())
            .cloned()
            .collect(),
        name: name.clone(),
        rotational: disk.rotational,
        disk_type: Some(disk_type),
        size_bytes: disk.size,
        vendor: disk.vendor,
        model: disk.model,
        serial_number: disk.serial,
        wwn: disk.wwn,
        wwn_vendor_extension: disk.wwn_vendor_extension,
        wwn_with_extension: disk.wwn_with_extension,
        hctl: disk.hctl,
    }
}

fn cpu(found: FoundCpu) -> Cpu {
    let mut flags = found.flags;
    flags.sort();
    Cpu {
        arch: found.architecture,
        model: found.model_name,
        // The agent writes a number of MHz as text, and nothing where it could not find out.
        clock_megahertz: found.frequency.parse().unwrap_or_default(),
        flags,
        count: found.count,
    }
}

#[derive(Deserialize)]
struct Document {
    inventory: Inventory,
    #[serde(default, deserialize_with = "or_default")]
    plugin_data: PluginData,
}

/// Every field may be missing, or be null.
macro_rules! found {
    ($( struct $name:ident { $( $field:ident : $type:ty ),+ $(,)? } )+) => { $(
        #[derive(Clone, Default, Deserialize)]
        #[serde(default)]
        struct $name {
            $( #[serde(deserialize_with = "or_default")] $field: $type, )+
        }
    )+ };
}

found! {
    struct Inventory {
        interfaces: Vec<Interface>,
        cpu: FoundCpu,
        memory: Memory,
        disks: Vec<FoundDisk>,
        system_vendor: Vendor,
        hostname: String,
    }
    struct Interface {
        name: String,
        mac_address: String,
        ipv4_address: String,
        ipv6_address: String,
        vendor: String,
        product: String,
        // Linux says -1 of a link that is down.
        speed_mbps: i64,
        pci_address: String,
    }
    struct FoundCpu {
        architecture: String,
        model_name: String,
        frequency: String,
        count: u64,
        flags: Vec<String>,
    }
    struct Memory {
        physical_mb: u64,
    }
    struct FoundDisk {
        name: String,
        by_path: String,
        rotational: bool,
        size: u64,
        vendor: String,
        model: String,
        serial: String,
        wwn: String,
        wwn_with_extension: String,
        wwn_vendor_extension: String,
        hctl: String,
    }
    struct Vendor {
        manufacturer: String,
        product_name: String,
        serial_number: String,
        firmware: FoundFirmware,
    }
    struct FoundFirmware {
        vendor: String,
        version: String,
        build_date: String,
    }
    struct PluginData {
        all_interfaces: BTreeMap<String, Known>,
        parsed_lldp: BTreeMap<String, FoundLldp>,
    }
    struct Known {
        pxe_enabled: bool,
    }
    struct FoundLldp {
        switch_chassis_id: String,
        switch_port_id: String,
        switch_system_name: String,
    }
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_inventory_becomes_what_upstream_makes_of_it() {
        let found = details(&json!({
            "inventory": {
                "interfaces": [
                    {"name": "eth0", "mac_address": "00:11:22:33:44:55", "ipv4_address": "192.0.2.10", "ipv6_address": "fd00::a",
                     "vendor": "0x1af4", "product": "0x0001", "speed_mbps": 25000},
                    {"name": "eth1", "mac_address": "00:11:22:33:44:56", "ipv4_address": null, "vendor": "0x1af4", "speed_mbps": null},
                    {"name": "eth2", "mac_address": "00:11:22:33:44:57", "speed_mbps": -1},
                ],
                "cpu": {"architecture": "x86_64", "model_name": "Fake CPU", "frequency": "2000.0", "count": 4, "flags": ["vmx", "aes"]},
                "memory": {"physical_mb": 8192},
                "disks": [
                    {"name": "/dev/sda", "by_path": "/dev/disk/by-path/x", "rotational": false, "size": 53_687_091_200_u64,
                     "serial": "s1", "hctl": "0:0:0:0"},
                    {"name": "/dev/nvme0n1", "rotational": false, "size": 1},
                    {"name": "/dev/sdb", "rotational": true, "size": 2},
                ],
                "system_vendor": {"manufacturer": "QEMU", "product_name": "KVM", "serial_number": "sn",
                    "firmware": {"vendor": "v", "version": "1", "build_date": "01/01/2024"}},
                "hostname": "h0",
            },
            "plugin_data": {
                "all_interfaces": {"eth0": {"pxe_enabled": true}},
                "parsed_lldp": {"eth0": {"switch_chassis_id": "11:22:33:aa:bb:cc", "switch_port_id": "eth7"}},
            },
        }))
        .expect("it is an inventory");
        let ips: Vec<_> =
            found.nics.iter().map(|nic| (nic.name.as_str(), nic.ip.as_str(), nic.pxe)).collect();
        assert_eq!(
            ips,
            [
                ("eth0", "192.0.2.10", true),
                ("eth0", "fd00::a", true),
                ("eth1", "", false),
                ("eth2", "", false)
            ]
        );
        assert_eq!((found.nics[0].speed_gbps, found.nics[0].model.as_str()), (25, "0x1af4 0x0001"));
        assert_eq!(found.nics[0].lldp.as_ref().map(|lldp| lldp.port_id.as_str()), Some("eth7"));
        assert!(found.nics[2].lldp.is_none());
        assert_eq!(found.cpu.clock_megahertz, 2000.0);
        assert_eq!(found.cpu.flags, ["aes", "vmx"]);
        let disks: Vec<_> = found.storage.iter().map(|disk| (disk.name.as_str(), disk.disk_type)).collect();
        assert_eq!(
            disks,
            [
                ("/dev/disk/by-path/x", Some(DiskType::Ssd)),
                ("/dev/nvme0n1", Some(DiskType::Nvme)),
                ("/dev/sdb", Some(DiskType::Hdd)),
            ]
        );
        assert_eq!(found.storage[0].alternate_names, ["/dev/sda", "/dev/disk/by-path/x"]);
        assert_eq!((found.ram_mebibytes, found.hostname.as_str()), (8192, "h0"));
    }

    #[test]
    fn what_is_no_inventory_is_an_error() {
        assert!(details(&json!({"error": 1})).is_err());
    }
}
