//! A world on this machine's loopback interface, for real clients: the same components, timeline and faults, in real
//! time.
//!
//! The prologue is run in virtual time, so that hosts which the scenario finds provisioned are so at once.

use std::{
    fmt, fs,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use engine::{Network, Pace, Record, What};

use crate::{
    cli::{in_quotes, quoted},
    run::{Watch, run_as},
    scenario::{
        Scenario,
        plan::{BmcKind, HostPlan, Plan},
    },
    schedule::Schedule,
    trace::Trace,
    verdict,
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
    /// What is there already is not a kubeconfig of a served world.
    #[error("write {}: there is a file of another kind", path.display())]
    Foreign {
        /// Where.
        path: PathBuf,
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
    image_caches: Vec<ImageCacheEndpoint>,
    bmcs: Vec<BmcEndpoint>,
}

/// Where an image server is, and a file that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ImageCacheEndpoint {
    name: String,
    door: SocketAddr,
    file: Option<String>,
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
        let kubeconfig = quoted(&self.kubeconfig.display().to_string());
        writeln!(f, "kubectl --kubeconfig {kubeconfig} -n {} get bmh", self.namespace)?;
        writeln!(f, "curl -s http://{}/v1/nodes", self.ironic)?;
        for bmc in &self.bmcs {
            let BmcEndpoint { host, door, username, password, .. } = bmc;
            match bmc.kind {
                BmcKind::Redfish | BmcKind::RedfishVirtualmedia => {
                    let path = crate::world::system_path(host);
                    let login = in_quotes(&format!("{username}:{password}"));
                    writeln!(f, "curl -s -u {login} http://{door}{path}  # {host}")?;
                }
                BmcKind::Ipmi => {
                    let (ip, port) = (door.ip(), door.port());
                    let (username, password) = (in_quotes(username), in_quotes(password));
                    let login = format!("-H {ip} -p {port} -U {username} -P {password}");
                    writeln!(f, "ipmitool -I lanplus {login} power status  # {host}")?;
                }
            }
        }
        for ImageCacheEndpoint { name, door, file } in &self.image_caches {
            // A server without files has nothing to ask for.
            file.iter().try_for_each(|file| writeln!(f, "curl -sI http://{door}/{file}  # {name}"))?;
        }
        Ok(())
    }
}

