//! Bugs of the past that can be brought back, all off by default.
//!
//! A scenario that replays a bug report must fail with its regression on and pass with it off: that shows that the
//! scenario can catch the bug. Each regression is one branch at the decision that was wrong.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// One bug of the past.
    pub enum Regression {
        /// Credentials that once failed to register a host are never tried again, though the BMC was at fault and not
        /// they (metal3-io/baremetal-operator 708; wrong from 2020-10-27 to 2020-12-03).
        Metal3708 => "metal3-708",
        /// A retried registration reports the node's old error again and never asks Ironic to try again
        /// (metal3-io/baremetal-operator 739; wrong until 2021-01-13).
        Metal3739 => "metal3-739",
        /// Any error of a provisioned host counts as the user's wish to deprovision it (Red Hat bugzilla 1972430,
        /// metal3-io/baremetal-operator 915; wrong until 2021-06-15).
        Rhbz1972430 => "rhbz-1972430",
    }
}

impl Regression {
    /// What goes wrong while it is on, in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Metal3708 => {
                "credentials that once failed are never tried again, though the BMC was at fault"
            }
            Self::Metal3739 => "a retried registration reports the old error again and never reaches the BMC",
            Self::Rhbz1972430 => "a provisioned host with an error is deprovisioned and wiped",
        }
    }
}

/// A set of regressions; written as a list of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Regressions(BTreeSet<Regression>);

impl Regressions {
    /// Whether a bug is brought back.
    pub fn has(&self, regression: Regression) -> bool {
        self.0.contains(&regression)
    }

    /// Brings one more bug back.
    pub fn insert(&mut self, regression: Regression) {
        self.0.insert(regression);
    }

    /// The bugs that are brought back, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = Regression> {
        self.0.iter().copied()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Regression> for Regressions {
    fn from_iter<T: IntoIterator<Item = Regression>>(regressions: T) -> Self {
        Self(regressions.into_iter().collect())
    }
}

impl fmt::Display for Regressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, regression) in self.iter().enumerate() {
            write!(f, "{}{regression}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Regressions {
    type Err = crate::UnknownWord;

    /// Reads names separated by commas; an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_reads_what_it_writes() {
        let all: Regressions = Regression::ALL.iter().copied().collect();
        assert_eq!(all.to_string(), "metal3-708,metal3-739,rhbz-1972430");
        assert_eq!(all.to_string().parse(), Ok(all));
        assert_eq!("".parse(), Ok(Regressions::default()));
        let unknown = "metal3-1".parse::<Regressions>().expect_err("there is no such bug");
        assert!(unknown.known.contains("metal3-739"), "{unknown}");
    }
}
