//! Builds the world that a schedule describes and lets its time move.

use std::sync::{Arc, atomic::AtomicBool};

use engine::{Config, Network, Outcome, Pace, Tracing};

use crate::{
    schedule::Schedule,
    trace::Trace,
    world::{self, World},
};

/// How a run is watched; nothing here changes what happens in it.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// How much of the trace is kept. Its hash covers everything either way.
    pub tracing: Tracing,
    /// Log lines for stderr, filtered as `RUST_LOG` is.
    pub log: Option<String>,
    /// Ends the run early when set.
    pub interrupt: Arc<AtomicBool>,
}

/// Runs a world to its end.
pub fn run(schedule: Schedule, watch: &Watch) -> Trace {
    run_as(schedule, watch, Pace::Virtual, async |world| world.live().await)
}

/// Runs a world as `story` tells it.
pub(crate) fn run_as<F>(schedule: Schedule, watch: &Watch, pace: Pace, story: F) -> Trace
where
    F: AsyncFnOnce(World) + Send + 'static,
{
    let start = schedule.start;
    let config = Config {
        seed: schedule.seed,
        pace,
        date: start,
        kernels: world::kernels(&schedule),
        latency: schedule.plan.network.latency,
        jitter: schedule.plan.network.jitter,
        tracing: watch.tracing,
        log: watch.log.clone(),
        interrupt: Arc::clone(&watch.interrupt),
        ..Config::default()
    };
    let outcome: Outcome<()> =
        engine::run(config, async move |net: Network| story(World::build(&net, schedule)).await);
    Trace {
        start,
        end: wire::Instant(outcome.stats.simulated),
        records: outcome.records,
        hash: outcome.hash,
        failure: outcome.failure.map(|failure| failure.to_string()),
    }
}
