//! How a BMC fails, as data.
//!
//! Each fault is named by what a client sees. It holds from [`apply`](crate::Bmc::apply) to
//! [`clear`](crate::Bmc::clear), strikes the requests that its [`Selector`] names, and counts how often it did: a fault
//! that touched nothing proves nothing.
//! Trouble of the network itself (no answer from the address, a closed port, lost packets) is not a BMC's and is not
//! found here.

mod selector;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

pub(crate) use selector::Seen;
pub use selector::{BadPattern, Operation, Pattern, Selector};

/// Whether a request whose answer goes wrong was carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// It had no effect.
    #[default]
    Skipped,
    /// It had its effect: only the answer is lost. A client that sends it again does it twice.
    Done,
}

/// A password, kept out of logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One way to fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Fault {
    /// Redfish: the connection is accepted and the request read, but no answer ever comes.
    Stall {
        /// Which requests.
        #[serde(default)]
        on: Selector,
        /// Whether they are carried out.
        #[serde(default)]
        work: Work,
    },
    /// Redfish: this status and a plain error body instead of the answer.
    Status {
        /// The HTTP status, 400 to 599.
        code: StatusCode,
        /// Which requests.
        #[serde(default)]
        on: Selector,
        /// Whether they are carried out.
        #[serde(default)]
        work: Work,
    },
    /// Redfish: the connection is reset, at once or in the middle of the answer.
    Reset {
        /// After how many bytes of the answer's body; at once, before any of the answer, if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Which requests.
        #[serde(default)]
        on: Selector,
        /// Whether they are carried out. With `bytes` they always are.
        #[serde(default)]
        work: Work,
    },
    /// Redfish: the answer's status and type are right, but its body is cut, and its length says so: what the client
    /// gets is broken JSON.
    Truncate {
        /// How many bytes of the body are left.
        bytes: u64,
        /// Which requests.
        #[serde(default)]
        on: Selector,
    },
    /// Redfish: the request is carried out at once, but the answer takes long.
    Slow {
        /// How long, in seconds.
        seconds: u64,
        /// Which requests.
        #[serde(default)]
        on: Selector,
    },
    /// The BMC's password is another one for the time being. Sessions that are open stay open.
    PasswordChanged {
        /// The password that is accepted.
        to: Secret,
    },
    /// Power commands are accepted, and nothing happens.
    PowerIgnored {
        /// Which power commands.
        #[serde(default)]
        on: Selector,
    },
    /// A soft power off or restart is accepted, and what runs on the machine does not care.
    SoftOffIgnored {},
    /// A change of the boot source is accepted and forgotten: the machine boots as it otherwise would.
    BootOverrideDropped {
        /// Which changes.
        #[serde(default)]
        on: Selector,
    },
    /// Redfish: inserting virtual media fails with a 400 that says that the image cannot be reached.
    MediaRefused {
        /// Which insertions.
        #[serde(default)]
        on: Selector,
    },
    /// IPMI: no datagram is answered.
    IpmiSilent {},
    /// IPMI: this completion code instead of the answer, within a working session. The command has no effect.
    IpmiCompletion {
        /// The code, e.g. 192 (0xC0, node busy).
        code: u8,
        /// Which commands.
        #[serde(default)]
        on: Selector,
    },
}

/// An HTTP status that says that something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct StatusCode(u16);

/// The number is not the status of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("take {0} as the status of an error: 400 to 599 are")]
pub struct BadStatus(u16);

impl TryFrom<u16> for StatusCode {
    type Error = BadStatus;

    fn try_from(code: u16) -> Result<Self, BadStatus> {
        if (400..600).contains(&code) { Ok(Self(code)) } else { Err(BadStatus(code)) }
    }
}

impl From<StatusCode> for u16 {
    fn from(code: StatusCode) -> Self {
        code.0
    }
}

