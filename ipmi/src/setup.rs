//! Session set-up: Open Session and the four RAKP messages (13.17 to 13.23).

use crate::{CipherSuite, DecodeError, Status, credentials::LONGEST_NAME, read::Reader};

/// A step of session set-up: what the console sends, and the BMC answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open Session.
    Open,
    /// RAKP message 1, answered by 2.
    Rakp1,
    /// RAKP message 3, answered by 4.
    Rakp3,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open => "Open Session",
            Self::Rakp1 => "RAKP message 1",
            Self::Rakp3 => "RAKP message 3",
        })
    }
}

/// The algorithms of a session, by number; `None` leaves the choice to the BMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Table 13-17.
    pub authentication: Option<u8>,
    /// Table 13-18.
    pub integrity: Option<u8>,
    /// Table 13-19.
    pub confidentiality: Option<u8>,
}

impl Proposal {
    /// Whether a suite is as proposed.
    pub fn admits(self, suite: CipherSuite) -> bool {
        let exact = suite.proposal();
        let fits = |wish: Option<u8>, is: Option<u8>| wish.is_none() || wish == is;
        fits(self.authentication, exact.authentication)
            && fits(self.integrity, exact.integrity)
            && fits(self.confidentiality, exact.confidentiality)
    }

    fn encode(self) -> Vec<u8> {
        let record = |kind, algorithm: Option<u8>| {
            let length = if algorithm.is_some() { 8 } else { 0 };
            [kind, 0, 0, length, algorithm.unwrap_or(0), 0, 0, 0]
        };
        [record(0, self.authentication), record(1, self.integrity), record(2, self.confidentiality)].concat()
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut record = |kind| {
            let [found, _, _, length, algorithm, _, _, _] = reader.array()?;
            if found != kind {
                return Err(DecodeError::Value { field: "kind of algorithm", value: found });
            }
            match length {
                0 => Ok(None),
                8 => Ok(Some(algorithm & 0x3f)),
                value => Err(DecodeError::Value { field: "length of the algorithm record", value }),
            }
        };
        Ok(Self { authentication: record(0)?, integrity: record(1)?, confidentiality: record(2)? })
    }
}

/// Open Session request (13.17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// Pairs a response with its request.
    pub tag: u8,
    /// The highest privilege the session may reach; 0 for the highest that the algorithms allow.
    pub privilege: u8,
    /// The console's id of the session.
    pub console: u32,
    /// The algorithms.
    pub proposal: Proposal,
}

impl OpenRequest {
    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        [&[self.tag, self.privilege, 0, 0], &self.console.to_le_bytes()[..], &self.proposal.encode()].concat()
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let [tag, privilege, _, _] = reader.array()?;
        Ok(Self { tag, privilege, console: reader.u32()?, proposal: Proposal::decode(&mut reader)? })
    }
}

/// What a message from the BMC says after its tag and the console's id: what comes of it, or why nothing does.
pub type Outcome<T> = Result<T, Status>;

/// Open Session response (13.18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenResponse {
    /// The request's.
    pub tag: u8,
    /// The console's id of the session.
    pub console: u32,
    /// The session that was opened.
    pub outcome: Outcome<Opened>,
}

/// A session that is being set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The highest privilege the session may reach.
    pub privilege: u8,
    /// The BMC's id of the session.
    pub bmc: u32,
    /// The chosen algorithms.
    pub proposal: Proposal,
}

impl OpenResponse {
    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        match &self.outcome {
            Ok(opened) => [
                &[self.tag, 0, opened.privilege, 0],
                &self.console.to_le_bytes()[..],
                &opened.bmc.to_le_bytes(),
                &opened.proposal.encode(),
            ]
            .concat(),
            Err(status) => refusal(self.tag, *status, self.console),
        }
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let [tag, status, privilege, _] = reader.array()?;
        let console = reader.u32()?;
        let outcome = match Status::from_code(status) {
            Some(status) => Err(status),
            None => Ok(Opened { privilege, bmc: reader.u32()?, proposal: Proposal::decode(&mut reader)? }),
        };
        Ok(Self { tag, console, outcome })
    }
}

