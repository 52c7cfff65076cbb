//! A bare-metal machine behind a BMC that speaks Redfish and IPMI 2.0 over LAN.
//!
//! Three layers, so that hardware can be broken without opening a socket. The *machine* is a plain value with power,
//! firmware, virtual drives and disks; in front of it stands the *controller* with its account, its sessions and its
//! [faults](fault). The *wire* layers turn Redfish requests and IPMI commands into calls of the controller. The
//! *server* is a [`Bmc`]: it runs both on a [`wire::Host`], and lets the machine live on another.
//!
//! The machine boots what it is told to: a ramdisk from virtual media, from the network or by HTTP, the system on its
//! disk, or nothing. What a ramdisk then does is its caller's business: see [`Software`].
//!
//! The journal tells what happened to a machine, under its name: `power` (`event`: `changed` with `from` and `to`, or
//! `reset`; `by` whom), `boot` (`source`, `what`: `ramdisk`, `disk`, `failed` or `nothing`), `disk` (`event`:
//! `written` with its `digest`, or `wiped`) and `media` (`event`: `inserted` or `ejected`).

mod bmc;
mod config;
mod controller;
pub mod fault;
mod image;
pub mod inventory;
mod lan;
mod loader;
mod mac;
mod machine;
mod redfish;
mod software;
mod timings;

pub use bmc::Bmc;
pub use config::{Config, Protocol};
pub use controller::Credentials;
pub use fault::{Fault, FaultId};
pub use image::MAGIC as RAMDISK_MAGIC;
pub use inventory::{Disk, Inventory, Nic};
pub use mac::{BadMac, MacAddress};
pub use machine::{
    BootMode, BootSettings, BootSource, DiskContent, Hold, Override, Power, Slot, SoftwareError,
};
pub use redfish::PORT as REDFISH_PORT;
pub use software::{Inert, MachineHandle, Software};
pub use timings::{BadSpan, Span, Timings};
