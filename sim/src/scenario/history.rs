//! What a host's history is made of: its state, with its operational status and error where they say more.
//!
//! Written as `registering`, `registering ! registration error`, `provisioned (detached)`, `gone`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The states of a BareMetalHost.
pub const STATES: &[&str] = &[
    "unmanaged",
    "registering",
    "inspecting",
    "preparing",
    "available",
    "provisioning",
    "provisioned",
    "externally provisioned",
    "deprovisioning",
    "powering off before delete",
    "deleting",
];

/// Operational statuses.
pub const STATUSES: &[&str] = &["OK", "discovered", "error", "delayed", "detached", "servicing"];

/// Error types.
pub const ERRORS: &[&str] = &[
    "provisioned registration error",
    "registration error",
    "inspection error",
    "preparation error",
    "provisioning error",
    "power management error",
    "servicing error",
];

/// The word for a BareMetalHost that is deleted.
const GONE: &str = "gone";

/// How a host stands: one element of its history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    state: String,
    status: Option<String>,
    error: Option<String>,
}

impl Standing {
    /// From the fields of a status. Those that say nothing more than the others are left out: the operational
    /// statuses `OK`, `error` and `discovered`, and an empty error type.
    pub fn of(state: &str, status: &str, error: &str) -> Self {
        let telling = |status: &&str| !matches!(*status, "" | "OK" | "error" | "discovered");
        Self {
            state: state.to_owned(),
            status: Some(status).filter(telling).map(str::to_owned),
            error: Some(error).filter(|e| !e.is_empty()).map(str::to_owned),
        }
    }

    /// A host that is deleted.
    pub fn gone() -> Self {
        Self { state: GONE.to_owned(), status: None, error: None }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = if self.state.is_empty() { "(no state)".to_owned() } else { self.state.clone() };
        if let Some(status) = &self.status {
            text.push_str(&format!(" ({status})"));
        }
        if let Some(error) = &self.error {
            text.push_str(&format!(" ! {error}"));
        }
        f.pad(&text)
    }
}

/// A word that is no state, status or error, and the words that are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not {what}")]
pub struct UnknownWord {
    /// What was written.
    pub word: String,
    /// What it should have been, e.g. `a state`.
    pub what: &'static str,
    /// All that it could have been.
    pub known: Vec<&'static str>,
}

impl UnknownWord {
    fn check(word: &str, what: &'static str, known: &[&'static str]) -> Result<String, Self> {
        if known.contains(&word) {
            Ok(word.to_owned())
        } else {
            Err(Self { word: word.to_owned(), what, known: known.to_vec() })
        }
    }
}

/// Checks a state's name; the legacy name `ready` is not taken.
pub fn state(word: &str) -> Result<String, UnknownWord> {
    let known: Vec<_> = STATES.iter().copied().chain([GONE]).collect();
    UnknownWord::check(word, "a state", &known)
}

/// Checks an operational status.
pub fn status(word: &str) -> Result<String, UnknownWord> {
    UnknownWord::check(word, "an operational status", STATUSES)
}

/// Checks an error type.
pub fn error(word: &str) -> Result<String, UnknownWord> {
    UnknownWord::check(word, "an error type", ERRORS)
}

impl FromStr for Standing {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let (rest, error_type) = match text.split_once('!') {
            Some((rest, word)) => (rest, Some(error(word.trim())?)),
            None => (text, None),
        };
        let (name, status_word) = match rest.trim().strip_suffix(')').and_then(|r| r.split_once('(')) {
            Some((name, word)) => (name, Some(status(word.trim())?)),
            None => (rest, None),
        };
        let name = state(name.trim())?;
        Ok(Self::of(
            &name,
            status_word.as_deref().unwrap_or_default(),
            error_type.as_deref().unwrap_or_default(),
        ))
    }
}

/// One element of an expected history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Episode {
    /// The host stands so.
    Is(Standing),
    /// The two standings before come again, in their order, as often as they do: an error that is tried and comes back.
    Again,
}

/// How [`Episode::Again`] is written.
pub const AGAIN: &str = "...";

/// The expected history in full: with as many repetitions as the actual one has at their place. It is met if both are
/// equal.
pub fn unfold(expected: &[Episode], actual: &[&Standing]) -> Vec<Standing> {
    let mut full: Vec<Standing> = Vec::new();
    for episode in expected {
        match episode {
            Episode::Is(standing) => full.push(standing.clone()),
            Episode::Again => {
                let pair: Vec<Standing> = full.iter().rev().take(2).rev().cloned().collect();
                let follows = |full: &Vec<Standing>| actual.get(full.len()..full.len() + 2);
                while pair.len() == 2 && follows(&full).is_some_and(|next| next.iter().copied().eq(&pair)) {
                    full.extend(pair.iter().cloned());
                }
            }
        }
    }
    full
}

impl Serialize for Standing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Standing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_reads_back_as_it_is_shown() {
        for text in [
            "registering",
            "registering ! registration error",
            "externally provisioned",
            "provisioned (detached)",
            "provisioning (delayed) ! provisioning error",
            "gone",
        ] {
            assert_eq!(text.parse::<Standing>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn what_says_nothing_more_is_left_out() {
        assert_eq!(
            Standing::of("registering", "error", "registration error").to_string(),
            "registering ! registration error"
        );
        assert_eq!(Standing::of("available", "OK", "").to_string(), "available");
    }

    #[test]
    fn a_pair_comes_again_as_often_as_it_does() {
        let standings =
            |words: &[&str]| words.iter().map(|word| word.parse().expect(word)).collect::<Vec<Standing>>();
        let (fine, error) = ("provisioned", "provisioned ! provisioned registration error");
        let [is_fine, is_error] = [fine, error].map(|word| Episode::Is(word.parse().expect(word)));
        let expected = [is_fine.clone(), is_error, is_fine, Episode::Again];
        for (actual, met) in [
            (&[fine, error, fine][..], true),
            (&[fine, error, fine, error, fine, error, fine], true),
            (&[fine], false),
            (&[fine, error], false),
            (&[fine, error, fine, error], false),
            (&[fine, error, fine, "deprovisioning"], false),
        ] {
            let actual = standings(actual);
            let unfolded = unfold(&expected, &actual.iter().collect::<Vec<_>>());
            assert_eq!(unfolded == actual, met, "{actual:?}");
        }
    }

    #[test]
    fn an_unknown_word_is_named() {
        for (text, word, what) in [
            ("registring", "registring", "a state"),
            ("registering ! registraton error", "registraton error", "an error type"),
            ("provisioned (gone)", "gone", "an operational status"),
            ("", "", "a state"),
        ] {
            let error = text.parse::<Standing>().expect_err(text);
            assert_eq!((error.word.as_str(), error.what), (word, what));
        }
    }
}