/// RAKP message 1 (13.20): the console's random number and who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rakp1 {
    /// Pairs a response with its request.
    pub tag: u8,
    /// The BMC's id of the session.
    pub bmc: u32,
    /// The console's random number.
    pub random: [u8; 16],
    /// The wanted privilege in the low four bits; [`NAME_ONLY`].
    pub role: u8,
    /// The user's name, at most 16 bytes.
    pub user: Vec<u8>,
}

/// In RAKP message 1's role: the user is found by name alone, not by name and privilege.
pub const NAME_ONLY: u8 = 0x10;

impl Rakp1 {
    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let length = u8::try_from(self.user.len()).expect("a user name has at most 16 bytes");
        [
            &[self.tag, 0, 0, 0],
            &self.bmc.to_le_bytes()[..],
            &self.random,
            &[self.role, 0, 0, length],
            &self.user,
        ]
        .concat()
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let [tag, _, _, _] = reader.array()?;
        let (bmc, random) = (reader.u32()?, reader.array()?);
        let [role, _, _, length] = reader.array()?;
        if usize::from(length) > LONGEST_NAME {
            return Err(DecodeError::Value { field: "length of the user name", value: length });
        }
        Ok(Self { tag, bmc, random, role, user: reader.bytes(length.into())?.to_vec() })
    }
}

/// RAKP message 2 (13.21): the BMC's random number, and proof that it knows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rakp2 {
    /// The request's.
    pub tag: u8,
    /// The console's id of the session.
    pub console: u32,
    /// The challenge.
    pub outcome: Outcome<Challenge>,
}

/// What the BMC answers to a user it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The BMC's random number.
    pub random: [u8; 16],
    /// The machine's id.
    pub guid: [u8; 16],
    /// The key exchange authentication code.
    pub code: Vec<u8>,
}

impl Rakp2 {
    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        match &self.outcome {
            Ok(challenge) => [
                &[self.tag, 0, 0, 0],
                &self.console.to_le_bytes()[..],
                &challenge.random,
                &challenge.guid,
                &challenge.code,
            ]
            .concat(),
            Err(status) => refusal(self.tag, *status, self.console),
        }
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let [tag, status, _, _] = reader.array()?;
        let console = reader.u32()?;
        let outcome = match Status::from_code(status) {
            Some(status) => Err(status),
            None => {
                Ok(Challenge { random: reader.array()?, guid: reader.array()?, code: reader.rest().to_vec() })
            }
        };
        Ok(Self { tag, console, outcome })
    }
}

/// RAKP message 3 (13.22): the console's proof that it knows the password, or why it gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rakp3 {
    /// Pairs a response with its request.
    pub tag: u8,
    /// The BMC's id of the session.
    pub bmc: u32,
    /// The key exchange authentication code.
    pub outcome: Outcome<Vec<u8>>,
}

impl Rakp3 {
    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        match &self.outcome {
            Ok(code) => [&[self.tag, 0, 0, 0], &self.bmc.to_le_bytes()[..], code].concat(),
            Err(status) => refusal(self.tag, *status, self.bmc),
        }
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let (tag, bmc, outcome) = decode_code(payload)?;
        Ok(Self { tag, bmc, outcome })
    }
}

/// RAKP message 4 (13.23): the session is active, and the BMC knows the session's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rakp4 {
    /// The request's.
    pub tag: u8,
    /// The console's id of the session.
    pub console: u32,
    /// The integrity check value.
    pub outcome: Outcome<Vec<u8>>,
}

impl Rakp4 {
    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        match &self.outcome {
            Ok(code) => [&[self.tag, 0, 0, 0], &self.console.to_le_bytes()[..], code].concat(),
            Err(status) => refusal(self.tag, *status, self.console),
        }
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let (tag, console, outcome) = decode_code(payload)?;
        Ok(Self { tag, console, outcome })
    }
}

fn decode_code(payload: &[u8]) -> Result<(u8, u32, Outcome<Vec<u8>>), DecodeError> {
    let mut reader = Reader::new(payload);
    let [tag, status, _, _] = reader.array()?;
    let session = reader.u32()?;
    let outcome = match Status::from_code(status) {
        Some(status) => Err(status),
        None => Ok(reader.rest().to_vec()),
    };
    Ok((tag, session, outcome))
}

/// A message with a status other than success ends after the receiver's session id.
fn refusal(tag: u8, status: Status, session: u32) -> Vec<u8> {
    [&[tag, status.code(), 0, 0], &session.to_le_bytes()[..]].concat()
}
