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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::step::Trigger;

    fn scenario(steps: &str) -> Scenario {
        let text = format!(
            "about = \"a test\"\nduration = \"1h\"\n[[host]]\nname = \"node-0\"\n{steps}\n[[expect]]\n\
             never = {{ host = \"node-0\", error = \"any\" }}\n"
        );
        Scenario::read("test.toml", text.into_bytes()).unwrap_or_else(|mistake| panic!("{mistake:?}"))
    }

    fn moments(scenario: &Scenario, seed: u64) -> Vec<Duration> {
        let schedule = Schedule::draw(scenario, Seed(seed), &Regressions::default());
        let moment = |step: &Step| match step.trigger {
            Trigger::At(at) => at,
            Trigger::When { after, .. } => after,
        };
        schedule.steps.iter().map(moment).collect()
    }

    const DRAWN: &str = "[[step]]\nat = \"10s..20s\"\ndelete = { host = \"node-0\" }\n";

    #[test]
    fn a_seed_always_draws_the_same_and_seeds_differ() {
        let scenario = scenario(DRAWN);
        let drawn: std::collections::BTreeSet<_> = (0..50).map(|seed| moments(&scenario, seed)[0]).collect();
        assert!(drawn.len() > 40, "{drawn:?}");
        assert!(drawn.iter().all(|at| (10..=20).contains(&at.as_secs())));
        assert_eq!(moments(&scenario, 7), moments(&scenario, 7));
    }

    #[test]
    fn a_step_more_changes_nothing_before_it() {
        let (one, two) = (scenario(DRAWN), scenario(&DRAWN.repeat(2)));
        let (alone, both) = (moments(&one, 3), moments(&two, 3));
        assert_eq!(alone[0], both[0]);
        assert_ne!(both[0], both[1]);
    }

    #[test]
    fn a_schedule_reads_back_from_json() {
        let steps = format!(
            "{DRAWN}[[step]]\nwhen = {{ host = \"node-0\", error = \"any\" }}\nedit = {{ host = \"node-0\", image = \"\" }}\n\
             [[step]]\nat = \"1m\"\nedit = {{ host = \"node-0\", online = false }}\n\
             [[step]]\nat = \"1m\"\nfault = {{ kind = \"slow\", target = \"kube\", latency = \"2s\" }}\n"
        );
        let schedule = Schedule::draw(&scenario(&steps), Seed(5), &Regressions::default());
        let json = serde_json::to_string(&schedule).expect("a schedule is plain data");
        assert_eq!(serde_json::from_str::<Schedule>(&json).expect("its own text"), schedule);
    }
}
