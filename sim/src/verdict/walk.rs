//! Walks along the timeline, from change to change.

use std::{ops::ControlFlow, time::Duration};

use wire::Instant;

use crate::{
    scenario::expect::Window,
    trace::{Trace, is_zero, view::View},
};

/// Shows what is known at the beginning of a window and after each change within it, with the time since zero.
/// Stops with what `look` breaks with.
pub(super) fn walk<T>(
    trace: &Trace,
    window: Window,
    mut look: impl FnMut(Duration, &View) -> ControlFlow<T>,
) -> Option<T> {
    let zero = trace.zero();
    let from = zero + window.from;
    let until = window.until.map_or(trace.end, |until| zero + until);
    let mut view = View::default();
    let mut past_zero = !trace.entries().any(|(_, entry)| is_zero(entry));
    let mut begun = false;
    for (at, entry) in trace.entries() {
        if at > until {
            break;
        }
        // What happens at zero itself, after it was called, belongs to the window that begins with it.
        if past_zero && !begun && (at > from || window.from.is_zero()) {
            begun = true;
            if let ControlFlow::Break(found) = look(window.from, &view) {
                return Some(found);
            }
        }
        past_zero |= is_zero(entry);
        let changed = view.apply(at, entry).is_some();
        if begun
            && changed
            && let ControlFlow::Break(found) = look(at.since(zero), &view)
        {
            return Some(found);
        }
    }
    if begun { None } else { break_value(look(window.from, &view)) }
}

fn break_value<T>(flow: ControlFlow<T>) -> Option<T> {
    match flow {
        ControlFlow::Break(value) => Some(value),
        ControlFlow::Continue(()) => None,
    }
}

/// What is known at a moment, with all that was noted at it.
pub(super) fn view_at(trace: &Trace, moment: Instant) -> View {
    let mut view = View::default();
    for (at, entry) in trace.entries().take_while(|(at, _)| *at <= moment) {
        view.apply(at, entry);
    }
    view
}
