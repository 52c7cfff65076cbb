//! Which files are meant.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A pattern for files' paths below the server's root. `*` stands for any characters, slashes too, `?` for one, and a
/// `/` at the end for all that is below; everything else stands for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    /// Matches every file.
    pub fn all() -> Self {
        Self("*".to_owned())
    }

    /// Whether a file's path matches.
    pub fn matches(&self, path: &str) -> bool {
        let pattern = self.0.trim_start_matches('/');
        let pattern = if pattern.ends_with('/') { Cow::from(format!("{pattern}*")) } else { pattern.into() };
        matches(pattern.as_bytes(), path.trim_start_matches('/').as_bytes())
    }
}

impl Default for Pattern {
    fn default() -> Self {
        Self::all()
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl FromStr for Pattern {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.into())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Goes back to the last star when it fails, and lets that stand for one character more.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b'?') => (p, t) = (p + 1, t + 1),
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            Some(_) | None => match star {
                None => return false,
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        // pattern             path                  matches
        let cases = [
            ("*", "a/b.img", true),
            ("*", "", true),
            ("", "a", false),
            ("a/b.img", "a/b.img", true),
            ("/a/b.img", "a/b.img", true),
            ("a/b.img", "/a/b.img", true),
            ("a/b.img", "a/b.img.md5sum", false),
            ("a/b.img*", "a/b.img.md5sum", true),
            ("a/", "a/b.img", true),
            ("a/", "aa/b.img", false),
            ("*.img", "a/b.img", true),
            ("*.img", "a/b.img.md5sum", false),
            ("*b*m*", "a/b.img", true),
            ("b?.img", "b1.img", true),
            ("b?.img", "b.img", false),
            ("*a*a", "aba", true),
            ("*a*a", "ab", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(Pattern::from(pattern).matches(path), expected, "{pattern} {path}");
        }
    }
}
