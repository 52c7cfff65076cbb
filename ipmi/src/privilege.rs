//! Privilege levels.

use crate::DecodeError;

/// What a session may do, lowest first (6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// May only start a call-back.
    Callback,
    /// May look.
    User,
    /// May also act, but not change the BMC itself.
    Operator,
    /// May do everything.
    Administrator,
    /// A vendor's own level.
    Oem,
}

impl Privilege {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::Callback => 1,
            Self::User => 2,
            Self::Operator => 3,
            Self::Administrator => 4,
            Self::Oem => 5,
        }
    }

    /// The level that a number stands for; 0 is none: "the highest that matches", or "unchanged".
    pub fn from_number(number: u8) -> Result<Option<Self>, DecodeError> {
        match number & 0x0f {
            0 => Ok(None),
            1 => Ok(Some(Self::Callback)),
            2 => Ok(Some(Self::User)),
            3 => Ok(Some(Self::Operator)),
            4 => Ok(Some(Self::Administrator)),
            5 => Ok(Some(Self::Oem)),
            value => Err(DecodeError::Value { field: "privilege level", value }),
        }
    }
}
