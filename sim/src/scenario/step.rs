//! The timeline: what happens, and at which moment or upon what.
//!
//! `D` is [`Range`] in a scenario and [`Duration`] in a schedule, where the dice are thrown.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    condition::Condition,
    plan::{ImageRef, Password},
    time::Range,
};

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step<D = Duration> {
    /// When.
    pub trigger: Trigger<D>,
    /// What.
    pub action: Action<D>,
    /// The line in the scenario's file, to speak of it.
    pub line: usize,
}

/// What sets a step off. Each step happens once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger<D = Duration> {
    /// This long after the timeline's zero.
    At(D),
    /// This long after a condition first holds, from zero on.
    When {
        /// It holds when it holds for all its hosts at once.
        condition: Condition,
        /// The wait.
        after: D,
    },
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action<D = Duration> {
    /// Something breaks, and is whole again after a time.
    Fault(Fault<D>),
    /// Components die together as by a power cut, and come back.
    Restart(Restart<D>),
    /// A user creates BareMetalHosts (and their Secrets) that were `absent`.
    Create {
        /// Which.
        hosts: Vec<String>,
    },
    /// A user deletes BareMetalHosts.
    Delete {
        /// Which.
        hosts: Vec<String>,
    },
    /// A user edits the spec of BareMetalHosts.
    Edit {
        /// Which.
        hosts: Vec<String>,
        /// How.
        edit: Edit,
    },
    /// A user sets or removes an annotation.
    Annotate {
        /// On which BareMetalHosts.
        hosts: Vec<String>,
        /// The annotation.
        key: String,
        /// Its value; `None` removes it.
        value: Option<String>,
    },
    /// A user edits the hosts' BMC Secrets.
    Secret {
        /// Whose.
        hosts: Vec<String>,
        /// The new `username`, if it changes.
        username: Option<String>,
        /// The new `password`, if it changes.
        password: Option<Password>,
    },
    /// Somebody sets the password in the BMCs themselves.
    BmcPassword {
        /// The hosts whose BMCs.
        hosts: Vec<String>,
        /// The new password.
        password: Password,
    },
    /// Somebody moves image and checksum files away.
    MoveAway {
        /// On which image servers.
        caches: Vec<String>,
        /// A pattern for the files' names; `*` for all.
        files: String,
    },
    /// Somebody puts the moved files back.
    Restore {
        /// On which image servers.
        caches: Vec<String>,
        /// A pattern for the files' names; `*` for all.
        files: String,
    },
}

/// The changes of an edit; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    /// `spec.online`.
    pub online: Option<bool>,
    /// `spec.image`: `Some(None)` removes it.
    #[serde(with = "nested")]
    pub image: Option<Option<ImageRef>>,
    /// `spec.externallyProvisioned`.
    pub externally_provisioned: Option<bool>,
}

/// Components that run in one pod, as seen by those who restart it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pod {
    /// Operator and Ironic in one pod, as in OpenShift.
    Metal3,
    /// The operator alone.
    Operator,
    /// Ironic alone.
    Ironic,
}

/// A pod dies without a word and is started again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart<D = Duration> {
    /// Which.
    pub pod: Pod,
    /// How long it is away.
    pub down_for: D,
    /// Whether Ironic's database is gone with it (by default it lives in the pod).
    pub lose_database: bool,
}

/// Trouble that begins with its step and ends after a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault<D = Duration> {
    /// What breaks.
    pub trouble: Trouble,
    /// How long; `None` is to the end of the run.
    pub lasts: Option<D>,
}

/// What breaks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Something with the packets to and from some hosts.
    Network {
        /// The network hosts that are hard to reach.
        targets: Vec<String>,
        /// The hosts from which they are; `None` for all others.
        from: Option<Vec<String>>,
        /// What their clients see.
        what: NetworkFault,
    },
    /// A BMC misbehaves: its fake's own fault, as that reads it.
    Bmc {
        /// The hosts whose BMCs.
        hosts: Vec<String>,
        /// The particulars.
        fault: serde_json::Value,
    },
    /// Ironic misbehaves: its fake's own fault.
    Ironic {
        /// The particulars.
        fault: serde_json::Value,
    },
    /// The Kubernetes API misbehaves: its fake's own fault.
    Kube {
        /// The particulars.
        fault: serde_json::Value,
    },
    /// An image server misbehaves: its fake's own fault.
    ImageCache {
        /// Which servers.
        caches: Vec<String>,
        /// The particulars.
        fault: serde_json::Value,
    },
}

