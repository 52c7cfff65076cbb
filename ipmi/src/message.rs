//! The IPMI message: a command or its response, with addresses and checksums (13.8).

use crate::{Completion, DecodeError, read::Reader};

/// The BMC's address.
pub const BMC: u8 = 0x20;

/// The address of software on the other end of the LAN.
pub const REMOTE_CONSOLE: u8 = 0x81;

/// A network function, six bits: which family a command is of (5.1). Responses have the next, odd number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetFn(pub u8);

impl NetFn {
    /// Power and boot options.
    pub const CHASSIS: Self = Self(0x00);
    /// Sensors and events.
    pub const SENSOR: Self = Self(0x04);
    /// The BMC itself, sessions and users.
    pub const APP: Self = Self(0x06);
    /// SDR, SEL and FRU.
    pub const STORAGE: Self = Self(0x0a);
    /// LAN and serial settings.
    pub const TRANSPORT: Self = Self(0x0c);
    /// Other bodies' commands, named by the first byte of data.
    pub const GROUP_EXTENSION: Self = Self(0x2c);

    /// Whether it is a response's.
    pub fn is_response(self) -> bool {
        self.0 & 1 == 1
    }

    /// The response's for a request's.
    pub fn response(self) -> Self {
        Self(self.0 | 1)
    }
}

/// One message. A response's data begins with its [`Completion`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The receiver's address.
    pub to: u8,
    /// The receiver's logical unit.
    pub to_lun: u8,
    /// The family of the command.
    pub net_fn: NetFn,
    /// The sender's address.
    pub from: u8,
    /// The sender's logical unit.
    pub from_lun: u8,
    /// The requester's sequence number, six bits, which the response repeats.
    pub sequence: u8,
    /// The command.
    pub command: u8,
    /// What follows it.
    pub data: Vec<u8>,
}

impl Message {
    /// A remote console's request to a BMC.
    pub fn request(sequence: u8, net_fn: NetFn, command: u8, data: &[u8]) -> Self {
        Self {
            to: BMC,
            to_lun: 0,
            net_fn,
            from: REMOTE_CONSOLE,
            from_lun: 0,
            sequence: sequence & 0x3f,
            command,
            data: data.to_vec(),
        }
    }

    /// The response to this request.
    pub fn response(&self, completion: Completion, data: &[u8]) -> Self {
        Self {
            to: self.from,
            to_lun: self.from_lun,
            net_fn: self.net_fn.response(),
            from: self.to,
            from_lun: self.to_lun,
            sequence: self.sequence,
            command: self.command,
            data: [&[completion.0], data].concat(),
        }
    }

    /// Whether it is the response to `request`.
    pub fn answers(&self, request: &Self) -> bool {
        self.net_fn == request.net_fn.response()
            && self.command == request.command
            && self.sequence == request.sequence
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.to, self.net_fn.0 << 2 | self.to_lun & 3];
        bytes.push(checksum(&bytes));
        let second = bytes.len();
        bytes.extend([self.from, self.sequence << 2 | self.from_lun & 3, self.command]);
        bytes.extend_from_slice(&self.data);
        bytes.push(checksum(&bytes[second..]));
        bytes
    }

    /// Reads a message; it must fill `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let [to, family, first] = reader.array()?;
        let body = reader.rest();
        let [from, counted, command] = reader.array()?;
        let (_, data) = reader.rest().split_last().ok_or(DecodeError::Short)?;
        // A run of bytes that ends with its checksum sums to zero.
        if checksum(&[to, family, first]) != 0 || checksum(body) != 0 {
            return Err(DecodeError::Checksum);
        }
        Ok(Self {
            to,
            to_lun: family & 3,
            net_fn: NetFn(family >> 2),
            from,
            from_lun: counted & 3,
            sequence: counted >> 2,
            command,
            data: data.to_vec(),
        })
    }
}

/// The two's complement of the sum.
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}
