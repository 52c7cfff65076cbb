//! The BMC as a plain value: who may use it, how it fails at present, and the machine behind it.
//!
//! Both protocols' servers turn their requests into calls here, so that a fault named for "power commands" strikes
//! either of them.

use std::{collections::BTreeMap, fmt, time::Duration};

use wire::Instant;

use crate::{
    fault::{Fault, Faults, Operation, Place, Seen},
    machine::{BootSettings, By, Control, Machine, Medium, Refused, Slot},
};

/// A session that nobody uses ends after this long; what most BMCs are set to when they are new.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(1800);

/// Who may use a BMC.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub username: String,
    /// The user's password.
    pub password: String,
}

impl Credentials {
    /// A user and its password.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self { username: username.into(), password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// An open Redfish session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) username: String,
    last_used: Instant,
}

/// Why virtual media was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotInserted {
    /// The drive holds another image.
    InUse,
    /// The image cannot be reached, or so the BMC says.
    Unreachable,
}

/// A BMC and its machine.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) machine: Machine,
    pub(crate) faults: Faults,
    credentials: Credentials,
    /// By token.
    sessions: BTreeMap<String, Session>,
}

impl Controller {
    pub(crate) fn new(machine: Machine, credentials: Credentials) -> Self {
        Self { machine, faults: Faults::default(), credentials, sessions: BTreeMap::new() }
    }

    /// What a BMC forgets when it starts anew: its sessions and its virtual media. The machine goes on.
    pub(crate) fn start(&mut self) {
        self.sessions.clear();
        for slot in Slot::ALL {
            self.machine.eject(slot, By::Bmc);
        }
    }

    // Who may use it.

    /// Gives the BMC's account another password; its sessions end.
    pub(crate) fn set_password(&mut self, password: String) {
        self.credentials.password = password;
        self.sessions.clear();
    }

    /// The account as it is at present.
    pub(crate) fn account(&self) -> (&str, &str) {
        let password =
            self.faults.password().map_or(self.credentials.password.as_str(), |(_, password)| password);
        (&self.credentials.username, password)
    }

    pub(crate) fn accepts(&mut self, username: &str, password: &str) -> bool {
        let own = username == self.credentials.username && password == self.credentials.password;
        let accepted = self.account() == (username, password);
        if own && !accepted {
            self.note_locked_out();
        }
        accepted
    }

    /// A client with the BMC's own password was turned away by a fault.
    pub(crate) fn note_locked_out(&mut self) {
        if let Some((id, _)) = self.faults.password() {
            self.faults.touch(id);
        }
    }

    /// Opens a session under a token and an id that nobody can guess.
    pub(crate) fn open_session(&mut self, now: Instant, id: String, token: String) -> Session {
        self.drop_idle_sessions(now);
        let session = Session { id, username: self.credentials.username.clone(), last_used: now };
        self.sessions.insert(token, session.clone());
        session
    }

    /// Whether a token is good; it is then good for another while.
    pub(crate) fn uses_session(&mut self, now: Instant, token: &str) -> bool {
        self.drop_idle_sessions(now);
        match self.sessions.get_mut(token) {
            Some(session) => {
                session.last_used = now;
                true
            }
            None => false,
        }
    }

    /// Ends a session; whether there was one.
    pub(crate) fn close_session(&mut self, id: &str) -> bool {
        let before = self.sessions.len();
        self.sessions.retain(|_, session| session.id != id);
        self.sessions.len() < before
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }

    fn drop_idle_sessions(&mut self, now: Instant) {
        self.sessions.retain(|_, session| now.since(session.last_used) < SESSION_TIMEOUT);
    }

    // What it does to its machine.

    pub(crate) fn control(&mut self, now: Instant, control: Control, by: By) -> Result<(), Refused> {
        if self.faults.strike(Place::Power, &Seen::of(operations(control))).is_some() {
            return Ok(());
        }
        let soft = matches!(control, Control::SoftOff | Control::GracefulRestart);
        if soft && self.faults.strike(Place::SoftOff, &Seen::of(operations(control))).is_some() {
            return Ok(());
        }
        self.machine.control(now, control, by)
    }

    pub(crate) fn set_boot(&mut self, settings: BootSettings) {
        let dropped = self.faults.strike(Place::BootOverride, &Seen::of([Operation::SetBoot])).is_some();
        if !dropped {
            self.machine.set_boot(settings);
        }
    }

    pub(crate) fn insert(&mut self, slot: Slot, medium: Medium, by: By) -> Result<(), NotInserted> {
        if self.faults.strike(Place::Media, &Seen::of([Operation::InsertMedia])).is_some() {
            return Err(NotInserted::Unreachable);
        }
        match self.machine.medium(slot) {
            // A client that repeats a request whose answer was lost finds what it wanted.
            Some(held) if held.image == medium.image => Ok(()),
            Some(_) => Err(NotInserted::InUse),
            None => {
                self.machine.insert(slot, medium, by);
                Ok(())
            }
        }
    }

    /// The completion code that a fault puts in place of a command's answer.
    pub(crate) fn ipmi_completion(&mut self, seen: &Seen<'_>) -> Option<u8> {
        let struck = self.faults.strike(Place::IpmiCommand, seen);
        if let Some(Fault::IpmiCompletion { code, .. }) = struck { Some(*code) } else { None }
    }

    /// Whether a fault keeps a datagram from being answered.
    pub(crate) fn ipmi_is_silent(&mut self) -> bool {
        self.faults.strike(Place::IpmiDatagram, &Seen::of([])).is_some()
    }
}

/// What a power command is about.
pub(crate) fn operations(control: Control) -> Vec<Operation> {
    let kind = match control {
        Control::On => Some(Operation::PowerOn),
        Control::ForceOff => Some(Operation::PowerOff),
        Control::SoftOff => Some(Operation::SoftOff),
        Control::ForceRestart | Control::PowerCycle | Control::GracefulRestart => Some(Operation::Restart),
        Control::PushButton => None,
    };
    [Some(Operation::Reset), kind].into_iter().flatten().collect()
}
