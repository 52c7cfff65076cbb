//! A world on this machine's loopback interface, for real clients: the same components, timeline and faults, in real
//! time.
//!
//! The prologue is run in virtual time, so that hosts which the scenario finds provisioned are so at once.

use std::{
    fmt, fs,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use engine::{Network, Pace};

use crate::{
    run::{Watch, run_as},
    scenario::plan::{BmcKind, HostPlan, Plan},
    schedule::Schedule,
    trace::Trace,
};

/// The first port of the Redfish doors; each further BMC has the next.
const REDFISH_DOORS: u16 = 8000;
/// The first port of the IPMI doors; each further BMC has the next.
const IPMI_DOORS: u16 = 6230;

/// How a world is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the kubeconfig is written.
    pub kubeconfig: PathBuf,
    /// How the run is watched.
    pub watch: Watch,
}

/// Why a world cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The kubeconfig cannot be written.
    #[error("write {}", path.display())]
    Kubeconfig {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No port can be had.
    #[error("open a door on the loopback interface")]
    Door(#[source] io::Error),
}

/// Where clients of this machine find a served world.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoints {
    kubeconfig: PathBuf,
    namespace: String,
    kube: SocketAddr,
    ironic: SocketAddr,
    /// Name and door.
    image_caches: Vec<(String, SocketAddr)>,
    bmcs: Vec<BmcEndpoint>,
}

/// Where a BMC is: TCP for Redfish, UDP for IPMI.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BmcEndpoint {
    host: String,
    kind: BmcKind,
    door: SocketAddr,
    username: String,
    password: String,
}

/// Commands that use the endpoints, ready to paste. The credentials are the scenario's own, of BMCs that are not real.
impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kubeconfig = self.kubeconfig.display();
        writeln!(f, "kubectl --kubeconfig {kubeconfig} -n {} get bmh", self.namespace)?;
        writeln!(f, "curl -s http://{}/v1/nodes", self.ironic)?;
        for bmc in &self.bmcs {
            let BmcEndpoint { host, door, username, password, .. } = bmc;
            match bmc.kind {
                BmcKind::Redfish | BmcKind::RedfishVirtualmedia => {
                    let path = crate::world::system_path(host);
                    writeln!(f, "curl -s -u '{username}:{password}' http://{door}{path}  # {host}")?;
                }
                BmcKind::Ipmi => {
                    let (ip, port) = (door.ip(), door.port());
                    let login = format!("-H {ip} -p {port} -U '{username}' -P '{password}'");
                    writeln!(f, "ipmitool -I lanplus {login} power status  # {host}")?;
                }
            }
        }
        for (name, door) in &self.image_caches {
            writeln!(f, "curl -sI http://{door}/  # {name}")?;
        }
        Ok(())
    }
}

/// Serves a world until its timeline is over or it is interrupted. Once clients can come, commands for them are
/// printed.
pub fn serve(schedule: Schedule, options: &Options) -> Result<Trace, ServeError> {
    let kubeconfig = options.kubeconfig.clone();
    // Found out before the prologue is run for nothing.
    fs::write(&kubeconfig, "")
        .map_err(|source| ServeError::Kubeconfig { path: kubeconfig.clone(), source })?;
    let failed = Arc::new(Mutex::new(None));
    let failing = Arc::clone(&failed);
    let interrupt = Arc::clone(&options.watch.interrupt);
    let trace = run_as(schedule, &options.watch, Pace::Live, async move |world| {
        if !world.prologue().await {
            return;
        }
        match open(world.net(), world.plan(), kubeconfig).await {
            Ok(endpoints) => announce(&endpoints),
            Err(error) => {
                failing.lock().unwrap_or_else(PoisonError::into_inner).replace(error);
                return;
            }
        }
        tokio::select! {
            biased;
            // Waiting for a signal fails only where there are none.
            Ok(()) = tokio::signal::ctrl_c() => {
                interrupt.store(true, Ordering::Relaxed);
                std::future::pending().await
            }
            () = world.timeline() => {}
        }
    });
    match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok(trace),
    }
}

fn announce(endpoints: &Endpoints) {
    let mut out = io::stdout().lock();
    // A closed standard output is no reason not to serve.
    let _ = write!(out, "{endpoints}").and_then(|()| out.flush());
}

async fn open(net: &Network, plan: &Plan, kubeconfig: PathBuf) -> Result<Endpoints, ServeError> {
    let doors = async {
        net.go_live()?;
        let kube = tcp_door(net, 6443, "kube", 6443).await?;
        let ironic = tcp_door(net, 6385, "ironic", 6385).await?;
        let mut image_caches = Vec::new();
        for cache in &plan.image_caches {
            image_caches.push((cache.name.clone(), tcp_door(net, 0, &cache.name, 80).await?));
        }
        let mut bmcs = Vec::new();
        for (index, host) in (0..).zip(&plan.hosts) {
            bmcs.push(bmc_door(net, host, index).await?);
        }
        Ok((kube, ironic, image_caches, bmcs))
    };
    let (kube, ironic, image_caches, bmcs) = doors.await.map_err(ServeError::Door)?;
    if let Err(source) = fs::write(&kubeconfig, kubeconfig_text(kube, &plan.namespace)) {
        return Err(ServeError::Kubeconfig { path: kubeconfig, source });
    }
    Ok(Endpoints { kubeconfig, namespace: plan.namespace.clone(), kube, ironic, image_caches, bmcs })
}

async fn bmc_door(net: &Network, host: &HostPlan, index: u16) -> io::Result<BmcEndpoint> {
    let name = host.bmc_name();
    let door = match host.bmc {
        BmcKind::Redfish | BmcKind::RedfishVirtualmedia => {
            tcp_door(net, REDFISH_DOORS.saturating_add(index), &name, 80).await?
        }
        BmcKind::Ipmi => match net.open_udp_door(at(IPMI_DOORS.saturating_add(index)), &name, 623).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                net.open_udp_door(at(0), &name, 623).await?
            }
            opened => opened?,
        },
    };
    Ok(BmcEndpoint {
        host: host.name.clone(),
        kind: host.bmc,
        door,
        username: host.username.clone(),
        password: host.password.expose().to_owned(),
    })
}

/// A door at the wanted port, or at any if that is taken.
async fn tcp_door(net: &Network, wanted: u16, host: &str, port: u16) -> io::Result<SocketAddr> {
    match net.open_tcp_door(at(wanted), host, port).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => net.open_tcp_door(at(0), host, port).await,
        opened => opened,
    }
}

/// A port of the loopback interface.
fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn kubeconfig_text(kube: SocketAddr, namespace: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: bmsim
  cluster:
    server: http://{kube}
users:
- name: bmsim
  user: {{}}
contexts:
- name: bmsim
  context:
    cluster: bmsim
    user: bmsim
    namespace: {namespace}
current-context: bmsim
"
    )
}
