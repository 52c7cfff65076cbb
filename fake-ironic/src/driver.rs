//! The hardware drivers: what Ironic does to a machine through its BMC, and the words it then has for a failure.
//!
//! A [`Driver`] keeps what Ironic keeps in memory alone, Redfish sessions and the times of IPMI commands; both are
//! lost when Ironic restarts. Which node may be acted upon, and what a failure means for it, is the conductor's matter.

mod ipmi;
mod ramdisk;
mod redfish;
pub(crate) mod requests;

pub(crate) use self::ramdisk::head_refused;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use uuid::Uuid;
use wire::Host;

use crate::{boot_server::BootServer, images::ImageError, settings::Settings};

/// What a driver must know of a node.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) uuid: Uuid,
    /// The hardware type: `redfish`, `ipmi`, …
    pub(crate) driver: String,
    /// With its secrets.
    pub(crate) driver_info: Map<String, Value>,
    pub(crate) boot_interface: String,
    pub(crate) boot_mode: BootMode,
    /// The MAC addresses of the node's ports that boot from the network, in lower case with colons.
    pub(crate) macs: Vec<String>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `driver_info` holds passwords.
        f.debug_struct("Target")
            .field("uuid", &self.uuid)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

/// How a machine's firmware boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootMode {
    Uefi,
    Bios,
}

/// What a machine's power is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerState {
    On,
    Off,
}

impl PowerState {
    /// Ironic's word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::On => "power on",
            Self::Off => "power off",
        }
    }
}

impl fmt::Display for PowerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What can be done to a machine's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerChange {
    On,
    Off,
    /// Asks the operating system.
    SoftOff,
    /// Off, then on.
    Reboot,
    /// Asks the operating system to go down, then on.
    SoftReboot,
}

impl PowerChange {
    /// Ironic's word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::On => "power on",
            Self::Off => "power off",
            Self::SoftOff => "soft power off",
            Self::Reboot => "rebooting",
            Self::SoftReboot => "soft rebooting",
        }
    }

    /// The state that it ends in.
    pub(crate) fn result(self) -> PowerState {
        match self {
            Self::On | Self::Reboot | Self::SoftReboot => PowerState::On,
            Self::Off | Self::SoftOff => PowerState::Off,
        }
    }
}

