//! Chance, in streams that do not disturb each other.
//!
//! A stream is keyed by (seed, host, purpose): a new host, or a further draw for one purpose, changes nothing that
//! another stream draws, so recorded seeds survive refactoring.

use std::{fmt, num::ParseIntError, str::FromStr};

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A stream of chance; use the methods of [`rand::Rng`] and [`rand::RngExt`] on it.
pub type Dice = ChaCha8Rng;

/// The number that repeats a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream for one purpose of one host. The same arguments always give the same stream.
    pub fn stream(self, host: &str, purpose: &str) -> Dice {
        let mut key = Sha256::new();
        key.update(self.0.to_le_bytes());
        for part in [host, purpose] {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part.as_bytes());
        }
        Dice::from_seed(key.finalize().into())
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Seed {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng as _;

    use super::*;

    #[test]
    fn a_stream_depends_on_seed_host_and_purpose_alone() {
        let draw = |seed, host, purpose| Seed(seed).stream(host, purpose).next_u64();
        assert_eq!(draw(1, "bmc-0", "boot"), draw(1, "bmc-0", "boot"));
        assert_ne!(draw(1, "bmc-0", "boot"), draw(2, "bmc-0", "boot"));
        assert_ne!(draw(1, "bmc-0", "boot"), draw(1, "bmc-1", "boot"));
        assert_ne!(draw(1, "bmc-0", "boot"), draw(1, "bmc-0", "power"));
        assert_ne!(draw(1, "bmc-0b", "oot"), draw(1, "bmc-0", "boot"));
    }
}
