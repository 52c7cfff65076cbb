//! The machines and their BMCs, and what runs on a machine that boots Ironic's ramdisk.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use engine::{Effect, Network, Rule, RuleId};
use fake_bmc::{
    Bmc, Config, Credentials, DiskContent, FaultId, Inventory, MachineHandle, Protocol, Software,
};
use fake_ironic::agent::{self, Hardware};
use serde_json::{Value, json};
use wire::{BoxFuture, Host};

use super::ironic::BOOT_SERVER;
use crate::scenario::plan::{BmcKind, HostPlan, Initial, Plan};

/// The machines of a world, by name.
pub(super) struct Machines(BTreeMap<String, Bmc>);

/// A fault at some BMCs.
pub(super) struct Begun(Vec<(String, FaultId)>);

/// Where a machine's system is in its BMC's Redfish tree.
pub(crate) fn system_path(machine: &str) -> String {
    format!("/redfish/v1/Systems/{machine}")
}

impl Machines {
    /// Builds the machines and starts their BMCs.
    pub(super) fn start(net: &Network, plan: &Plan) -> Self {
        let machines = plan.hosts.iter().map(|host| {
            let bmc = Bmc::new(config(host));
            drop(bmc.serve(net.host(&host.bmc_name()), net.host(&host.name), Arc::new(Ramdisk::new(net))));
            (host.name.clone(), bmc)
        });
        Self(machines.collect())
    }

    /// Somebody sets the password in the BMC itself.
    pub(super) fn set_password(&self, machine: &str, password: &str) {
        if let Some(bmc) = self.0.get(machine) {
            bmc.set_password(password);
        }
    }

    /// Begins a fault at some BMCs. It was read with the scenario, so that it can be read here.
    pub(super) fn begin(&self, machines: &[String], fault: &Value) -> Begun {
        let fault: fake_bmc::Fault = super::checked(fault);
        let begun = machines.iter().filter_map(|name| {
            let id = self.0.get(name)?.apply(fault.clone());
            Some((name.clone(), id))
        });
        Begun(begun.collect())
    }

    /// Ends a fault; tells how many requests it befell.
    pub(super) fn end(&self, Begun(begun): Begun) -> u64 {
        let touched = begun.into_iter().filter_map(|(name, id)| {
            let bmc = self.0.get(&name)?;
            bmc.clear(id);
            Some(bmc.touched(id))
        });
        touched.sum()
    }
}

fn config(host: &HostPlan) -> Config {
    let mac = match host.mac.parse() {
        Ok(mac) => mac,
        Err(error) => unreachable!("{} was checked with the scenario: {error}", host.mac),
    };
    let credentials = Credentials::new(&host.username, host.password.expose());
    let mut config = Config::new(&host.name, mac, credentials);
    config.system_id = Some(host.name.clone());
    config.boot_server = BOOT_SERVER.strip_prefix("http://").map(str::to_owned);
    config.protocol = match host.bmc {
        BmcKind::Redfish | BmcKind::RedfishVirtualmedia => Protocol::Redfish,
        BmcKind::Ipmi => Protocol::Ipmi,
    };
    if host.initial == Initial::ExternallyProvisioned {
        // Somebody else has put a system on it, and it runs.
        config.powered = true;
        config.disk = DiskContent::Image { digest: "external".to_owned(), url: "external".to_owned() };
    }
    config
}

/// A machine that boots Ironic's ramdisk runs the deploy agent; one without power answers nobody.
struct Ramdisk {
    net: Network,
    /// The rules that keep a machine without power silent.
    off: Mutex<Vec<RuleId>>,
}

impl Ramdisk {
    fn new(net: &Network) -> Self {
        Self { net: net.clone(), off: Mutex::default() }
    }
}

