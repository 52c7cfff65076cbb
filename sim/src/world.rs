//! The world: every component on its host of the simulated network, people at their keyboards, and a timeline.
//!
//! A world begins with a prologue in which nothing is wrong: hosts that the scenario says are provisioned are really
//! provisioned, through the same protocols. Then comes the timeline's zero, and the steps.

mod caches;
mod ironic;
mod machines;
mod nemesis;
mod timeline;
mod user;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use baremetal_operator::options::Options;
use engine::Network;
use fake_kube::KubeApi;
use serde_json::json;
use tokio::sync::watch;
use wire::{Host, Instant};

pub(crate) use self::machines::system_path;
use self::{caches::Caches, ironic::Ironic, machines::Machines, timeline::Now, user::User};
use crate::{
    scenario::{
        condition::Condition,
        plan::{HostPlan, Initial, Plan},
        step::Action,
    },
    schedule::Schedule,
};

/// The hosts that every world has.
const KUBE: &str = "kube";
const OPERATOR: &str = "operator";
const IRONIC: &str = "ironic";
const USER: &str = "user";

/// How long the prologue may take. Provisioning takes about ten minutes.
const PROLOGUE: Duration = Duration::from_secs(3 * 3600);

/// How often a crashed program is started again, and the wait before the first time; it doubles up to five minutes,
/// as the kubelet's back-off does.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// A world at work. Cheap to clone.
#[derive(Clone)]
pub(crate) struct World(Arc<Parts>);

/// What a world is made of.
pub(crate) struct Parts {
    net: Network,
    schedule: Schedule,
    kube: KubeApi,
    ironic: Ironic,
    machines: Machines,
    caches: Caches,
    user: User,
    now: Now,
    /// How many restarts keep each component away at present.
    down: Mutex<BTreeMap<&'static str, u32>>,
    ended: watch::Sender<bool>,
}

impl std::ops::Deref for World {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// How many kernels a world needs: one for each host, and one more for each restart of a host.
pub(crate) fn kernels(schedule: &Schedule) -> usize {
    let restarts = schedule.steps.iter().filter(|step| matches!(step.action, Action::Restart(_))).count();
    // The user, the gateway, and the hosts that nobody is behind.
    let others = 3;
    schedule.plan.network_names().len() + others + 2 * restarts
}

impl World {
    /// Builds a world and starts its programs.
    pub(crate) fn build(net: &Network, schedule: Schedule) -> Self {
        let now = Now::follow(net);
        nemesis::always_lossy(net, schedule.plan.network.loss);
        let kube = KubeApi::new();
        drop(kube.serve(net.host(KUBE)));
        let caches = Caches::start(net, &schedule.plan);
        let machines = Machines::start(net, &schedule.plan);
        let ironic = Ironic::new(&schedule.plan);
        let user = User::new(net.host(USER), &schedule.plan.namespace);
        let (ended, _) = watch::channel(false);
        let net = net.clone();
        let world = Self(Arc::new(Parts {
            net,
            schedule,
            kube,
            ironic,
            machines,
            caches,
            user,
            now,
            down: Mutex::default(),
            ended,
        }));
        world.ironic.start(world.net.host(IRONIC));
        world.start_operator(world.net.host(OPERATOR));
        world
    }

    /// Runs the world from its prologue to its end.
    pub(crate) async fn live(&self) {
        if self.prologue().await {
            self.timeline().await;
        }
    }

    /// Brings the hosts to where the timeline finds them. False if that could not be done.
    pub(crate) async fn prologue(&self) -> bool {
        self.user.create_namespace().await;
        let plan = &self.schedule.plan;
        let early: Vec<&HostPlan> = plan.hosts.iter().filter(|host| host.initial.state().is_some()).collect();
        for host in &early {
            self.create(host).await;
        }
        let settled = async {
            for host in &early {
                self.now.until(&settled(host)).await;
            }
        };
        let reached = wire::within(PROLOGUE, settled).await.is_some();
        self.net.note("timeline", "zero", json!({ "reached": reached }));
        reached
    }

    /// Takes the steps in their moments, until the scenario's duration is over.
    pub(crate) async fn timeline(&self) {
        let zero = self.net.now();
        for step in self.schedule.steps.clone() {
            let world = self.clone();
            drop(self.net.host(USER).spawn(async move {
                world.now.reach(&step.trigger, zero, &world.net).await;
                world.act(&step.action, step.line).await;
            }));
        }
        for host in self.schedule.plan.hosts.iter().filter(|host| host.initial == Initial::New) {
            let world = self.clone();
            let host = host.clone();
            drop(self.net.host(USER).spawn(async move { world.create(&host).await }));
        }
        self.sleep_until(zero + self.schedule.duration).await;
        // Faults that last to the end are mended now, so that what they did is known.
        self.ended.send_replace(true);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// What was built.
    pub(crate) fn plan(&self) -> &Plan {
        &self.schedule.plan
    }

    /// The network, for doors into it.
    pub(crate) fn net(&self) -> &Network {
        &self.net
    }

    async fn sleep_until(&self, moment: Instant) {
        tokio::time::sleep_until(self.net.clock().at(moment)).await;
    }

    async fn until_end(&self) {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as the world.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    async fn create(&self, host: &HostPlan) {
        let bmc = self.net.host(&host.bmc_name()).address();
        self.user.create_host(host, bmc, &self.schedule.plan).await;
    }

    /// Starts the operator, and starts it again whenever it ends, as the kubelet would.
    fn start_operator(&self, host: Host) {
        let options = self.operator_options();
        let running = host.clone();
        drop(host.spawn(async move {
            let (mut wait, longest) = BACK_OFF;
            loop {
                match baremetal_operator::run(running.clone(), options.clone()).await {
                    Ok(never) => match never {},
                    Err(error) => tracing::warn!(%error, "the operator ended"),
                }
                running.sleep(wait).await;
                wait = (wait * 2).min(longest);
            }
        }));
    }

    fn operator_options(&self) -> Options {
        let kube = http::Uri::from_static(user::API);
        let mut options = Options::new(kube, http::Uri::from_static(ironic::API));
        options.namespace = Some(self.schedule.plan.namespace.clone());
        options.deploy_kernel_url =
            Some(format!("{}/images/ironic-python-agent.kernel", ironic::BOOT_SERVER));
        options.deploy_ramdisk_url =
            Some(format!("{}/images/ironic-python-agent.initramfs", ironic::BOOT_SERVER));
        options.regressions = self.schedule.regressions.clone();
        options
    }
}

/// A fault's particulars, which were read once with the scenario and found good.
fn checked<T: serde::de::DeserializeOwned>(fault: &serde_json::Value) -> T {
    match serde_json::from_value(fault.clone()) {
        Ok(fault) => fault,
        Err(error) => unreachable!("the fault was checked with the scenario: {error}"),
    }
}

/// A host at rest where the timeline finds it.
fn settled(host: &HostPlan) -> Condition {
    Condition {
        hosts: vec![host.name.clone()],
        state: host.initial.state().map(str::to_owned),
        error: Some(crate::scenario::condition::ErrorWanted::None),
        powered_on: Some(host.online),
        // A machine that somebody else has put to work has been on all the time, and nothing is noted of that.
        power: (host.initial != Initial::ExternallyProvisioned).then_some(host.online),
        ..Condition::default()
    }
}
