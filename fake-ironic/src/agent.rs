//! The deploy agent: the program that a machine boots from the ramdisk Ironic gives it.
//!
//! It tells Ironic what the machine is made of, finds out which node the machine is, and from then on sends heartbeats
//! and carries out commands: wiping disks, writing an image, powering the machine off. It speaks the protocol of
//! ironic-python-agent and touches the machine through [`Hardware`] alone. All of it lives in the one future that
//! [`run`] returns, so that dropping that future is the machine losing its power.

mod api;
mod command;
mod ironic;
mod write;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;
use wire::{BoxFuture, Host};

use self::{command::Commands, ironic::Ironic};

/// The port of the agent's commands.
const PORT: u16 = 9999;

/// Pause before the port is asked for again; who had it before may still be going down.
const PORT_PAUSE: Duration = Duration::from_secs(1);

/// The machine that the agent runs on.
pub trait Hardware: Send + Sync {
    /// What the machine is made of, as ironic-python-agent's `inventory`: `interfaces` (each with `name`,
    /// `mac_address`, `ipv4_address`, `has_carrier`), `cpu`, `memory`, `disks`, `system_vendor`, `boot` (with
    /// `current_boot_mode` and `pxe_interface`), `bmc_address`, `hostname`.
    fn inventory(&self) -> Value;

    /// Fills the root disk with an image. `digest` is the lower-case hexadecimal SHA-256 of the image's bytes, `url`
    /// is where they came from. Done when the future is.
    fn write_disk(&self, digest: String, url: String) -> BoxFuture<'_, ()>;

    /// Makes the disks unbootable by wiping their metadata. Done when the future is.
    fn wipe_disk(&self) -> BoxFuture<'_, ()>;

    /// Powers the machine off. The agent does nothing afterwards.
    fn power_off(&self);

    /// Starts the machine anew. The agent does nothing afterwards.
    fn reboot(&self);
}

/// Runs the agent until the future is dropped. `parameters` are the kernel's: `ipa-api-url` (Ironic's address;
/// without it the agent does nothing), `ipa-inspection-callback-url`, `ipa-agent-token`, `BOOTIF`.
pub async fn run(host: Host, hardware: Arc<dyn Hardware>, parameters: BTreeMap<String, String>) {
    let Some(ironic) = Ironic::new(&host, &*hardware, &parameters) else {
        tracing::warn!(host = host.name(), "no ipa-api-url among the kernel's parameters");
        return std::future::pending().await;
    };
    let commands = Arc::new(Commands::new(host.clone(), hardware));
    let node = ironic.find_node(&commands).await;
    // None of these ends; they share one task so that they end together.
    futures::join!(serve(&host, &commands), commands.execute_all(), ironic.keep_in_touch(&node, &commands));
}

/// Serves the commands. Connections have tasks of their own; what they ask of a machine that lost its power meanwhile
/// is answered by a reset.
async fn serve(host: &Host, commands: &Arc<Commands>) {
    let life = api::Life::new(commands);
    loop {
        if let Err(error) = wire::http::serve(host, PORT, api::router(&life)).await {
            tracing::debug!(host = host.name(), %error, "listen for commands");
        }
        host.sleep(PORT_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
