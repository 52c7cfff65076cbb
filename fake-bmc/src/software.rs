//! What runs on a machine.
//!
//! What a deploy agent or an operating system does is not this crate's business: the caller gives it, and it acts on
//! its machine through a [`MachineHandle`].

use std::{collections::BTreeMap, fmt};

use wire::{BoxFuture, Host};

use crate::{
    Inventory, MacAddress,
    bmc::Bmc,
    machine::{BootMode, DiskContent, SoftwareError},
};

/// The software of the world's ramdisks.
pub trait Software: Send + Sync + 'static {
    /// A ramdisk has come up on `machine`, whose network is `host`, started with these kernel parameters. The future
    /// is dropped, and with it all that was spawned on `host`, when the machine loses power or is reset.
    fn ramdisk(
        &self,
        machine: MachineHandle,
        host: Host,
        parameters: BTreeMap<String, String>,
    ) -> BoxFuture<'static, ()>;

    /// The machine with this network is set going, gets power, or loses it. A world can take a dead machine off its
    /// network here, so that its peers get no answer at all rather than that nothing listens.
    fn power(&self, _host: &Host, _on: bool) {}
}

/// Ramdisks that do nothing at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inert;

impl Software for Inert {
    fn ramdisk(&self, _: MachineHandle, _: Host, _: BTreeMap<String, String>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A machine as what runs on it sees it. It is good for one boot: after a reset or a loss of power it acts on nothing.
#[derive(Clone)]
pub struct MachineHandle {
    bmc: Bmc,
    boot: u64,
}

impl fmt::Debug for MachineHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineHandle").field("machine", &self.name()).field("boot", &self.boot).finish()
    }
}

impl MachineHandle {
    pub(crate) fn new(bmc: Bmc, boot: u64) -> Self {
        Self { bmc, boot }
    }

    /// The machine's name.
    pub fn name(&self) -> &str {
        self.bmc.name()
    }

    /// What the machine is made of.
    pub fn inventory(&self) -> Inventory {
        self.bmc.with(|controller, _| controller.machine.inventory().clone())
    }

    /// The address of the NIC that it boots from and that the software's network is.
    pub fn boot_mac(&self) -> MacAddress {
        self.bmc.mac()
    }

    /// How the firmware booted.
    pub fn boot_mode(&self) -> BootMode {
        self.bmc.with(|controller, _| controller.machine.boot().mode)
    }

    /// Each disk's name and what it holds.
    pub fn disks(&self) -> Vec<(String, DiskContent)> {
        self.bmc.disks()
    }

    /// Writes an image onto a disk: `digest` says what its bytes are, `url` where they come from.
    pub fn write_disk(&self, disk: &str, digest: &str, url: &str) -> Result<(), SoftwareError> {
        let content = DiskContent::Image { digest: digest.to_owned(), url: url.to_owned() };
        self.bmc.with(|controller, _| controller.machine.fill_disk(self.boot, disk, content))
    }

    /// Erases a disk.
    pub fn wipe_disk(&self, disk: &str) -> Result<(), SoftwareError> {
        self.bmc.with(|controller, _| controller.machine.fill_disk(self.boot, disk, DiskContent::Wiped))
    }

    /// Shuts down and switches off. It takes an orderly end's time, after which the caller is no more.
    pub fn power_off(&self) -> Result<(), SoftwareError> {
        self.bmc.with(|controller, now| controller.machine.software_ends(now, self.boot, false))
    }

    /// Shuts down and starts again.
    pub fn reboot(&self) -> Result<(), SoftwareError> {
        self.bmc.with(|controller, now| controller.machine.software_ends(now, self.boot, true))
    }
}
