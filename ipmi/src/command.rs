//! Commands with types, for both sides: a client encodes them and reads answers, a server reads them and encodes
//! answers.

mod boot;
mod chassis;
mod device;
mod session;

pub use boot::{BootDevice, BootFlags, BootOption, GetBootOption, SetBootOption};
pub use chassis::{ChassisControl, ChassisStatus, Control, GetChassisStatus, RestorePolicy};
pub use device::{DeviceId, GetDeviceId, GetSystemGuid};
pub use session::{
    AuthenticationCapabilities, CloseSession, GetAuthenticationCapabilities, GetCipherSuites, SetPrivilege,
};

use crate::{Completion, DecodeError, NetFn, Privilege};

/// A command as a client sends it.
pub trait Command {
    /// Its family.
    const NET_FN: NetFn;
    /// Its number in the family.
    const CODE: u8;
    /// What a successful answer says.
    type Answer;

    /// The request's data.
    fn encode(&self) -> Vec<u8>;

    /// Reads the data that follows [`Completion::OK`].
    fn answer(data: &[u8]) -> Result<Self::Answer, DecodeError>;
}

/// A command as a server reads it. Commands outside sessions and about sessions are the server's own
/// ([`crate::server`]) and not among these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Get Device ID, answered by [`DeviceId::encode`].
    GetDeviceId,
    /// Get Chassis Status, answered by [`ChassisStatus::encode`].
    GetChassisStatus,
    /// Chassis Control.
    ChassisControl(Control),
    /// Set System Boot Options.
    SetBootOption(BootOption),
    /// Get System Boot Options, answered by [`BootOption::encode_answer`].
    GetBootOption(GetBootOption),
}

impl Request {
    /// Reads a request, or tells with what code to refuse it.
    pub fn parse(net_fn: NetFn, command: u8, data: &[u8]) -> Result<Self, Completion> {
        match (net_fn, command) {
            (GetDeviceId::NET_FN, GetDeviceId::CODE) => Ok(Self::GetDeviceId),
            (GetChassisStatus::NET_FN, GetChassisStatus::CODE) => Ok(Self::GetChassisStatus),
            (ChassisControl::NET_FN, ChassisControl::CODE) => Control::decode(data).map(Self::ChassisControl),
            (SetBootOption::NET_FN, SetBootOption::CODE) => BootOption::decode(data).map(Self::SetBootOption),
            (GetBootOption::NET_FN, GetBootOption::CODE) => {
                GetBootOption::decode(data).map(Self::GetBootOption)
            }
            _ => Err(Completion::INVALID_COMMAND),
        }
    }
}

/// The privilege that a command needs at least; `None` for one that this crate does not know (Appendix G).
pub fn required(net_fn: NetFn, command: u8) -> Option<Privilege> {
    match (net_fn, command) {
        (GetDeviceId::NET_FN, GetDeviceId::CODE)
        | (GetSystemGuid::NET_FN, GetSystemGuid::CODE)
        | (GetChassisStatus::NET_FN, GetChassisStatus::CODE) => Some(Privilege::User),
        (ChassisControl::NET_FN, ChassisControl::CODE)
        | (SetBootOption::NET_FN, SetBootOption::CODE)
        | (GetBootOption::NET_FN, GetBootOption::CODE) => Some(Privilege::Operator),
        (SetPrivilege::NET_FN, SetPrivilege::CODE) => Some(Privilege::User),
        (CloseSession::NET_FN, CloseSession::CODE) => Some(Privilege::Callback),
        _ => None,
    }
}
