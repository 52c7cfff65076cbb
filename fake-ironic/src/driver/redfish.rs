//! The `redfish` hardware type: power, and booting from virtual media.
//!
//! Every operation reads the system anew, as Ironic does. What it sends to change a machine, and in which order, is
//! what a real Ironic was seen to send.

mod bmc;
mod error;
mod media;
mod sushy;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::StatusCode;
use serde_json::{Map, Value, json};
use wire::Host;

use self::{
    bmc::Bmc,
    error::Error,
    sushy::{Sushy, System},
};
use super::{BootMode, DriverError, PowerChange, PowerPolls, PowerState, Target, ramdisk::Ramdisks};
use crate::settings::Settings;

/// How often `On` is sent again to a BMC that is still busy with the last power change.
const POWER_ON_CONFLICTS: u32 = 6;
/// Pause between two such tries.
const POWER_ON_CONFLICT_PAUSE: Duration = Duration::from_secs(10);

/// The driver.
pub(super) struct Redfish {
    host: Host,
    settings: Arc<Settings>,
    sushy: Sushy,
    ramdisks: Arc<Ramdisks>,
}

/// A boot device in Redfish's words, and for how long.
#[derive(Clone, Copy)]
enum BootDevice {
    /// The virtual disc, for the next boot.
    DiscOnce,
    /// The network, for the next boot.
    NetworkOnce,
    /// The disk, from now on.
    Disk,
}

impl BootDevice {
    fn target(self) -> &'static str {
        match self {
            Self::DiscOnce => "Cd",
            Self::NetworkOnce => "Pxe",
            Self::Disk => "Hdd",
        }
    }

    fn enabled(self) -> &'static str {
        match self {
            Self::DiscOnce | Self::NetworkOnce => "Once",
            Self::Disk => "Continuous",
        }
    }
}

impl Redfish {
    pub(super) fn new(host: Host, settings: Arc<Settings>, ramdisks: Arc<Ramdisks>) -> Self {
        let sushy = Sushy::new(host.clone(), Arc::clone(&settings));
        Self { host, settings, sushy, ramdisks }
    }

    pub(super) fn ramdisks(&self) -> &Ramdisks {
        &self.ramdisks
    }

    pub(super) fn validate(&self, target: &Target) -> Result<(), DriverError> {
        Bmc::of(target, &self.settings).map(drop)
    }

    async fn system(&self, target: &Target) -> Result<System, DriverError> {
        self.sushy.system(&Bmc::of(target, &self.settings)?).await
    }

    pub(super) async fn verify(&self, target: &Target) -> Result<PowerState, DriverError> {
        let state = self.power_state(target).await?;
        // Ironic now fills its caches: vendor, secure boot, boot mode. It goes on without what it cannot read.
        let system = self.system(target).await?;
        let mut wanted: Vec<&str> = system.link("/SecureBoot").into_iter().collect();
        wanted.extend(media::managers(&system));
        for path in wanted {
            if let Err(error) = self.sushy.get(&system.bmc, path).await {
                tracing::debug!(node = %target.uuid, path, %error, "left out of the caches");
            }
        }
        Ok(state)
    }

    pub(super) async fn power_state(&self, target: &Target) -> Result<PowerState, DriverError> {
        let system = self.system(target).await?;
        power_of(&system).ok_or_else(|| {
            DriverError::Redfish(format!("The power state of the system {} is not known", system.path))
        })
    }

    pub(super) async fn change_power(
        &self,
        target: &Target,
        change: PowerChange,
        timeout: Option<Duration>,
    ) -> Result<PowerState, DriverError> {
        let system = self.system(target).await?;
        let state = power_of(&system);
        match change {
            PowerChange::On | PowerChange::Off | PowerChange::SoftOff if state == Some(change.result()) => {}
            PowerChange::On => self.reset(target, "On", PowerState::On, timeout).await?,
            PowerChange::Off => self.reset(target, "ForceOff", PowerState::Off, timeout).await?,
            PowerChange::SoftOff => {
                let limit = timeout.unwrap_or(self.settings.conductor.soft_power_off_timeout);
                self.reset(target, "GracefulShutdown", PowerState::Off, Some(limit)).await?;
            }
            PowerChange::Reboot => {
                if state != Some(PowerState::Off) {
                    self.reset(target, "ForceOff", PowerState::Off, timeout).await?;
                }
                self.reset(target, "On", PowerState::On, timeout).await?;
            }
            PowerChange::SoftReboot if state == Some(PowerState::Off) => {
                self.reset(target, "On", PowerState::On, timeout).await?;
            }
            PowerChange::SoftReboot => self.reset(target, "GracefulRestart", PowerState::On, timeout).await?,
        }
        Ok(change.result())
    }

    /// Sends a reset and waits until the machine is as wanted.
    async fn reset(
        &self,
        target: &Target,
        kind: &str,
        wanted: PowerState,
        timeout: Option<Duration>,
    ) -> Result<(), DriverError> {
        let system = self.system(target).await?;
        let path = system.body.pointer("/Actions/#ComputerSystem.Reset/target").and_then(Value::as_str);
        let path = path.ok_or_else(|| Error::MissingAttribute {
            attribute: "Actions/#ComputerSystem.Reset/target",
            resource: system.path.clone(),
        })?;
        let body = json!({ "ResetType": kind });
        let mut conflicts = 0;
        while let Err(error) = self.sushy.post(&system.bmc, path, Some(&body)).await {
            let refused = matches!(error.status(), Some(StatusCode::BAD_REQUEST | StatusCode::CONFLICT));
            // A machine that is as wanted already may well refuse to become so.
            if refused && self.power_state(target).await.is_ok_and(|state| state == wanted) {
                break;
            }
            let busy = error.status() == Some(StatusCode::CONFLICT)
                && error.mentions("ActionParameterValueConflict");
            if !(busy && wanted == PowerState::On && conflicts < POWER_ON_CONFLICTS) {
                return Err(error.into());
            }
            conflicts += 1;
            self.host.sleep(POWER_ON_CONFLICT_PAUSE).await;
        }
        self.wait_for(target, wanted, timeout).await
    }

