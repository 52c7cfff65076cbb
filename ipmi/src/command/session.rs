//! Commands about sessions, which a server answers by itself (22.13, 22.15, 22.18, 22.19).

use super::Command;
use crate::{CipherSuite, DecodeError, NetFn, Privilege, read::Reader};

/// The channel that a request comes in on.
pub(crate) const THIS_CHANNEL: u8 = 0x0e;

/// In Get Channel Authentication Capabilities: tell about IPMI 2.0 too; in its answer: it is told.
const EXTENDED: u8 = 0x80;

/// Get Channel Authentication Capabilities (22.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetAuthenticationCapabilities {
    /// Whether the answer may tell about IPMI 2.0.
    pub extended: bool,
    /// The privilege that is wanted.
    pub privilege: Privilege,
}

impl Command for GetAuthenticationCapabilities {
    const NET_FN: NetFn = NetFn::APP;
    const CODE: u8 = 0x38;
    type Answer = AuthenticationCapabilities;

    fn encode(&self) -> Vec<u8> {
        vec![if self.extended { EXTENDED } else { 0 } | THIS_CHANNEL, self.privilege.number()]
    }

    fn answer(data: &[u8]) -> Result<AuthenticationCapabilities, DecodeError> {
        let [channel, types, status, extended] = Reader::new(data).array()?;
        Ok(AuthenticationCapabilities {
            channel,
            rmcp_plus: types & EXTENDED != 0 && extended & AuthenticationCapabilities::RMCP_PLUS != 0,
            kg: status & AuthenticationCapabilities::KG != 0,
        })
    }
}

/// How a session may be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthenticationCapabilities {
    /// The channel's number.
    pub channel: u8,
    /// Whether the sessions of IPMI 2.0 are to be had.
    pub rmcp_plus: bool,
    /// Whether a key K_G is needed besides a password.
    pub kg: bool,
}

impl AuthenticationCapabilities {
    const RMCP_PLUS: u8 = 0x02;
    const KG: u8 = 0x20;
    /// There are users with names.
    const NAMED_USERS: u8 = 0x04;

    /// The answer's data.
    pub fn encode(&self) -> Vec<u8> {
        vec![
            self.channel,
            if self.rmcp_plus { EXTENDED } else { 0 },
            Self::NAMED_USERS | if self.kg { Self::KG } else { 0 },
            if self.rmcp_plus { Self::RMCP_PLUS } else { 0 },
            0,
            0,
            0,
            0,
        ]
    }
}

/// Get Channel Cipher Suites (22.15), one slice of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetCipherSuites {
    /// Which slice, from 0.
    pub slice: u8,
}

impl GetCipherSuites {
    /// List suites, not algorithms.
    const BY_SUITE: u8 = 0x80;
    const SLICE: usize = 16;

    /// Reads a request's data.
    pub(crate) fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        let [_channel, _payload, slice] = Reader::new(data).array()?;
        Ok(Self { slice: slice & 0x3f })
    }

    /// The answer's data: the channel, and the slice of all suites' records.
    pub(crate) fn encode_answer(self, channel: u8, suites: &[CipherSuite]) -> Vec<u8> {
        let records: Vec<u8> = suites.iter().flat_map(|suite| suite.record()).collect();
        let slice = records.chunks(Self::SLICE).nth(self.slice.into()).unwrap_or_default();
        [&[channel], slice].concat()
    }
}

impl Command for GetCipherSuites {
    const NET_FN: NetFn = NetFn::APP;
    const CODE: u8 = 0x54;
    type Answer = Vec<u8>;

    fn encode(&self) -> Vec<u8> {
        vec![THIS_CHANNEL, 0, Self::BY_SUITE | self.slice]
    }

    /// The slice. A shorter one than 16 bytes is the last.
    fn answer(data: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut reader = Reader::new(data);
        reader.u8()?;
        Ok(reader.rest().to_vec())
    }
}

/// Set Session Privilege Level (22.18); the answer is the level that is then in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPrivilege(pub Privilege);

impl Command for SetPrivilege {
    const NET_FN: NetFn = NetFn::APP;
    const CODE: u8 = 0x3b;
    type Answer = Option<Privilege>;

    fn encode(&self) -> Vec<u8> {
        vec![self.0.number()]
    }

    fn answer(data: &[u8]) -> Result<Option<Privilege>, DecodeError> {
        Privilege::from_number(Reader::new(data).u8()?)
    }
}

/// Close Session (22.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseSession {
    /// The BMC's id of the session.
    pub session: u32,
}

impl CloseSession {
    /// Reads a request's data.
    pub(crate) fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { session: Reader::new(data).u32()? })
    }
}

impl Command for CloseSession {
    const NET_FN: NetFn = NetFn::APP;
    const CODE: u8 = 0x3c;
    type Answer = ();

    fn encode(&self) -> Vec<u8> {
        self.session.to_le_bytes().to_vec()
    }

    fn answer(_: &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }
}
