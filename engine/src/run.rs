//! Running a world from its first instant to its last.

use std::{
    fmt,
    net::IpAddr,
    panic::AssertUnwindSafe,
    rc::Rc,
    sync::{
        Arc, Once, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio::sync::Notify;
use tracing_subscriber::{EnvFilter, Layer as _, filter::LevelFilter, layer::SubscriberExt as _};
use turmoil_net::{KernelConfig, Net};
use wire::{Clock, Instant, Seed};

use crate::{
    fabric::Fabric,
    interpose,
    logs::Recording,
    network::{Network, Shared, kernel_address},
    record::{Record, Recorder, Tracing},
    scope,
};

/// How time passes in a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// It jumps to the next moment at which anything happens. Same seed, same bytes.
    #[default]
    Virtual,
    /// It jumps as in a virtual world until [`Network::go_live`], and from then on passes as outside, so that real
    /// clients can take part.
    Live,
}

/// How a world is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where all chance comes from.
    pub seed: Seed,
    /// How time passes.
    pub pace: Pace,
    /// The calendar time at which the world begins.
    pub date: jiff::Timestamp,
    /// How many kernels there are: one for each host, and one more for each restart.
    pub kernels: usize,
    /// The least time that a packet takes.
    pub latency: Duration,
    /// How much longer it may take, drawn anew for each packet.
    pub jitter: Duration,
    /// What to keep.
    pub tracing: Tracing,
    /// How many polls of tasks one instant may see before the world is called a livelock.
    pub poll_budget: u64,
    /// Also writes log lines to stderr, filtered as `RUST_LOG` is.
    pub log: Option<String>,
    /// Ends the world early when set.
    pub interrupt: Arc<AtomicBool>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: Seed(1),
            pace: Pace::Virtual,
            date: jiff::Timestamp::constant(1_600_000_000, 0),
            kernels: 64,
            latency: Duration::from_micros(300),
            jitter: Duration::from_micros(400),
            tracing: Tracing::Facts,
            poll_budget: 2_000_000,
            log: None,
            interrupt: Arc::default(),
        }
    }
}

/// Why a world ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A task of a host panicked.
    #[error("{host} panicked at {:?}: {message}", at.0)]
    Panic {
        /// The host; empty for the world's own task.
        host: String,
        /// When.
        at: Instant,
        /// What it said, and where.
        message: String,
    },
    /// Tasks kept running without time moving on.
    #[error("{host} kept running at {:?} and time did not move on", at.0)]
    Livelock {
        /// The host that ran last.
        host: String,
        /// When.
        at: Instant,
    },
    /// Nothing was left to do, and the world was not at its end.
    #[error("nothing could happen any more at {:?}", at.0)]
    Stalled {
        /// When.
        at: Instant,
    },
    /// It was interrupted from outside.
    #[error("interrupted at {:?}", at.0)]
    Interrupted {
        /// When.
        at: Instant,
    },
}

/// What a run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that reached their moment of arrival.
    pub packets: u64,
    /// How often the loop looked at the network.
    pub passes: u64,
    /// The world's time when it ended.
    pub simulated: Duration,
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// What the world's own task returned; `None` if it did not come to its end.
    pub value: Option<T>,
    /// Why it did not.
    pub failure: Option<Failure>,
    /// What happened, as far as kept.
    pub records: Vec<Record>,
    /// SHA-256 over everything that happened, in hexadecimal.
    pub hash: String,
    /// What it cost.
    pub stats: Stats,
}

/// Longer than any world: if nothing is due before, nothing ever will be.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Runs a world on a thread of its own until `world` returns, and gives back what happened.
pub fn run<T, F, Fut>(config: Config, world: F) -> Outcome<T>
where
    T: Send + 'static,
    F: FnOnce(Network) -> Fut + Send + 'static,
    Fut: Future<Output = T>,
{
    keep_panics_of_worlds();
    // A fresh thread has drawn no hash seeds yet: its first draw is from the world's entropy.
    let thread = std::thread::Builder::new().name("world".to_owned()).stack_size(8 << 20);
    let running = thread.spawn(move || {
        let since_epoch = Duration::try_from(config.date.as_duration()).unwrap_or_default();
        if config.pace == Pace::Virtual {
            interpose::begin(config.seed, since_epoch);
        }
        let outcome = run_here(config, world);
        interpose::end();
        outcome
    });
    match running.map(std::thread::JoinHandle::join) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => panic!("start a thread for a world: {error}"),
    }
}

/// Runs a small world with defaults, for tests.
///
/// # Panics
/// When the world fails.
pub fn simulate<T, F, Fut>(seed: Seed, world: F) -> T
where
    T: Send + 'static,
    F: FnOnce(Network) -> Fut + Send + 'static,
    Fut: Future<Output = T>,
{
    let log = std::env::var("RUST_LOG").ok();
    let outcome = run(Config { seed, log, ..Config::default() }, world);
    match (outcome.value, outcome.failure) {
        (Some(value), None) => value,
        (_, Some(failure)) => panic!("seed {seed}: {failure}"),
        (None, None) => unreachable!("a world without a value has a failure"),
    }
}

