//! The hosts of a world, their kernels, and the rules between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

use tokio::task::AbortHandle;
use turmoil_net::HostId;
use wire::{Clock, Dice, Host, Instant};

use crate::{
    host::SimHost,
    record::{Recorder, What},
    rule::{Effect, Installed, Rule, RuleId},
    run::{Config, Failure},
    scope::Place,
};

/// How far apart the ephemeral ports of a host's successive lives begin, so that a peer's memory of an old connection
/// is not taken for a new one (Linux draws ports at random).
const PORTS_PER_LIFE: u32 = 997;

/// The network of a running world: hosts that can be made, crashed and restarted, and rules about their packets.
#[derive(Clone)]
pub struct Network(pub(crate) Arc<Shared>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// The host of that name, made at its first mention. Its address is the name, if that is an address, or one in
    /// 192.168.0.0/16.
    ///
    /// # Panics
    /// When the world has no spare kernel left: see [`Config::kernels`].
    pub fn host(&self, name: &str) -> Host {
        let index = self.0.state().host_index_or_new(name);
        self.0.handle(index)
    }

    /// Takes the power from a host: its tasks are dropped, its connections vanish without a FIN, and nothing
    /// answers at its address. Does nothing if it is down already, or unknown.
    pub fn crash(&self, name: &str) {
        let mut state = self.0.state();
        let Some(&index) = state.by_name.get(name) else { return };
        let host = &mut state.hosts[index];
        host.up = false;
        host.generation += 1;
        host.udp.clear();
        let tasks = std::mem::take(&mut host.tasks);
        drop(state);
        for task in tasks {
            task.abort();
        }
    }

    /// Brings a crashed host up again under its name and address, with a fresh kernel: old connections are answered
    /// with a RST. A host that is up is crashed first.
    ///
    /// # Panics
    /// When the world has no spare kernel left: see [`Config::kernels`].
    pub fn restart(&self, name: &str) -> Host {
        self.crash(name);
        let index = {
            let mut state = self.0.state();
            let index = state.host_index_or_new(name);
            if !state.hosts[index].up {
                state.boot(index);
            }
            index
        };
        self.0.advance_ports(index);
        self.0.handle(index)
    }

    /// Whether a host is up.
    pub fn is_up(&self, name: &str) -> bool {
        let state = self.0.state();
        state.by_name.get(name).is_some_and(|&index| state.hosts[index].up)
    }

    /// Installs a rule. Later rules are asked first.
    pub fn add_rule(&self, rule: Rule) -> RuleId {
        let mut state = self.0.state();
        let id = RuleId(state.next_rule);
        state.next_rule += 1;
        let [from, to] = [rule.from, rule.to].map(|name| name.map(|name| state.host_index_or_new(&name)));
        state.rules.push(Installed { id, from, to, effect: rule.effect, touched: 0 });
        id
    }

    /// Removes a rule, and tells how many packets it befell. What it held arrives now.
    pub fn remove_rule(&self, id: RuleId) -> u64 {
        let mut state = self.0.state();
        let Some(place) = state.rules.iter().position(|rule| rule.id == id) else { return 0 };
        state.released = true;
        crate::scope::mark_dirty();
        state.rules.remove(place).touched
    }

    /// How many packets a rule has befallen so far.
    pub fn touched(&self, id: RuleId) -> u64 {
        self.0.state().rules.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.touched)
    }

    /// The world's clock.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// The time since the world began.
    pub fn now(&self) -> Instant {
        self.0.clock.now()
    }

    /// Notes a fact that belongs to no host.
    pub fn note(&self, topic: &str, subject: &str, data: serde_json::Value) {
        let entry =
            wire::Entry { host: String::new(), topic: topic.to_owned(), subject: subject.to_owned(), data };
        self.0.fact(What::Entry(entry));
    }

    /// Lets `observe` see each noted fact from now on, right after it was kept. It must not note facts itself.
    pub fn observe(&self, observe: impl FnMut(Instant, &wire::Entry) + Send + 'static) {
        self.0.observers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(observe));
    }
}

type Observer = Box<dyn FnMut(Instant, &wire::Entry) + Send>;

/// What the handles, the tasks and the loop of a world share. Only the world's own thread uses it.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    state: Mutex<State>,
    pub(crate) recorder: Mutex<Recorder>,
    observers: Mutex<Vec<Observer>>,
    /// Set once the world must end early.
    pub(crate) over: AtomicBool,
    /// Set once time passes as outside.
    pub(crate) live: AtomicBool,
}

