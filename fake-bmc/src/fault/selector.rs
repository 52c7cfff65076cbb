//! Which requests a fault strikes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What a request is about, whichever protocol it comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Opening a session.
    Login,
    /// Reading the system: power state and boot settings by Redfish, chassis status by IPMI.
    PowerStatus,
    /// Any power command.
    Reset,
    /// Powering on.
    PowerOn,
    /// Cutting the power.
    PowerOff,
    /// Asking what runs to shut down.
    SoftOff,
    /// Resetting a running machine, hard or softly, or cycling its power.
    Restart,
    /// Changing the boot settings.
    SetBoot,
    /// Inserting virtual media.
    InsertMedia,
    /// Ejecting virtual media.
    EjectMedia,
}

impl Operation {
    /// Each operation with the name that it has in data.
    pub const NAMES: [(Self, &'static str); 10] = [
        (Self::Login, "login"),
        (Self::PowerStatus, "power-status"),
        (Self::Reset, "reset"),
        (Self::PowerOn, "power-on"),
        (Self::PowerOff, "power-off"),
        (Self::SoftOff, "soft-off"),
        (Self::Restart, "restart"),
        (Self::SetBoot, "set-boot"),
        (Self::InsertMedia, "insert-media"),
        (Self::EjectMedia, "eject-media"),
    ];

    /// Its name in data.
    pub fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::PowerStatus => "power-status",
            Self::Reset => "reset",
            Self::PowerOn => "power-on",
            Self::PowerOff => "power-off",
            Self::SoftOff => "soft-off",
            Self::Restart => "restart",
            Self::SetBoot => "set-boot",
            Self::InsertMedia => "insert-media",
            Self::EjectMedia => "eject-media",
        }
    }
}

/// A pattern of requests: `*`, an [`Operation`]'s name, or a Redfish method and path with `*` for any characters, such
/// as `GET /redfish/v1/Systems/*` or `* /redfish/v1/Managers*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pattern {
    /// Every request.
    #[default]
    Any,
    /// Requests about one thing.
    Operation(Operation),
    /// Redfish requests by method and path.
    Http {
        /// The method; `None` is any.
        method: Option<String>,
        /// The path, with `*` for any characters.
        path: String,
    },
}

/// The text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "read {text:?} as a pattern of requests: `*`, a method and a path (`GET /redfish/v1/Systems/*`), or one of {} is wanted",
    Operation::NAMES.map(|(_, name)| name).join(", ")
)]
pub struct BadPattern {
    /// What was found.
    pub text: String,
}

impl FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let bad = || BadPattern { text: text.to_owned() };
        if text == "*" {
            return Ok(Self::Any);
        }
        match text.split_once(' ') {
            Some((method, path)) => {
                let named = method.bytes().all(|b| b.is_ascii_uppercase()) && !method.is_empty();
                if !(named || method == "*") || !path.starts_with(['/', '*']) || path.contains(' ') {
                    return Err(bad());
                }
                Ok(Self::Http { method: named.then(|| method.to_owned()), path: path.to_owned() })
            }
            None => {
                let known = Operation::NAMES.into_iter().find(|(_, name)| *name == text);
                known.map(|(operation, _)| Self::Operation(operation)).ok_or_else(bad)
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Operation(operation) => f.write_str(operation.name()),
            Self::Http { method, path } => write!(f, "{} {path}", method.as_deref().unwrap_or("*")),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = BadPattern;

    fn try_from(text: String) -> Result<Self, BadPattern> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

/// Which requests a fault strikes: those that match a pattern, from the nth on, so many of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Selector {
    /// Which requests match.
    pub request: Pattern,
    /// The first match that is struck, counted from 1 since the fault began.
    pub nth: u64,
    /// How many are struck; `None` for all that follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Default for Selector {
    fn default() -> Self {
        Self { request: Pattern::Any, nth: 1, count: None }
    }
}

impl Selector {
    /// All requests about one thing.
    pub fn of(operation: Operation) -> Self {
        Self { request: Pattern::Operation(operation), ..Self::default() }
    }

    /// Whether the `ordinal`th match (from 1) is struck.
    pub(super) fn strikes(&self, ordinal: u64) -> bool {
        let after = ordinal.checked_sub(self.nth.max(1));
        after.is_some_and(|after| self.count.is_none_or(|count| after < count))
    }
}

/// A request, as far as selectors look at it.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'a> {
    /// What it is about; a power command is both a `reset` and what it does.
    pub(crate) operations: Vec<Operation>,
    /// Its method and path, if it came by Redfish.
    pub(crate) http: Option<(&'a str, &'a str)>,
}

impl Seen<'_> {
    pub(crate) fn of(operations: impl Into<Vec<Operation>>) -> Self {
        Self { operations: operations.into(), http: None }
    }

    pub(super) fn matches(&self, pattern: &Pattern) -> bool {
        match pattern {
            Pattern::Any => true,
            Pattern::Operation(operation) => self.operations.contains(operation),
            Pattern::Http { method, path } => self.http.is_some_and(|(has_method, has_path)| {
                method.as_deref().is_none_or(|method| method == has_method) && glob(path, has_path)
            }),
        }
    }
}

/// Whether `text` is like `pattern`, in which `*` stands for any characters. Takes time in the product of the lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            match rest.find(middle) {
                Some(at) => rest = &rest[at + middle.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_and_written_alike() {
        for text in ["*", "power-status", "GET /redfish/v1/Systems/*", "* /redfish/*"] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
        for (operation, name) in Operation::NAMES {
            assert_eq!(operation.name(), name);
            assert_eq!(name.parse::<Pattern>().unwrap(), Pattern::Operation(operation));
        }
        for text in ["", "powerstatus", "get /x", "GET x", "GET /a b", " /x"] {
            assert!(text.parse::<Pattern>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn stars_stand_for_any_characters() {
        let cases = [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a*", "/ab/c", true),
            ("/a*c", "/abc/c", true),
            ("/a*c", "/ab", false),
            ("/a*b*c", "/a-b-b-c", true),
            ("/a*bb*b", "/abb", false),
            ("*", "", true),
            ("/ab*ba", "/aba", false),
        ];
        for (pattern, text, like) in cases {
            assert_eq!(glob(pattern, text), like, "{pattern} {text}");
        }
    }

    #[test]
    fn the_nth_match_and_a_count() {
        let struck = |nth, count| -> Vec<u64> {
            let selector = Selector { request: Pattern::Any, nth, count };
            (1..=6).filter(|ordinal| selector.strikes(*ordinal)).collect()
        };
        assert_eq!(struck(1, None), [1, 2, 3, 4, 5, 6]);
        assert_eq!(struck(3, Some(2)), [3, 4]);
        assert_eq!(struck(0, Some(1)), [1]);
        assert_eq!(struck(1, Some(0)), [] as [u64; 0]);
    }
}
