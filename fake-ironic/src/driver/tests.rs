//! The drivers against small BMCs, in virtual time: how long each failure takes and what is then said, and what is
//! sent to change a machine. The numbers and words are those that a real Ironic showed.

mod bmc;
mod ipmi;
mod redfish;

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;
use wire::{Host, Seed};

use super::{BootMode, Driver, Target};
use crate::settings::Settings;

const NODE: Uuid = Uuid::from_u128(0x2ee4_0e0f_12bf_46ca_91c7_bd8c_a26a_5de4);
const KERNEL: &str = "http://cache/ipa.kernel";
const RAMDISK: &str = "http://cache/ipa.initramfs";

fn target(driver: &str, boot_interface: &str, driver_info: Value) -> Target {
    Target {
        uuid: NODE,
        driver: driver.to_owned(),
        driver_info: driver_info.as_object().cloned().unwrap_or_default(),
        boot_interface: boot_interface.to_owned(),
        boot_mode: BootMode::Uefi,
        macs: vec!["00:5c:52:31:00:02".to_owned()],
    }
}

fn redfish_target() -> Target {
    let info = json!({
        "redfish_address": "http://bmc", "redfish_system_id": "/redfish/v1/Systems/1",
        "redfish_username": "admin", "redfish_password": "secret",
        "deploy_kernel": KERNEL, "deploy_ramdisk": RAMDISK,
    });
    target("redfish", "redfish-virtual-media", info)
}

fn ipmi_target() -> Target {
    let info = json!({
        "ipmi_address": "bmc", "ipmi_port": "623", "ipmi_username": "admin", "ipmi_password": "secret",
        "deploy_kernel": KERNEL, "deploy_ramdisk": RAMDISK,
    });
    target("ipmi", "ipxe", info)
}

fn driver(host: &Host) -> Driver {
    Driver::new(host.clone(), Arc::new(Settings::default()))
}

/// Serves the agent's kernel and ramdisk, and what else is asked, as long as it is not told otherwise.
fn serve_cache(host: &Host) {
    let app = axum::Router::new().fallback(async |uri: http::Uri| format!("bmsim ramdisk image 1\n{uri}\n"));
    let host = host.clone();
    drop(host.clone().spawn(async move { wire::http::serve(&host, 80, app).await }));
}

/// Runs `work` in a world of an Ironic, a BMC and an image cache.
fn simulate<T, F, Fut>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce(engine::Network) -> Fut + Send + 'static,
    Fut: Future<Output = T>,
{
    engine::simulate(Seed(1), work)
}
