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

impl ProvisionState {
    /// The state that `event` leads to, or `None` where it is not possible.
    pub fn after(self, event: Event) -> Option<Self> {
        use Event::{Done, Fail, Hold, Resume, Wait};
        use ProvisionState as S;
        let verb = match event {
            Event::Verb(verb) => return self.after_verb(verb),
            Wait | Resume | Hold | Done | Fail => event,
        };
        let next = match (self, verb) {
            (S::Verifying, Done) => S::Manageable,
            (S::Verifying, Fail) => S::Enroll,
            (S::Inspecting, Wait) => S::InspectWait,
            (S::Inspecting, Done) | (S::InspectWait, Done) => S::Manageable,
            (S::Inspecting | S::InspectWait, Fail) => S::InspectFailed,
            (S::InspectWait, Resume) => S::Inspecting,
            (S::Cleaning, Wait) => S::CleanWait,
            (S::Cleaning | S::CleanWait, Hold) => S::CleanHold,
            (S::Cleaning, Done) => S::Available,
            (S::Cleaning | S::CleanWait, Fail) => S::CleanFailed,
            (S::CleanWait, Resume) => S::Cleaning,
            (S::Deploying, Wait) => S::WaitCallBack,
            (S::Deploying | S::WaitCallBack, Hold) => S::DeployHold,
            (S::Deploying, Done) => S::Active,
            (S::Deploying | S::WaitCallBack, Fail) => S::DeployFailed,
            (S::WaitCallBack, Resume) => S::Deploying,
            (S::Deleting, Fail) => S::Error,
            (S::Adopting, Done) => S::Active,
            (S::Adopting, Fail) => S::AdoptFailed,
            (S::Rescuing, Wait) => S::RescueWait,
            (S::Rescuing, Done) => S::Rescue,
            (S::Rescuing | S::RescueWait, Fail) => S::RescueFailed,
            (S::RescueWait, Resume) => S::Rescuing,
            (S::Unrescuing, Done) => S::Active,
            (S::Unrescuing, Fail) => S::UnrescueFailed,
            (S::Servicing | S::ServiceFailed, Wait) => S::ServiceWait,
            (S::Servicing | S::ServiceWait | S::ServiceFailed, Hold) => S::ServiceHold,
            (S::Servicing, Done) => S::Active,
            (S::Servicing | S::ServiceWait | S::ServiceHold, Fail) => S::ServiceFailed,
            (S::ServiceWait, Resume) => S::Servicing,
            (_, Event::Verb(_) | Wait | Resume | Hold | Done | Fail) => return None,
        };
        Some(next)
    }

