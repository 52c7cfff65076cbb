//! What comes out of a machine: what happened, what it wants done, what it would not do.

use serde_json::Value;

use super::Medium;
use crate::{MacAddress, image::Ramdisk};

/// What comes out of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// Something happened that the journal shall tell.
    Note { topic: &'static str, data: Value },
    /// The firmware wants something loaded; the answer goes to [`Machine::loaded`](super::Machine::loaded).
    Load { boot: u64, what: Load },
    /// A ramdisk is up: its software begins.
    Start { boot: u64, ramdisk: Ramdisk },
    /// The power is there, or is gone.
    Supply { on: bool },
    /// Whatever was running or loading is no more.
    Stop,
}

/// What a firmware loads over a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Load {
    /// The image in a virtual drive, through the BMC.
    Medium(Medium),
    /// An image by HTTP, through the machine's own NIC.
    Http(String),
    /// Whatever the boot server has for this address, through the machine's own NIC.
    Pxe(MacAddress),
}

/// Why a power command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It makes sense only on a running machine.
    #[error("carry the command out while the power is off")]
    PowerIsOff,
}

/// Why what runs on a machine could not do something to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SoftwareError {
    /// The machine has lost power or was reset since: the caller is a ghost.
    #[error("act on a machine that has been restarted since")]
    Gone,
    /// There is no such disk.
    #[error("find the disk {name:?}")]
    NoSuchDisk {
        /// The name that was asked for.
        name: String,
    },
}
