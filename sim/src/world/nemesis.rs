//! Who hurts the world: carries out the timeline's steps.

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use engine::{Effect, Network, Rule, RuleId};
use serde_json::json;

use super::World;
use crate::scenario::step::{Action, Fault, NetworkFault, Pod, Restart, Trouble};

impl World {
    /// Takes a step. Returns when it is over, faults healed and pods back included.
    pub(super) async fn act(&self, action: &Action, line: usize) {
        self.net.note("step", &line.to_string(), action.told());
        match action {
            Action::Fault(fault) => self.break_for_a_while(fault, line).await,
            Action::Restart(restart) => self.restart_pod(restart).await,
            Action::Create { hosts } => {
                for host in self.schedule.plan.hosts.iter().filter(|host| hosts.contains(&host.name)) {
                    self.create(host).await;
                }
            }
            Action::Delete { hosts } => {
                for host in hosts {
                    self.user.delete_host(host).await;
                }
            }
            Action::Edit { hosts, edit } => {
                for host in hosts {
                    self.user.edit_host(host, edit, &self.schedule.plan).await;
                }
            }
            Action::Annotate { hosts, key, value } => {
                for host in hosts {
                    self.user.annotate_host(host, key, value.as_deref()).await;
                }
            }
            Action::Secret { hosts, username, password } => {
                let password = password.as_ref().map(|password| password.expose());
                for host in hosts {
                    self.user.edit_secret(host, username.as_deref(), password).await;
                }
            }
            Action::BmcPassword { hosts, password } => {
                for host in hosts {
                    self.machines.set_password(host, password.expose());
                }
            }
            Action::MoveAway { caches, files } => {
                for cache in caches {
                    self.caches.move_away(cache, files);
                }
            }
            Action::Restore { caches, files } => {
                for cache in caches {
                    self.caches.restore(cache, files);
                }
            }
        }
    }

    /// Breaks something, mends it after its time, and notes what it did meanwhile.
    async fn break_for_a_while(&self, fault: &Fault, line: usize) {
        let broken = self.begin(&fault.trouble, line);
        match fault.lasts {
            Some(lasts) => tokio::time::sleep(lasts).await,
            None => self.until_end().await,
        }
        let touched = broken.end(self);
        self.net.note("fault", &line.to_string(), json!({ "touched": touched }));
    }

    fn begin(&self, trouble: &Trouble, line: usize) -> Broken {
        match trouble {
            Trouble::Network { targets, from, what } => {
                let rules = rules(targets, from.as_deref(), what);
                Broken::Network(rules.into_iter().map(|rule| self.net.add_rule(rule)).collect())
            }
            Trouble::Bmc { hosts, fault } => Broken::Bmc(self.machines.begin(hosts, fault)),
            Trouble::Ironic { fault } => {
                let id = format!("line {line}");
                self.ironic.begin(&id, fault);
                Broken::Ironic(id)
            }
            Trouble::Kube { fault } => Broken::Kube(self.kube.begin(super::checked(fault))),
            Trouble::ImageCache { caches, fault } => Broken::ImageCache(self.caches.begin(caches, fault)),
        }
    }

    /// A pod dies without a word, and is started again.
    async fn restart_pod(&self, restart: &Restart) {
        let (operator, ironic) = match restart.pod {
            Pod::Metal3 => (true, true),
            Pod::Operator => (true, false),
            Pod::Ironic => (false, true),
        };
        if operator {
            self.take_down(super::OPERATOR);
        }
        if ironic {
            self.take_down(super::IRONIC);
            if restart.lose_database {
                self.ironic.lose_database();
            }
        }
        tokio::time::sleep(restart.down_for.max(Duration::from_millis(1))).await;
        if ironic && self.may_come_back(super::IRONIC) {
            self.ironic.start(self.net.restart(super::IRONIC));
        }
        if operator && self.may_come_back(super::OPERATOR) {
            self.start_operator(self.net.restart(super::OPERATOR));
        }
    }

    /// Crashes a component. Restarts may overlap: it stays away until the last of them lets it come back.
    fn take_down(&self, component: &'static str) {
        *self.down().entry(component).or_default() += 1;
        self.net.crash(component);
    }

    fn may_come_back(&self, component: &'static str) -> bool {
        let mut down = self.down();
        let holders = down.entry(component).or_default();
        *holders = holders.saturating_sub(1);
        *holders == 0
    }

    fn down(&self) -> MutexGuard<'_, BTreeMap<&'static str, u32>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that is broken at present.
enum Broken {
    Network(Vec<RuleId>),
    Bmc(super::machines::Begun),
    Ironic(String),
    Kube(fake_kube::FaultId),
    ImageCache(super::caches::Begun),
}

impl Broken {
    /// Mends it; tells how many packets or requests it befell.
    fn end(self, world: &World) -> u64 {
        match self {
            Self::Network(rules) => rules.into_iter().map(|rule| world.net.remove_rule(rule)).sum(),
            Self::Bmc(begun) => world.machines.end(begun),
            Self::Ironic(id) => world.ironic.end(&id),
            Self::Kube(fault) => world.kube.end(fault).unwrap_or_default(),
            Self::ImageCache(begun) => world.caches.end(begun),
        }
    }
}

/// The rules of the network that make a fault.
fn rules(targets: &[String], from: Option<&[String]>, what: &NetworkFault) -> Vec<Rule> {
    let (effect, requests, replies) = match what {
        NetworkFault::Unreachable => (Effect::Unreachable, true, true),
        NetworkFault::RequestsLost => (Effect::Unreachable, true, false),
        NetworkFault::RepliesLost => (Effect::Unreachable, false, true),
        NetworkFault::Refused => (Effect::Refused, true, false),
        NetworkFault::Reset => (Effect::Reset, true, false),
        NetworkFault::Loss { share } => (Effect::Loss(*share), true, true),
        NetworkFault::Slow { latency } => (Effect::Delay(*latency), true, true),
        NetworkFault::Hold => (Effect::Hold, true, true),
    };
    let others: Vec<Option<&String>> = match from {
        None => vec![None],
        Some(names) => names.iter().map(Some).collect(),
    };
    let mut rules = Vec::new();
    for target in targets {
        for other in &others {
            let (other, target) = (other.cloned(), Some(target.clone()));
            if requests {
                rules.push(Rule { from: other.clone(), to: target.clone(), effect: effect.clone() });
            }
            if replies {
                rules.push(Rule { from: target, to: other, effect: effect.clone() });
            }
        }
    }
    rules
}

/// Rules for a network that is never quite well.
pub(super) fn always_lossy(net: &Network, share: f64) {
    if share > 0.0 {
        net.add_rule(Rule { from: None, to: None, effect: Effect::Loss(share) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_cut_to_measure() {
        let targets = ["bmc".to_owned()];
        let from = ["ironic".to_owned()];
        let links = |from: Option<&[String]>, what| {
            let name = |name: Option<String>| name.unwrap_or_else(|| "*".to_owned());
            let rules = rules(&targets, from, &what);
            rules.into_iter().map(|rule| format!("{}>{}", name(rule.from), name(rule.to))).collect::<Vec<_>>()
        };
        assert_eq!(links(None, NetworkFault::Unreachable), ["*>bmc", "bmc>*"]);
        assert_eq!(links(Some(&from), NetworkFault::Hold), ["ironic>bmc", "bmc>ironic"]);
        assert_eq!(links(None, NetworkFault::RequestsLost), ["*>bmc"]);
        assert_eq!(links(None, NetworkFault::RepliesLost), ["bmc>*"]);
        assert_eq!(links(None, NetworkFault::Refused), ["*>bmc"]);
    }
}
