//! Reading and writing: what is taken, what is refused, what follows.

use std::time::Duration;

use bytes::Bytes;
use fake_kube::KubeApi;
use serde_json::{Value, json};
use wire::{
    Seed,
    http::{Client, Timeouts},
};

use crate::user::*;

#[test]
fn spec_and_status_are_written_apart() {
    with_api(|_, user| async move {
        let mut new = host("w");
        new["status"] = status();
        let created = user.ok("POST", HOSTS, &new).await;
        assert_eq!(created["status"], Value::Null, "a new object has no status");
        assert_eq!(created["metadata"]["generation"], 1);
        assert_eq!(created["spec"]["automatedCleaningMode"], "metadata", "defaults are filled in");
        let path = format!("{HOSTS}/w");

        let mut both = created.clone();
        both["status"] = status();
        both["spec"]["online"] = false.into();
        let after = user.ok("PUT", &format!("{path}/status"), &both).await;
        assert_eq!((&after["spec"]["online"], &after["status"]["errorCount"]), (&json!(true), &json!(1)));
        assert_eq!(after["metadata"]["generation"], 1, "a status is no new wish");

        both["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
        both["status"]["errorCount"] = 9.into();
        let after = user.ok("PUT", &path, &both).await;
        assert_eq!((&after["spec"]["online"], &after["status"]["errorCount"]), (&json!(false), &json!(1)));
        assert_eq!(after["metadata"]["generation"], 2);

        let again = user.ok("PUT", &path, &after).await;
        assert_eq!(again, after, "a write that changes nothing is no new revision");
        let labelled = user.ok("PATCH", &path, &json!({ "metadata": { "labels": { "a": "b" } } })).await;
        assert_eq!(labelled["metadata"]["generation"], 2);
    });
}

#[test]
fn refusals_read_as_in_kubernetes() {
    with_api(|_, user| async move {
        let created = user.ok("POST", HOSTS, &host("w")).await;
        let path = format!("{HOSTS}/w");
        user.ok("PATCH", &path, &json!({ "metadata": { "annotations": { "a": "1" } } })).await;
        let mut unnamed = host("w");
        unnamed["spec"] = json!({ "online": "yes", "bootMode": "BIOS", "bootMACAddress": "00:11" });
        let mut unversioned = created.clone();
        unversioned["metadata"]["resourceVersion"] = Value::Null;
        let mut other = created.clone();
        other["metadata"]["name"] = "x".into();
        let no_online = json!({ "spec": { "online": null } });
        for (method, path, body, code, reason, message) in [
            (
                "GET",
                format!("{HOSTS}/x"),
                Value::Null,
                404,
                "NotFound",
                "baremetalhosts.metal3.io \"x\" not found",
            ),
            ("DELETE", format!("{SECRETS}/x"), Value::Null, 404, "NotFound", "secrets \"x\" not found"),
            (
                "POST",
                HOSTS.into(),
                host("w"),
                409,
                "AlreadyExists",
                "baremetalhosts.metal3.io \"w\" already exists",
            ),
            (
                "PUT",
                path.clone(),
                created,
                409,
                "Conflict",
                "Operation cannot be fulfilled on baremetalhosts.metal3.io \"w\": the object has been modified; \
                 please apply your changes to the latest version and try again",
            ),
            (
                "PUT",
                path.clone(),
                unversioned,
                422,
                "Invalid",
                "BareMetalHost.metal3.io \"w\" is invalid: metadata.resourceVersion: Invalid value: 0x0: must be \
                 specified for an update",
            ),
            (
                "PUT",
                path.clone(),
                other,
                400,
                "BadRequest",
                "the name of the object (x) does not match the name on the URL (w)",
            ),
            (
                "PATCH",
                path.clone(),
                no_online,
                422,
                "Invalid",
                "BareMetalHost.metal3.io \"w\" is invalid: spec.online: Required value",
            ),
            (
                "POST",
                HOSTS.into(),
                unnamed,
                422,
                "Invalid",
                "BareMetalHost.metal3.io \"w\" is invalid: [spec.bootMACAddress: Invalid value: \"00:11\": \
                 spec.bootMACAddress in body should match '[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}', spec.bootMode: \
                 Unsupported value: \"BIOS\": supported values: \"UEFI\", \"UEFISecureBoot\", \"legacy\", spec.online: \
                 Invalid value: \"string\": spec.online in body must be of type boolean: \"string\"]",
            ),
            (
                "POST",
                "/api/v1/namespaces/nowhere/secrets".into(),
                secret("s"),
                404,
                "NotFound",
                "namespaces \"nowhere\" not found",
            ),
        ] {
            let refused = user.refused(method, &path, &body).await;
            assert_eq!(refused, (code, reason.to_owned(), message.to_owned()), "{method} {path}");
        }
        let strict = format!("{HOSTS}?fieldValidation=Strict");
        let mut typo = host("v");
        typo["spec"]["onlin"] = true.into();
        let (code, _, message) = user.refused("POST", &strict, &typo).await;
        assert_eq!(
            (code, message.ends_with("strict decoding error: unknown field \"spec.onlin\"")),
            (400, true)
        );
        let pruned = user.ok("POST", HOSTS, &typo).await;
        assert_eq!(pruned["spec"]["onlin"], Value::Null);
    });
}

#[test]
fn finalizers_hold_and_owners_take_along() {
    with_api(|net, user| async move {
        let mut owner = host("w");
        owner["metadata"]["finalizers"] = json!(["baremetalhost.metal3.io"]);
        let owner = user.ok("POST", HOSTS, &owner).await;
        let mut owned = secret("s");
        owned["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "w", "uid": owner["metadata"]["uid"],
        }]);
        user.ok("POST", SECRETS, &owned).await;
        let path = format!("{HOSTS}/w");

        let marked = user.ok("DELETE", &path, &Value::Null).await;
        assert_eq!(marked["metadata"]["generation"], 2, "whoever looks for generations must notice");
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        let again = user.ok("DELETE", &path, &Value::Null).await;
        assert_eq!(again, marked, "deleting twice changes nothing");
        let more = json!({ "metadata": { "finalizers": ["baremetalhost.metal3.io", "another"] } });
        assert_eq!(user.refused("PATCH", &path, &more).await.0, 422);
        assert!(user.api.get("secret", "metal3", "s").is_some());

        user.ok("PATCH", &path, &json!({ "metadata": { "finalizers": null } })).await;
        assert_eq!(user.api.get("bmh", "metal3", "w"), None);
        assert_eq!(user.api.get("secret", "metal3", "s"), None, "the dependent goes with its owner");

        user.ok("POST", SECRETS, &secret("t")).await;
        user.ok("DELETE", "/api/v1/namespaces/metal3", &Value::Null).await;
        assert_eq!(user.api.list("secrets", "metal3"), [] as [Value; 0]);
        assert_eq!(user.api.get("ns", "", "metal3"), None);
        drop(net);
    });
}

