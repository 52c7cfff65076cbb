//! Which version of Ironic's API to speak.
//!
//! Ironic offers a range of microversions; a client names one in each request and gets exactly its behaviour. The
//! operator knows a few that each brought something it uses, and takes the newest of those.

use std::{fmt, str::FromStr};

use serde::Deserialize;

/// A version `1.N` of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Microversion(u16);

impl Microversion {
    /// The oldest that the operator can work with: it attaches virtual media.
    pub const OLDEST: Self = Self(89);
    /// Tells which virtual media are attached.
    pub const VIRTUAL_MEDIA_LIST: Self = Self(93);
    /// Has nodes that are never switched off.
    pub const DISABLE_POWER_OFF: Self = Self(95);
    /// Tells a node's health.
    pub const HEALTH: Self = Self(109);
    /// Aborts a deployment that waits for its agent.
    pub const ABORT_DEPLOY: Self = Self(110);

    /// Those that the operator knows, newest first.
    const KNOWN: [Self; 5] =
        [Self::ABORT_DEPLOY, Self::HEALTH, Self::DISABLE_POWER_OFF, Self::VIRTUAL_MEDIA_LIST, Self::OLDEST];

    /// The version to speak with an Ironic whose newest is this one; `None` if it is too old.
    pub(super) fn best_known(self) -> Option<Self> {
        Self::KNOWN.into_iter().find(|known| *known <= self)
    }
}

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// What was found in place of a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownVersion {
    /// It is not of the form `1.N`.
    #[error("read {0:?} as a version 1.N")]
    Text(String),
    /// There was more or less than one API.
    #[error("choose among {0} APIs: exactly one was expected")]
    Choices(usize),
}

impl FromStr for Microversion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
        minor.map(Self).ok_or_else(|| UnknownVersion::Text(text.to_owned()))
    }
}

/// What the root of an API tells about its versions: Ironic's has a list of APIs, that of its v1 has one.
#[derive(Debug, Deserialize)]
pub(super) struct Discovery {
    version: Option<Api>,
    #[serde(default)]
    versions: Vec<Api>,
}

#[derive(Debug, Deserialize)]
struct Api {
    /// The newest version.
    #[serde(default)]
    version: String,
}

impl Discovery {
    /// The newest version on offer.
    pub(super) fn newest(&self) -> Result<Microversion, UnknownVersion> {
        match (&self.version, &self.versions[..]) {
            (Some(api), _) | (None, [api]) => api.version.parse(),
            (None, several) => Err(UnknownVersion::Choices(several.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_known_version_is_spoken() {
        // newest on offer   spoken
        let cases = [
            ("1.88", None),
            ("1.89", Some("1.89")),
            ("1.92", Some("1.89")),
            ("1.94", Some("1.93")),
            ("1.95", Some("1.95")),
            ("1.108", Some("1.95")),
            ("1.109", Some("1.109")),
            ("1.115", Some("1.110")),
        ];
        for (newest, spoken) in cases {
            let newest: Microversion = newest.parse().expect("a version");
            assert_eq!(newest.best_known().map(|v| v.to_string()).as_deref(), spoken, "{newest}");
        }
    }

    #[test]
    fn versions_are_found_at_either_root() {
        // body                                                                            newest
        let cases = [
            (
                json!({"id": "v1", "version": {"id": "v1", "min_version": "1.1", "version": "1.95"}}),
                Ok(Microversion(95)),
            ),
            (
                json!({"versions": [{"id": "v1", "status": "CURRENT", "version": "1.110"}]}),
                Ok(Microversion(110)),
            ),
            (json!({"versions": []}), Err(UnknownVersion::Choices(0))),
            (json!({"versions": [{"version": "1.1"}, {"version": "2.1"}]}), Err(UnknownVersion::Choices(2))),
            (json!({"version": {"id": "v1"}}), Err(UnknownVersion::Text(String::new()))),
            (json!({"version": {"version": "2.0"}}), Err(UnknownVersion::Text("2.0".to_owned()))),
            (
                json!({"version": {"version": "1.99999999"}}),
                Err(UnknownVersion::Text("1.99999999".to_owned())),
            ),
        ];
        for (body, newest) in cases {
            let discovery: Discovery = serde_json::from_value(body.clone()).expect("it has the right shape");
            assert_eq!(discovery.newest(), newest, "{body}");
        }
    }
}
