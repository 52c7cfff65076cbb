//! The book is true: README.md and docs/ are run.
//!
//! - A `toml` block that begins with `about` is a whole scenario: it is run, and passes.
//! - Any other `toml` block is a part of one: it is put into a small scenario, by the key with which it begins, and read.
//! - Each fault of docs/faults.md strikes a world whose hosts live a whole life: it is felt, no oracle is violated, and
//!   in the end all is well. Every kind of fault that there is has a block there.
//! - Every key of the language stands in some block.
//! - The `bmsim` commands of `console` blocks print what is written below them. `…` in a line of its own stands for
//!   any lines; how long a run took is not compared.
//!   `INSTA_UPDATE=always` takes over what they print now.
//! - Links between the pages lead somewhere.

#[path = "docs/console.rs"]
mod console;
#[path = "docs/page.rs"]
mod page;

use std::{collections::BTreeSet, fs, process::ExitCode};

use baremetal_operator::regression::Regressions;
use bmsim::{
    scenario::{Scenario, schema},
    simulate,
};
use libtest_mimic::{Arguments, Failed, Trial};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use page::{Block, PAGES, blocks};

/// The scenario into which parts are put: what they can speak of.
const AROUND_PARTS: &str = r#"
about = "The world that parts of scenarios speak of."
duration = "4h"

[[image_cache]]
name = "images"
images = [{ name = "linux.qcow2" }, { name = "linux-2.qcow2" }]

[[host]]
name = "node-0"
bmc = "redfish-virtualmedia"

[[host]]
name = "node-1"
bmc = "ipmi"

[[host]]
name = "node-2"
state = "absent"
"#;

/// The scenario into which faults are put. Its hosts do all that hosts can do with their machines.
const AROUND_FAULTS: &str = r#"
about = "Hosts live a whole life, whatever befalls them."
duration = "13h"

[[image_cache]]
name = "images"
images = [{ name = "linux.qcow2" }]

[[host]]
name = "node-0"
bmc = "redfish-virtualmedia"
image = "linux.qcow2"

[[host]]
name = "node-1"
bmc = "ipmi"
image = "linux.qcow2"

[[step]]
at = "5h"
edit = { host = "*", online = false }

[[step]]
at = "6h"
edit = { host = "*", online = true }

[[step]]
at = "7h"
edit = { host = "*", image = "" }

[[expect]]
eventually = { host = "*", state = "provisioned", error = "none", power = "on" }
within = "5h"

[[expect]]
stable = { host = "*", state = "available", error = "none", error_count = 0, power = "on" }
for = "4h"
"#;

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for page in PAGES {
        let mut story = None;
        for block in blocks(page) {
            let name = block.place.clone();
            match block.language.as_str() {
                "toml" if block.is_scenario() => {
                    story = Some(block.clone());
                    trials.push(Trial::test(format!("scenario::{name}"), move || passes(&block)));
                }
                "toml" if page == "docs/faults.md" => {
                    trials.push(Trial::test(format!("fault::{name}"), move || is_survived(&block)));
                }
                "toml" => trials.push(Trial::test(format!("part::{name}"), move || is_read(&block))),
                "console" => {
                    let story = story.clone();
                    trials.push(Trial::test(format!("console::{name}"), move || {
                        console::prints(&block, story.as_ref())
                    }));
                }
                "" | "json" => {}
                other => panic!("{name}: nobody checks `{other}`"),
            }
        }
        trials.push(Trial::test(format!("links::{page}"), move || links_lead_somewhere(page)));
    }
    trials.push(Trial::test("every_kind_of_fault_has_a_block", every_kind_of_fault_has_a_block));
    trials.push(Trial::test("every_key_stands_in_a_block", every_key_stands_in_a_block));
    trials.push(Trial::test("every_oracle_is_told", every_oracle_is_told));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Reads a scenario that is written in a page.
