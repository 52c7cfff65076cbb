//! Power: Get Chassis Status and Chassis Control (28.2, 28.3).

use super::Command;
use crate::{Completion, DecodeError, NetFn, read::Reader};

/// Get Chassis Status (28.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetChassisStatus;

impl Command for GetChassisStatus {
    const NET_FN: NetFn = NetFn::CHASSIS;
    const CODE: u8 = 0x01;
    type Answer = ChassisStatus;

    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    fn answer(data: &[u8]) -> Result<ChassisStatus, DecodeError> {
        let mut reader = Reader::new(data);
        let [power, last_event, state] = reader.array()?;
        Ok(ChassisStatus {
            on: power & 1 != 0,
            faults: power & ChassisStatus::FAULTS,
            policy: RestorePolicy::from_bits(power >> 5),
            last_event,
            state,
        })
    }
}

/// How a machine's power is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChassisStatus {
    /// Whether the machine is on.
    pub on: bool,
    /// Overload, interlock, fault and control fault, in bits 1 to 4.
    pub faults: u8,
    /// What happens when mains power comes back.
    pub policy: RestorePolicy,
    /// What made the machine go on or off last (bits of byte 3 of the answer).
    pub last_event: u8,
    /// Intrusion, lock-out, drive and fan faults, identify (bits of byte 4 of the answer).
    pub state: u8,
}

impl ChassisStatus {
    const FAULTS: u8 = 0b0001_1110;

    /// The status of a healthy machine.
    pub fn healthy(on: bool) -> Self {
        Self { on, faults: 0, policy: RestorePolicy::AlwaysOn, last_event: 0, state: 0 }
    }

    /// The answer's data.
    pub fn encode(&self) -> Vec<u8> {
        let power = u8::from(self.on) | self.faults & Self::FAULTS | self.policy.bits() << 5;
        // Without a front panel that could be locked, its byte is zero.
        vec![power, self.last_event, self.state, 0]
    }
}

/// What a machine does when mains power comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// Stays off.
    AlwaysOff,
    /// Goes where it was.
    Previous,
    /// Goes on.
    AlwaysOn,
    /// The BMC does not know.
    Unknown,
}

impl RestorePolicy {
    fn bits(self) -> u8 {
        match self {
            Self::AlwaysOff => 0,
            Self::Previous => 1,
            Self::AlwaysOn => 2,
            Self::Unknown => 3,
        }
    }

    fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::AlwaysOff,
            1 => Self::Previous,
            2 => Self::AlwaysOn,
            _ => Self::Unknown,
        }
    }
}

/// Chassis Control (28.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChassisControl(pub Control);

impl Command for ChassisControl {
    const NET_FN: NetFn = NetFn::CHASSIS;
    const CODE: u8 = 0x02;
    type Answer = ();

    fn encode(&self) -> Vec<u8> {
        vec![self.0.number()]
    }

    fn answer(_: &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// What to do to a machine's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Off at once.
    Down,
    /// On.
    Up,
    /// Off at once, and on again after at least a second.
    Cycle,
    /// Reset without taking power away.
    Reset,
    /// Raise a diagnostic interrupt.
    Diagnostic,
    /// Ask the operating system to shut down.
    Soft,
}

impl Control {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::Down => 0,
            Self::Up => 1,
            Self::Cycle => 2,
            Self::Reset => 3,
            Self::Diagnostic => 4,
            Self::Soft => 5,
        }
    }

    pub(super) fn decode(data: &[u8]) -> Result<Self, Completion> {
        let [byte] = data else { return Err(Completion::INVALID_LENGTH) };
        match byte & 0x0f {
            0 => Ok(Self::Down),
            1 => Ok(Self::Up),
            2 => Ok(Self::Cycle),
            3 => Ok(Self::Reset),
            4 => Ok(Self::Diagnostic),
            5 => Ok(Self::Soft),
            _ => Err(Completion::INVALID_FIELD),
        }
    }
}
