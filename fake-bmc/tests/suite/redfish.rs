//! Redfish, as Ironic and curl see it.

use fake_bmc::{BootSource, Hold, Inert, Power};
use http::StatusCode;
use serde_json::json;

use crate::world::{Redfish, USER, config, installed, world};

#[test]
fn a_session_is_opened_used_and_closed() {
    world(config(), Inert, |world| async move {
        let nobody = Redfish::with_headers(&world.client, vec![]);
        let sessions = "/redfish/v1/SessionService/Sessions";
        let root = nobody.get("/redfish/v1/").await;
        assert_eq!(root.status, StatusCode::OK);
        assert_eq!(root.header("odata-version"), "4.0");
        assert_eq!(root.json()["Links"]["Sessions"]["@odata.id"], sessions);

        let opened = nobody.send("POST", sessions, json!({ "UserName": USER, "Password": "password" })).await;
        assert_eq!(opened.status, StatusCode::CREATED);
        assert_eq!(opened.json()["Password"], json!(null));
        let (token, location) = (opened.header("x-auth-token"), opened.header("location"));
        let known = Redfish::with_headers(&world.client, vec![("x-auth-token", token.to_owned())]);
        assert_eq!(known.get(&world.system()).await.status, StatusCode::OK);
        assert_eq!(known.get(sessions).await.json()["Members@odata.count"], 1);

        assert_eq!(known.send("DELETE", location, "").await.status, StatusCode::NO_CONTENT);
        assert_eq!(known.get(&world.system()).await.status, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn an_idle_session_ends_and_so_do_all_when_the_password_changes_or_the_bmc_restarts() {
    world(config(), Inert, |world| async move {
        let login = async |password: &str| {
            let nobody = Redfish::with_headers(&world.client, vec![]);
            let body = json!({ "UserName": USER, "Password": password });
            let opened = nobody.send("POST", "/redfish/v1/SessionService/Sessions", body).await;
            Redfish::with_headers(
                &world.client,
                vec![("x-auth-token", opened.header("x-auth-token").to_owned())],
            )
        };
        let status = async |session: &Redfish| session.get(&world.system()).await.status;

        let session = login("password").await;
        world.sleep(1790).await;
        assert_eq!(status(&session).await, StatusCode::OK);
        world.sleep(1790).await;
        assert_eq!(status(&session).await, StatusCode::OK, "using it has prolonged it");
        world.sleep(1801).await;
        assert_eq!(status(&session).await, StatusCode::UNAUTHORIZED);

        let session = login("password").await;
        world.bmc.set_password("new");
        assert_eq!(status(&session).await, StatusCode::UNAUTHORIZED);
        assert_eq!(status(&world.redfish()).await, StatusCode::UNAUTHORIZED);

        let session = login("new").await;
        assert_eq!(status(&session).await, StatusCode::OK);
        world.net.restart("bmc");
        world.serve();
        world.sleep(1).await;
        assert_eq!(status(&session).await, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn who_may_not_is_told_so() {
    world(config(), Inert, |world| async move {
        let clients = [
            Redfish::with_headers(&world.client, vec![]),
            Redfish::new(&world.client, USER, "wrong"),
            Redfish::new(&world.client, "root", "password"),
            Redfish::with_headers(&world.client, vec![("authorization", "Basic !".to_owned())]),
            Redfish::with_headers(&world.client, vec![("authorization", "Bearer x".to_owned())]),
            Redfish::with_headers(&world.client, vec![("x-auth-token", "x".to_owned())]),
        ];
        for client in clients {
            for path in [world.system(), "/redfish/v1/Nowhere".to_owned()] {
                let answer = client.get(&path).await;
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
                assert_eq!(answer.header("www-authenticate"), "Basic realm=\"redfish\"");
                assert_eq!(answer.message_id(), "NoValidSession");
            }
        }
        let body = json!({ "UserName": USER, "Password": "wrong" });
        let nobody = Redfish::with_headers(&world.client, vec![]);
        let refused = nobody.send("POST", "/redfish/v1/SessionService/Sessions", body).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    });
}

/// Every link that the service hands out leads somewhere, and every resource says what it is.
#[test]
fn no_link_is_dead() {
    world(config(), Inert, |world| async move {
        fn links(value: &serde_json::Value, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(map) => {
                    found.extend(map.get("@odata.id").and_then(|id| id.as_str()).map(str::to_owned));
                    map.values().for_each(|value| links(value, found));
                }
                serde_json::Value::Array(list) => list.iter().for_each(|value| links(value, found)),
                _ => {}
            }
        }
        let client = world.redfish();
        let mut seen = std::collections::BTreeSet::new();
        let mut next = vec!["/redfish/v1/".to_owned()];
        while let Some(path) = next.pop() {
            if seen.insert(path.clone()) {
                let answer = client.get(&path).await;
                assert_eq!(answer.status, StatusCode::OK, "{path}");
                assert!(answer.header("allow").starts_with("GET, HEAD"), "{path}");
                let body = answer.json();
                assert_eq!(body["@odata.id"], path);
                assert!(body["@odata.type"].as_str().is_some_and(|kind| kind.starts_with('#')), "{path}");
                assert!(body["Name"].is_string(), "{path}");
                links(&body, &mut next);
            }
        }
        assert!(seen.len() > 20, "{seen:?}");
        let head = client.send("HEAD", "/redfish/v1/", "").await;
        assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
        assert_eq!(client.get("/redfish").await.json(), json!({ "v1": "/redfish/v1/" }));
        assert!(
            client.get("/redfish/v1/$metadata").await.header("content-type").starts_with("application/xml")
        );
        assert!(
            client.get("/redfish/v1/odata").await.json()["value"]
                .as_array()
                .is_some_and(|all| all.len() == 6)
        );
    });
}

#[test]
fn wrong_requests_say_what_is_wrong_and_change_nothing() {
    world(config(), Inert, |world| async move {
        let system = world.system();
        let reset = format!("{system}/Actions/ComputerSystem.Reset");
        let insert = format!("{system}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia");
        let boot = |member: &str| format!(r#"{{"Boot":{{"BootSourceOverrideMode":"Legacy",{member}}}}}"#);
        #[rustfmt::skip]
        let cases = [
            ("GET", "/redfish/v1/Nowhere", String::new(), 404, "ResourceMissingAtURI"),
            ("GET", "/redfish/v1/Systems/other", String::new(), 404, "ResourceMissingAtURI"),
            ("GET", &reset, String::new(), 405, "OperationNotAllowed"),
            ("PUT", &system, "{}".into(), 405, "OperationNotAllowed"),
            ("DELETE", "/redfish/v1/SessionService/Sessions/x", String::new(), 404, "ResourceMissingAtURI"),
            ("GET", "/redfish/v1/Systems?$expand=.", String::new(), 501, "QueryParameterUnsupported"),
            ("POST", &reset, "{".into(), 400, "MalformedJSON"),
            ("POST", &reset, "[]".into(), 400, "MalformedJSON"),
            ("POST", &reset, "{}".into(), 400, "ActionParameterMissing"),
            ("POST", &reset, r#"{"ResetType":"Explode"}"#.into(), 400, "ActionParameterValueNotInList"),
            ("POST", &reset, r#"{"ResetType":1}"#.into(), 400, "ActionParameterValueTypeError"),
            ("POST", &reset, r#"{"ResetType":"On","Delay":1}"#.into(), 400, "ActionParameterUnknown"),
            ("POST", &reset, r#"{"ResetType":"ForceRestart"}"#.into(), 409, "ResourceInStandby"),
            ("POST", &insert, r#"{"Image":null}"#.into(), 400, "ActionParameterMissing"),
            ("POST", &insert, r#"{"Image":"nfs://ironic/x.iso"}"#.into(), 400, "ActionParameterValueFormatError"),
            ("POST", &insert, r#"{"Image":"not a url"}"#.into(), 400, "ActionParameterValueFormatError"),
            ("POST", &insert, r#"{"Image":"http://i/x","TransferProtocolType":"NFS"}"#.into(), 400, "ActionParameterValueNotInList"),
            ("POST", &insert, r#"{"Image":"http://i/x","Inserted":false}"#.into(), 400, "ActionParameterValueNotInList"),
            ("POST", &insert, r#"{"Image":"http://i/x","WriteProtected":1}"#.into(), 400, "ActionParameterValueTypeError"),
            ("PATCH", &system, "{}".into(), 400, "NoOperation"),
            ("PATCH", &system, r#"{"@odata.id":"/x"}"#.into(), 400, "NoOperation"),
            ("PATCH", &system, r#"{"Colour":"red"}"#.into(), 400, "PropertyUnknown"),
            ("PATCH", &system, r#"{"PowerState":"On"}"#.into(), 400, "PropertyNotWritable"),
            ("PATCH", &system, r#"{"Boot":[]}"#.into(), 400, "PropertyValueTypeError"),
            ("PATCH", &system, boot(r#""Colour":"red""#), 400, "PropertyUnknown"),
            ("PATCH", &system, boot(r#""BootSourceOverrideTarget":"Tape""#), 400, "PropertyValueNotInList"),
            ("PATCH", &system, boot(r#""BootSourceOverrideTarget":4"#), 400, "PropertyValueTypeError"),
            ("PATCH", &system, boot(r#""BootSourceOverrideEnabled":"Twice""#), 400, "PropertyValueNotInList"),
        ];
        let client = world.redfish();
        let before = client.get(&system).await.json();
        for (method, path, body, status, message) in cases {
            let answer = client.send(method, path, &body).await;
            assert_eq!(
                (answer.status.as_u16(), answer.message_id().as_str()),
                (status, message),
                "{method} {path} {body}"
            );
            assert_eq!(answer.header("odata-version"), "4.0");
            assert_eq!(answer.headers.contains_key("allow"), status == 405, "{method} {path}");
        }
        assert_eq!(client.get(&system).await.json(), before);
        let medium = client.get(&format!("{system}/VirtualMedia/Cd")).await.json();
        assert_eq!(medium["Inserted"], false);
        let large = client.send("POST", &reset, " ".repeat(2 << 20)).await;
        assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
        let old = world.redfish().and("odata-version", "4.1").get(&system).await;
        assert_eq!(old.status, StatusCode::PRECONDITION_FAILED);
    });
}

#[test]
fn power_goes_on_and_off_as_it_is_told() {
    let mut config = config();
    config.disk = installed();
    world(config, Inert, |world| async move {
        let (client, system) = (world.redfish(), world.system());
        let state = async || client.get(&system).await.json()["PowerState"].clone();
        assert_eq!(state().await, "Off");
        assert_eq!(client.reset(&system, "On").await.status, StatusCode::NO_CONTENT);
        assert_eq!(state().await, "PoweringOn");
        world.wait_for(Power::On).await;
        assert_eq!(state().await, "On");
        world.sleep(120).await;
        assert_eq!(client.get(&system).await.json()["BootProgress"]["LastState"], "OSRunning");

        assert_eq!(client.reset(&system, "GracefulShutdown").await.status, StatusCode::NO_CONTENT);
        assert_eq!(state().await, "On", "the system is still shutting down");
        let took = world.wait_for(Power::Off).await.as_secs();
        assert!((7..=20).contains(&took), "{took} s");

        client.reset(&system, "On").await;
        world.wait_for(Power::On).await;
        client.reset(&system, "ForceOff").await;
        let took = world.wait_for(Power::Off).await.as_secs();
        assert!((2..=4).contains(&took), "{took} s");
        assert_eq!(
            client.reset(&system, "ForceOff").await.status,
            StatusCode::NO_CONTENT,
            "it is off already"
        );
    });
}

#[test]
fn the_boot_source_is_set_as_ironic_does_it() {
    world(config(), Inert, |world| async move {
        let (client, system) = (world.redfish(), world.system());
        let read = client.get(&system).await;
        let etag = read.header("etag").to_owned();
        assert_eq!(read.json()["@odata.etag"], etag);
        assert_eq!(read.json()["Boot"]["BootSourceOverrideEnabled"], "Disabled");
        let once = json!({ "Boot": {
            "BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once", "HttpBootUri": null
        } });
        let stale = world.redfish().and("if-match", "\"stale\"").send("PATCH", &system, &once).await;
        assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
        assert_eq!(stale.message_id(), "PreconditionFailed");
        let set = world.redfish().and("if-match", &etag).send("PATCH", &system, &once).await;
        assert_eq!(set.status, StatusCode::NO_CONTENT);
        let instead = world.bmc.boot().instead.unwrap();
        assert_eq!((instead.source, instead.hold), (BootSource::Cd, Hold::Once));
        let again = client.get(&system).await;
        assert_ne!(again.header("etag"), etag, "what was changed has another ETag");
        assert_eq!(again.json()["Boot"]["BootSourceOverrideTarget"], "Cd");

        let unchanged = world.redfish().and("if-none-match", again.header("etag")).get(&system).await;
        assert_eq!((unchanged.status, unchanged.body.len()), (StatusCode::NOT_MODIFIED, 0));

        let disk = json!({ "Boot": { "BootSourceOverrideTarget": "Hdd", "BootSourceOverrideEnabled": "Continuous" } });
        client.send("PATCH", &system, disk).await;
        client.send("PATCH", &system, json!({ "Boot": { "BootSourceOverrideTarget": "Pxe" } })).await;
        let instead = world.bmc.boot().instead.unwrap();
        assert_eq!(
            (instead.source, instead.hold),
            (BootSource::Pxe, Hold::Continuous),
            "what is not named stays"
        );
        client.send("PATCH", &system, json!({ "Boot": { "BootSourceOverrideEnabled": "Disabled" } })).await;
        assert_eq!(world.bmc.boot().instead, None);
    });
}

#[test]
fn media_are_inserted_and_ejected_under_the_system_and_the_manager() {
    world(config(), Inert, |world| async move {
        let client = world.redfish();
        let under = [world.system(), world.system().replace("Systems", "Managers")];
        let image = json!({ "Image": "http://ironic/boot.iso" });
        for (here, there) in [(&under[0], &under[1]), (&under[1], &under[0])] {
            let action = |name: &str| format!("{here}/VirtualMedia/Cd/Actions/VirtualMedia.{name}");
            let medium = async || client.get(&format!("{there}/VirtualMedia/Cd")).await.json();
            assert_eq!(medium().await["MediaTypes"], json!(["CD", "DVD"]));
            assert_eq!(
                client.send("POST", &action("InsertMedia"), &image).await.status,
                StatusCode::NO_CONTENT
            );
            assert_eq!(medium().await["Inserted"], true);
            assert_eq!(medium().await["Image"], "http://ironic/boot.iso");
            assert_eq!(medium().await["ImageName"], "boot.iso");

            let repeated = client.send("POST", &action("InsertMedia"), &image).await;
            assert_eq!(
                repeated.status,
                StatusCode::NO_CONTENT,
                "a request whose answer was lost is sent again"
            );
            let other = client
                .send("POST", &action("InsertMedia"), json!({ "Image": "http://ironic/other.iso" }))
                .await;
            assert_eq!((other.status.as_u16(), other.message_id().as_str()), (409, "ResourceInUse"));

            assert_eq!(client.send("POST", &action("EjectMedia"), "").await.status, StatusCode::NO_CONTENT);
            assert_eq!(medium().await["Inserted"], false);
            assert_eq!(client.send("POST", &action("EjectMedia"), "{}").await.status, StatusCode::NO_CONTENT);
        }
        let events: Vec<_> = world.journal("media").into_iter().map(|data| data["event"].clone()).collect();
        assert_eq!(events, ["inserted", "ejected", "inserted", "ejected"]);
    });
}

#[test]
fn secure_boot_changes_with_the_next_boot() {
    world(config(), Inert, |world| async move {
        let client = world.redfish();
        let path = format!("{}/SecureBoot", world.system());
        let changed = client.send("PATCH", &path, json!({ "SecureBootEnable": true })).await;
        assert_eq!(changed.status, StatusCode::NO_CONTENT);
        let read = client.get(&path).await.json();
        assert_eq!(
            (&read["SecureBootEnable"], &read["SecureBootCurrentBoot"]),
            (&json!(true), &json!("Disabled"))
        );
        client.reset(&world.system(), "On").await;
        world.wait_for(Power::On).await;
        assert_eq!(client.get(&path).await.json()["SecureBootCurrentBoot"], "Enabled");
    });
}
