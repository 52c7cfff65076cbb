//! Completion codes: how a command went (5.2).

use std::fmt;

/// The first byte of each response (Table 5-2; below 0xc0 a code's meaning depends on the command).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Completion(pub u8);

impl Completion {
    /// Done.
    pub const OK: Self = Self(0x00);
    /// Set Session Privilege Level: the level is not available to this user (22.18). System Boot Options: the
    /// parameter is not supported (28.12).
    pub const NOT_AVAILABLE: Self = Self(0x80);
    /// Set Session Privilege Level: the level exceeds the user's or the channel's limit (22.18).
    pub const EXCEEDS_LIMIT: Self = Self(0x81);
    /// System Boot Options: the parameter is read-only (28.12).
    pub const READ_ONLY: Self = Self(0x82);
    /// Close Session: no such session (22.19).
    pub const INVALID_SESSION: Self = Self(0x87);
    /// The BMC has no time for it now.
    pub const NODE_BUSY: Self = Self(0xc0);
    /// The command is unknown.
    pub const INVALID_COMMAND: Self = Self(0xc1);
    /// The command is unknown at this LUN.
    pub const INVALID_LUN: Self = Self(0xc2);
    /// The BMC took too long.
    pub const TIMEOUT: Self = Self(0xc3);
    /// The BMC has no room for it.
    pub const OUT_OF_SPACE: Self = Self(0xc4);
    /// The request is too short or too long.
    pub const INVALID_LENGTH: Self = Self(0xc7);
    /// A parameter is out of range.
    pub const OUT_OF_RANGE: Self = Self(0xc9);
    /// A field of the request is invalid.
    pub const INVALID_FIELD: Self = Self(0xcc);
    /// The BMC can't answer now.
    pub const CANNOT_RESPOND: Self = Self(0xce);
    /// The BMC is updating its firmware.
    pub const UPDATING: Self = Self(0xd1);
    /// The BMC has just started.
    pub const INITIALIZING: Self = Self(0xd2);
    /// The session's privilege does not suffice.
    pub const INSUFFICIENT_PRIVILEGE: Self = Self(0xd4);
    /// Not possible in the machine's present state.
    pub const WRONG_STATE: Self = Self(0xd5);
    /// No reason given.
    pub const UNSPECIFIED: Self = Self(0xff);

    /// The generic name of the code, in the words that `ipmitool` prints and Ironic looks for; `None` where the
    /// meaning depends on the command.
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0x00 => "Command completed normally",
            0xc0 => "Node busy",
            0xc1 => "Invalid command",
            0xc2 => "Invalid command on LUN",
            0xc3 => "Timeout",
            0xc4 => "Out of space",
            0xc5 => "Reservation cancelled or invalid",
            0xc6 => "Request data truncated",
            0xc7 => "Request data length invalid",
            0xc8 => "Request data field length limit exceeded",
            0xc9 => "Parameter out of range",
            0xca => "Cannot return number of requested data bytes",
            0xcb => "Requested sensor, data, or record not found",
            0xcc => "Invalid data field in request",
            0xcd => "Command illegal for specified sensor or record type",
            0xce => "Command response could not be provided",
            0xcf => "Cannot execute duplicated request",
            0xd0 => "SDR Repository in update mode",
            0xd1 => "Device firmware in update mode",
            0xd2 => "BMC initialization in progress",
            0xd3 => "Destination unavailable",
            0xd4 => "Insufficient privilege level",
            0xd5 => "Command not supported in present state",
            0xd6 => "Cannot execute command, command disabled",
            0xff => "Unspecified error",
            _ => return None,
        })
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "completion code {:#04x}", self.0),
        }
    }
}