#[test]
fn lists_come_in_pages_of_one_moment() {
    with_api(|_, user| async move {
        for name in ["a", "b", "c"] {
            user.ok("POST", SECRETS, &secret(name)).await;
        }
        let names = |list: &Value| -> Vec<String> {
            let items = list["items"].as_array().expect("items");
            items
                .iter()
                .map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        let page = user.get(&format!("{SECRETS}?limit=2")).await;
        assert_eq!(
            (names(&page), &page["metadata"]["remainingItemCount"]),
            (vec!["a".into(), "b".into()], &json!(1))
        );
        user.ok("DELETE", &format!("{SECRETS}/c"), &Value::Null).await;
        let token = page["metadata"]["continue"].as_str().expect("a token");
        let rest = user.get(&format!("{SECRETS}?limit=2&continue={token}")).await;
        assert_eq!(names(&rest), ["c"], "the second page is of the same moment as the first");
        assert_eq!(rest["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);
        assert_eq!(rest["metadata"]["continue"], Value::Null);
        let chosen = user.get(&format!("{SECRETS}?fieldSelector=metadata.name%3Db")).await;
        assert_eq!(names(&chosen), ["b"]);
        let (code, _, message) =
            user.refused("GET", &format!("{HOSTS}?fieldSelector=spec.online%3Dtrue"), &Value::Null).await;
        assert_eq!((code, message.as_str()), (400, "field label not supported: spec.online"));
    });
}

#[test]
fn a_dry_run_answers_and_does_nothing() {
    with_api(|_, user| async move {
        let before = user.api.revision();
        let answered = user.ok("POST", &format!("{HOSTS}?dryRun=All"), &host("w")).await;
        assert!(answered["metadata"]["uid"].is_string());
        assert_eq!((user.api.get("bmh", "metal3", "w"), user.api.revision()), (None, before));
        assert_eq!(user.refused("POST", &format!("{HOSTS}?dryRun=Some"), &host("w")).await.0, 400);
    });
}

#[test]
fn appliers_own_their_fields() {
    with_api(|_, user| async move {
        let path = |manager: &str| format!("{HOSTS}/w?fieldManager={manager}");
        let config = |spec: Value| json!({ "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": { "name": "w" }, "spec": spec });
        user.ok("PATCH", &path("a"), &config(json!({ "online": true, "description": "x" }))).await;
        user.ok("PATCH", &path("b"), &config(json!({ "online": true, "bootMode": "UEFI" }))).await;
        let (code, reason, message) =
            user.refused("PATCH", &path("b"), &config(json!({ "online": false }))).await;
        assert_eq!((code, reason.as_str()), (409, "Conflict"));
        assert_eq!(
            message,
            "Apply failed with 1 conflict: conflict with \"a\" using metal3.io/v1alpha1: .spec.online"
        );
        let forced =
            user.ok("PATCH", &format!("{}&force=true", path("b")), &config(json!({ "online": false }))).await;
        assert_eq!(forced["spec"]["online"], false);
        assert_eq!(forced["spec"]["bootMode"], Value::Null, "b no longer wants it");
        assert_eq!(forced["spec"]["description"], "x", "a still does");
    });
}

#[test]
fn kubectl_sees_the_table_of_the_world() {
    with_api(|net, user| async move {
        for name in ["worker-1", "worker-0"] {
            let mut new = host(name);
            new["spec"]["consumerRef"] = json!({ "name": format!("machine-of-{name}") });
            user.ok("POST", HOSTS, &new).await;
        }
        user.ok("PATCH", &format!("{HOSTS}/worker-1/status"), &json!({ "status": status() })).await;
        net.host("user").sleep(Duration::from_secs(150)).await;
        let table = user.api.table("bmh", "metal3", net.host("user").date()).expect("a table");
        assert_eq!(
            table.to_string(),
            "NAME       STATE         CONSUMER              ONLINE   ERROR                AGE\n\
             worker-0                 machine-of-worker-0   true                          2m30s\n\
             worker-1   registering   machine-of-worker-1   true     registration error   2m30s\n"
        );
        let (_, status) = user.call("GET", "/apis/metal3.io/v1beta9/things", &Value::Null).await;
        assert_eq!(status["message"], "the server could not find the requested resource");
    });
}

#[test]
fn events_are_gone_after_an_hour() {
    with_api(|net, user| async move {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "generateName": "Registered-" }, "reason": "Registered",
            "involvedObject": { "kind": "BareMetalHost", "namespace": "metal3", "name": "w" }, "message": "m",
        });
        let events = "/api/v1/namespaces/metal3/events";
        let made = user.ok("POST", events, &event).await;
        assert_eq!(made["metadata"]["name"].as_str().map(str::len), Some("Registered-".len() + 5));
        let new = user.get("/apis/events.k8s.io/v1/namespaces/metal3/events").await;
        assert_eq!(
            (&new["items"][0]["note"], &new["items"][0]["regarding"]["name"]),
            (&json!("m"), &json!("w"))
        );
        let table = user.api.table("events", "metal3", net.host("user").date()).expect("a table");
        assert_eq!(table.columns, ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
        assert_eq!(table.rows[0][3..], ["baremetalhost/w", "m"]);
        net.host("user").sleep(Duration::from_secs(3600)).await;
        assert_eq!(user.get(events).await["items"], json!([]));
    });
}

#[test]
fn a_definition_is_served_as_soon_as_it_is_written() {
    with_api(|_, user| async move {
        let widgets = "/apis/example.org/v1/namespaces/metal3/widgets";
        let widget = json!({ "apiVersion": "example.org/v1", "kind": "Widget", "metadata": { "name": "a" }, "size": 1 });
        assert_eq!(user.call("POST", widgets, &widget).await.0, 404);
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let mut definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "widgets.example.org" },
            "spec": {
                "group": "example.org", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "properties": { "size": { "type": "integer", "maximum": 3 } },
                    } },
                }],
            },
        });
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = "thing".into();
        assert_eq!(user.refused("POST", definitions, &definition).await.0, 422);
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = "object".into();
        user.ok("POST", definitions, &definition).await;
        user.ok("POST", widgets, &widget).await;
        let mut large = widget.clone();
        large["size"] = 4.into();
        large["metadata"]["name"] = "b".into();
        assert_eq!(user.refused("POST", widgets, &large).await.0, 422);
        let resources = user.get("/apis/example.org/v1").await;
        assert_eq!(resources["resources"][0]["name"], "widgets");
        user.ok("DELETE", &format!("{definitions}/widgets.example.org"), &Value::Null).await;
        assert_eq!(user.call("GET", &format!("{widgets}/a"), &Value::Null).await.0, 404);
        assert_eq!(user.api.list("widgets", ""), [] as [Value; 0]);
    });
}

