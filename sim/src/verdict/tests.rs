//! Expectations against traces that are written by hand.

use serde_json::json;
use wire::Entry;

use super::*;
use crate::trace::fixture::{fact, gone, host, step, trace, zero};

const ERROR: &str = "registration error";

/// A scenario with one host, `node-0`, and what is given.
fn scenario(more: &str) -> Scenario {
    let mut text = format!("about = \"a test\"\nduration = \"100s\"\n[[host]]\nname = \"node-0\"\n{more}");
    if !more.contains("[[expect]]") {
        text.push_str("\n[[expect]]\nnever = { host = \"node-0\", state = \"deleting\" }\n");
    }
    Scenario::read("test.toml", text.into_bytes()).unwrap_or_else(|mistake| panic!("{mistake:?}"))
}

/// A host that fails once: registering from 10 s, in error from 20 s to 80 s, available from 90 s to 100 s.
fn story() -> Trace {
    trace(
        100,
        [
            (0, zero()),
            (10, host("node-0", "registering", "", 0)),
            (20, host("node-0", "registering", ERROR, 1)),
            (60, host("node-0", "registering", ERROR, 2)),
            (80, host("node-0", "registering", "", 2)),
            (90, host("node-0", "available", "", 0)),
            (91, fact("power", "node-0", json!({ "event": "changed", "from": "off", "to": "on" }))),
        ],
    )
}

/// What is found wrong with the story by the expectations alone.
fn found(expect: &str) -> Vec<Finding> {
    let scenario = scenario(&format!("[[expect]]\n{expect}"));
    judge(&scenario, &Regressions::default(), &story())
        .findings
        .into_iter()
        .filter(|finding| matches!(finding.by, By::Expectation { .. }))
        .collect()
}

