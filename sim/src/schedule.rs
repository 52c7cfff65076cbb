//! A scenario with all dice thrown: plain data that can be saved, replayed and shortened.

use std::time::Duration;

use baremetal_operator::regression::Regressions;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use wire::Seed;

use crate::scenario::{Scenario, plan::Plan, step::Step, time::Range};

/// All that a world needs to know in advance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The scenario's name.
    pub name: String,
    /// The seed of the world's other streams (latency, uuids, boot times, back-off).
    pub seed: Seed,
    /// The calendar date at which the world's clock starts.
    pub start: jiff::Timestamp,
    /// How long the timeline runs after its zero.
    pub duration: Duration,
    /// What is built before time moves.
    pub plan: Plan,
    /// What happens, in the order of the scenario. Times count from the timeline's zero.
    pub steps: Vec<Step>,
    /// Which historic bugs the operator has.
    pub regressions: Regressions,
}

impl Schedule {
    /// Throws the dice.
    pub fn draw(scenario: &Scenario, seed: Seed, regressions: &Regressions) -> Self {
        let steps = scenario.steps.iter().enumerate().map(|(index, step)| {
            // Each step has a stream of its own: another step before it changes what it draws only by its place.
            let mut dice = seed.stream("timeline", &format!("step/{index}"));
            step.drawn(|range: Range| {
                let (least, most) = (millis(range.least), millis(range.most));
                Duration::from_millis(dice.random_range(least..=most))
            })
        });
        Self {
            name: scenario.name.clone(),
            seed,
            start: scenario.start,
            duration: scenario.duration,
            plan: scenario.plan.clone(),
            steps: steps.collect(),
            regressions: regressions.clone(),
        }
    }

    /// Whether some host must be brought to its initial state before the timeline begins.
    pub fn needs_prologue(&self) -> bool {
        self.plan.hosts.iter().any(|host| host.initial.state().is_some())
    }
}

/// Parsed times are whole milliseconds and below ten years.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
