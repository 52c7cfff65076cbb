//! Trouble: faults, and a crash of the server.

use std::time::Duration;

use fake_kube::Fault;
use serde_json::{Value, json};

use crate::user::*;

#[test]
fn faults_do_what_clients_see() {
    with_api(|net, user| async move {
        let fault = |value: Value| -> Fault { serde_json::from_value(value).expect("a fault") };
        user.ok("POST", SECRETS, &secret("s")).await;
        let path = format!("{SECRETS}/s");
        let label = |value: &str| json!({ "metadata": { "labels": { "n": value } } });
        let labelled = |value: &str| {
            user.api.get("secret", "metal3", "s").expect("s")["metadata"]["labels"]["n"] == value
        };

        let id = user.api.begin(fault(
            json!({ "kind": "status", "code": 503, "on": { "resource": "secrets", "count": 1 } }),
        ));
        assert_eq!(user.refused("GET", &path, &Value::Null).await.0, 503);
        user.get(&path).await;
        assert_eq!(user.api.end(id), Some(1));

        let id = user.api.begin(fault(json!({ "kind": "conflict", "on": { "verb": "patch" } })));
        assert_eq!(user.refused("PATCH", &path, &label("1")).await.1, "Conflict");
        assert!(!labelled("1"));
        user.api.end(id);

        let id = user.api.begin(fault(json!({ "kind": "lose-answer" })));
        let lost = user.try_call("PATCH", &path, &label("2")).await;
        assert!(lost.is_err() && labelled("2"), "it was done and nobody was told: {lost:?}");
        user.api.end(id);

        let id = user.api.begin(fault(json!({ "kind": "reset" })));
        assert!(user.try_call("PATCH", &path, &label("3")).await.is_err() && labelled("2"));
        user.api.end(id);

        let id = user.api.begin(fault(json!({ "kind": "stall", "on": { "client": "user" } })));
        let slow = wire::within(Duration::from_secs(100), user.try_call("GET", &path, &Value::Null)).await;
        assert!(slow.is_none());
        user.api.end(id);

        let id = user.api.begin(fault(json!({ "kind": "stale-reads", "by": 1 })));
        user.ok("PATCH", &path, &label("4")).await;
        assert_eq!(user.get(&path).await["metadata"]["labels"]["n"], "2");
        assert_eq!(user.get(SECRETS).await["items"][0]["metadata"]["labels"]["n"], "2");
        user.api.end(id);

        let mut watch =
            user.watch(&format!("{SECRETS}?watch=1&resourceVersion={}", user.api.revision())).await;
        let id =
            user.api.begin(fault(json!({ "kind": "drop-watch-events", "on": { "nth": 2, "count": 1 } })));
        for value in ["5", "6", "7"] {
            user.ok("PATCH", &path, &label(value)).await;
            pause(&net.host("user")).await;
        }
        for value in ["5", "7"] {
            assert_eq!(watch.next().await.expect("an event")["object"]["metadata"]["labels"]["n"], value);
        }
        assert_eq!(user.api.end(id), Some(1));
        let id = user.api.begin(fault(json!({ "kind": "watch-closed", "on": { "count": 1 } })));
        assert_eq!(watch.next().await, None);
        let mut next =
            user.watch(&format!("{SECRETS}?watch=1&resourceVersion={}", user.api.revision())).await;
        user.ok("PATCH", &path, &label("8")).await;
        assert_eq!(next.told().await.0, "MODIFIED");
        assert_eq!(user.api.end(id), Some(1));
        user.api.begin(fault(json!({ "kind": "watch-expired" })));
        assert_eq!(next.next().await.expect("an event")["object"]["code"], 410);
    });
}

#[test]
fn objects_outlive_a_crash_and_the_history_does_not() {
    with_api(|net, user| async move {
        let first = user.ok("POST", SECRETS, &secret("a")).await;
        let since = first["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
        user.ok("POST", SECRETS, &secret("b")).await;
        net.crash("kube");
        let host = net.restart("kube");
        drop(user.api.serve(host));
        pause(&net.host("user")).await;
        assert_eq!(user.get(SECRETS).await["items"].as_array().map(Vec::len), Some(2));
        let mut old = user.watch(&format!("{SECRETS}?watch=1&resourceVersion={since}")).await;
        assert_eq!(old.next().await.expect("an event")["object"]["code"], 410);
        let c = user.ok("POST", SECRETS, &secret("c")).await;
        assert_ne!(c["metadata"]["uid"], first["metadata"]["uid"]);
    });
}
