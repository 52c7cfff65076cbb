//! What is wrong with a scenario's file: the place, the reason, and what was probably meant.

use std::{fmt, ops::Range, string::FromUtf8Error};

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use super::{LARGEST, history::UnknownWord};

/// One mistake in a scenario's file.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Mistake(Box<Particulars>);

#[derive(Debug)]
struct Particulars {
    message: String,
    place: Option<Place>,
    help: Option<String>,
}

#[derive(Debug)]
struct Place {
    file: NamedSource<String>,
    span: Range<usize>,
    label: String,
}

impl Diagnostic for Mistake {
    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        self.0.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.place.as_ref().map(|place| &place.file as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.0.place.as_ref()?;
        let label = LabeledSpan::new_with_span(Some(place.label.clone()), place.span.clone());
        Some(Box::new(std::iter::once(label)))
    }
}

impl Mistake {
    /// A mistake at a place.
    pub(super) fn at(shown: &str, text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        // A span of a whole table is shown by its first line, an empty one by the character at its place.
        let start = span.start.min(text.len());
        let line_end = text[start..].find('\n').map_or(text.len(), |length| start + length);
        let end = span.end.clamp(start, line_end.max(start));
        let (text, span) = narrowed(text, start..end);
        let place = Place {
            file: NamedSource::new(shown, text).with_language("TOML"),
            span,
            label: "here".to_owned(),
        };
        Self(Box::new(Particulars { message: message.into(), place: Some(place), help: None }))
    }

    /// A mistake of the file as a whole.
    pub(super) fn whole(shown: &str, message: impl Into<String>) -> Self {
        let message = format!("{shown}: {}", message.into());
        Self(Box::new(Particulars { message, place: None, help: None }))
    }

    pub(super) fn unreadable(shown: &str, error: &std::io::Error) -> Self {
        Self::whole(shown, format!("cannot read the file: {error}"))
    }

    pub(super) fn too_large(shown: &str) -> Self {
        Self::whole(shown, format!("the file is larger than {} KiB", LARGEST >> 10))
            .help("a scenario is a page of TOML; was another file meant?")
    }

    pub(super) fn not_utf8(shown: &str, error: &FromUtf8Error) -> Self {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        let start = valid.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = 1 + String::from_utf8_lossy(&valid[start..]).chars().count();
        let byte = error.as_bytes().get(valid.len()).copied().unwrap_or_default();
        Self::whole(shown, format!("line {line}, column {column}: byte 0x{byte:02x} is not UTF-8"))
            .help("TOML files are UTF-8; save the file in that encoding")
    }

    /// What the TOML parser or serde found.
    pub(super) fn of_toml(shown: &str, text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().trim().replace('\n', ", ");
        let span = error.span().unwrap_or(0..0);
        Self::of_serde(shown, text, span, &message)
    }

    /// What serde found. If it is clear what was meant, that says more than all that could have been.
    pub(super) fn of_serde(shown: &str, text: &str, span: Range<usize>, message: &str) -> Self {
        match suggest(message) {
            Some(suggestion) => {
                let short = message.split_once(", expected").map_or(message, |(short, _)| short);
                Self::at(shown, text, span, short).help(suggestion)
            }
            None => Self::at(shown, text, span, message),
        }
    }

    /// Says what is to be done.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Suggests the nearest of the known words, or lists them.
    pub(super) fn meant<'a>(self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        match (closest(word, &known), known.is_empty()) {
            (Some(near), _) => self.help(format!("did you mean `{near}`?")),
            (None, false) => self.help(format!("known are {}", list(&known))),
            (None, true) => self.help("the scenario has none"),
        }
    }

    /// An unknown word of a host's status.
    pub(super) fn of_word(shown: &str, text: &str, span: Range<usize>, error: &UnknownWord) -> Self {
        Self::at(shown, text, span, error.to_string()).meant(&error.word, error.known.iter().copied())
    }

    /// The message alone.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// Longer lines are not shown whole, in characters.
const WIDEST: usize = 200;

/// A text whose long lines are cut, the line of the span around it, and where the span is then.
fn narrowed(text: &str, span: Range<usize>) -> (String, Range<usize>) {
    let (mut narrow, mut moved, mut begins) = (String::new(), span.clone(), 0);
    for line in text.split_inclusive('\n') {
        let ends = begins + line.len();
        let is_it = (begins..ends).contains(&span.start) || (span.start == ends && ends == text.len());
        let content = line.trim_end_matches('\n');
        let (mut from, mut to) = (0, content.len());
        if content.chars().count() > WIDEST {
            let at = if is_it { (span.start - begins).min(content.len()) } else { 0 };
            let places = |range: Range<usize>| content.get(range).map(|part| part.char_indices());
            from = places(0..at).and_then(|mut part| part.nth_back(WIDEST / 2)).map_or(0, |(place, _)| place);
            to = places(from..content.len())
                .and_then(|mut part| part.nth(WIDEST))
                .map_or(content.len(), |(place, _)| from + place);
        }
        if from > 0 {
            narrow.push('…');
        }
        if is_it {
            let base = narrow.len();
            let place = |at: usize| base + (at - begins).clamp(from, to) - from;
            moved = place(span.start)..place(span.end);
        }
        narrow.push_str(&content[from..to]);
        if to < content.len() {
            narrow.push('…');
        }
        narrow.push_str(&line[content.len()..]);
        begins = ends;
    }
    (narrow, moved)
}

/// The known word that was probably meant.
pub fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|known| (strsim::damerau_levenshtein(word, known), *known)).min()?;
    // A third of the letters may be wrong; more is another word.
    (near.0 <= (word.chars().count() / 3).max(1)).then_some(near.1)
}

/// Names things in a sentence.
fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Reads serde's "unknown field `x`, expected one of `a`, `b`" for what was probably meant.
fn suggest(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field ").or_else(|| message.strip_prefix("unknown variant "))?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let word = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    closest(word, &known).map(|near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("{}\nx = \"{}\" # {}\nü\n", "ä".repeat(300), "é".repeat(500), "z".repeat(500));
        let place = text.find('#').expect("it is there");
        let (narrow, span) = narrowed(&text, place..place + 1);
        assert_eq!(&narrow[span], "#");
        assert_eq!(narrow.lines().count(), 3);
        assert!(narrow.lines().all(|line| line.chars().count() <= WIDEST + 2), "{narrow}");
        let short = "a = 1\nb = 2";
        assert_eq!(narrowed(short, 6..7), (short.to_owned(), 6..7));
        assert_eq!(narrowed(short, 11..11), (short.to_owned(), 11..11));
        assert_eq!(narrowed("", 0..0), (String::new(), 0..0));
    }

    #[test]
    fn the_nearest_word_is_suggested_unless_it_is_another_word() {
        let known = ["registering", "inspecting", "available"];
        assert_eq!(closest("registring", &known), Some("registering"));
        assert_eq!(closest("avialable", &known), Some("available"));
        assert_eq!(closest("flying", &known), None);
        assert_eq!(closest("x", &[]), None);
    }
}
