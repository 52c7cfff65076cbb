//! Oracles against traces that are written by hand: each with what it forgives and what it does not.

use serde_json::{Value, json};
use wire::Entry;

use super::*;
use crate::trace::fixture::{fact, gone, host, reconcile, step, trace};

const HOUR: u64 = 3600;

/// No moments.
const NONE: [u64; 0] = [];

/// What an oracle finds: the moments, in seconds.
fn found(name: &str, end: u64, facts: Vec<(u64, Entry)>) -> Vec<u64> {
    let oracle = ALL.iter().find(|oracle| oracle.name == name).expect("there is such an oracle");
    let findings = oracle.judge(&trace(end, facts));
    findings.into_iter().filter_map(|finding| finding.at).map(|at| at.as_secs()).collect()
}

fn disk(name: &str) -> Entry {
    fact("disk", name, json!({ "event": "wiped", "disk": "/dev/sda" }))
}

/// The same host with a wish of its user's that differs.
fn wishing(mut entry: Entry, wish: &str, value: Value) -> Entry {
    entry.data[wish] = value;
    entry
}

#[test]
fn provisioned_stays() {
    let provisioned = || {
        let states = [(0, "available"), (1, "provisioning"), (9, "provisioned")];
        states.map(|(at, state)| (at, host("a", state, "", 0))).to_vec()
    };
    let then = |more: Vec<(u64, Entry)>| found("provisioned-stays", 100, [provisioned(), more].concat());
    let leaves = || host("a", "deprovisioning", "", 0);
    let stays = || host("a", "provisioned", "", 0);
    assert_eq!(then(vec![]), NONE);
    assert_eq!(then(vec![(10, host("a", "provisioned", "provisioned registration error", 1))]), NONE);
    assert_eq!(then(vec![(20, leaves())]), [20]);
    for (wish, value) in
        [("image", json!("other")), ("deleting", json!(true)), ("externallyProvisioned", json!(true))]
    {
        let asked = |entry| wishing(entry, wish, value.clone());
        assert_eq!(then(vec![(15, asked(stays())), (20, asked(leaves()))]), NONE, "{wish}");
        // Another host's user asked for something else.
        let of_another = wishing(host("b", "provisioned", "", 0), wish, value.clone());
        assert_eq!(then(vec![(15, of_another), (20, leaves())]), [20], "{wish}");
    }
    let online = |entry| wishing(entry, "online", json!(false));
    assert_eq!(then(vec![(15, online(stays())), (20, online(leaves()))]), [20]);
    assert_eq!(then(vec![(15, gone("a"))]), NONE);
    // An edit that came while the image was being written asks for it.
    let other = |entry| wishing(entry, "image", json!("other"));
    let meanwhile = vec![
        (1, host("a", "provisioning", "", 0)),
        (5, other(host("a", "provisioning", "", 0))),
        (9, other(stays())),
        (20, other(leaves())),
    ];
    assert_eq!(found("provisioned-stays", 100, meanwhile), NONE);
    // One from before the host began to be provisioned does not.
    let before = vec![
        (0, host("a", "available", "", 0)),
        (1, other(host("a", "available", "", 0))),
        (5, other(host("a", "provisioning", "", 0))),
        (9, other(stays())),
        (20, other(leaves())),
    ];
    assert_eq!(found("provisioned-stays", 100, before), [20]);
}

#[test]
fn disk_is_kept() {
    let then = |more: Vec<(u64, Entry)>| {
        let facts =
            vec![(1, host("a", "provisioning", "", 0)), (2, disk("a")), (9, host("a", "provisioned", "", 0))];
        found("disk-is-kept", 100, [facts, more].concat())
    };
    assert_eq!(then(vec![]), NONE);
    assert_eq!(then(vec![(20, disk("a"))]), [20]);
    assert_eq!(then(vec![(20, disk("b"))]), NONE);
    let asked = (15, wishing(host("a", "provisioned", "", 0), "image", json!("other")));
    assert_eq!(then(vec![asked, (20, disk("a")), (30, disk("a"))]), NONE);
    // The state is lost by mistake; the data must not be.
    assert_eq!(then(vec![(15, host("a", "deprovisioning", "", 0)), (20, disk("a"))]), [20]);
}

#[test]
fn is_looked_at_again() {
    let then = |end: u64, more: Vec<(u64, Entry)>| {
        let facts = vec![(1, host("a", "registering", "registration error", 1))];
        found("is-looked-at-again", end, [facts, more].concat())
    };
    assert_eq!(then(HOUR, vec![(2, reconcile("a", "after"))]), NONE);
    assert_eq!(then(HOUR, vec![(2, reconcile("a", "done"))]), [2]);
    assert_eq!(then(HOUR, vec![(2, reconcile("a", "done")), (3, reconcile("a", "after"))]), NONE);
    assert_eq!(then(HOUR, vec![(2, reconcile("a", "done")), (3, gone("a"))]), NONE);
    assert_eq!(then(30, vec![(2, reconcile("a", "done"))]), NONE);
    // A host that lacks credentials waits for its user, whose edit wakes the operator.
    let mut lacks = host("a", "registering", "registration error", 1);
    lacks.data["errorMessage"] = "Missing BMC connection detail 'password' in credentials".into();
    assert_eq!(then(HOUR, vec![(1, lacks), (2, reconcile("a", "done"))]), NONE);
}

#[test]
fn no_hot_loop() {
    let passes =
        |each: u64, count: u64| (0..count).map(|n| (n * each, reconcile("a", "after"))).collect::<Vec<_>>();
    assert_eq!(found("no-hot-loop", HOUR, passes(2, 1000)), NONE);
    // Once for each host, at the first pass too many.
    let busy: Vec<_> = (0..500).map(|n| (n / 2, reconcile("a", "after"))).collect();
    assert_eq!(found("no-hot-loop", HOUR, busy), [30]);
}

#[test]
fn converges() {
    let stuck = |more: Vec<(u64, Entry)>| {
        let begins = vec![(0, step(3, "fault", &[])), (1, host("a", "registering", "registration error", 3))];
        found("converges", 24 * HOUR, [begins, more].concat())
    };
    let ends = || (10, fact("fault", "3", json!({ "touched": 1 })));
    // As long as something is broken, anything may be.
    assert_eq!(stuck(vec![]), NONE);
    assert_eq!(stuck(vec![ends()]), [1]);
    assert_eq!(stuck(vec![ends(), (60, host("a", "available", "", 0))]), NONE);
    assert_eq!(stuck(vec![ends(), (60, gone("a"))]), NONE);
    // Trouble too short ago.
    assert_eq!(stuck(vec![ends(), (23 * HOUR, step(5, "annotate", &["a"]))]), NONE);
    // Trouble that people made and did not mend.
    assert_eq!(stuck(vec![ends(), (20, step(5, "secret", &["a"]))]), NONE);
    assert_eq!(
        stuck(vec![ends(), (20, step(5, "secret", &["a"])), (30, step(6, "bmc-password", &["a"]))]),
        [1]
    );
    assert_eq!(stuck(vec![ends(), (20, step(5, "move-away", &[]))]), NONE);
    assert_eq!(stuck(vec![ends(), (20, step(5, "move-away", &[])), (30, step(6, "restore", &[]))]), [1]);
    // A passing state is no place to stay either.
    assert_eq!(stuck(vec![ends(), (60, host("a", "inspecting", "", 0))]), [60]);
}
