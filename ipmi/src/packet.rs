//! The RMCP+ session header and trailer (13.6, Table 13-8).

use crate::{DecodeError, read::Reader};

const FORMAT: u8 = 0x06;
const ENCRYPTED: u8 = 0x80;
const AUTHENTICATED: u8 = 0x40;

/// What a packet carries (Table 13-16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadType {
    /// An IPMI message.
    Ipmi,
    /// Serial over LAN.
    Sol,
    /// Open Session request.
    OpenRequest,
    /// Open Session response.
    OpenResponse,
    /// RAKP message 1, from the console.
    Rakp1,
    /// RAKP message 2, from the BMC.
    Rakp2,
    /// RAKP message 3, from the console.
    Rakp3,
    /// RAKP message 4, from the BMC.
    Rakp4,
}

impl PayloadType {
    fn number(self) -> u8 {
        match self {
            Self::Ipmi => 0x00,
            Self::Sol => 0x01,
            Self::OpenRequest => 0x10,
            Self::OpenResponse => 0x11,
            Self::Rakp1 => 0x12,
            Self::Rakp2 => 0x13,
            Self::Rakp3 => 0x14,
            Self::Rakp4 => 0x15,
        }
    }

    fn from_number(number: u8) -> Result<Self, DecodeError> {
        match number {
            0x00 => Ok(Self::Ipmi),
            0x01 => Ok(Self::Sol),
            0x10 => Ok(Self::OpenRequest),
            0x11 => Ok(Self::OpenResponse),
            0x12 => Ok(Self::Rakp1),
            0x13 => Ok(Self::Rakp2),
            0x14 => Ok(Self::Rakp3),
            0x15 => Ok(Self::Rakp4),
            other => Err(DecodeError::PayloadType(other)),
        }
    }
}

/// One packet of the RMCP+ form, still protected. [`crate::keys::Keys`] make and open protected ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it carries.
    pub kind: PayloadType,
    /// Whether the payload is encrypted.
    pub encrypted: bool,
    /// The receiver's id of the session; 0 outside any.
    pub session: u32,
    /// The sender's count of packets of this session; 0 outside any.
    pub sequence: u32,
    /// What is carried, encrypted or not.
    pub payload: Vec<u8>,
    /// Padding, its length, next header and authentication code, if the packet is authenticated. Whoever knows the
    /// session's algorithms can tell them apart.
    pub trailer: Option<Vec<u8>>,
}

impl Packet {
    /// A packet outside any session.
    pub fn plain(kind: PayloadType, payload: Vec<u8>) -> Self {
        Self { kind, encrypted: false, session: 0, sequence: 0, payload, trailer: None }
    }

    /// From the authentication type to the payload.
    pub(crate) fn encode_head(&self) -> Vec<u8> {
        let flags = (if self.encrypted { ENCRYPTED } else { 0 })
            | (if self.trailer.is_some() { AUTHENTICATED } else { 0 });
        let length = u16::try_from(self.payload.len()).expect("payloads fit into datagrams");
        let mut bytes = vec![FORMAT, flags | self.kind.number()];
        bytes.extend(self.session.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encode_head();
        bytes.extend_from_slice(self.trailer.as_deref().unwrap_or_default());
        bytes
    }

    /// Reads what follows the authentication type.
    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let flags = reader.u8()?;
        let kind = PayloadType::from_number(flags & !(ENCRYPTED | AUTHENTICATED))?;
        let (session, sequence) = (reader.u32()?, reader.u32()?);
        let length = reader.u16()?;
        let payload = reader.bytes(length.into())?.to_vec();
        let trailer = (flags & AUTHENTICATED != 0).then(|| reader.rest().to_vec());
        Ok(Self { kind, encrypted: flags & ENCRYPTED != 0, session, sequence, payload, trailer })
    }
}
