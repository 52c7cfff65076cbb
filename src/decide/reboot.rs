//! Reboot annotations: one asks for a power cycle, those with a suffix keep a machine off until they are removed.

use serde::Deserialize;

use super::{pass::Pass, power::Strength};
use crate::bmh::REBOOT_ANNOTATION;

/// What the reboot annotations of a host ask for together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reboot {
    /// At once, without asking the operating system.
    pub(super) hard: bool,
    /// Also in the middle of an inspection, or when the host is free.
    pub(super) force: bool,
}

impl Reboot {
    pub(super) fn strength(self) -> Strength {
        if self.hard { Strength::Hard } else { Strength::Soft }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wish {
    mode: String,
    force: bool,
}

/// What the annotations ask for; `None` if there are none. With `forced_only`, only those that are forced count.
pub(super) fn wanted(pass: &mut Pass<'_>, forced_only: bool) -> Option<Reboot> {
    let mut reboot = None;
    let mut unreadable = Vec::new();
    for (key, value) in pass.seen.host.annotations().filter(|(key, _)| is_reboot(key)) {
        let wish: Wish = match value {
            "" => Wish::default(),
            text => serde_json::from_str(text).unwrap_or_else(|_| {
                unreadable.push(key.to_owned());
                Wish::default()
            }),
        };
        if forced_only && !wish.force {
            continue;
        }
        let all: &mut Reboot = reboot.get_or_insert_default();
        all.hard |= wish.mode == "hard";
        all.force |= wish.force;
    }
    for key in unreadable {
        pass.event(
            "InvalidAnnotationValue",
            format!("could not parse the reboot annotation {key}: taken as a soft reboot"),
        );
    }
    reboot
}

/// Whether the annotation without a suffix is there.
pub(super) fn plain(pass: &Pass<'_>) -> bool {
    pass.seen.host.annotation(REBOOT_ANNOTATION).is_some()
}

fn is_reboot(key: &str) -> bool {
    key == REBOOT_ANNOTATION || key.strip_prefix(REBOOT_ANNOTATION).is_some_and(|rest| rest.starts_with('/'))
}
