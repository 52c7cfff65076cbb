//! The resources of a system's parts: network interfaces, processors, disks.

use serde_json::{Value, json};

use super::{CONTROLLER, View, link, ok};
use crate::inventory::{Disk, Nic};

impl View<'_> {
    pub(super) fn ethernet_interface(&self, nic: &Nic) -> Value {
        json!({
            "@odata.id": format!("{}/EthernetInterfaces/{}", self.system_uri(), nic.name),
            "@odata.type": "#EthernetInterface.v1_6_0.EthernetInterface",
            "Id": nic.name,
            "Name": format!("NIC {}", nic.name),
            "MACAddress": nic.mac,
            "PermanentMACAddress": nic.mac,
            "SpeedMbps": nic.speed_mbps,
            "LinkStatus": if nic.link { "LinkUp" } else { "NoLink" },
            "Status": ok(),
        })
    }

    pub(super) fn processor(&self, name: &str) -> Value {
        let processors = &self.controller.machine.inventory().processors;
        let (architecture, instructions) = match processors.architecture.as_str() {
            "aarch64" => ("ARM", "ARM-A64"),
            "ppc64le" => ("Power", "PowerISA"),
            "x86_64" => ("x86", "x86-64"),
            _ => ("OEM", "OEM"),
        };
        json!({
            "@odata.id": format!("{}/Processors/{name}", self.system_uri()),
            "@odata.type": "#Processor.v1_11_0.Processor",
            "Id": name,
            "Name": format!("Processor {name}"),
            "Socket": name,
            "ProcessorType": "CPU",
            "ProcessorArchitecture": architecture,
            "InstructionSet": instructions,
            "Model": processors.model,
            "MaxSpeedMHz": processors.frequency_mhz,
            "TotalCores": processors.cores,
            "TotalThreads": processors.cores.saturating_mul(processors.threads),
            "Status": ok(),
        })
    }

    pub(super) fn simple_storage(&self) -> Value {
        let disks = &self.controller.machine.inventory().disks;
        let device = |disk: &Disk| {
            json!({
                "Name": disk.name,
                "Manufacturer": disk.vendor,
                "Model": disk.model,
                "CapacityBytes": disk.size_bytes,
                "Status": ok(),
            })
        };
        json!({
            "@odata.id": format!("{}/SimpleStorage/{CONTROLLER}", self.system_uri()),
            "@odata.type": "#SimpleStorage.v1_3_0.SimpleStorage",
            "Id": CONTROLLER,
            "Name": "Disk Controller",
            "Status": ok(),
            "Devices": disks.iter().map(device).collect::<Vec<_>>(),
        })
    }

    pub(super) fn storage(&self) -> Value {
        let uri = format!("{}/Storage/{CONTROLLER}", self.system_uri());
        let disks = &self.controller.machine.inventory().disks;
        let drives: Vec<Value> =
            disks.iter().map(|disk| link(format!("{uri}/Drives/{}", drive_id(disk)))).collect();
        json!({
            "@odata.id": uri,
            "@odata.type": "#Storage.v1_8_0.Storage",
            "Id": CONTROLLER,
            "Name": "Disk Controller",
            "Status": ok(),
            "Drives@odata.count": drives.len(),
            "Drives": drives,
        })
    }

    pub(super) fn drive(&self, disk: &Disk) -> Value {
        let id = drive_id(disk);
        json!({
            "@odata.id": format!("{}/Storage/{CONTROLLER}/Drives/{id}", self.system_uri()),
            "@odata.type": "#Drive.v1_9_0.Drive",
            "Id": id,
            "Name": disk.name,
            "Manufacturer": disk.vendor,
            "Model": disk.model,
            "SerialNumber": disk.serial_number,
            "CapacityBytes": disk.size_bytes,
            "MediaType": if disk.rotational { "HDD" } else { "SSD" },
            "Status": ok(),
        })
    }
}

/// A disk's name without the directory: `/dev/sda` is `sda`.
pub(super) fn drive_id(disk: &Disk) -> &str {
    disk.name.rsplit('/').next().unwrap_or(&disk.name)
}