    fn after_verb(self, verb: Verb) -> Option<Self> {
        use ProvisionState as S;
        let from = |states: &[Self]| states.contains(&self);
        let next = match verb {
            Verb::Active | Verb::Deploy if from(&[S::Available, S::DeployFailed]) => S::Deploying,
            Verb::Rebuild if from(&[S::Active, S::DeployFailed, S::Error]) => S::Deploying,
            Verb::Deleted | Verb::Undeploy if self.can_be_torn_down() => S::Deleting,
            Verb::Manage if self == S::Enroll => S::Verifying,
            // From `cleaning` it is the end of manual cleaning; no client may ask for that.
            Verb::Manage
                if from(&[S::InspectFailed, S::CleanFailed, S::Available, S::AdoptFailed, S::Cleaning]) =>
            {
                S::Manageable
            }
            Verb::Provide if self == S::Manageable => S::Cleaning,
            Verb::Inspect if from(&[S::Manageable, S::InspectFailed]) => S::Inspecting,
            Verb::Clean if from(&[S::Manageable, S::Deleting]) => S::Cleaning,
            Verb::Adopt if from(&[S::Manageable, S::AdoptFailed]) => S::Adopting,
            Verb::Abort => match self {
                S::InspectWait => S::InspectFailed,
                S::CleanWait | S::CleanHold => S::CleanFailed,
                S::WaitCallBack | S::DeployHold => S::DeployFailed,
                S::RescueWait => S::RescueFailed,
                S::ServiceWait | S::ServiceHold => S::ServiceFailed,
                S::ServiceFailed => S::Active,
                S::Enroll
                | S::Verifying
                | S::Manageable
                | S::Inspecting
                | S::InspectFailed
                | S::Cleaning
                | S::CleanFailed
                | S::Available
                | S::Deploying
                | S::DeployFailed
                | S::Active
                | S::Deleting
                | S::Error
                | S::Adopting
                | S::AdoptFailed
                | S::Rescuing
                | S::Rescue
                | S::RescueFailed
                | S::Unrescuing
                | S::UnrescueFailed
                | S::Servicing => return None,
            },
            Verb::Rescue
                if from(&[S::Active, S::Rescue, S::RescueFailed, S::UnrescueFailed, S::ServiceFailed]) =>
            {
                S::Rescuing
            }
            Verb::Unrescue if from(&[S::Rescue, S::RescueFailed, S::UnrescueFailed]) => S::Unrescuing,
            Verb::Unhold => match self {
                S::CleanHold => S::CleanWait,
                S::DeployHold => S::WaitCallBack,
                S::ServiceHold => S::ServiceWait,
                _ => return None,
            },
            Verb::Service if from(&[S::Active, S::ServiceFailed, S::ServiceHold]) => S::Servicing,
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

    fn can_be_torn_down(self) -> bool {
        use ProvisionState as S;
        matches!(
            self,
            S::Active
                | S::WaitCallBack
                | S::DeployFailed
                | S::Error
                | S::Rescue
                | S::RescueWait
                | S::RescueFailed
                | S::UnrescueFailed
                | S::ServiceWait
                | S::ServiceFailed
        )
    }

    /// Where a node in this state is heading, unless the flow says otherwise (manual cleaning heads for
    /// `manageable`). `None` in stable states, where a node keeps no target.
    pub fn target(self) -> Option<Self> {
        use ProvisionState as S;
        match self {
            S::Verifying | S::Inspecting | S::InspectWait | S::InspectFailed => Some(S::Manageable),
            S::Cleaning | S::CleanWait | S::CleanHold | S::CleanFailed | S::Deleting => Some(S::Available),
            S::Deploying
            | S::WaitCallBack
            | S::DeployHold
            | S::DeployFailed
            | S::Adopting
            | S::AdoptFailed
            | S::Unrescuing
            | S::UnrescueFailed
            | S::Servicing
            | S::ServiceWait
            | S::ServiceHold
            | S::ServiceFailed => Some(S::Active),
            S::Rescuing | S::RescueWait | S::RescueFailed => Some(S::Rescue),
            S::Enroll | S::Manageable | S::Available | S::Active | S::Error | S::Rescue => None,
        }
    }

    /// Whether the conductor itself works in this state, so that no work goes on after it was restarted.
    pub fn is_stuck_after_restart(self) -> bool {
        use ProvisionState as S;
        matches!(
            self,
            S::Deploying
                | S::Cleaning
                | S::Verifying
                | S::Inspecting
                | S::Adopting
                | S::Rescuing
                | S::Unrescuing
                | S::Deleting
                | S::Servicing
        )
    }

    /// Whether the state says that something went wrong; in these a power change leaves `last_error` alone.
    pub fn is_failure(self) -> bool {
        use ProvisionState as S;
        matches!(
            self,
            S::InspectFailed
                | S::CleanFailed
                | S::DeployFailed
                | S::AdoptFailed
                | S::RescueFailed
                | S::UnrescueFailed
                | S::ServiceFailed
                | S::Error
        )
    }

    /// Whether the node may be deleted without being in maintenance.
    pub fn is_deletable(self, while_available: bool) -> bool {
        use ProvisionState as S;
        matches!(self, S::Enroll | S::Manageable | S::AdoptFailed)
            || (while_available && self == S::Available)
    }

    /// Whether a client may patch the node in this state.
    pub fn is_updatable(self) -> bool {
        use ProvisionState as S;
        self.target().is_none()
            || self.is_failure()
            || matches!(self, S::Verifying | S::InspectWait | S::ServiceHold)
    }

    /// Whether an agent may look the node up in this state.
    pub fn allows_lookup(self) -> bool {
        use ProvisionState as S;
        matches!(
            self,
            S::Deploying
                | S::WaitCallBack
                | S::Cleaning
                | S::CleanWait
                | S::Inspecting
                | S::InspectWait
                | S::Rescuing
                | S::RescueWait
                | S::ServiceWait
        )
    }

    /// Whether the recorded power state is left alone by power sync.
    pub fn skips_power_sync(self) -> bool {
        use ProvisionState as S;
        matches!(self, S::Enroll | S::AdoptFailed | S::WaitCallBack | S::CleanWait)
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
            Self::Abort => match state {
                ProvisionState::WaitCallBack => 110,
                ProvisionState::InspectWait => 41,
                _ => 13,
            },
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
