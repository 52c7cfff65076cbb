//! The blocks of a page of Markdown.

use std::{fs, path::Path};

/// The pages, from the repository's root.
pub(crate) const PAGES: [&str; 4] =
    ["README.md", "docs/scenarios.md", "docs/faults.md", "docs/architecture.md"];

/// A fenced block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The page and line at which it begins.
    pub(crate) place: String,
    /// What is written behind the fence, e.g. `toml`.
    pub(crate) language: String,
    /// What it holds.
    pub(crate) text: String,
}

impl Block {
    /// Whether it is a whole scenario.
    pub(crate) fn is_scenario(&self) -> bool {
        self.language == "toml" && self.text.starts_with("about = ")
    }

    /// The key with which it begins; a table begins with `[`.
    pub(crate) fn first_key(&self) -> &str {
        let line = self.text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
        if line.starts_with('[') { "[" } else { line.split([' ', '=']).next().unwrap_or_default() }
    }
}

/// A page's text.
pub(crate) fn text(page: &str) -> String {
    let path = root().join(page);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder")
}

/// A page's blocks, in their order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let text = text(page);
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => {
                let place = format!("{page}:{number}");
                open = Some(Block { place, language: language.to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block is not closed");
    blocks
}