#[test]
fn expectations_hold_or_do_not() {
    // expectation, and the second at which it is found broken
    for (expect, broken) in [
        (r#"never = { host = "node-0", state = "provisioned" }"#, None),
        (r#"never = { host = "node-0", error = "any" }"#, Some(20)),
        ("never = { host = \"node-0\", error = \"any\" }\nuntil = \"19s\"", None),
        ("never = { host = \"node-0\", error = \"any\" }\nfrom = \"30s\"", Some(30)),
        ("never = { host = \"node-0\", error = \"any\" }\nfrom = \"80s\"", None),
        (r#"never = { host = "node-0", error_count = 2 }"#, Some(60)),
        (r#"never = { host = "node-0", message = "it *" }"#, Some(20)),
        ("always = { host = \"node-0\", state = \"registering\" }\nfrom = \"10s\"", Some(90)),
        ("always = { host = \"node-0\", state = \"registering\" }\nfrom = \"10s\"\nuntil = \"89s\"", None),
        (r#"always = { host = "node-0", state = "registering" }"#, Some(0)),
        (r#"eventually = { host = "node-0", state = "available", error_count = 0, error = "none" }"#, None),
        ("eventually = { host = \"node-0\", state = \"available\" }\nwithin = \"80s\"", Some(80)),
        (
            "eventually = { host = \"node-0\", error = \"registration error\" }\nfrom = \"70s\"\nwithin = \"5s\"",
            None,
        ),
        ("eventually = { host = \"node-0\", error = \"registration error\" }\nfrom = \"80s\"", Some(100)),
        (r#"eventually = { host = "node-0", power = "on" }"#, None),
        (r#"eventually = { host = "node-0", power = "off" }"#, Some(100)),
        ("stable = { host = \"node-0\", state = \"available\" }\nfor = \"10s\"", None),
        ("stable = { host = \"node-0\", state = \"available\" }\nfor = \"11s\"", Some(89)),
        ("count = \"power node-* to=on\"\nequals = 1", None),
        ("count = \"kube *\"\nat_most = 4", Some(90)),
        ("count = \"kube *\"\nat_most = 4\nuntil = \"89s\"", None),
    ] {
        let found = found(expect);
        assert_eq!(found.len(), usize::from(broken.is_some()), "{expect}: {found:?}");
        assert_eq!(found.first().and_then(|finding| finding.at), broken.map(Duration::from_secs), "{expect}");
    }
    // What never happens has no moment.
    assert_eq!(found("count = \"power node-* to=off\"\nat_least = 1")[0].at, None);
}

#[test]
fn a_history_is_met_whole_or_not_at_all() {
    let history = |states: &str| found(&format!("history = {{ host = \"node-0\", states = [{states}] }}"));
    assert!(
        history(r#""registering", "registering ! registration error", "registering", "available""#)
            .is_empty()
    );
    for (states, at) in [
        (r#""registering", "available""#, 20),
        (r#""registering", "registering ! registration error", "registering""#, 90),
        (
            r#""registering", "registering ! registration error", "registering", "available", "provisioning""#,
            100,
        ),
        ("", 10),
    ] {
        let found = history(states);
        assert_eq!(found[0].at, Some(Duration::from_secs(at)), "{states}");
    }
}

#[test]
fn the_prologue_is_no_part_of_a_history() {
    let trace = trace(
        100,
        [
            (1, host("node-0", "registering", "", 0)),
            (2, host("node-0", "available", "", 0)),
            (3, host("node-0", "provisioned", "", 0)),
            (50, zero()),
            (50, host("node-0", "deprovisioning", "", 0)),
            (60, gone("node-0")),
            (70, host("node-0", "", "", 0)),
            (71, host("node-0", "registering", "", 0)),
        ],
    );
    let history = &history::histories(&trace)["node-0"];
    let seen: Vec<_> =
        history.chapters().iter().map(|c| (c.since.as_secs(), c.standing.to_string())).collect();
    let expected = [(0, "provisioned"), (0, "deprovisioning"), (10, "gone"), (21, "registering")];
    assert_eq!(seen, expected.map(|(at, standing)| (at, standing.to_owned())));
}

#[test]
fn a_table_is_compared_by_the_columns_of_the_expected_one() {
    let expect =
        |row: &str| format!("table = \"\"\"\nNAME     STATE         ERROR\n{row}\n\"\"\"\nat = \"30s\"");
    assert!(found(&expect("node-0   registering   registration error")).is_empty());
    let found = found(&expect("node-0   registering"));
    insta::assert_snapshot!(crate::report::tell(&found[0]), @r"
    line 5: table at 30s
        expected
            NAME     STATE         ERROR
            node-0   registering
        seen
            NAME     STATE         ERROR
            node-0   registering   registration error
    ");
}

#[test]
fn histories_are_shown_side_by_side() {
    let found =
        found(r#"history = { host = "node-0", states = ["registering", "inspecting", "available"] }"#);
    insta::assert_snapshot!(crate::report::tell(&found[0]), @r"
    line 5: history of node-0, at 20s
        node-0
          expected                    seen
          registering            10s  registering
        - inspecting
        +                        20s  registering ! registration error
        +                      1m20s  registering
          available            1m30s  available
    ");
}

#[test]
fn what_shows_nothing_is_vacuous() {
    let scenario = scenario(
        "[[step]]\nat = \"1s\"\nfault = { kind = \"refused\", target = \"node-0-bmc\", for = \"1s\" }\n\
         [[step]]\nat = \"2s\"\ndelete = { host = \"node-0\" }\n",
    );
    let (fault, delete) = (scenario.steps[0].line, scenario.steps[1].line);
    let touched = |touched: u64| fact("fault", &fault.to_string(), json!({ "touched": touched }));
    let vacuous = |facts: Vec<Entry>| {
        let trace = trace(100, facts.into_iter().map(|entry| (0, entry)));
        let lines = judge(&scenario, &Regressions::default(), &trace).findings.into_iter();
        lines
            .filter_map(|finding| if let By::Vacuous { line } = finding.by { Some(line) } else { None })
            .collect::<Vec<_>>()
    };
    let (begins, deletes) = (step(fault, "fault", &[]), step(delete, "delete", &["node-0"]));
    assert_eq!(vacuous(vec![zero(), begins.clone(), touched(3), deletes.clone()]), [0; 0]);
    assert_eq!(vacuous(vec![zero(), begins.clone(), touched(0), deletes]), [fault]);
    assert_eq!(vacuous(vec![zero(), begins, touched(3)]), [delete]);
    assert_eq!(vacuous(vec![zero()]), [fault, delete]);
}

#[test]
fn a_world_that_broke_off_is_not_judged_further() {
    let scenario = scenario("[[expect]]\nnever = { host = \"node-0\", error = \"any\" }");
    let mut broken = story();
    broken.failure = Some("operator panicked".to_owned());
    let verdict = judge(&scenario, &Regressions::default(), &broken);
    assert_eq!(verdict.findings.len(), 1);
    assert_eq!(verdict.findings[0].by, By::World);
    assert!(!verdict.found_bug() && !verdict.sound());
}

#[test]
fn a_host_that_does_not_reach_its_beginning_is_named() {
    let scenario = scenario("state = \"available\"\n");
    let unready = fact("timeline", "zero", json!({ "reached": false }));
    let trace = trace(100, [(1, host("node-0", "inspecting", "inspection error", 4)), (99, unready)]);
    let verdict = judge(&scenario, &Regressions::default(), &trace);
    let [Finding { by: By::World, seen: Seen::Words(seen), .. }] = verdict.findings.as_slice() else {
        panic!("{verdict:?}")
    };
    assert!(seen.contains("node-0 is inspecting ! inspection error"), "{seen}");
}

#[test]
fn a_regression_is_caught_only_if_it_looks_as_it_was_reported() {
    let scenario = scenario(
        "[[expect]]\nnever = { host = \"node-0\", error = \"any\" }\n\
         [[expect]]\nwith = \"metal3-708\"\neventually = { host = \"node-0\", state = \"deleting\" }\n",
    );
    let with = |name: &str| name.parse().expect("a regression");
    let without = judge(&scenario, &Regressions::default(), &story());
    assert!(without.found_bug() && without.sound());
    let other = judge(&scenario, &with("metal3-739"), &story());
    assert!(other.found_bug() && other.sound());
    let unlike = judge(&scenario, &with("metal3-708"), &story());
    assert!(unlike.found_bug() && !unlike.sound());
}

#[test]
fn a_run_is_decided_once_all_has_its_answer() {
    let eventually = |within: u64| {
        scenario(&format!(
            "[[expect]]\neventually = {{ host = \"node-0\", state = \"available\" }}\nwithin = \"{within}s\""
        ))
    };
    let decided_at = |scenario: &Scenario| {
        (1..100).find(|end| {
            let mut trace = story();
            trace.end = Instant(Duration::from_secs(*end));
            trace.records.retain(|record| record.at <= trace.end);
            is_decided(scenario, &trace)
        })
    };
    assert_eq!(decided_at(&eventually(95)), Some(90));
    assert_eq!(decided_at(&eventually(30)), Some(31));
    let never = |until: &str| {
        scenario(&format!("[[expect]]\nnever = {{ host = \"node-0\", state = \"deleting\" }}\n{until}"))
    };
    assert!(needs_the_end(&never("")) && !needs_the_end(&never("until = \"95s\"")));
    assert_eq!(decided_at(&never("until = \"95s\"")), Some(96));
    let step = "[[step]]\nat = \"99s\"\ndelete = { host = \"node-0\" }\n[[expect]]\n\
                eventually = { host = \"node-0\", state = \"available\" }";
    assert_eq!(decided_at(&scenario(step)), None);
}

#[test]
fn a_command_that_is_given_up_makes_a_run_vacuous() {
    let scenario = scenario("[[step]]\nat = \"95s\"\ndelete = { host = \"node-0\" }\n");
    let [step_line] = [scenario.steps[0].line];
    let mut trace = story();
    let add = |trace: &mut Trace, at: u64, topic: &str, subject: &str, data: serde_json::Value| {
        let entry = Entry { host: String::new(), topic: topic.into(), subject: subject.into(), data };
        let at = Instant(Duration::from_secs(at));
        trace.records.push(engine::Record {
            ordinal: 1000 + at.0.as_secs(),
            at,
            what: engine::What::Entry(entry),
        });
    };
    add(&mut trace, 95, "step", &step_line.to_string(), json!({}));
    let vacuous = |trace: &Trace| {
        let findings = judge(&scenario, &Regressions::default(), trace).findings;
        findings.iter().any(|finding| finding.by == By::Vacuous { line: step_line })
    };
    assert!(!vacuous(&trace));
    let why = json!({ "did_nothing": "there is no such object" });
    let path = "/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts/node-";
    add(&mut trace, 95, "user", &format!("DELETE {path}1"), why.clone());
    assert!(!vacuous(&trace));
    add(&mut trace, 95, "user", &format!("DELETE {path}0"), why);
    assert!(vacuous(&trace));
}