/// Serves a world until its expectations are decided, its timeline is over, or it is interrupted. Once clients can
/// come, commands for them are printed.
pub fn serve(scenario: &Scenario, schedule: Schedule, options: &Options) -> Result<Trace, ServeError> {
    // Found out before the prologue is run for nothing.
    let kubeconfig = Draft::begin(&options.kubeconfig)?;
    let (scenario, shown) = (scenario.clone(), options.kubeconfig.clone());
    let failed = Arc::new(Mutex::new(None));
    let failing = Arc::clone(&failed);
    let interrupt = Arc::clone(&options.watch.interrupt);
    let trace = run_as(schedule, &options.watch, Pace::Live, async move |world| {
        let so_far = SoFar::follow(world.net(), scenario);
        if !world.prologue().await {
            return;
        }
        match open(world.net(), world.plan(), shown, &kubeconfig).await {
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
            () = so_far.decided(world.net()) => {}
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

/// How often it is asked whether all is decided.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// What was noted up to now, and what is asked of it.
struct SoFar {
    scenario: Scenario,
    trace: Arc<Mutex<Trace>>,
}

impl SoFar {
    /// Keeps a world's facts from now on.
    fn follow(net: &Network, scenario: Scenario) -> Self {
        let trace = Trace {
            start: scenario.start,
            end: net.now(),
            records: Vec::new(),
            hash: String::new(),
            failure: None,
        };
        let trace = Arc::new(Mutex::new(trace));
        if !verdict::needs_the_end(&scenario) {
            let keeping = Arc::clone(&trace);
            net.observe(move |at, entry| {
                let records = &mut keeping.lock().unwrap_or_else(PoisonError::into_inner).records;
                let ordinal = records.len() as u64;
                records.push(Record { ordinal, at, what: What::Entry(entry.clone()) });
            });
        }
        Self { scenario, trace }
    }

    /// Returns once nothing that comes could change the verdict; never if some expectation looks to the end.
    async fn decided(&self, net: &Network) {
        if verdict::needs_the_end(&self.scenario) {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(ASKED_EVERY).await;
            let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
            trace.end = net.now();
            if verdict::is_decided(&self.scenario, &trace) {
                return;
            }
        }
    }
}

/// A kubeconfig that is not written yet. What stands in its place stays until it is complete.
struct Draft {
    path: PathBuf,
    beside: PathBuf,
}

impl Draft {
    /// Sees that it can be written and that nothing of somebody else's is there.
    fn begin(path: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Kubeconfig { path: path.to_owned(), source };
        // A link stays a link: what it leads to is written.
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(failed(error)),
        };
        if target.exists() {
            let foreign = || ServeError::Foreign { path: path.to_owned() };
            if !target.is_file() {
                return Err(foreign());
            }
            let text = fs::read(&target).map_err(failed)?;
            if !text.is_empty() && !String::from_utf8_lossy(&text).contains(OURS) {
                return Err(foreign());
            }
        }
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let beside = target.with_file_name(format!(".{name}.{}", std::process::id()));
        fs::File::create_new(&beside).map_err(failed)?;
        Ok(Self { path: target, beside })
    }

    /// Puts it in its place.
    fn finish(&self, text: &str) -> Result<(), ServeError> {
        fs::write(&self.beside, text)
            .and_then(|()| fs::rename(&self.beside, &self.path))
            .map_err(|source| ServeError::Kubeconfig { path: self.path.clone(), source })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Nothing is there once it is finished.
        let _ = fs::remove_file(&self.beside);
    }
}

/// By this a kubeconfig is known as one of a served world.
const OURS: &str = "name: bmsim";

async fn open(
    net: &Network,
    plan: &Plan,
    shown: PathBuf,
    kubeconfig: &Draft,
) -> Result<Endpoints, ServeError> {
    let doors = async {
        net.go_live()?;
        let kube = tcp_door(net, 6443, "kube", 6443).await?;
        let ironic = tcp_door(net, 6385, "ironic", 6385).await?;
        let mut image_caches = Vec::new();
        for cache in &plan.image_caches {
            image_caches.push(ImageCacheEndpoint {
                name: cache.name.clone(),
                door: tcp_door(net, 0, &cache.name, 80).await?,
                file: cache.images.first().map(|image| image.name.clone()),
            });
        }
        let mut bmcs = Vec::new();
        for (index, host) in (0..).zip(&plan.hosts) {
            bmcs.push(bmc_door(net, host, index).await?);
        }
        Ok((kube, ironic, image_caches, bmcs))
    };
    let (kube, ironic, image_caches, bmcs) = doors.await.map_err(ServeError::Door)?;
    kubeconfig.finish(&kubeconfig_text(kube, &plan.namespace))?;
    Ok(Endpoints { kubeconfig: shown, namespace: plan.namespace.clone(), kube, ironic, image_caches, bmcs })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("bmsim-draft-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_kubeconfig_of_somebody_else_is_never_touched() {
        let folder = folder("foreign");
        let path = folder.join("config");
        fs::write(&path, "clusters:\n- name: production\n").expect("a file");
        assert!(matches!(Draft::begin(&path), Err(ServeError::Foreign { .. })));
        assert!(matches!(Draft::begin(&folder), Err(ServeError::Foreign { .. })));
        assert_eq!(fs::read_to_string(&path).expect("still there"), "clusters:\n- name: production\n");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
        fs::remove_dir_all(&folder).expect("clean up");
    }

    #[test]
    fn an_own_kubeconfig_stays_until_the_next_is_complete() {
        let folder = folder("own");
        let path = folder.join("config");
        let old = kubeconfig_text(at(1), "metal3");
        fs::write(&path, &old).expect("a file");
        drop(Draft::begin(&path).expect("its own"));
        assert_eq!(fs::read_to_string(&path).expect("still there"), old);
        let new = kubeconfig_text(at(2), "metal3");
        Draft::begin(&path).and_then(|draft| draft.finish(&new)).expect("its own");
        assert_eq!(fs::read_to_string(&path).expect("there"), new);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
        fs::remove_dir_all(&folder).expect("clean up");
    }
}
