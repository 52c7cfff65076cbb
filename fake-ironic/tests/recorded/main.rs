//! Exchanges recorded from a real Ironic 39.0.0, asked of this one: the answers must be equal, field by field.
//!
//! Ids, times and the server's address are made comparable first. What may differ stands in [`ACCEPTED`], each with its
//! reason. The hardware type `fake-hardware` of some recordings was written as `redfish`.

use std::collections::BTreeMap;

use bytes::Bytes;
use fake_ironic::{Database, Ironic, Settings};
use serde::Deserialize;
use serde_json::Value;
use wire::{
    Host, Seed,
    http::{Client, Timeouts},
};

const RECORDED: &str = include_str!("exchanges.json");

/// Where the recorded Ironic was, and where this one is.
const ADDRESSES: (&str, &str) = ("http://127.0.0.1:16385", "http://ironic:6385");

#[derive(Deserialize)]
struct Exchange {
    case: String,
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Value,
    status: u16,
    answer: Value,
}

/// Differences that are meant: where (a part of the exchange's `method path body`), and why.
const ACCEPTED: &[(&str, &str)] = &[
    ("GET /v1 null", "there are no chassis here"),
    ("GET /v1/ null", "there are no chassis here"),
    (r#""boot_interface":"nope""#, "fewer interfaces are valid here"),
    (r#""path":"/boot_interface","value":"nope""#, "fewer interfaces are valid here"),
    (
        r#""boot_interface":"redfish-virtual-media","driver":"ipmi""#,
        "the real text holds an address in memory",
    ),
    (r#"{"driver":"redfish","name":"verbs"}"#, "recorded with fake-hardware"),
    (r#"{"driver":"redfish","name":"del1"}"#, "recorded with fake-hardware"),
    (r#"{"driver":"redfish","name":"hb"}"#, "recorded with fake-hardware"),
];

#[test]
fn answers_equal_the_recorded_ones() {
    let exchanges: Vec<Exchange> = serde_json::from_str(RECORDED).expect("recorded exchanges");
    let differences = engine::simulate(Seed(1), move |net| async move {
        let settings: Settings =
            serde_json::from_value(serde_json::json!({ "host": "sim-conductor" })).expect("settings");
        Ironic::new(settings, Database::new()).serve(net.host("ironic"));
        replay(&net.host("client"), exchanges).await
    });
    let (count, differences) = differences;
    println!("{} of {count} answers equal the recorded ones", count - differences.len());
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Gives how many exchanges there were, and the differences.
async fn replay(client: &Host, exchanges: Vec<Exchange>) -> (usize, Vec<String>) {
    let mut names: Vec<(String, String)> = vec![(ADDRESSES.0.to_owned(), ADDRESSES.1.to_owned())];
    let mut differences = Vec::new();
    let count = exchanges.len();
    for exchange in exchanges {
        let label = format!("{} {} {} {}", exchange.case, exchange.method, exchange.path, exchange.body);
        let (status, answer) = ask(client, &exchange, &names).await;
        if let (Some(theirs), Some(ours)) = (exchange.answer["uuid"].as_str(), answer["uuid"].as_str())
            && exchange.method == "POST"
        {
            names.push((theirs.to_owned(), ours.to_owned()));
        }
        let mut found = Vec::new();
        if status != exchange.status {
            found.push(format!("status {status} instead of {}", exchange.status));
        }
        compare("", &opened(renamed(&exchange.answer, &names)), &opened(answer), &mut found);
        let accepted = ACCEPTED.iter().any(|(part, _)| label.contains(part));
        if accepted == found.is_empty() {
            let stale = if accepted { " (accepted, but there is none)" } else { "" };
            differences.push(format!("{label}{stale}\n    {}", found.join("\n    ")));
        }
    }
    (count, differences)
}

async fn ask(client: &Host, exchange: &Exchange, names: &[(String, String)]) -> (u16, Value) {
    let path = names.iter().fold(exchange.path.clone(), |path, (theirs, ours)| path.replace(theirs, ours));
    let body: Bytes = match renamed(&exchange.body, names) {
        Value::Null => Bytes::new(),
        // What was no JSON was recorded as text.
        Value::String(text) => text.into(),
        body => body.to_string().into(),
    };
    let mut request =
        http::Request::builder().method(exchange.method.as_str()).uri(format!("{}{path}", ADDRESSES.1));
    for (name, value) in &exchange.headers {
        request = request.header(name, value);
    }
    let request = request.body(body).expect("a request");
    let answer = Client::new(client, Timeouts::default()).send(request).await.expect("an answer");
    (answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap_or_default())
}

fn renamed(value: &Value, names: &[(String, String)]) -> Value {
    let text = names.iter().fold(value.to_string(), |text, (theirs, ours)| text.replace(theirs, ours));
    serde_json::from_str(&text).expect("names hold no JSON")
}

/// An answer whose error is JSON rather than JSON in a string.
fn opened(mut answer: Value) -> Value {
    if let Some(inner) = answer["error_message"].as_str().and_then(|text| serde_json::from_str(text).ok()) {
        answer["error_message"] = inner;
    }
    answer
}

fn compare(at: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                match ours.get(key) {
                    Some(other) => compare(&format!("{at}/{key}"), value, other, found),
                    None => found.push(format!("{at}/{key} is missing")),
                }
            }
            for key in ours.keys().filter(|key| !theirs.contains_key(*key)) {
                found.push(format!("{at}/{key} is too much"));
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (index, (value, other)) in theirs.iter().zip(ours).enumerate() {
                compare(&format!("{at}/{index}"), value, other, found);
            }
        }
        (Value::String(_), Value::String(_)) if at.ends_with("_at") => {}
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => found.push(format!("{at}: {ours}\n      instead of {theirs}")),
    }
}