/// What clients see of a network that fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkFault {
    /// No answer at all: packets are lost both ways.
    Unreachable,
    /// What is sent to the targets is lost; what they send arrives.
    RequestsLost,
    /// The targets hear and act; what they send is lost.
    RepliesLost,
    /// The targets' ports are closed: connections are refused, datagrams answered as unreachable.
    Refused,
    /// Connections to the targets open and are reset at the first byte.
    Reset,
    /// A share of the packets is lost, each way.
    Loss {
        /// From 0 to 1.
        share: f64,
    },
    /// Packets take longer.
    Slow {
        /// By this.
        latency: Duration,
    },
    /// Packets are held back and all arrive when the fault ends.
    Hold,
}

impl<D> Action<D> {
    /// The BareMetalHosts whose spec or life a user changes by it.
    pub fn edited_hosts(&self) -> &[String] {
        match self {
            Self::Create { hosts } | Self::Delete { hosts } | Self::Edit { hosts, .. } => hosts,
            Self::Fault(_)
            | Self::Restart(_)
            | Self::Annotate { .. }
            | Self::Secret { .. }
            | Self::BmcPassword { .. }
            | Self::MoveAway { .. }
            | Self::Restore { .. } => &[],
        }
    }

    /// What is noted of it in the journal, under the topic `step`: all but credentials.
    pub fn told(&self) -> serde_json::Value {
        match self {
            Self::Fault(fault) => json!({ "action": "fault", "trouble": fault.trouble.to_string() }),
            Self::Restart(restart) => {
                json!({ "action": "restart", "pod": restart.pod, "lose_database": restart.lose_database })
            }
            Self::Create { hosts } => json!({ "action": "create", "hosts": hosts }),
            Self::Delete { hosts } => json!({ "action": "delete", "hosts": hosts }),
            Self::Edit { hosts, edit } => json!({ "action": "edit", "hosts": hosts, "edit": edit }),
            Self::Annotate { hosts, key, value } => {
                json!({ "action": "annotate", "hosts": hosts, "key": key, "value": value })
            }
            Self::Secret { hosts, .. } => json!({ "action": "secret", "hosts": hosts }),
            Self::BmcPassword { hosts, .. } => json!({ "action": "bmc-password", "hosts": hosts }),
            Self::MoveAway { caches, files } => {
                json!({ "action": "move-away", "caches": caches, "files": files })
            }
            Self::Restore { caches, files } => {
                json!({ "action": "restore", "caches": caches, "files": files })
            }
        }
    }
}

/// `Some(None)` and `None` differ: absent, or `null`.
mod nested {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<Option<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|inner| vec![inner]).unwrap_or_default().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        Ok(Vec::<Option<T>>::deserialize(deserializer)?.into_iter().next())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { targets, from, what } => {
                write!(f, "{what}: {}", targets.join(", "))?;
                from.iter().try_for_each(|from| write!(f, " for {}", from.join(", ")))
            }
            Self::Bmc { hosts, .. } => write!(f, "fault of the BMC of {}", hosts.join(", ")),
            Self::Ironic { .. } => write!(f, "fault of Ironic"),
            Self::Kube { .. } => write!(f, "fault of the Kubernetes API"),
            Self::ImageCache { caches, .. } => write!(f, "fault of {}", caches.join(", ")),
        }
    }
}

impl fmt::Display for NetworkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "unreachable",
            Self::RequestsLost => "requests-lost",
            Self::RepliesLost => "replies-lost",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Loss { .. } => "loss",
            Self::Slow { .. } => "slow",
            Self::Hold => "hold",
        })
    }
}

impl Step<Range> {
    /// The same step with its times drawn: `draw` turns each range into a span.
    pub fn drawn(&self, mut draw: impl FnMut(Range) -> Duration) -> Step<Duration> {
        let trigger = match &self.trigger {
            Trigger::At(at) => Trigger::At(draw(*at)),
            Trigger::When { condition, after } => {
                Trigger::When { condition: condition.clone(), after: draw(*after) }
            }
        };
        let action = match self.action.clone() {
            Action::Fault(Fault { trouble, lasts }) => {
                Action::Fault(Fault { trouble, lasts: lasts.map(&mut draw) })
            }
            Action::Restart(Restart { pod, down_for, lose_database }) => {
                Action::Restart(Restart { pod, down_for: draw(down_for), lose_database })
            }
            Action::Create { hosts } => Action::Create { hosts },
            Action::Delete { hosts } => Action::Delete { hosts },
            Action::Edit { hosts, edit } => Action::Edit { hosts, edit },
            Action::Annotate { hosts, key, value } => Action::Annotate { hosts, key, value },
            Action::Secret { hosts, username, password } => Action::Secret { hosts, username, password },
            Action::BmcPassword { hosts, password } => Action::BmcPassword { hosts, password },
            Action::MoveAway { caches, files } => Action::MoveAway { caches, files },
            Action::Restore { caches, files } => Action::Restore { caches, files },
        };
        Step { trigger, action, line: self.line }
    }
}
