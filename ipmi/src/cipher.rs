//! Cipher suites and their algorithms (13.28, 22.15.2).

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::Sha256;

use crate::setup::Proposal;

/// A cipher suite by its number. Later work may add 6 to 8 and 11 to 12 (MD5); the RC4 ones are of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CipherSuite {
    /// No authentication at all: every password is right.
    C0,
    /// RAKP-HMAC-SHA1 for the log-in alone.
    C1,
    /// SHA1, packets authenticated but readable.
    C2,
    /// SHA1 and AES, what all IPMI 2.0 BMCs must have.
    C3,
    /// RAKP-HMAC-SHA256 for the log-in alone.
    C15,
    /// SHA256, packets authenticated but readable.
    C16,
    /// SHA256 and AES, what newer clients try first.
    C17,
}

impl CipherSuite {
    /// All of them, weakest first.
    pub const ALL: [Self; 7] = [Self::C0, Self::C1, Self::C2, Self::C3, Self::C15, Self::C16, Self::C17];

    /// The suite's number, as in `ipmitool -C`.
    pub fn number(self) -> u8 {
        match self {
            Self::C0 => 0,
            Self::C1 => 1,
            Self::C2 => 2,
            Self::C3 => 3,
            Self::C15 => 15,
            Self::C16 => 16,
            Self::C17 => 17,
        }
    }

    /// The suite with a number, if it is supported.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.number() == number)
    }

    /// How the RAKP messages are authenticated.
    pub fn authentication(self) -> Authentication {
        match self {
            Self::C0 => Authentication::None,
            Self::C1 | Self::C2 | Self::C3 => Authentication::HmacSha1,
            Self::C15 | Self::C16 | Self::C17 => Authentication::HmacSha256,
        }
    }

    /// How a session's packets are authenticated.
    pub fn integrity(self) -> Integrity {
        match self {
            Self::C0 | Self::C1 | Self::C15 => Integrity::None,
            Self::C2 | Self::C3 => Integrity::HmacSha1_96,
            Self::C16 | Self::C17 => Integrity::HmacSha256_128,
        }
    }

    /// How a session's packets are encrypted.
    pub fn confidentiality(self) -> Confidentiality {
        match self {
            Self::C0 | Self::C1 | Self::C2 | Self::C15 | Self::C16 => Confidentiality::None,
            Self::C3 | Self::C17 => Confidentiality::AesCbc128,
        }
    }

    /// The suite's algorithms as an Open Session message proposes them.
    pub fn proposal(self) -> Proposal {
        Proposal {
            authentication: Some(self.authentication().number()),
            integrity: Some(self.integrity().number()),
            confidentiality: Some(self.confidentiality().number()),
        }
    }

    /// The suite's record in Get Channel Cipher Suites (22.15.1).
    pub fn record(self) -> [u8; 5] {
        const START: u8 = 0xc0;
        const INTEGRITY: u8 = 0x40;
        const CONFIDENTIALITY: u8 = 0x80;
        [
            START,
            self.number(),
            self.authentication().number(),
            INTEGRITY | self.integrity().number(),
            CONFIDENTIALITY | self.confidentiality().number(),
        ]
    }
}

/// An authentication algorithm (Table 13-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// RAKP-none.
    None,
    /// RAKP-HMAC-SHA1.
    HmacSha1,
    /// RAKP-HMAC-SHA256.
    HmacSha256,
}

impl Authentication {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::HmacSha1 => 1,
            Self::HmacSha256 => 3,
        }
    }

    /// The keyed hash of the concatenated parts; empty without an algorithm.
    pub(crate) fn hash(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::HmacSha1 => hmac_sha1(key, parts),
            Self::HmacSha256 => hmac_sha256(key, parts),
        }
    }

    /// How many bytes of the hash are RAKP message 4's check value (13.28.1, 13.28.1b).
    pub(crate) fn check_length(self) -> usize {
        match self {
            Self::None => 0,
            Self::HmacSha1 => 12,
            Self::HmacSha256 => 16,
        }
    }
}

/// An integrity algorithm (Table 13-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// Packets are not authenticated.
    None,
    /// HMAC-SHA1-96.
    HmacSha1_96,
    /// HMAC-SHA256-128.
    HmacSha256_128,
}

impl Integrity {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::HmacSha1_96 => 1,
            Self::HmacSha256_128 => 4,
        }
    }

    /// The length of the authentication code in bytes.
    pub(crate) fn length(self) -> usize {
        match self {
            Self::None => 0,
            Self::HmacSha1_96 => 12,
            Self::HmacSha256_128 => 16,
        }
    }

    pub(crate) fn code(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        let mut code = match self {
            Self::None => Vec::new(),
            Self::HmacSha1_96 => hmac_sha1(key, &[bytes]),
            Self::HmacSha256_128 => hmac_sha256(key, &[bytes]),
        };
        code.truncate(self.length());
        code
    }
}

/// A confidentiality algorithm (Table 13-19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidentiality {
    /// Payloads are readable.
    None,
    /// AES-CBC-128.
    AesCbc128,
}

impl Confidentiality {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::AesCbc128 => 1,
        }
    }
}

/// Whether two codes are equal, in a time that does not tell where they differ.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

fn hmac_sha1(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha1>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}
