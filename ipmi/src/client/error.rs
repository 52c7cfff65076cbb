//! Why a client has no answer.

use std::{fmt, io};

use crate::{Completion, DecodeError, NetFn, Status, setup::Step};

/// What a client was at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Get Channel Authentication Capabilities, outside any session.
    Capabilities,
    /// A step of session set-up.
    Setup(Step),
    /// A command within the session.
    Command {
        /// Its family.
        net_fn: NetFn,
        /// Its number in the family.
        command: u8,
    },
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities => f.write_str("Get Channel Authentication Capabilities"),
            Self::Setup(step) => step.fmt(f),
            Self::Command { net_fn, command } => write!(f, "command {:02x}/{command:02x}", net_fn.0),
        }
    }
}

/// Why a session or a command failed, named by what the client saw.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address has no meaning.
    #[error("find {address}")]
    Resolve {
        /// What was looked up.
        address: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// This host's own socket failed.
    #[error("use a UDP socket")]
    Socket {
        /// What the system said.
        source: io::Error,
    },
    /// Nothing came, however often it was asked.
    #[error("get an answer to {stage}")]
    NoAnswer {
        /// What was asked.
        stage: Stage,
    },
    /// Nothing listens there: the port was reported closed.
    #[error("get an answer to {stage}: connection refused")]
    Refused {
        /// What was asked.
        stage: Stage,
    },
    /// The BMC does not speak IPMI 2.0.
    #[error("find IPMI v2.0 / RMCP+ on the BMC")]
    Unsupported,
    /// The BMC can't have proved that it knows the password: RAKP message 2's code is wrong.
    #[error("authenticate RAKP message 2: the password differs from the BMC's")]
    WrongPassword,
    /// RAKP message 4's check value is wrong: the key K_G differs.
    #[error("authenticate RAKP message 4: the key K_G differs from the BMC's")]
    WrongKey,
    /// The BMC refuses the session.
    #[error("set up a session at {step}: {status}")]
    Setup {
        /// What was refused.
        step: Step,
        /// Why.
        status: Status,
    },
    /// The BMC refuses the command.
    #[error("carry out {stage}: {completion}")]
    Completion {
        /// Which command.
        stage: Stage,
        /// Why.
        completion: Completion,
    },
    /// The answer makes no sense.
    #[error("understand the answer to {stage}")]
    Malformed {
        /// What was asked.
        stage: Stage,
        /// What is wrong with it.
        source: DecodeError,
    },
}

impl ClientError {
    /// Whether nothing came at all.
    pub fn is_silence(&self) -> bool {
        match self {
            Self::NoAnswer { .. } | Self::Refused { .. } => true,
            Self::Resolve { .. }
            | Self::Socket { .. }
            | Self::Unsupported
            | Self::WrongPassword
            | Self::WrongKey
            | Self::Setup { .. }
            | Self::Completion { .. }
            | Self::Malformed { .. } => false,
        }
    }

    /// Whether the user or the password is not the BMC's.
    pub fn is_bad_credentials(&self) -> bool {
        match self {
            Self::WrongPassword | Self::WrongKey => true,
            Self::Setup { status, .. } => {
                matches!(status, Status::UnauthorizedName | Status::InvalidIntegrityCheck)
            }
            Self::Resolve { .. }
            | Self::Socket { .. }
            | Self::NoAnswer { .. }
            | Self::Refused { .. }
            | Self::Unsupported
            | Self::Completion { .. }
            | Self::Malformed { .. } => false,
        }
    }

    /// The status with which the BMC refuses the session, e.g. [`Status::NoCipherSuite`], by which a caller may try
    /// another suite, or [`Status::InsufficientResources`], when all sessions are taken.
    pub fn status(&self) -> Option<Status> {
        if let Self::Setup { status, .. } = self { Some(*status) } else { None }
    }
}
