//! Datagrams: the RMCP header and what may follow it (13.1 to 13.6).

use crate::{DecodeError, packet::Packet, read::Reader};

const VERSION: u8 = 0x06;
/// No RMCP acknowledgement is wanted; IPMI never wants one (13.1.3).
const NO_ACKNOWLEDGEMENT: u8 = 0xff;
const CLASS_ASF: u8 = 0x06;
const CLASS_IPMI: u8 = 0x07;
/// The ASF's enterprise number (13.2.3).
const ASF: [u8; 4] = [0x00, 0x00, 0x11, 0xbe];
const PING: u8 = 0x80;
const PONG: u8 = 0x40;
/// The authentication types of a session header (13.6): none, and "the RMCP+ format".
const NO_AUTHENTICATION: u8 = 0x00;
const RMCP_PLUS: u8 = 0x06;

/// One UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// ASF presence ping: "is there anybody?" (13.2.3).
    Ping {
        /// Repeated in the pong.
        tag: u8,
    },
    /// ASF presence pong of a BMC that speaks IPMI (13.2.4).
    Pong {
        /// The ping's.
        tag: u8,
    },
    /// An IPMI message outside any session, in the form of IPMI 1.5, by which a client asks what a BMC can do.
    Sessionless(Vec<u8>),
    /// The form of IPMI 2.0.
    Session(Packet),
}

impl Datagram {
    /// The bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ping { tag } => asf(PING, *tag, &[]),
            Self::Pong { tag } => {
                // The enterprise of the OEM field (ASF's, for none), its data, "IPMI supported, ASF 1.0", no interactions.
                const IPMI: u8 = 0x81;
                asf(PONG, *tag, &[&ASF[..], &[0; 4], &[IPMI, 0], &[0; 6]].concat())
            }
            Self::Sessionless(message) => {
                // Authentication type, sequence number and session id are all null.
                let mut bytes = ipmi(&[NO_AUTHENTICATION, 0, 0, 0, 0, 0, 0, 0, 0]);
                let length =
                    u8::try_from(message.len()).expect("messages outside sessions are ours and short");
                bytes.push(length);
                bytes.extend_from_slice(message);
                bytes
            }
            Self::Session(packet) => ipmi(&packet.encode()),
        }
    }

    /// Reads a datagram.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let [version, _, _, class] = reader.array()?;
        match (version, class) {
            (VERSION, CLASS_ASF) => decode_asf(reader),
            (VERSION, CLASS_IPMI) => decode_ipmi(reader),
            _ => Err(DecodeError::Header),
        }
    }
}

fn ipmi(session: &[u8]) -> Vec<u8> {
    [&[VERSION, 0, NO_ACKNOWLEDGEMENT, CLASS_IPMI], session].concat()
}

fn asf(kind: u8, tag: u8, data: &[u8]) -> Vec<u8> {
    let length = u8::try_from(data.len()).expect("ASF messages are ours and short");
    [&[VERSION, 0, NO_ACKNOWLEDGEMENT, CLASS_ASF], &ASF[..], &[kind, tag, 0, length], data].concat()
}

fn decode_asf(mut reader: Reader<'_>) -> Result<Datagram, DecodeError> {
    if reader.array()? != ASF {
        return Err(DecodeError::Header);
    }
    let [kind, tag, _, length] = reader.array()?;
    reader.bytes(length.into())?;
    match kind {
        PING => Ok(Datagram::Ping { tag }),
        PONG => Ok(Datagram::Pong { tag }),
        other => Err(DecodeError::AsfType(other)),
    }
}

fn decode_ipmi(mut reader: Reader<'_>) -> Result<Datagram, DecodeError> {
    match reader.u8()? {
        RMCP_PLUS => Packet::decode(reader).map(Datagram::Session),
        NO_AUTHENTICATION => {
            let (_sequence, session) = (reader.u32()?, reader.u32()?);
            if session != 0 {
                return Err(DecodeError::AuthenticationType(NO_AUTHENTICATION));
            }
            let length = reader.u8()?;
            // Old clients pad some lengths, for the sake of old network chips (13.6, note 4 of Table 13-8).
            Ok(Datagram::Sessionless(reader.bytes(length.into())?.to_vec()))
        }
        other => Err(DecodeError::AuthenticationType(other)),
    }
}
