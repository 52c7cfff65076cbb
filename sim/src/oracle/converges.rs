//! Eventually: once every fault has healed and every step is taken, hosts leave their errors and their passing states.
//!
//! How long that may take follows from the operator's own back-off: the wait before the next try is at most 2^n
//! minutes after n errors (n up to 9), and the work after it is bounded by Ironic's time-outs. A run that ends before
//! is not judged, nor is a host whose trouble its users have not mended: files still moved away, or a password changed
//! on one side only.

use std::{collections::BTreeMap, time::Duration};

use wire::Instant;

use super::Violation;
use crate::{
    scenario::time::Span,
    trace::{
        Trace,
        view::{Resource, View},
    },
};

/// What the work after the last wait may take: Ironic waits half an hour for an agent, for each of inspection,
/// cleaning and deployment, and up to an hour for a BMC that accepts connections and stays silent.
const WORK: Duration = Duration::from_secs(3 * 3600);

pub(super) fn judge(trace: &Trace) -> Vec<Violation> {
    let mut view = View::default();
    let mut storm = Storm::default();
    // Since when each host stands as it does, by (state, in error).
    let mut since: BTreeMap<String, (Instant, (String, bool))> = BTreeMap::new();
    for (at, entry) in trace.entries() {
        storm.apply(at, entry);
        let Some(name) = view.apply(at, entry) else { continue };
        let Some(resource) = view.host(&name).resource else { continue };
        let stands = (resource.state, !resource.error.is_empty());
        match since.get(&name) {
            Some((_, before)) if *before == stands => {}
            Some(_) | None => drop(since.insert(name, (at, stands))),
        }
    }
    let Some(calm) = storm.calm_since() else { return Vec::new() };
    let mut violations = Vec::new();
    for (name, host) in &view.hosts {
        let Some(resource) = &host.resource else { continue };
        let patience = longest_wait(resource.error_count) + WORK;
        let quiet = trace.end.since(calm);
        if is_settled(resource) || quiet < patience || storm.is_unmended(name) {
            continue;
        }
        let at = since.get(name).map_or(calm, |(at, _)| *at);
        let trouble =
            if resource.error.is_empty() { String::new() } else { format!(" with {}", resource.error) };
        violations.push(Violation {
            at: at.0,
            seen: format!(
                "{name} is still {}{trouble}, {} after the last trouble",
                resource.state,
                Span(quiet)
            ),
        });
    }
    violations
}

/// Whether a host may stay as it is for ever.
fn is_settled(resource: &Resource) -> bool {
    let resting = matches!(
        resource.state.as_str(),
        "" | "unmanaged" | "available" | "provisioned" | "externally provisioned"
    );
    resting && resource.error.is_empty()
}

/// The operator's longest wait after so many errors.
fn longest_wait(errors: u64) -> Duration {
    let exponent = u32::try_from(errors.min(9)).unwrap_or(9);
    Duration::from_secs(60 * 2_u64.pow(exponent))
}

/// What is wrong with the world, as far as steps say.
#[derive(Debug, Default)]
struct Storm {
    /// The last step, or the end of the last fault.
    last: Instant,
    /// Faults that have begun and not ended, by their lines.
    faults: BTreeMap<String, ()>,
    /// Whether files are moved away.
    moved: bool,
    /// By host: how often its password was changed in the Secret, and in the BMC.
    passwords: BTreeMap<String, (u64, u64)>,
}

impl Storm {
    fn apply(&mut self, at: Instant, entry: &wire::Entry) {
        match entry.topic.as_str() {
            "fault" => {
                self.last = at;
                self.faults.remove(&entry.subject);
            }
            "step" => {
                self.last = at;
                self.step(entry);
            }
            _ => {}
        }
    }

    fn step(&mut self, entry: &wire::Entry) {
        let hosts = || {
            let hosts = entry.data.get("hosts").and_then(|hosts| hosts.as_array());
            hosts
                .into_iter()
                .flatten()
                .filter_map(|host| host.as_str().map(str::to_owned))
                .collect::<Vec<_>>()
        };
        match entry.data.get("action").and_then(|action| action.as_str()) {
            Some("fault") => drop(self.faults.insert(entry.subject.clone(), ())),
            Some("move-away") => self.moved = true,
            Some("restore") => self.moved = false,
            Some("secret") => {
                hosts().into_iter().for_each(|host| self.passwords.entry(host).or_default().0 += 1)
            }
            Some("bmc-password") => {
                hosts().into_iter().for_each(|host| self.passwords.entry(host).or_default().1 += 1);
            }
            Some(_) | None => {}
        }
    }

    /// Since when nothing is wrong any more.
    fn calm_since(&self) -> Option<Instant> {
        (self.faults.is_empty() && !self.moved).then_some(self.last)
    }

    /// Whether a host's password was changed on one side and not on the other.
    fn is_unmended(&self, host: &str) -> bool {
        self.passwords.get(host).is_some_and(|(secret, bmc)| secret != bmc)
    }
}