/// The mutable part of a world.
pub(crate) struct State {
    pub(crate) hosts: Vec<HostState>,
    pub(crate) by_name: BTreeMap<String, usize>,
    by_address: BTreeMap<IpAddr, usize>,
    kernels: Vec<Kernel>,
    next_kernel: usize,
    pub(crate) rules: Vec<Installed>,
    next_rule: u64,
    /// A rule was removed, so what is held must be looked at again.
    pub(crate) released: bool,
    /// Connections to be reset by their owner: (host, own port, peer).
    pub(crate) resets: Vec<(usize, u16, SocketAddr)>,
    /// Connections that ended because nobody acknowledged: they fail with a time-out, not a reset.
    pub(crate) timed_out: BTreeSet<(usize, u16, SocketAddr)>,
    pub(crate) failure: Option<Failure>,
    pub(crate) polls: u64,
    polls_at: Instant,
    links: BTreeMap<(usize, usize), Dice>,
}

/// One of turmoil-net's kernels; its own address is seen by nobody, since packets are translated on the way.
#[derive(Clone, Copy)]
struct Kernel {
    id: HostId,
    address: IpAddr,
    /// The host that it serves or served, and in which of that host's lives.
    owner: Option<(usize, u32)>,
}

pub(crate) struct HostState {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    kernel: usize,
    pub(crate) generation: u32,
    pub(crate) up: bool,
    tasks: Vec<AbortHandle>,
    ordinals: BTreeMap<String, u64>,
    /// Bound UDP ports, with the waker of whoever waits for a datagram, and whether an ICMP refusal is pending.
    pub(crate) udp: BTreeMap<u16, UdpPort>,
}

#[derive(Default)]
pub(crate) struct UdpPort {
    pub(crate) refused: bool,
    pub(crate) waker: Option<Waker>,
}

impl Shared {
    pub(crate) fn new(
        config: Config,
        clock: Clock,
        kernels: Vec<(HostId, IpAddr)>,
        recorder: Recorder,
    ) -> Self {
        let kernels = kernels.into_iter().map(|(id, address)| Kernel { id, address, owner: None }).collect();
        let state = State {
            hosts: Vec::new(),
            by_name: BTreeMap::new(),
            by_address: BTreeMap::new(),
            kernels,
            next_kernel: 0,
            rules: Vec::new(),
            next_rule: 0,
            released: false,
            resets: Vec::new(),
            timed_out: BTreeSet::new(),
            failure: None,
            polls: 0,
            polls_at: Instant::default(),
            links: BTreeMap::new(),
        };
        Self {
            config,
            clock,
            state: Mutex::new(state),
            recorder: Mutex::new(recorder),
            observers: Mutex::default(),
            over: AtomicBool::new(false),
            live: AtomicBool::new(false),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(self: &Arc<Self>, index: usize) -> Host {
        let state = self.state();
        let host = &state.hosts[index];
        let place = Place { host: index, kernel: state.kernels[host.kernel].id, generation: host.generation };
        let (name, address) = (host.name.clone(), host.address);
        drop(state);
        Host::new(SimHost { shared: Arc::clone(self), place, name, address })
    }

    /// Keeps a fact and shows it to the observers.
    pub(crate) fn fact(&self, what: What) {
        let at = self.clock.now();
        let entry = match &what {
            What::Entry(entry) => Some(entry.clone()),
            What::Packet(_) | What::Log { .. } => None,
        };
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).fact(at, what);
        if let Some(entry) = entry {
            for observe in self.observers.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
                observe(at, &entry);
            }
        }
    }

    /// Counts a poll of a task. False if the task's host has crashed since, or the world is over.
    pub(crate) fn begin_poll(&self, place: Place) -> bool {
        let now = self.clock.now();
        crate::interpose::set_now(now.0);
        let mut state = self.state();
        if state.polls_at != now {
            state.polls_at = now;
            state.polls = 0;
        }
        state.polls += 1;
        if state.polls > self.config.poll_budget && state.failure.is_none() {
            let host = state.hosts[place.host].name.clone();
            state.failure = Some(Failure::Livelock { host, at: now });
            self.end();
        }
        state.is_alive(place) && !self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn fail_by_panic(&self, host: usize, message: String) {
        let at = self.clock.now();
        let mut state = self.state();
        let host = state.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default();
        state.failure.get_or_insert(Failure::Panic { host, at, message });
        drop(state);
        self.end();
    }

    /// Ends the world at this instant.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        crate::scope::mark_dirty();
    }

    /// Moves a restarted host's ephemeral ports away from those of its earlier lives.
    fn advance_ports(self: &Arc<Self>, index: usize) {
        use turmoil_net::shim::tokio::net::TcpListener;
        let state = self.state();
        let host = &state.hosts[index];
        let place = Place { host: index, kernel: state.kernels[host.kernel].id, generation: host.generation };
        let steps = host.generation.wrapping_mul(PORTS_PER_LIFE) % 16_000;
        drop(state);
        crate::scope::on(place, || {
            for _ in 0..steps {
                // Binding port 0 moves the cursor on; it never waits.
                let bound = futures::FutureExt::now_or_never(TcpListener::bind("0.0.0.0:0"));
                drop(bound);
            }
        });
    }
}