#[test]
fn what_changes_is_noted_without_secrets() {
    let notes = engine::simulate(Seed(3), |net| async move {
        let notes = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = std::sync::Arc::clone(&notes);
        net.observe(move |_, entry| {
            if entry.topic == "kube" {
                kept.lock().expect("a lock").push(format!("{} {}", entry.subject, entry.data));
            }
        });
        let api = KubeApi::new();
        drop(api.serve(net.host("kube")));
        let user = User { api, client: Client::new(&net.host("user"), Timeouts::default()) };
        pause(&net.host("user")).await;
        let secrets = "/api/v1/namespaces/default/secrets";
        user.ok("POST", secrets, &secret("s")).await;
        let hosts = HOSTS.replace("metal3/", "default/");
        user.ok("POST", &hosts, &host("w")).await;
        user.ok("PATCH", &format!("{hosts}/w/status"), &json!({ "status": status() })).await;
        user.ok("DELETE", &format!("{hosts}/w"), &Value::Null).await;
        notes.lock().expect("a lock").clone()
    });
    assert!(notes.iter().all(|note| !note.contains("cGFzcw") && !note.contains("pass\"")), "{notes:?}");
    let host: Vec<&String> =
        notes.iter().filter(|note| note.starts_with("baremetalhosts/default/w ")).collect();
    for (note, parts) in host.iter().zip([
        &["\"event\":\"ADDED\"", "\"online\":true"][..],
        &[
            "\"event\":\"MODIFIED\"",
            "\"state\":\"registering\"",
            "\"operationalStatus\":\"error\"",
            "\"errorType\":\"registration error\"",
            "\"errorMessage\":\"no answer\"",
            "\"errorCount\":1",
            "\"poweredOn\":false",
        ],
        &["\"event\":\"DELETED\""],
    ]) {
        assert!(parts.iter().all(|part| note.contains(part)), "{note}");
    }
    assert_eq!(host.len(), 3);
}

#[test]
fn go_clients_may_write_protobuf() {
    with_api(|_, user| async move {
        let part = |number: u8, bytes: &[u8]| {
            let length = u8::try_from(bytes.len()).expect("a short value");
            [&[number << 3 | 2, length][..], bytes].concat()
        };
        let kind = [part(1, b"v1"), part(2, b"Secret")].concat();
        let raw = [part(1, &part(1, b"s")), part(2, &[part(1, b"k"), part(2, b"v")].concat())].concat();
        let body = [b"k8s\0".to_vec(), part(1, &kind), part(2, &raw)].concat();
        for (path, code) in [(SECRETS, 201), (HOSTS, 415)] {
            let request = http::Request::post(format!("http://kube:6443{path}"))
                .header("content-type", "application/vnd.kubernetes.protobuf")
                .header("accept", "application/vnd.kubernetes.protobuf, */*")
                .body(Bytes::from(body.clone()))
                .expect("a request");
            let answer = user.client.send(request).await.expect("an answer");
            assert_eq!(answer.status().as_u16(), code, "{path}");
        }
        let made = user.api.get("secret", "metal3", "s").expect("a secret");
        assert_eq!((&made["data"]["k"], &made["type"]), (&json!("dg=="), &json!("Opaque")));
    });
}