    async fn wait_for(
        &self,
        target: &Target,
        wanted: PowerState,
        timeout: Option<Duration>,
    ) -> Result<(), DriverError> {
        let limit = timeout.unwrap_or(self.settings.conductor.power_state_change_timeout);
        let mut polls = PowerPolls::new(&self.host, target.uuid, limit);
        while let Some(wait) = polls.next() {
            self.host.sleep(wait).await;
            if power_of(&self.system(target).await?) == Some(wanted) {
                return Ok(());
            }
        }
        Err(DriverError::PowerState(wanted.as_str()))
    }

    async fn power_off(&self, target: &Target) -> Result<(), DriverError> {
        self.change_power(target, PowerChange::Off, None).await.map(drop)
    }

    pub(super) async fn boot_ramdisk(
        &self,
        target: &Target,
        parameters: &BTreeMap<String, String>,
    ) -> Result<(), DriverError> {
        self.ramdisks.validate(target)?;
        self.power_off(target).await?;
        self.set_boot_mode(target).await?;
        match target.boot_interface.as_str() {
            "redfish-virtual-media" => {
                let image = self.ramdisks.publish_disc(target, parameters).await?;
                let system = self.system(target).await?;
                media::insert(&self.sushy, &system, &image).await?;
                self.set_boot_device(target, BootDevice::DiscOnce).await?;
            }
            _ => {
                self.ramdisks.publish_network_boot(target, parameters).await?;
                self.set_boot_device(target, BootDevice::NetworkOnce).await?;
            }
        }
        self.change_power(target, PowerChange::On, None).await.map(drop)
    }

    pub(super) async fn clean_up_ramdisk(&self, target: &Target) -> Result<(), DriverError> {
        self.power_off(target).await?;
        self.take_ramdisk_away(target).await
    }

    async fn take_ramdisk_away(&self, target: &Target) -> Result<(), DriverError> {
        if target.boot_interface == "redfish-virtual-media" {
            let system = self.system(target).await?;
            media::eject(&self.sushy, &system).await?;
        }
        self.ramdisks.withdraw(target);
        Ok(())
    }

    pub(super) async fn prepare_instance(&self, target: &Target) -> Result<(), DriverError> {
        // The deploy interface sets the boot device, then the boot interface does it again.
        self.set_boot_device(target, BootDevice::Disk).await?;
        self.take_ramdisk_away(target).await?;
        self.set_boot_device(target, BootDevice::Disk).await
    }

    pub(super) async fn boot_instance(&self, target: &Target) -> Result<(), DriverError> {
        self.power_off(target).await?;
        self.adopt(target).await?;
        self.change_power(target, PowerChange::On, None).await.map(drop)
    }

    /// Takes media away and makes the disk the boot device, sending only what changes something.
    pub(super) async fn adopt(&self, target: &Target) -> Result<(), DriverError> {
        self.take_ramdisk_away(target).await?;
        let system = self.system(target).await?;
        let boot = |key: &str| {
            system.body.pointer(&format!("/Boot/BootSourceOverride{key}")).and_then(Value::as_str)
        };
        let disk = BootDevice::Disk;
        if (boot("Target"), boot("Enabled")) != (Some(disk.target()), Some(disk.enabled())) {
            self.set_boot_device(target, disk).await?;
        }
        Ok(())
    }

    /// Brings the firmware's mode in line with the node's, where the BMC lets it be changed at all.
    async fn set_boot_mode(&self, target: &Target) -> Result<(), DriverError> {
        let system = self.system(target).await?;
        let wanted = match target.boot_mode {
            BootMode::Uefi => "UEFI",
            BootMode::Bios => "Legacy",
        };
        let found = system.body.pointer("/Boot/BootSourceOverrideMode").and_then(Value::as_str);
        if found.is_none_or(|found| found == wanted) {
            return Ok(());
        }
        let body = json!({ "Boot": { "BootSourceOverrideMode": wanted } });
        Ok(self.sushy.patch(&system.bmc, &system.path, &body, system.etag.as_deref()).await?)
    }

    /// Sets the boot device; how long it holds is only sent where that changes.
    async fn set_boot_device(&self, target: &Target, device: BootDevice) -> Result<(), DriverError> {
        let system = self.system(target).await?;
        let found = system.body.get("Boot").and_then(Value::as_object);
        let mut boot = Map::new();
        boot.insert("BootSourceOverrideTarget".to_owned(), device.target().into());
        if found.is_some_and(|found| found.contains_key("HttpBootUri")) {
            boot.insert("HttpBootUri".to_owned(), Value::Null);
        }
        let enabled = found.and_then(|found| found.get("BootSourceOverrideEnabled")?.as_str());
        if enabled != Some(device.enabled()) {
            boot.insert("BootSourceOverrideEnabled".to_owned(), device.enabled().into());
        }
        let body = json!({ "Boot": boot });
        Ok(self.sushy.patch(&system.bmc, &system.path, &body, system.etag.as_deref()).await?)
    }
}

/// The power state of a system as Ironic counts it: on the way there is there.
fn power_of(system: &System) -> Option<PowerState> {
    match system.body.get("PowerState").and_then(Value::as_str) {
        Some("On" | "PoweringOn") => Some(PowerState::On),
        Some("Off" | "PoweringOff") => Some(PowerState::Off),
        Some(_) | None => None,
    }
}