impl From<StatusCode> for http::StatusCode {
    fn from(code: StatusCode) -> Self {
        Self::from_u16(code.0).unwrap_or(Self::INTERNAL_SERVER_ERROR)
    }
}

impl Fault {
    /// Its `kind` in data.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stall { .. } => "stall",
            Self::Status { .. } => "status",
            Self::Reset { .. } => "reset",
            Self::Truncate { .. } => "truncate",
            Self::Slow { .. } => "slow",
            Self::PasswordChanged { .. } => "password-changed",
            Self::PowerIgnored { .. } => "power-ignored",
            Self::SoftOffIgnored {} => "soft-off-ignored",
            Self::BootOverrideDropped { .. } => "boot-override-dropped",
            Self::MediaRefused { .. } => "media-refused",
            Self::IpmiSilent {} => "ipmi-silent",
            Self::IpmiCompletion { .. } => "ipmi-completion",
        }
    }

    /// Which of the requests that it could strike it does.
    fn selector(&self) -> Option<&Selector> {
        match self {
            Self::Stall { on, .. }
            | Self::Status { on, .. }
            | Self::Reset { on, .. }
            | Self::Truncate { on, .. }
            | Self::Slow { on, .. }
            | Self::PowerIgnored { on }
            | Self::BootOverrideDropped { on }
            | Self::MediaRefused { on }
            | Self::IpmiCompletion { on, .. } => Some(on),
            Self::PasswordChanged { .. } | Self::SoftOffIgnored {} | Self::IpmiSilent {} => None,
        }
    }

    /// Where in the BMC it strikes.
    fn place(&self) -> Place {
        match self {
            Self::Stall { .. }
            | Self::Status { .. }
            | Self::Reset { .. }
            | Self::Truncate { .. }
            | Self::Slow { .. } => Place::Http,
            Self::PasswordChanged { .. } => Place::Password,
            Self::PowerIgnored { .. } => Place::Power,
            Self::SoftOffIgnored {} => Place::SoftOff,
            Self::BootOverrideDropped { .. } => Place::BootOverride,
            Self::MediaRefused { .. } => Place::Media,
            Self::IpmiSilent {} => Place::IpmiDatagram,
            Self::IpmiCompletion { .. } => Place::IpmiCommand,
        }
    }
}

/// Where in the BMC a fault can strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Http,
    Password,
    Power,
    SoftOff,
    BootOverride,
    Media,
    IpmiDatagram,
    IpmiCommand,
}

/// Names a fault that was applied to a BMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultId(u64);

/// The faults of one BMC.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    active: BTreeMap<FaultId, Fault>,
    counts: BTreeMap<FaultId, Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    matched: u64,
    touched: u64,
}

impl Faults {
    pub(crate) fn apply(&mut self, fault: Fault) -> FaultId {
        let id = FaultId(self.counts.len() as u64);
        self.active.insert(id, fault);
        self.counts.insert(id, Counts::default());
        id
    }

    /// Ends a fault; whether it was there.
    pub(crate) fn clear(&mut self, id: FaultId) -> bool {
        self.active.remove(&id).is_some()
    }

    /// How many requests it struck, so far or until it was cleared.
    pub(crate) fn touched(&self, id: FaultId) -> u64 {
        self.counts.get(&id).map_or(0, |counts| counts.touched)
    }

    /// The fault that strikes a request at this place, if one does: of several the one that was applied first.
    pub(crate) fn strike(&mut self, place: Place, seen: &Seen<'_>) -> Option<&Fault> {
        for (id, fault) in self.active.iter().filter(|(_, fault)| fault.place() == place) {
            let Some(counts) = self.counts.get_mut(id) else { continue };
            let strikes = match fault.selector() {
                None => true,
                Some(selector) => {
                    let matches = seen.matches(&selector.request);
                    counts.matched += u64::from(matches);
                    matches && selector.strikes(counts.matched)
                }
            };
            if strikes {
                counts.touched += 1;
                return Some(fault);
            }
        }
        None
    }