fn run_here<T, F, Fut>(config: Config, world: F) -> Outcome<T>
where
    F: FnOnce(Network) -> Fut,
    Fut: Future<Output = T>,
{
    let wake = Rc::new(Notify::new());
    scope::install(Rc::clone(&wake));
    let seed = config.seed;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    match config.pace {
        Pace::Virtual => builder.enable_time(),
        Pace::Live => builder.enable_all(),
    };
    let runtime = builder
        .start_paused(true)
        .rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.0.to_le_bytes()))
        .on_thread_park(scope::on_idle)
        .build()
        .unwrap_or_else(|error| panic!("build a runtime for a world: {error}"));
    let mut net = Net::with_config(KernelConfig::default().retx_threshold(u32::MAX));
    let kernels = (0..config.kernels).map(|index| {
        let address = IpAddr::V4(kernel_address(index));
        (net.add_host(address), address)
    });
    let kernels: Vec<_> = kernels.collect();
    let guard = net.enter();

    let clock = runtime.block_on(async { Clock::starting(config.date) });
    let recorder = Recorder::new(config.tracing);
    let shared = Arc::new(Shared::new(config, clock, kernels, recorder));
    let (value, stats) = {
        let filter = shared.config.log.as_ref().map(EnvFilter::new);
        let print = filter.map(|filter| {
            let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
            layer.with_timer(WorldTime(clock)).with_filter(filter)
        });
        let recording = Recording(Arc::clone(&shared)).with_filter(LevelFilter::INFO);
        let subscriber = tracing_subscriber::registry().with(recording).with(print);
        let _logs = tracing::subscriber::set_default(subscriber);
        let done = runtime.block_on(drive(&shared, guard, &wake, world(Network(Arc::clone(&shared)))));
        // The tasks are dropped before the network that their sockets belong to.
        let (value, stats, guard) = done;
        drop(runtime);
        drop(guard);
        (value, stats)
    };
    let failure = shared.state().failure.take();
    let (records, hash) = shared.recorder.lock().unwrap_or_else(PoisonError::into_inner).finish();
    Outcome { value, failure, records, hash, stats }
}

/// Runs the world's own task and the loop side by side until the task ends or the world fails.
async fn drive<T>(
    shared: &Arc<Shared>,
    guard: turmoil_net::EnterGuard,
    wake: &Notify,
    world: impl Future<Output = T>,
) -> (Option<T>, Stats, Fabric) {
    let mut fabric = Fabric::new(Arc::clone(shared), guard);
    // In a set of its own, so that it is polled when it was woken and not whenever the loop turns.
    let mut guarded = FuturesUnordered::new();
    guarded.push(AssertUnwindSafe(world).catch_unwind());
    let value = loop {
        if shared.over.load(Ordering::Relaxed) {
            break None;
        }
        if shared.config.interrupt.load(Ordering::Relaxed) {
            let at = shared.clock.now();
            shared.state().failure.get_or_insert(Failure::Interrupted { at });
            break None;
        }
        let next = fabric.next_due();
        let moment = next.unwrap_or_else(|| tokio::time::Instant::now() + NEVER);
        tokio::select! {
            biased;
            ended = guarded.next() => match ended {
                Some(Ok(value)) => break Some(value),
                Some(Err(payload)) => shared.fail_by_panic(usize::MAX, scope::take_panic(&*payload)),
                None => {}
            },
            () = wake.notified() => {}
            () = tokio::time::sleep_until(moment) => if next.is_none() {
                let at = shared.clock.now();
                shared.state().failure.get_or_insert(Failure::Stalled { at });
                shared.end();
            }
        }
        fabric.pass();
    };
    let simulated = shared.clock.now().0;
    let stats = Stats { packets: fabric.packets, passes: fabric.passes, simulated };
    (value, stats, fabric)
}

/// Panics on a world's thread are reported by the world, with host and instant, not printed.
fn keep_panics_of_worlds() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload_as_str().unwrap_or("panic");
            let place = info.location().map(|place| format!(" ({place})")).unwrap_or_default();
            if !scope::keep_panic(format!("{text}{place}")) {
                usual(info);
            }
        }));
    });
}

/// Log lines carry the world's time.
struct WorldTime(Clock);

impl tracing_subscriber::fmt::time::FormatTime for WorldTime {
    fn format_time(&self, writer: &mut tracing_subscriber::fmt::format::Writer<'_>) -> fmt::Result {
        write!(writer, "{:>12.3}s", self.0.now().0.as_secs_f64())
    }
}
