//! Watches: what they tell, and when they end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::user::*;

#[test]
fn a_watch_tells_what_changes() {
    with_api(|net, user| async move {
        let first = user.ok("POST", SECRETS, &secret("a")).await;
        let since = first["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
        let mut all = user.watch(&format!("{SECRETS}?watch=true")).await;
        let mut later = user.watch(&format!("{SECRETS}?watch=1&resourceVersion={since}")).await;
        let mut some = user.watch(&format!("{SECRETS}?watch=1&labelSelector=env%3Dprod")).await;
        let mut streamed = user
            .watch(&format!("{SECRETS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"))
            .await;
        assert_eq!(all.told().await, ("ADDED".into(), "a".into()));
        assert_eq!(streamed.told().await, ("ADDED".into(), "a".into()));
        let mark = streamed.next().await.expect("a bookmark");
        assert_eq!(mark["type"], "BOOKMARK");
        assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");

        let path = format!("{SECRETS}/a");
        user.ok("PATCH", &path, &json!({ "metadata": { "labels": { "env": "prod" } } })).await;
        user.ok("PATCH", &path, &json!({ "metadata": { "labels": { "env": "dev" } } })).await;
        user.ok("DELETE", &path, &Value::Null).await;
        for (watch, told) in [
            (&mut all, vec!["MODIFIED", "MODIFIED", "DELETED"]),
            (&mut later, vec!["MODIFIED", "MODIFIED", "DELETED"]),
            (&mut some, vec!["ADDED", "DELETED"]),
        ] {
            for kind in told {
                assert_eq!(watch.told().await, (kind.into(), "a".into()));
            }
        }
        let mut limited =
            user.watch(&format!("{SECRETS}?watch=1&timeoutSeconds=90&allowWatchBookmarks=true")).await;
        user.ok("POST", HOSTS, &host("w")).await;
        let began = net.now();
        let mark = limited.next().await.expect("a bookmark");
        assert_eq!((&mark["type"], &mark["object"]["kind"]), (&json!("BOOKMARK"), &json!("Secret")));
        assert_eq!(limited.next().await, None, "its time is up");
        let took = net.now().since(began).as_secs();
        assert!((89..=90).contains(&took), "{took}");
    });
}

#[test]
fn a_watch_from_too_long_ago_is_told_so() {
    with_api(|net, user| async move {
        let first = user.ok("POST", SECRETS, &secret("a")).await;
        let since = first["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
        for round in 0..150 {
            user.ok(
                "PATCH",
                &format!("{SECRETS}/a"),
                &json!({ "metadata": { "labels": { "n": format!("{round}") } } }),
            )
            .await;
            net.host("user").sleep(Duration::from_secs(1)).await;
        }
        let mut old = user.watch(&format!("{SECRETS}?watch=1&resourceVersion={since}")).await;
        let event = old.next().await.expect("an event");
        assert_eq!(event["type"], "ERROR");
        assert_eq!((&event["object"]["code"], &event["object"]["reason"]), (&json!(410), &json!("Expired")));
        let message = event["object"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(&format!("too old resource version: {since} (")), "{message}");
        assert_eq!(old.next().await, None);
    });
}