    /// The password that is accepted instead of the BMC's own, by the fault that was applied last.
    pub(crate) fn password(&self) -> Option<(FaultId, &str)> {
        self.active.iter().rev().find_map(|(id, fault)| match fault {
            Fault::PasswordChanged { to } => Some((*id, to.0.as_str())),
            Fault::Stall { .. }
            | Fault::Status { .. }
            | Fault::Reset { .. }
            | Fault::Truncate { .. }
            | Fault::Slow { .. }
            | Fault::PowerIgnored { .. }
            | Fault::SoftOffIgnored {}
            | Fault::BootOverrideDropped { .. }
            | Fault::MediaRefused { .. }
            | Fault::IpmiSilent {}
            | Fault::IpmiCompletion { .. } => None,
        })
    }

    /// Counts a touch of a fault that strikes otherwise than through [`Self::strike`].
    pub(crate) fn touch(&mut self, id: FaultId) {
        if let Some(counts) = self.counts.get_mut(&id) {
            counts.touched += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(json: &str) -> Result<Fault, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn faults_are_data() {
        let read = fault(r#"{"kind":"status","code":503,"on":{"request":"power-status","nth":2,"count":1}}"#)
            .unwrap();
        assert_eq!(read.kind(), "status");
        let written = serde_json::to_string(&read).unwrap();
        assert_eq!(fault(&written), Ok(read));
        for good in [
            r#"{"kind":"stall"}"#,
            r#"{"kind":"reset","bytes":10}"#,
            r#"{"kind":"truncate","bytes":10}"#,
            r#"{"kind":"slow","seconds":90,"on":{"request":"GET /redfish/v1/*"}}"#,
            r#"{"kind":"password-changed","to":"new"}"#,
            r#"{"kind":"power-ignored","on":{"request":"power-on"}}"#,
            r#"{"kind":"soft-off-ignored"}"#,
            r#"{"kind":"boot-override-dropped"}"#,
            r#"{"kind":"media-refused"}"#,
            r#"{"kind":"ipmi-silent"}"#,
            r#"{"kind":"ipmi-completion","code":192}"#,
        ] {
            let read = fault(good).unwrap();
            assert!(good.contains(read.kind()), "{good}");
        }
    }

    #[test]
    fn bad_faults_are_refused_with_a_reason() {
        for (bad, reason) in [
            (r#"{"kind":"stal"}"#, "unknown variant `stal`"),
            (r#"{"kind":"stall","colour":1}"#, "unknown field `colour`"),
            (r#"{"kind":"ipmi-silent","code":1}"#, "unknown field `code`"),
            (r#"{"kind":"status","code":200}"#, "400 to 599"),
            (r#"{"kind":"status","code":503,"on":{"request":"powerstatus"}}"#, "power-status, reset"),
        ] {
            let error = fault(bad).unwrap_err();
            assert!(error.contains(reason), "{bad}: {error}");
        }
    }

    #[test]
    fn a_strike_counts_and_a_cleared_fault_keeps_its_count() {
        let mut faults = Faults::default();
        let id = faults.apply(fault(r#"{"kind":"stall","on":{"request":"reset","nth":2}}"#).unwrap());
        let reset = Seen::of([Operation::Reset]);
        let struck: Vec<bool> = (0..3).map(|_| faults.strike(Place::Http, &reset).is_some()).collect();
        assert_eq!(struck, [false, true, true]);
        assert!(faults.strike(Place::Http, &Seen::of([Operation::Login])).is_none());
        assert!(faults.clear(id));
        assert!(faults.strike(Place::Http, &reset).is_none());
        assert_eq!(faults.touched(id), 2);
    }

    #[test]
    fn a_password_is_never_shown() {
        let read = fault(r#"{"kind":"password-changed","to":"hunter2"}"#).unwrap();
        assert!(!format!("{read:?}").contains("hunter2"));
    }
}
