//! The provision-state machine: which states there are, which events lead where, and which verbs cause them.
//!
//! Pure and complete, also for states that no flow of this crate enters yet, because clients may ask for them. Read
//! off the state machine object of Ironic 39.0.0 (`ironic/common/states.py`).

/// Declares a closed enum of Ironic's words: `Display` writes the word, `FromStr` reads it.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $name { $(#[doc = concat!("`", $word, "`")] $(#[$doc])* $variant,)+ }

        impl $name {
            /// Every one of them.
            $vis const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Ironic's word for it.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::state::UnknownWord;

            fn from_str(text: &str) -> Result<Self, $crate::state::UnknownWord> {
                Self::ALL.iter().copied().find(|it| it.as_str() == text).ok_or($crate::state::UnknownWord)
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;

/// The text is none of Ironic's words for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a word that Ironic does not know here")]
pub struct UnknownWord;

words! {
    /// Where a node is on its way through life.
    pub ProvisionState {
        Enroll = "enroll",
        Verifying = "verifying",
        Manageable = "manageable",
        Inspecting = "inspecting",
        InspectWait = "inspect wait",
        InspectFailed = "inspect failed",
        Cleaning = "cleaning",
        CleanWait = "clean wait",
        CleanHold = "clean hold",
        CleanFailed = "clean failed",
        Available = "available",
        Deploying = "deploying",
        WaitCallBack = "wait call-back",
        DeployHold = "deploy hold",
        DeployFailed = "deploy failed",
        Active = "active",
        Deleting = "deleting",
        Error = "error",
        Adopting = "adopting",
        AdoptFailed = "adopt failed",
        Rescuing = "rescuing",
        RescueWait = "rescue wait",
        Rescue = "rescue",
        RescueFailed = "rescue failed",
        Unrescuing = "unrescuing",
        UnrescueFailed = "unrescue failed",
        Servicing = "servicing",
        ServiceWait = "service wait",
        ServiceHold = "service hold",
        ServiceFailed = "service failed",
    }
}

words! {
    /// What a client asks for by `PUT states/provision`.
    pub Verb {
        Active = "active",
        Deploy = "deploy",
        Rebuild = "rebuild",
        Deleted = "deleted",
        Undeploy = "undeploy",
        Manage = "manage",
        Provide = "provide",
        Inspect = "inspect",
        Abort = "abort",
        Clean = "clean",
        Adopt = "adopt",
        Rescue = "rescue",
        Unrescue = "unrescue",
        Unhold = "unhold",
        Service = "service",
    }
}

/// What moves a node from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client's verb.
    Verb(Verb),
    /// The work is now the agent's.
    Wait,
    /// The agent has come back.
    Resume,
    /// A step asks for a halt.
    Hold,
    /// The work is done.
    Done,
    /// The work has failed.
    Fail,
}

/// Where an abort leads.
const ABORTS: [(ProvisionState, ProvisionState); 9] = {
    use ProvisionState as S;
    [
        (S::InspectWait, S::InspectFailed),
        (S::CleanWait, S::CleanFailed),
        (S::CleanHold, S::CleanFailed),
        (S::WaitCallBack, S::DeployFailed),
        (S::DeployHold, S::DeployFailed),
        (S::RescueWait, S::RescueFailed),
        (S::ServiceWait, S::ServiceFailed),
        (S::ServiceHold, S::ServiceFailed),
        (S::ServiceFailed, S::Active),
    ]
};

/// Where the end of a halt leads.
const UNHOLDS: [(ProvisionState, ProvisionState); 3] = {
    use ProvisionState as S;
    [(S::CleanHold, S::CleanWait), (S::DeployHold, S::WaitCallBack), (S::ServiceHold, S::ServiceWait)]
};

impl ProvisionState {
    /// The state that `event` leads to, or `None` where it is not possible.
    pub fn after(self, event: Event) -> Option<Self> {
        use Event::{Done, Fail, Hold, Resume, Wait};
        let verb = match event {
            Event::Verb(verb) => return self.after_verb(verb),
            Wait | Resume | Hold | Done | Fail => event,
        };
        let next = match (self, verb) {
            (Self::Verifying, Done) => Self::Manageable,
            (Self::Verifying, Fail) => Self::Enroll,
            (Self::Inspecting, Wait) => Self::InspectWait,
            (Self::Inspecting, Done) | (Self::InspectWait, Done) => Self::Manageable,
            (Self::Inspecting | Self::InspectWait, Fail) => Self::InspectFailed,
            (Self::InspectWait, Resume) => Self::Inspecting,
            (Self::Cleaning, Wait) => Self::CleanWait,
            (Self::Cleaning | Self::CleanWait, Hold) => Self::CleanHold,
            (Self::Cleaning, Done) => Self::Available,
            (Self::Cleaning | Self::CleanWait, Fail) => Self::CleanFailed,
            (Self::CleanWait, Resume) => Self::Cleaning,
            (Self::Deploying, Wait) => Self::WaitCallBack,
            (Self::Deploying | Self::WaitCallBack, Hold) => Self::DeployHold,
            (Self::Deploying, Done) => Self::Active,
            (Self::Deploying | Self::WaitCallBack, Fail) => Self::DeployFailed,
            (Self::WaitCallBack, Resume) => Self::Deploying,
            (Self::Deleting, Fail) => Self::Error,
            (Self::Adopting, Done) => Self::Active,
            (Self::Adopting, Fail) => Self::AdoptFailed,
            (Self::Rescuing, Wait) => Self::RescueWait,
            (Self::Rescuing, Done) => Self::Rescue,
            (Self::Rescuing | Self::RescueWait, Fail) => Self::RescueFailed,
            (Self::RescueWait, Resume) => Self::Rescuing,
            (Self::Unrescuing, Done) => Self::Active,
            (Self::Unrescuing, Fail) => Self::UnrescueFailed,
            (Self::Servicing | Self::ServiceFailed, Wait) => Self::ServiceWait,
            (Self::Servicing | Self::ServiceWait | Self::ServiceFailed, Hold) => Self::ServiceHold,
            (Self::Servicing, Done) => Self::Active,
            (Self::Servicing | Self::ServiceWait | Self::ServiceHold, Fail) => Self::ServiceFailed,
            (Self::ServiceWait, Resume) => Self::Servicing,
            (_, Event::Verb(_) | Wait | Resume | Hold | Done | Fail) => return None,
        };
        Some(next)
    }

    fn after_verb(self, verb: Verb) -> Option<Self> {
        let from = |states: &[Self]| states.contains(&self);
        let next = match verb {
            Verb::Active | Verb::Deploy if from(&[Self::Available, Self::DeployFailed]) => Self::Deploying,
            Verb::Rebuild if from(&[Self::Active, Self::DeployFailed, Self::Error]) => Self::Deploying,
            Verb::Deleted | Verb::Undeploy if self.can_be_torn_down() => Self::Deleting,
            Verb::Manage if self == Self::Enroll => Self::Verifying,
            // From `cleaning` it is the end of manual cleaning; no client may ask for that.
            Verb::Manage
                if from(&[
                    Self::InspectFailed,
                    Self::CleanFailed,
                    Self::Available,
                    Self::AdoptFailed,
                    Self::Cleaning,
                ]) =>
            {
                Self::Manageable
            }
            Verb::Provide if self == Self::Manageable => Self::Cleaning,
            Verb::Inspect if from(&[Self::Manageable, Self::InspectFailed]) => Self::Inspecting,
            Verb::Clean if from(&[Self::Manageable, Self::Deleting]) => Self::Cleaning,
            Verb::Adopt if from(&[Self::Manageable, Self::AdoptFailed]) => Self::Adopting,
            Verb::Abort => return self.follow(&ABORTS),
            Verb::Rescue
                if from(&[
                    Self::Active,
                    Self::Rescue,
                    Self::RescueFailed,
                    Self::UnrescueFailed,
                    Self::ServiceFailed,
                ]) =>
            {
                Self::Rescuing
            }
            Verb::Unrescue if from(&[Self::Rescue, Self::RescueFailed, Self::UnrescueFailed]) => {
                Self::Unrescuing
            }
            Verb::Unhold => return self.follow(&UNHOLDS),
            Verb::Service if from(&[Self::Active, Self::ServiceFailed, Self::ServiceHold]) => Self::Servicing,
            Verb::Active
            | Verb::Deploy
            | Verb::Rebuild
            | Verb::Deleted
            | Verb::Undeploy
            | Verb::Manage
            | Verb::Provide
            | Verb::Inspect
            | Verb::Clean
            | Verb::Adopt
            | Verb::Rescue
            | Verb::Unrescue
            | Verb::Service => return None,
        };
        Some(next)
    }

    fn follow(self, table: &[(Self, Self)]) -> Option<Self> {
        table.iter().find(|(from, _)| *from == self).map(|(_, to)| *to)
    }

    fn can_be_torn_down(self) -> bool {
        matches!(
            self,
            Self::Active
                | Self::WaitCallBack
                | Self::DeployFailed
                | Self::Error
                | Self::Rescue
                | Self::RescueWait
                | Self::RescueFailed
                | Self::UnrescueFailed
                | Self::ServiceWait
                | Self::ServiceFailed
        )
    }

    /// Where a node in this state is heading, unless the flow says otherwise (manual cleaning heads for
    /// `manageable`). `None` in stable states, where a node keeps no target.
    pub fn target(self) -> Option<Self> {
        match self {
            Self::Verifying | Self::Inspecting | Self::InspectWait | Self::InspectFailed => {
                Some(Self::Manageable)
            }
            Self::Cleaning | Self::CleanWait | Self::CleanHold | Self::CleanFailed | Self::Deleting => {
                Some(Self::Available)
            }
            Self::Deploying
            | Self::WaitCallBack
            | Self::DeployHold
            | Self::DeployFailed
            | Self::Adopting
            | Self::AdoptFailed
            | Self::Unrescuing
            | Self::UnrescueFailed
            | Self::Servicing
            | Self::ServiceWait
            | Self::ServiceHold
            | Self::ServiceFailed => Some(Self::Active),
            Self::Rescuing | Self::RescueWait | Self::RescueFailed => Some(Self::Rescue),
            Self::Enroll | Self::Manageable | Self::Available | Self::Active | Self::Error | Self::Rescue => {
                None
            }
        }
    }

    /// Whether the conductor itself works in this state, so that no work goes on after it was restarted.
    pub fn is_stuck_after_restart(self) -> bool {
        matches!(
            self,
            Self::Deploying
                | Self::Cleaning
                | Self::Verifying
                | Self::Inspecting
                | Self::Adopting
                | Self::Rescuing
                | Self::Unrescuing
                | Self::Deleting
                | Self::Servicing
        )
    }

    /// Whether the state says that something went wrong; in these a power change leaves `last_error` alone.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Self::InspectFailed
                | Self::CleanFailed
                | Self::DeployFailed
                | Self::AdoptFailed
                | Self::RescueFailed
                | Self::UnrescueFailed
                | Self::ServiceFailed
                | Self::Error
        )
    }

    /// Whether the node may be deleted without being in maintenance.
    pub fn is_deletable(self, while_available: bool) -> bool {
        matches!(self, Self::Enroll | Self::Manageable | Self::AdoptFailed)
            || (while_available && self == Self::Available)
    }

    /// Whether a client may patch the node in this state.
    pub fn is_updatable(self) -> bool {
        self.target().is_none()
            || self.is_failure()
            || matches!(self, Self::Verifying | Self::InspectWait | Self::ServiceHold)
    }

    /// Whether an agent may look the node up in this state.
    pub fn allows_lookup(self) -> bool {
        matches!(
            self,
            Self::Deploying
                | Self::WaitCallBack
                | Self::Cleaning
                | Self::CleanWait
                | Self::Inspecting
                | Self::InspectWait
                | Self::Rescuing
                | Self::RescueWait
                | Self::ServiceWait
        )
    }

    /// Whether the recorded power state is left alone by power sync.
    pub fn skips_power_sync(self) -> bool {
        matches!(self, Self::Enroll | Self::AdoptFailed | Self::WaitCallBack | Self::CleanWait)
    }

    /// Whether clients may not change the power.
    pub fn forbids_power_changes(self) -> bool {
        matches!(self, Self::Cleaning | Self::CleanWait)
    }
}