fn read(block: &Block, text: String) -> Result<Scenario, Failed> {
    Scenario::read("in-a-page.toml", text.clone().into_bytes())
        .map_err(|mistake| format!("{}: {:?}", block.place, miette::Report::new(mistake)).into())
}

fn run(scenario: &Scenario) -> Result<(), Failed> {
    let report = simulate(scenario, scenario.seed, &Regressions::default());
    if report.passed() { Ok(()) } else { Err(format!("{}\n{}", report.story(), report.findings()).into()) }
}

fn passes(block: &Block) -> Result<(), Failed> {
    run(&read(block, block.text.clone())?)
}

fn is_read(block: &Block) -> Result<(), Failed> {
    read(block, inside(AROUND_PARTS, block)).map(drop)
}

fn is_survived(block: &Block) -> Result<(), Failed> {
    run(&read(block, inside(AROUND_FAULTS, block))?)
}

/// A part in its place: tables behind everything, what a step does or expects in a table of its own, and keys of the
/// scenario itself before everything.
fn inside(around: &str, block: &Block) -> String {
    let text = &block.text;
    match block.first_key() {
        "[" => format!("{around}\n{text}"),
        "fault" | "restart" | "image_cache" | "bmc" => format!("{around}\n[[step]]\nat = \"1s\"\n{text}"),
        "at" | "when" => format!("{around}\n[[step]]\n{text}"),
        _ => {
            let table = around.find("\n[").unwrap_or(around.len());
            let (head, tables) = around.split_at(table);
            // The part says some keys anew.
            let key = |line: &str| line.split(" = ").next().unwrap_or_default().to_owned();
            let anew: Vec<String> = text.lines().map(key).collect();
            let kept: Vec<&str> = head.lines().filter(|line| !anew.contains(&key(line))).collect();
            format!("{}\n{text}\n{tables}", kept.join("\n"))
        }
    }
}

/// The steps of all blocks of a page.
fn steps(page: &str) -> Result<Vec<toml::Value>, Failed> {
    let mut steps = Vec::new();
    for block in blocks(page).iter().filter(|block| block.language == "toml") {
        let text = if block.is_scenario() { block.text.clone() } else { inside("", block) };
        let value: toml::Table = toml::from_str(&text)?;
        steps.extend(value.get("step").and_then(toml::Value::as_array).cloned().unwrap_or_default());
    }
    Ok(steps)
}

