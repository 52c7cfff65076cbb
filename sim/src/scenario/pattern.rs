//! Patterns as in a shell: `*` stands for any text, the rest for itself.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pattern in which `*` stands for any text, none included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    /// A pattern as written.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether it stands for `text`.
    pub fn matches(&self, text: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else { return false };
        let Some(last) = pieces.next_back() else { return rest.is_empty() };
        // The earliest place for each piece leaves the most for those after it.
        for piece in pieces {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, matches) in [
            ("worker-0", "worker-0", true),
            ("worker-0", "worker-00", false),
            ("worker-*", "worker-0", true),
            ("worker-*", "worker-", true),
            ("worker-*", "master-0", false),
            ("*", "", true),
            ("**", "x", true),
            ("", "", true),
            ("", "x", false),
            ("/v1/nodes/*/states/*", "/v1/nodes/12/states/provision", true),
            ("/v1/nodes/*/states/*", "/v1/nodes/12", false),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*ü*", "größer über", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), matches, "{pattern} {text}");
        }
    }
}