impl State {
    fn host_index_or_new(&mut self, name: &str) -> usize {
        if let Some(&index) = self.by_name.get(name) {
            return index;
        }
        let index = self.hosts.len();
        let address = name.parse().unwrap_or_else(|_| self.free_address(index));
        self.hosts.push(HostState {
            name: name.to_owned(),
            address,
            kernel: 0,
            generation: 0,
            up: false,
            tasks: Vec::new(),
            ordinals: BTreeMap::new(),
            udp: BTreeMap::new(),
        });
        self.by_name.insert(name.to_owned(), index);
        self.by_address.insert(address, index);
        self.boot(index);
        index
    }

    fn free_address(&self, index: usize) -> IpAddr {
        let base = Ipv4Addr::new(192, 168, 0, 10).to_bits();
        let mut offset = u32::try_from(index).unwrap_or(0);
        loop {
            let address = IpAddr::V4(Ipv4Addr::from_bits(base + offset));
            if !self.by_address.contains_key(&address) {
                return address;
            }
            offset += 1;
        }
    }

    /// Gives a host a fresh kernel.
    fn boot(&mut self, index: usize) {
        let kernel = self.next_kernel;
        assert!(kernel < self.kernels.len(), "the world has {kernel} kernels: raise Config::kernels");
        self.next_kernel += 1;
        let host = &mut self.hosts[index];
        self.kernels[kernel].owner = Some((index, host.generation));
        host.kernel = kernel;
        host.up = true;
    }

    pub(crate) fn is_alive(&self, place: Place) -> bool {
        let host = &self.hosts[place.host];
        host.up && host.generation == place.generation
    }

    pub(crate) fn keep_task(&mut self, host: usize, task: AbortHandle) {
        let tasks = &mut self.hosts[host].tasks;
        // Pruned whenever it would grow, so that its size follows the living tasks.
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task);
    }

    pub(crate) fn ordinal(&mut self, host: usize, purpose: &str) -> u64 {
        let next = self.hosts[host].ordinals.entry(purpose.to_owned()).or_default();
        *next += 1;
        *next
    }

    /// The host that a kernel's address belongs to, if that kernel is its present one.
    pub(crate) fn sender(&self, address: IpAddr) -> Option<(usize, usize)> {
        let IpAddr::V4(v4) = address else { return None };
        let index = kernel_index(v4)?;
        let (host, generation) = self.kernels.get(index)?.owner?;
        let state = &self.hosts[host];
        (state.up && state.generation == generation).then_some((host, index))
    }

    pub(crate) fn receiver(&self, address: IpAddr) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    /// The address of a host's present kernel, if the host is up.
    pub(crate) fn kernel_address(&self, host: usize) -> Option<IpAddr> {
        let state = &self.hosts[host];
        state.up.then(|| self.kernels[state.kernel].address)
    }

    /// Whether a kernel still serves the host that it served.
    pub(crate) fn is_present(&self, host: usize, kernel: usize) -> bool {
        self.hosts[host].up && self.hosts[host].kernel == kernel
    }

    pub(crate) fn lookup(&self, name: &str) -> io::Result<IpAddr> {
        if let Ok(address) = name.parse() {
            return Ok(address);
        }
        let index = self.by_name.get(name).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("{name}: name or service not known"))
        })?;
        Ok(self.hosts[*index].address)
    }

    /// The chance of one link. Keyed by the hosts' names, so that other links draw nothing from it.
    pub(crate) fn link(&mut self, config: &Config, from: usize, to: usize) -> &mut Dice {
        let (hosts, links) = (&self.hosts, &mut self.links);
        links
            .entry((from, to))
            .or_insert_with(|| config.seed.stream(&hosts[from].name, &format!("link to {}", hosts[to].name)))
    }

    /// The first rule, the latest installed, that concerns packets of a link and has an effect now.
    pub(crate) fn rules_for(&mut self, from: usize, to: usize) -> impl Iterator<Item = &mut Installed> {
        self.rules.iter_mut().rev().filter(move |rule| rule.concerns(from, to))
    }

    /// How much longer packets of a link take.
    pub(crate) fn delay(&mut self, from: usize, to: usize) -> std::time::Duration {
        let mut total = std::time::Duration::ZERO;
        for rule in self.rules_for(from, to) {
            if let Effect::Delay(delay) = rule.effect {
                rule.touched += 1;
                total += delay;
            }
        }
        total
    }
}

/// The address of the n-th kernel, in 10.0.0.0/8.
pub(crate) fn kernel_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits() + u32::try_from(index).unwrap_or(u32::MAX >> 8))
}

fn kernel_index(address: Ipv4Addr) -> Option<usize> {
    let offset = address.to_bits().checked_sub(Ipv4Addr::new(10, 0, 0, 1).to_bits())?;
    usize::try_from(offset).ok()
}