/// The kinds of a fake's faults: its type lists them when it is given one that is none.
fn kinds<F: DeserializeOwned>() -> Vec<String> {
    let none: Result<F, serde_json::Error> = serde_json::from_value(json!({ "kind": "?" }));
    let said = none.err().map(|error| error.to_string()).unwrap_or_default();
    let (_, list) = said.split_once("expected").unwrap_or_else(|| panic!("no list of kinds: {said}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The words of an enum of the language.
fn words(schema: &Value, name: &str) -> Vec<String> {
    let variants = schema.pointer(&format!("/$defs/{name}/oneOf")).and_then(Value::as_array);
    let variants = variants.unwrap_or_else(|| panic!("the schema has no {name}"));
    variants.iter().filter_map(|variant| variant.get("const")?.as_str().map(str::to_owned)).collect()
}

fn every_kind_of_fault_has_a_block() -> Result<(), Failed> {
    let steps = steps("docs/faults.md")?;
    let schema = schema();
    let has = |path: &[&str], word: &str| {
        steps.iter().any(|step| {
            path.iter().try_fold(step, |value, key| value.get(key)).and_then(toml::Value::as_str)
                == Some(word)
        })
    };
    let mut missing = Vec::new();
    for (path, kinds) in [
        (&["fault", "kind"][..], words(&schema, "FaultKind")),
        (&["fault", "bmc", "kind"], kinds::<fake_bmc::Fault>()),
        (&["fault", "ironic", "kind"], kinds::<fake_ironic::Fault>()),
        (&["fault", "kube", "kind"], kinds::<fake_kube::Fault>()),
        (&["fault", "image_cache", "kind"], kinds::<fake_image_cache::Fault>()),
        (&["restart", "pod"], words(&schema, "Pod")),
    ] {
        assert!(kinds.len() > 2, "{path:?}: {kinds:?}");
        let without = kinds.iter().filter(|kind| !has(path, kind));
        missing.extend(without.map(|kind| format!("{} = {kind}", path.join("."))));
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("no block of docs/faults.md has {missing:?}").into())
    }
}

/// Walks a value beside its schema, and collects the keys that it has.
fn used(schema: &Value, of: &Value, name: &str, value: &toml::Value, keys: &mut BTreeSet<String>) {
    let of = of.get("anyOf").and_then(|any| any.get(0)).unwrap_or(of);
    if let Some(reference) = of.get("$ref").and_then(Value::as_str) {
        let name = reference.trim_start_matches("#/$defs/");
        if let Some(of) = schema.pointer(reference.trim_start_matches('#')) {
            used(schema, of, name, value, keys);
        }
        return;
    }
    match value {
        toml::Value::Array(items) => {
            let of = of.get("items").unwrap_or(&Value::Null);
            items.iter().for_each(|item| used(schema, of, name, item, keys));
        }
        toml::Value::Table(table) => {
            for (key, value) in table {
                if let Some(of) = of.get("properties").and_then(|properties| properties.get(key)) {
                    keys.insert(format!("{name}.{key}"));
                    used(schema, of, &format!("{name}.{key}"), value, keys);
                }
            }
        }
        _ => {}
    }
}

fn every_key_stands_in_a_block() -> Result<(), Failed> {
    let schema = schema();
    let mut keys = BTreeSet::new();
    for page in ["docs/scenarios.md", "docs/faults.md"] {
        for block in blocks(page).iter().filter(|block| block.language == "toml") {
            let text = if block.is_scenario() { block.text.clone() } else { inside("", block) };
            used(&schema, &schema, "Scenario", &toml::Value::Table(toml::from_str(&text)?), &mut keys);
        }
    }
    let defs = schema.get("$defs").and_then(Value::as_object).into_iter().flatten();
    let all = defs.map(|(name, of)| (name.as_str(), of)).chain([("Scenario", &schema)]);
    let mut missing = Vec::new();
    for (name, of) in all {
        let properties = of.get("properties").and_then(Value::as_object).into_iter().flatten();
        let keys = properties.map(|(key, _)| format!("{name}.{key}")).filter(|key| !keys.contains(key));
        missing.extend(keys);
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("no block shows {missing:?}").into()) }
}

fn every_oracle_is_told() -> Result<(), Failed> {
    let page = page::text("docs/scenarios.md");
    for oracle in bmsim::oracle::ALL {
        let row = format!("| `{}` | {} |", oracle.name, oracle.always);
        if !page.contains(&row) {
            return Err(format!("docs/scenarios.md has no line {row}").into());
        }
    }
    Ok(())
}

fn links_lead_somewhere(page: &str) -> Result<(), Failed> {
    let path = page::root().join(page);
    let folder = path.parent().ok_or("a page is in a folder")?;
    let text = page::text(page);
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let there = if file.is_empty() { path.clone() } else { folder.join(file) };
        let fine =
            || heading.is_empty() || fs::read_to_string(&there).is_ok_and(|text| has_heading(&text, heading));
        if !(link.starts_with("http") || there.exists() && fine()) {
            return Err(format!("{page}: {link} leads nowhere").into());
        }
    }
    Ok(())
}

/// Whether a page has the heading to which `#anchor` leads.
fn has_heading(text: &str, anchor: &str) -> bool {
    let letters = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-');
    let anchor_of = |heading: &str| {
        heading.trim().to_lowercase().chars().filter(letters).collect::<String>().replace(' ', "-")
    };
    text.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| anchor_of(line.trim_start_matches('#')) == anchor)
}
