//! What a machine is made of.
//!
//! Plain data that can be read from a file. The default is a small virtual machine as libvirt makes them for metal3's
//! own tests: 4 cores, 16 GiB, one 50 GiB disk. The Redfish resources and what an operating system finds out about
//! its machine are both taken from here.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::MacAddress;

/// The parts of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Inventory {
    /// The system's UUID (SMBIOS type 1). `None`: made from the machine's name and MAC address.
    pub uuid: Option<Uuid>,
    /// Who made the system.
    pub manufacturer: String,
    /// The system's product name.
    pub model: String,
    /// The system's serial number. `None`: made from the MAC address.
    pub serial_number: Option<String>,
    /// The host's firmware.
    pub firmware: Firmware,
    /// The version of the BMC's own firmware.
    pub bmc_version: String,
    /// The processors, all alike.
    pub processors: Processors,
    /// Memory, in GiB.
    pub memory_gib: u32,
    /// Network interfaces. The one with the machine's MAC address boots from the network; it is added as the first
    /// if it is missing here.
    pub nics: Vec<Nic>,
    /// Disks, in the order in which the firmware tries them.
    pub disks: Vec<Disk>,
}

impl Default for Inventory {
    fn default() -> Self {
        Self {
            uuid: None,
            manufacturer: "QEMU".to_owned(),
            model: "Standard PC (Q35 + ICH9, 2009)".to_owned(),
            serial_number: None,
            firmware: Firmware::default(),
            bmc_version: "1.00".to_owned(),
            processors: Processors::default(),
            memory_gib: 16,
            nics: Vec::new(),
            disks: vec![Disk::default()],
        }
    }
}

/// The host's firmware, as SMBIOS type 0 tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Firmware {
    /// Who wrote it.
    pub vendor: String,
    /// Its version.
    pub version: String,
    /// Its date, month/day/year.
    pub date: String,
}

impl Default for Firmware {
    fn default() -> Self {
        Self {
            vendor: "EDK II".to_owned(),
            version: "edk2-20240524-5".to_owned(),
            date: "05/24/2024".to_owned(),
        }
    }
}

/// Processors, all alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Processors {
    /// The model's name.
    pub model: String,
    /// The instruction set, named as Linux does, e.g. `x86_64`.
    pub architecture: String,
    /// How many there are.
    pub sockets: u32,
    /// Cores of each.
    pub cores: u32,
    /// Threads of each core.
    pub threads: u32,
    /// The clock, in MHz.
    pub frequency_mhz: u32,
    /// CPU flags, named as Linux does.
    pub flags: Vec<String>,
}

impl Processors {
    /// Logical processors of the whole machine.
    pub fn count(&self) -> u32 {
        self.sockets.saturating_mul(self.cores).saturating_mul(self.threads)
    }
}

impl Default for Processors {
    fn default() -> Self {
        Self {
            model: "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz".to_owned(),
            architecture: "x86_64".to_owned(),
            sockets: 1,
            cores: 4,
            threads: 1,
            frequency_mhz: 2500,
            flags: ["aes", "avx", "avx2", "fpu", "lm", "sse4_2", "vmx"].map(str::to_owned).into(),
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nic {
    /// What an operating system calls it.
    pub name: String,
    /// Its address.
    pub mac: MacAddress,
    /// Its link's speed, in Mbit/s.
    #[serde(default = "ten_gigabit")]
    pub speed_mbps: u32,
    /// Whether a cable with a live peer is plugged in.
    #[serde(default = "yes")]
    pub link: bool,
    /// The PCI vendor, as `lspci -n` writes it.
    #[serde(default = "virtio_vendor")]
    pub vendor: String,
    /// The PCI device, as `lspci -n` writes it.
    #[serde(default = "virtio_product")]
    pub product: String,
}

impl Nic {
    /// A virtual network interface with its link up.
    pub fn new(name: &str, mac: MacAddress) -> Self {
        Self {
            name: name.to_owned(),
            mac,
            speed_mbps: ten_gigabit(),
            link: yes(),
            vendor: virtio_vendor(),
            product: virtio_product(),
        }
    }
}

fn ten_gigabit() -> u32 {
    10_000
}

fn yes() -> bool {
    true
}

fn virtio_vendor() -> String {
    "0x1af4".to_owned()
}

fn virtio_product() -> String {
    "0x0001".to_owned()
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Disk {
    /// What an operating system calls it.
    pub name: String,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// Its model.
    pub model: String,
    /// Its vendor.
    pub vendor: String,
    /// Its serial number.
    pub serial_number: String,
    /// Its World Wide Name, if it has one.
    pub wwn: Option<String>,
    /// Its SCSI address: host, channel, target, LUN.
    pub hctl: String,
    /// Whether it has spinning platters.
    pub rotational: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            name: "/dev/sda".to_owned(),
            size_bytes: 50 << 30,
            model: "QEMU HARDDISK".to_owned(),
            vendor: "QEMU".to_owned(),
            serial_number: "drive-scsi0-0-0-0".to_owned(),
            wwn: None,
            hctl: "0:0:0:0".to_owned(),
            rotational: true,
        }
    }
}
