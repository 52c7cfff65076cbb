//! An expected and a seen history side by side.

use std::fmt::Write as _;

use crate::{
    scenario::{history::Standing, time::Span},
    verdict::history::{Chapter, History},
};

/// One line of the comparison.
enum Row<'a> {
    Both(&'a Chapter),
    Missing(&'a Standing),
    Surplus(&'a Chapter),
}

/// Longer histories are compared place by place: the table that finds the best match grows with the square.
const LONG: usize = 1000;

/// Both histories, with `-` before what is missing and `+` before what is too much.
pub(super) fn histories(expected: &[Standing], actual: &History) -> String {
    let rows = align(expected, actual.chapters());
    let shown = |row: &Row<'_>| match row {
        Row::Both(chapter) => chapter.standing.to_string(),
        Row::Missing(standing) => standing.to_string(),
        Row::Surplus(_) => String::new(),
    };
    let width =
        rows.iter().map(|row| shown(row).chars().count()).max().unwrap_or_default().max("expected".len());
    let mut text = String::new();
    let mut line = |mark: char, expected: &str, since: &str, seen: &str| {
        let line = format!("{mark} {expected:width$}   {since:>12}  {seen}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line(' ', "expected", "", "seen");
    for row in &rows {
        match row {
            Row::Both(chapter) => {
                line(' ', &shown(row), &Span(chapter.since).to_string(), &chapter.standing.to_string());
            }
            Row::Missing(_) => line('-', &shown(row), "", ""),
            Row::Surplus(chapter) => {
                line('+', "", &Span(chapter.since).to_string(), &chapter.standing.to_string());
            }
        }
    }
    text
}

/// Finds the longest common subsequence.
fn align<'a>(expected: &'a [Standing], actual: &'a [Chapter]) -> Vec<Row<'a>> {
    if expected.len().max(actual.len()) > LONG {
        return align_by_place(expected, actual);
    }
    // common[i][j] is the length of the longest one of expected[i..] and actual[j..].
    let mut common = vec![vec![0_usize; actual.len() + 1]; expected.len() + 1];
    for i in (0..expected.len()).rev() {
        for j in (0..actual.len()).rev() {
            common[i][j] = if expected[i] == actual[j].standing {
                1 + common[i + 1][j + 1]
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut rows = Vec::new();
    while i < expected.len() || j < actual.len() {
        if i < expected.len() && j < actual.len() && expected[i] == actual[j].standing {
            rows.push(Row::Both(&actual[j]));
            (i, j) = (i + 1, j + 1);
        } else if j == actual.len() || (i < expected.len() && common[i + 1][j] >= common[i][j + 1]) {
            rows.push(Row::Missing(&expected[i]));
            i += 1;
        } else {
            rows.push(Row::Surplus(&actual[j]));
            j += 1;
        }
    }
    rows
}

fn align_by_place<'a>(expected: &'a [Standing], actual: &'a [Chapter]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for place in 0..expected.len().max(actual.len()) {
        match (expected.get(place), actual.get(place)) {
            (Some(expected), Some(chapter)) if *expected == chapter.standing => rows.push(Row::Both(chapter)),
            (expected, chapter) => {
                rows.extend(expected.map(Row::Missing));
                rows.extend(chapter.map(Row::Surplus));
            }
        }
    }
    rows
}
