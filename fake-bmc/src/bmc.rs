//! The handle of a BMC and its machine, and the two loops behind it.
//!
//! The BMC's servers live on the BMC's host and die with it; the machine is driven from its own host and goes on
//! without its BMC. What either does to the [`Controller`] happens under one lock that is never held across a wait.

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, task::AbortHandle};
use wire::{Host, Instant, Scope, Seed, Task};

use crate::{
    MacAddress,
    config::{Config, Protocol},
    controller::Controller,
    fault::{Fault, FaultId},
    lan,
    loader::Loader,
    machine::{BootSettings, Build, DiskContent, Event, Machine, Power, Slot},
    redfish,
    software::{MachineHandle, Software},
};

/// A BMC and the machine behind it. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Bmc(Arc<Inner>);

struct Inner {
    name: String,
    mac: MacAddress,
    system_id: String,
    guid: [u8; 16],
    protocol: Protocol,
    boot_server: Option<String>,
    state: Mutex<State>,
    /// Wakes the machine's loop.
    wake: Notify,
}

struct State {
    controller: Controller,
    /// Where the BMC runs, or ran last.
    bmc_host: Option<Host>,
    /// Where the machine's loop runs, once it does.
    machine: Option<(Host, AbortHandle)>,
}

impl fmt::Debug for Bmc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bmc")
            .field("name", &self.0.name)
            .field("system_id", &self.0.system_id)
            .finish_non_exhaustive()
    }
}

impl Bmc {
    /// A BMC with its machine, not yet in any world.
    pub fn new(config: Config) -> Self {
        let inventory = config.whole_inventory();
        let uuid = inventory.uuid.unwrap_or_default();
        // IPMI sends a GUID's last byte first (20.8).
        let mut guid = uuid.into_bytes();
        guid.reverse();
        let Config {
            name,
            mac,
            credentials,
            protocol,
            inventory: _,
            system_id,
            boot_server,
            boot_order,
            powered,
            disk,
            ignores_soft_off,
            timings,
        } = config;
        // The machine gets its world's chance when it is put into one.
        let dice = Seed::default().stream(&name, "machine");
        let has_boot_server = boot_server.is_some();
        let machine = Machine::new(
            Build { inventory, mac, timings, boot_order, has_boot_server, ignores_soft_off, powered, disk },
            dice,
        );
        Self(Arc::new(Inner {
            name,
            mac,
            system_id: system_id.unwrap_or_else(|| uuid.to_string()),
            guid,
            protocol,
            boot_server,
            state: Mutex::new(State {
                controller: Controller::new(machine, credentials),
                bmc_host: None,
                machine: None,
            }),
            wake: Notify::new(),
        }))
    }

    /// Starts the BMC on `bmc_host`, Redfish on TCP port 80 and IPMI on UDP port 623; it runs for as long as that host
    /// lives. The first call also sets the machine going on `machine_host`, the network of its NIC, where its ramdisks
    /// run too.
    ///
    /// After the BMC's host has crashed this is to be called anew. The machine has been running on meanwhile; the
    /// BMC has lost its sessions and its virtual media.
    ///
    /// The returned task ends only when a port cannot be had; it may be dropped.
    pub fn serve(
        &self,
        bmc_host: Host,
        machine_host: Host,
        software: Arc<dyn Software>,
    ) -> Task<io::Result<()>> {
        self.plug_in(&bmc_host, &machine_host, software);
        let bmc = self.clone();
        bmc_host.clone().spawn(async move {
            let ended = bmc.answer(&bmc_host).await;
            if let Err(error) = &ended {
                tracing::error!(bmc = bmc_host.name(), %error, "cannot serve");
            }
            ended
        })
    }

