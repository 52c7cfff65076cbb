//! Reading bytes that nobody vouches for.

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("read past the end")]
    Short,
    /// A length field contradicts what is there.
    #[error("fit {stated} stated bytes into {present}")]
    Length {
        /// What the field says.
        stated: usize,
        /// What is there.
        present: usize,
    },
    /// The RMCP version, sequence number or message class is not one of ours.
    #[error("understand the RMCP header")]
    Header,
    /// An ASF message other than a presence ping or pong.
    #[error("understand ASF message type {0:#04x}")]
    AsfType(u8),
    /// A session of IPMI 1.5, of which only the session-less form is understood.
    #[error("understand IPMI 1.5 authentication type {0:#04x}")]
    AuthenticationType(u8),
    /// A payload type of Table 13-16 that is not supported.
    #[error("understand payload type {0:#04x}")]
    PayloadType(u8),
    /// A checksum of an IPMI message is wrong.
    #[error("match the checksum")]
    Checksum,
    /// A field has a value that the specification reserves.
    #[error("understand the {field} {value:#04x}")]
    Value {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u8,
    },
}

/// A cursor over bytes; each read may find too few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Short)?;
        self.0 = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let error = DecodeError::Length { stated: count, present: self.0.len() };
        let (head, tail) = self.0.split_at_checked(count).ok_or(error)?;
        self.0 = tail;
        Ok(head)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
