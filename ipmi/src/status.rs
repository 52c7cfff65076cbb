//! Status codes of session set-up: why a BMC refuses one (13.24, Table 13-15).

use std::fmt;

/// Why a session is not set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// No session is free (0x01).
    InsufficientResources,
    /// The session id is unknown (0x02).
    InvalidSessionId,
    /// The authentication algorithm is not supported (0x04).
    InvalidAuthentication,
    /// The integrity algorithm is not supported (0x05).
    InvalidIntegrity,
    /// The session is not active any more (0x08).
    InactiveSessionId,
    /// The role is not one (0x09).
    InvalidRole,
    /// The user may not have the role (0x0a).
    UnauthorizedRole,
    /// Too few sessions are left for the role (0x0b).
    InsufficientForRole,
    /// The name is too long (0x0c).
    InvalidNameLength,
    /// There is no such user (0x0d).
    UnauthorizedName,
    /// The check value is wrong, which is what a wrong password looks like (0x0f).
    InvalidIntegrityCheck,
    /// The confidentiality algorithm is not supported (0x10).
    InvalidConfidentiality,
    /// No cipher suite has these algorithms (0x11).
    NoCipherSuite,
    /// A parameter is illegal (0x12).
    IllegalParameter,
    /// Any other code.
    Other(u8),
}

impl Status {
    /// The code on the wire; 0 is success and no status of ours.
    pub fn code(self) -> u8 {
        match self {
            Self::InsufficientResources => 0x01,
            Self::InvalidSessionId => 0x02,
            Self::InvalidAuthentication => 0x04,
            Self::InvalidIntegrity => 0x05,
            Self::InactiveSessionId => 0x08,
            Self::InvalidRole => 0x09,
            Self::UnauthorizedRole => 0x0a,
            Self::InsufficientForRole => 0x0b,
            Self::InvalidNameLength => 0x0c,
            Self::UnauthorizedName => 0x0d,
            Self::InvalidIntegrityCheck => 0x0f,
            Self::InvalidConfidentiality => 0x10,
            Self::NoCipherSuite => 0x11,
            Self::IllegalParameter => 0x12,
            Self::Other(code) => code,
        }
    }

    /// What a code means; `None` is success.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => return None,
            0x01 => Self::InsufficientResources,
            0x02 => Self::InvalidSessionId,
            0x04 => Self::InvalidAuthentication,
            0x05 => Self::InvalidIntegrity,
            0x08 => Self::InactiveSessionId,
            0x09 => Self::InvalidRole,
            0x0a => Self::UnauthorizedRole,
            0x0b => Self::InsufficientForRole,
            0x0c => Self::InvalidNameLength,
            0x0d => Self::UnauthorizedName,
            0x0f => Self::InvalidIntegrityCheck,
            0x10 => Self::InvalidConfidentiality,
            0x11 => Self::NoCipherSuite,
            0x12 => Self::IllegalParameter,
            other => Self::Other(other),
        })
    }
}

impl fmt::Display for Status {
    /// In the words that `ipmitool` prints, which Ironic looks for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::InsufficientResources => "insufficient resources for session",
            Self::InvalidSessionId => "invalid session ID",
            Self::InvalidAuthentication => "invalid authentication algorithm",
            Self::InvalidIntegrity => "invalid integrity algorithm",
            Self::InactiveSessionId => "inactive session ID",
            Self::InvalidRole => "invalid role",
            Self::UnauthorizedRole => "unauthorized role requested",
            Self::InsufficientForRole => "insufficient resources for role",
            Self::InvalidNameLength => "invalid name length",
            Self::UnauthorizedName => "unauthorized name",
            Self::InvalidIntegrityCheck => "invalid integrity check value",
            Self::InvalidConfidentiality => "invalid confidentiality algorithm",
            Self::NoCipherSuite => "no matching cipher suite",
            Self::IllegalParameter => "illegal parameter",
            Self::Other(code) => return write!(f, "status {code:#04x}"),
        };
        f.write_str(text)
    }
}