impl fmt::Display for PowerChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a driver failed. Its text is Ironic's, as it stands in `last_error` behind words like
/// `Failed to get power state for node U. Error: `; hence not a lower-case fragment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    /// Something in the node's own fields is missing or wrong.
    #[error("{0}")]
    Invalid(String),
    /// No Redfish service answers.
    #[error("Redfish connection failed for node {node}: {error}")]
    RedfishConnection { node: Uuid, error: String },
    /// The Redfish service refuses, or has not got what the node names.
    #[error("Redfish exception occurred. Error: {0}")]
    Redfish(String),
    /// What the Redfish library says and Ironic does not dress up.
    #[error("{0}")]
    Sushy(String),
    /// An ipmitool that ran too long was killed.
    #[error("Command '{command}' timed out after {} seconds", limit.as_secs())]
    TimedOut { command: String, limit: Duration },
    /// An IPMI command failed for good.
    #[error("IPMI call failed: {command}.")]
    Ipmi { command: String },
    /// The machine did not reach a power state in time.
    #[error("Failed to set node power state to {0}.")]
    PowerState(&'static str),
    /// The agent's kernel or ramdisk cannot be had.
    #[error("{0}")]
    Image(#[from] ImageError),
}

/// All drivers of one conductor.
#[derive(Clone)]
pub(crate) struct Driver {
    redfish: Arc<redfish::Redfish>,
    ipmi: Arc<ipmi::Ipmi>,
    boot_server: BootServer,
}

/// Which driver acts on a node.
#[derive(Clone, Copy)]
enum Kind {
    Redfish,
    Ipmi,
}

impl Driver {
    pub(crate) fn new(host: Host, settings: Arc<Settings>) -> Self {
        let boot_server = BootServer::new(&host, &settings);
        let ramdisks =
            Arc::new(ramdisk::Ramdisks::new(host.clone(), Arc::clone(&settings), boot_server.clone()));
        Self {
            redfish: Arc::new(redfish::Redfish::new(
                host.clone(),
                Arc::clone(&settings),
                Arc::clone(&ramdisks),
            )),
            ipmi: Arc::new(ipmi::Ipmi::new(host, settings, ramdisks)),
            boot_server,
        }
    }

    /// Whether the node's `driver_info` is enough to reach its BMC; sends nothing.
    pub(crate) fn validate(&self, target: &Target) -> Result<(), DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.validate(target),
            Kind::Ipmi => self.ipmi.validate(target),
        }
    }

    /// Whether the node's fields are enough to boot the agent; sends nothing.
    pub(crate) fn validate_boot(&self, target: &Target) -> Result<(), DriverError> {
        kind(target)?;
        self.redfish.ramdisks().validate(target)
    }

    /// First contact: reads the power state and what Ironic caches of the BMC.
    pub(crate) async fn verify(&self, target: &Target) -> Result<PowerState, DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.verify(target).await,
            Kind::Ipmi => self.ipmi.verify(target).await,
        }
    }

    /// Reads the power state.
    pub(crate) async fn power_state(&self, target: &Target) -> Result<PowerState, DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.power_state(target).await,
            Kind::Ipmi => self.ipmi.power_state(target).await,
        }
    }

    /// Changes the power state and waits until it is reached; sends no command if it is reached already. `timeout`
    /// bounds the wait for the operating system, or else for the BMC.
    pub(crate) async fn change_power(
        &self,
        target: &Target,
        change: PowerChange,
        timeout: Option<Duration>,
    ) -> Result<PowerState, DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.change_power(target, change, timeout).await,
            Kind::Ipmi => self.ipmi.change_power(target, change, timeout).await,
        }
    }

    /// Boots the agent, with these kernel parameters: powers the machine off if it is on, lays its boot image out,
    /// makes it the next boot's device and powers the machine on.
    pub(crate) async fn boot_ramdisk(
        &self,
        target: &Target,
        parameters: &BTreeMap<String, String>,
    ) -> Result<(), DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.boot_ramdisk(target, parameters).await,
            Kind::Ipmi => self.ipmi.boot_ramdisk(target, parameters).await,
        }
    }

    /// Powers the machine off and takes the agent's boot image away.
    pub(crate) async fn clean_up_ramdisk(&self, target: &Target) -> Result<(), DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.clean_up_ramdisk(target).await,
            Kind::Ipmi => self.ipmi.clean_up_ramdisk(target).await,
        }
    }

    /// Makes the disk the lasting boot device and takes the agent's boot image away; leaves the power alone. Ironic
    /// does this after writing an image, while the agent still runs.
    pub(crate) async fn prepare_instance(&self, target: &Target) -> Result<(), DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.prepare_instance(target).await,
            Kind::Ipmi => self.ipmi.prepare_instance(target).await,
        }
    }

    /// What `adopt` does to a machine: as [`Self::prepare_instance`], but it sends only what changes something.
    pub(crate) async fn adopt(&self, target: &Target) -> Result<(), DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.adopt(target).await,
            Kind::Ipmi => self.ipmi.adopt(target).await,
        }
    }

    /// Boots what is on the disk: off if on, then what [`Self::prepare_instance`] does as far as it is not yet done,
    /// then on.
    pub(crate) async fn boot_instance(&self, target: &Target) -> Result<(), DriverError> {
        match kind(target)? {
            Kind::Redfish => self.redfish.boot_instance(target).await,
            Kind::Ipmi => self.ipmi.boot_instance(target).await,
        }
    }

    /// What machines and BMCs fetch: boot images and network boot scripts.
    pub(crate) fn boot_server_router(&self) -> axum::Router {
        self.boot_server.router()
    }
}

fn kind(target: &Target) -> Result<Kind, DriverError> {
    match target.driver.as_str() {
        "redfish" => Ok(Kind::Redfish),
        "ipmi" => Ok(Kind::Ipmi),
        other => Err(DriverError::Invalid(format!(
            "Could not find the following driver(s) or hardware type(s): {other}."
        ))),
    }
}

/// A text field of `driver_info`; empty counts as absent.
fn text_of<'a>(driver_info: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    driver_info.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Waits between the looks at a machine whose power is changing: oslo's back-off with its jitter, from 1 s on.
struct PowerPolls {
    dice: wire::Dice,
    interval: f64,
    left: f64,
}

impl PowerPolls {
    fn new(host: &Host, node: Uuid, limit: Duration) -> Self {
        Self { dice: host.dice(&format!("power polls of {node}")), interval: 0.0, left: limit.as_secs_f64() }
    }

    /// How long to wait before the next look; `None` when the limit would be passed.
    fn next(&mut self) -> Option<Duration> {
        use rand::RngExt as _;
        let jitter = self.dice.random_range(0.65..0.85);
        let wait = if self.interval == 0.0 { 1.0 } else { self.interval * 2.0 * jitter };
        self.interval = if self.interval == 0.0 { 1.0 } else { self.interval * 1.5 };
        if wait > self.left {
            return None;
        }
        self.left -= wait;
        Some(Duration::from_secs_f64(wait))
    }
}

#[cfg(test)]
mod tests;