    async fn answer(&self, host: &Host) -> io::Result<()> {
        let redfish = async {
            match self.0.protocol.has_redfish() {
                true => {
                    wire::http::serve(host, redfish::PORT, redfish::router(self.clone(), host.clone())).await
                }
                false => std::future::pending().await,
            }
        };
        let ipmi = async {
            match self.0.protocol.has_ipmi() {
                true => lan::serve(self, host).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = redfish => ended,
            ended = ipmi => ended,
        }
    }

    fn plug_in(&self, bmc_host: &Host, machine_host: &Host, software: Arc<dyn Software>) {
        {
            let mut state = self.state();
            state.bmc_host = Some(bmc_host.clone());
            let runs = state.machine.as_ref().is_some_and(|(_, task)| !task.is_finished());
            if !runs {
                if state.machine.is_none() {
                    state.controller.machine.reseed(machine_host.dice("machine"));
                }
                let task =
                    machine_host.spawn(drive(self.clone(), machine_host.clone(), software)).abort_handle();
                state.machine = Some((machine_host.clone(), task));
            }
        }
        self.with(|controller, _| controller.start());
    }

    // What a test or a world asks.

    /// The machine's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The address of the NIC that the machine boots from.
    pub fn mac(&self) -> MacAddress {
        self.0.mac
    }

    /// What the system is called in Redfish paths.
    pub fn system_id(&self) -> &str {
        &self.0.system_id
    }

    /// The system's Redfish path, as a BMC address ends: `/redfish/v1/Systems/…`.
    pub fn system_path(&self) -> String {
        format!("/redfish/v1/Systems/{}", self.0.system_id)
    }

    /// The power state.
    pub fn power(&self) -> Power {
        self.with(|controller, _| controller.machine.power())
    }

    /// Each disk's name and what it holds.
    pub fn disks(&self) -> Vec<(String, DiskContent)> {
        self.with(|controller, _| {
            controller.machine.disks().map(|(name, content)| (name.to_owned(), content.clone())).collect()
        })
    }

    /// The boot settings.
    pub fn boot(&self) -> BootSettings {
        self.with(|controller, _| controller.machine.boot().clone())
    }

    /// The image in a virtual drive.
    pub fn image(&self, slot: Slot) -> Option<String> {
        self.with(|controller, _| controller.machine.medium(slot).map(|medium| medium.image.clone()))
    }

    // What a world does to it.

    /// Changes the password of the BMC's account, as its owner would: open sessions end.
    pub fn set_password(&self, password: impl Into<String>) {
        self.with(|controller, _| controller.set_password(password.into()));
    }

    /// Begins a fault.
    pub fn apply(&self, fault: Fault) -> FaultId {
        self.with(|controller, _| controller.faults.apply(fault))
    }

    /// Ends a fault; whether it was still there.
    pub fn clear(&self, fault: FaultId) -> bool {
        self.with(|controller, _| controller.faults.clear(fault))
    }

    /// How many requests a fault has struck, also after it was cleared.
    pub fn touched(&self, fault: FaultId) -> u64 {
        self.with(|controller, _| controller.faults.touched(fault))
    }

    // What the protocols' servers and the software need.

    pub(crate) fn guid(&self) -> [u8; 16] {
        self.0.guid
    }

    /// Does something with the controller, brought up to the present first.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Controller, Instant) -> T) -> T {
        let mut state = self.state();
        let now = state.machine.as_ref().map_or_else(Instant::default, |(host, _)| host.now());
        let due = state.controller.machine.due();
        state.controller.machine.tick(now);
        let done = act(&mut state.controller, now);
        let machine = &state.controller.machine;
        let news = machine.has_events() || machine.due() != due;
        drop(state);
        if news {
            self.0.wake.notify_one();
        }
        done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loader(&self, machine_host: &Host) -> Loader {
        Loader {
            bmc_host: self.state().bmc_host.clone(),
            machine_host: machine_host.clone(),
            boot_server: self.0.boot_server.clone(),
        }
    }
}

/// Lets a machine live: waits for what is due, and does in the world what comes out of it.
async fn drive(bmc: Bmc, host: Host, software: Arc<dyn Software>) {
    let mut running = Running::new(&host);
    software.power(&host, bmc.power() != Power::Off);
    loop {
        let (events, due) =
            bmc.with(|controller, _| (controller.machine.take_events(), controller.machine.due()));
        for event in events {
            match event {
                Event::Note { topic, data } => host.note(topic, bmc.name(), data),
                Event::Supply { on } => software.power(&host, on),
                Event::Stop => {
                    running.scope.end();
                    running = Running::new(&host);
                }
                Event::Load { boot, what } => {
                    let (bmc, loader) = (bmc.clone(), bmc.loader(&running.host));
                    drop(running.host.spawn(async move {
                        let found = loader.load(what).await;
                        bmc.with(|controller, now| controller.machine.loaded(now, boot, found));
                    }));
                }
                Event::Start { boot, ramdisk } => {
                    let machine = MachineHandle::new(bmc.clone(), boot);
                    let ramdisk = software.ramdisk(machine, running.host.clone(), ramdisk.parameters);
                    drop(running.host.spawn(ramdisk));
                }
            }
        }
        match due {
            Some(due) => {
                tokio::select! {
                    biased;
                    () = bmc.0.wake.notified() => {}
                    () = host.sleep_until(due) => {}
                }
            }
            None => bmc.0.wake.notified().await,
        }
    }
}

/// The machine's host, as far as the present boot uses it.
struct Running {
    host: Host,
    scope: Scope,
}

impl Running {
    fn new(host: &Host) -> Self {
        let (host, scope) = host.scoped();
        Self { host, scope }
    }
}
