//! A network interface's hardware address.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A 48-bit MAC address. Read with colons or dashes, in either case; written in lower case with colons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// The address of six octets.
    pub const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// The six octets.
    pub fn octets(self) -> [u8; 6] {
        self.0
    }

    /// As a PXE client writes it in file names: lower case, with dashes.
    pub fn dashed(self) -> String {
        self.joined("-")
    }

    fn joined(self, separator: &str) -> String {
        self.0.map(|octet| format!("{octet:02x}")).join(separator)
    }
}

/// The text is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read {text:?} as a MAC address: six octets in hexadecimal are wanted, such as 52:54:00:00:00:01")]
pub struct BadMac {
    /// What was found.
    pub text: String,
}

impl FromStr for MacAddress {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<Self, BadMac> {
        let bad = || BadMac { text: text.to_owned() };
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            let part =
                parts.next().filter(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
            *octet = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or_else(bad)?;
        }
        if parts.next().is_some() {
            return Err(bad());
        }
        Ok(Self(octets))
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.joined(":"))
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for MacAddress {
    type Error = BadMac;

    fn try_from(text: String) -> Result<Self, BadMac> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(mac: MacAddress) -> Self {
        mac.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notations_are_read_and_one_is_written() {
        for text in ["52:54:00:aB:0c:01", "52-54-00-AB-0C-01"] {
            let mac: MacAddress = text.parse().unwrap();
            assert_eq!(mac.to_string(), "52:54:00:ab:0c:01");
            assert_eq!(mac.dashed(), "52-54-00-ab-0c-01");
        }
        for text in [
            "",
            "52:54:00:ab:0c",
            "52:54:00:ab:0c:01:02",
            "52:54:00:ab:0c:0g",
            "52:54:00:ab:0c:+1",
            "ü2:54:00:ab:0c:1",
        ] {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
    }
}