impl Verb {
    /// The minor number of the microversion that brought the verb, in a given state.
    pub fn since(self, state: ProvisionState) -> u16 {
        match self {
            Self::Active | Self::Rebuild | Self::Deleted | Self::Deploy | Self::Undeploy => 1,
            Self::Manage | Self::Provide => 4,
            Self::Inspect => 6,
            Self::Abort if state == ProvisionState::WaitCallBack => 110,
            Self::Abort if state == ProvisionState::InspectWait => 41,
            Self::Abort => 13,
            Self::Clean => 15,
            Self::Adopt => 17,
            Self::Rescue | Self::Unrescue => 38,
            Self::Unhold => 85,
            Self::Service => 87,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, ProvisionState as S, Verb};

    fn event(word: &str) -> Event {
        match word {
            "wait" => Event::Wait,
            "resume" => Event::Resume,
            "hold" => Event::Hold,
            "done" => Event::Done,
            "fail" => Event::Fail,
            "delete" => Event::Verb(Verb::Deleted),
            verb => Event::Verb(verb.parse().expect("a verb of the table")),
        }
    }

    /// The transitions of Ironic 39.0.0, as its own state machine object lists them.
    const TABLE: &str = "
        enroll: manage>verifying
        verifying: done>manageable, fail>enroll
        manageable: provide>cleaning, clean>cleaning, inspect>inspecting, adopt>adopting
        inspecting: wait>inspect wait, done>manageable, fail>inspect failed
        inspect wait: resume>inspecting, done>manageable, fail>inspect failed, abort>inspect failed
        inspect failed: manage>manageable, inspect>inspecting
        cleaning: wait>clean wait, hold>clean hold, done>available, manage>manageable, fail>clean failed
        clean wait: resume>cleaning, hold>clean hold, fail>clean failed, abort>clean failed
        clean hold: unhold>clean wait, abort>clean failed
        clean failed: manage>manageable
        available: deploy>deploying, manage>manageable
        deploying: wait>wait call-back, hold>deploy hold, done>active, fail>deploy failed
        wait call-back: resume>deploying, hold>deploy hold, fail>deploy failed, abort>deploy failed, delete>deleting
        deploy hold: unhold>wait call-back, abort>deploy failed
        deploy failed: deploy>deploying, rebuild>deploying, delete>deleting
        active: rebuild>deploying, delete>deleting, rescue>rescuing, service>servicing
        deleting: clean>cleaning, fail>error
        error: rebuild>deploying, delete>deleting
        adopting: done>active, fail>adopt failed
        adopt failed: adopt>adopting, manage>manageable
        rescuing: wait>rescue wait, done>rescue, fail>rescue failed
        rescue wait: resume>rescuing, fail>rescue failed, abort>rescue failed, delete>deleting
        rescue: rescue>rescuing, unrescue>unrescuing, delete>deleting
        rescue failed: rescue>rescuing, unrescue>unrescuing, delete>deleting
        unrescuing: done>active, fail>unrescue failed
        unrescue failed: rescue>rescuing, unrescue>unrescuing, delete>deleting
        servicing: wait>service wait, hold>service hold, done>active, fail>service failed
        service wait: resume>servicing, hold>service hold, fail>service failed, abort>service failed, delete>deleting
        service hold: unhold>service wait, service>servicing, fail>service failed, abort>service failed
        service failed: service>servicing, rescue>rescuing, wait>service wait, hold>service hold, delete>deleting, abort>active
    ";

    #[test]
    fn transitions_are_those_of_ironic_and_no_others() {
        let words = "wait resume hold done fail delete deploy rebuild manage provide inspect abort clean adopt rescue \
                     unrescue unhold service";
        let mut lines = 0;
        for line in TABLE.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (state, transitions) = line.split_once(": ").expect("a line names a state");
            let state: S = state.parse().expect("a state of the table");
            let wanted: Vec<(&str, S)> = transitions
                .split(", ")
                .map(|pair| pair.split_once('>').expect("event>state"))
                .map(|(event, next)| (event, next.parse().expect("a state of the table")))
                .collect();
            for word in words.split(' ') {
                let next = wanted.iter().find(|(event, _)| *event == word).map(|(_, next)| *next);
                assert_eq!(state.after(event(word)), next, "{word} in {state}");
            }
            lines += 1;
        }
        assert_eq!(lines, S::ALL.len());
    }

    #[test]
    fn verbs_that_mean_the_same_lead_to_the_same() {
        for state in S::ALL {
            assert_eq!(state.after(Event::Verb(Verb::Active)), state.after(Event::Verb(Verb::Deploy)));
            assert_eq!(state.after(Event::Verb(Verb::Deleted)), state.after(Event::Verb(Verb::Undeploy)));
        }
    }

    #[test]
    fn states_that_move_on_have_a_target() {
        let stable = [S::Enroll, S::Manageable, S::Available, S::Active, S::Error, S::Rescue];
        for state in S::ALL {
            assert_eq!(state.target().is_none(), stable.contains(state), "{state}");
            assert_eq!(state.to_string().parse(), Ok(*state));
        }
        assert_eq!(S::CleanFailed.target(), Some(S::Available));
        assert_eq!(S::WaitCallBack.target(), Some(S::Active));
    }
}