impl Software for Ramdisk {
    fn power(&self, host: &Host, on: bool) {
        let mut off = self.off.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in off.drain(..) {
            self.net.remove_rule(rule);
        }
        if !on {
            let silent = |from, to| self.net.add_rule(Rule { from, to, effect: Effect::Unreachable });
            let machine = Some(host.name().to_owned());
            off.extend([silent(None, machine.clone()), silent(machine, None)]);
        }
    }

    fn ramdisk(
        &self,
        machine: MachineHandle,
        host: Host,
        parameters: BTreeMap<String, String>,
    ) -> BoxFuture<'static, ()> {
        let hardware = Arc::new(BootedMachine { machine, address: host.address().to_string() });
        Box::pin(agent::run(host, hardware, parameters))
    }
}

/// The machine as the agent knows it.
struct BootedMachine {
    machine: MachineHandle,
    address: String,
}

impl Hardware for BootedMachine {
    fn inventory(&self) -> Value {
        let boot_mac = self.machine.boot_mac().to_string();
        inventory(&self.machine.inventory(), self.machine.name(), &boot_mac, &self.address)
    }

    fn write_disk(&self, digest: String, url: String) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some((disk, _)) = self.machine.disks().into_iter().next() {
                report(self.machine.write_disk(&disk, &digest, &url));
            }
        })
    }

    fn wipe_disk(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for (disk, _) in self.machine.disks() {
                report(self.machine.wipe_disk(&disk));
            }
        })
    }

    fn power_off(&self) {
        report(self.machine.power_off());
    }

    fn reboot(&self) {
        report(self.machine.reboot());
    }
}

/// A machine that lost its power does nothing any more; whoever ran on it does not learn of it.
fn report(done: Result<(), fake_bmc::SoftwareError>) {
    if let Err(error) = done {
        tracing::debug!(%error, "software acted on its machine");
    }
}

/// A machine's parts in the words of ironic-python-agent.
fn inventory(parts: &Inventory, name: &str, boot_mac: &str, address: &str) -> Value {
    let interfaces = parts.nics.iter().map(|nic| {
        let mac = nic.mac.to_string();
        let ipv4 = (mac == boot_mac).then_some(address);
        json!({
            "name": nic.name,
            "mac_address": mac,
            "ipv4_address": ipv4,
            "ipv6_address": null,
            "has_carrier": nic.link,
            "vendor": nic.vendor,
            "product": nic.product,
            "speed_mbps": nic.speed_mbps,
            "lldp": null,
            "client_id": null,
            "biosdevname": null,
        })
    });
    let disks = parts.disks.iter().map(|disk| {
        json!({
            "name": disk.name,
            "model": disk.model,
            "size": disk.size_bytes,
            "rotational": disk.rotational,
            "wwn": disk.wwn,
            "serial": disk.serial_number,
            "vendor": disk.vendor,
            "wwn_with_extension": disk.wwn,
            "wwn_vendor_extension": null,
            "hctl": disk.hctl,
            "by_path": null,
        })
    });
    let memory_mib = u64::from(parts.memory_gib) * 1024;
    json!({
        "interfaces": interfaces.collect::<Vec<_>>(),
        "cpu": {
            "model_name": parts.processors.model,
            "frequency": format!("{}.0", parts.processors.frequency_mhz),
            "count": parts.processors.count(),
            "architecture": parts.processors.architecture,
            "flags": parts.processors.flags,
            "socket_count": parts.processors.sockets,
        },
        "memory": { "total": memory_mib << 20, "physical_mb": memory_mib },
        "disks": disks.collect::<Vec<_>>(),
        "bmc_address": "0.0.0.0",
        "bmc_v6address": "::/0",
        "bmc_mac": null,
        "system_vendor": {
            "product_name": parts.model,
            "serial_number": parts.serial_number,
            "manufacturer": parts.manufacturer,
            "firmware": {
                "vendor": parts.firmware.vendor,
                "version": parts.firmware.version,
                "build_date": parts.firmware.date,
            },
        },
        "boot": { "current_boot_mode": "uefi", "pxe_interface": boot_mac },
        "hostname": name,
    })
}
