//! Nodes through their lives, against a small machine in virtual time. The histories, texts and waits are those that a
//! real Ironic 39.0.0 showed on the same work.

mod machine;
mod world;

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use self::world::{IMAGE_SHA256, settings, tell};

#[test]
fn a_whole_life() {
    tell(settings(json!({})), |world| async move {
        world.managed().await;
        assert_eq!(world.states(), ["enroll", "verifying", "manageable"]);
        assert_eq!(world.node().await["power_state"], "power off");

        let node = world.go("inspect", "manageable").await;
        assert_eq!(world.states(), ["inspecting", "inspect wait", "inspecting", "manageable"]);
        assert_eq!(
            (&node["power_state"], &node["properties"]["cpu_arch"]),
            (&json!("power off"), &json!("x86_64"))
        );
        let (_, inventory) = world.ask(Method::GET, "nodes/ns~host/inventory", Value::Null).await;
        assert_eq!(inventory["inventory"]["cpu"]["count"], 4);
        assert_eq!(inventory["plugin_data"]["all_interfaces"]["eth0"]["pxe_enabled"], true);
        let (_, ports) = world.ask(Method::GET, "nodes/ns~host/ports/detail", Value::Null).await;
        let boots: Vec<&Value> =
            ports["ports"].as_array().expect("ports").iter().map(|p| &p["pxe_enabled"]).collect();
        assert_eq!(boots, [true, false]);

        let node = world.go("provide", "available").await;
        assert_eq!(
            world.states(),
            ["cleaning", "clean wait", "cleaning", "clean wait", "cleaning", "available"]
        );
        assert_eq!(
            (world.machine.state().disk.as_str(), &node["power_state"]),
            ("wiped", &json!("power off"))
        );

        world.set_image(IMAGE_SHA256).await;
        let node = world.go("active", "active").await;
        assert_eq!(
            world.states(),
            ["deploying", "wait call-back", "deploying", "wait call-back", "deploying", "active"]
        );
        assert_eq!((&node["power_state"], &node["last_error"]), (&json!("power on"), &Value::Null));
        {
            let machine = world.machine.state();
            assert_eq!(
                (machine.disk.as_str(), machine.target.as_str(), machine.on),
                (IMAGE_SHA256, "Hdd", true)
            );
        }

        let node = world.go("deleted", "available").await;
        assert_eq!(
            world.states(),
            ["deleting", "cleaning", "clean wait", "cleaning", "clean wait", "cleaning", "available"]
        );
        assert_eq!((&node["instance_info"], &node["power_state"]), (&json!({}), &json!("power off")));
        assert_eq!(world.machine.state().disk, "wiped");
    });
}

#[test]
fn a_bmc_that_fails_puts_the_node_back_to_enroll() {
    tell(settings(json!({})), |world| async move {
        let uuid = world.enroll().await;
        world.machine.state().status = Some(503);
        let begun = world.client.now();
        let node = world.go("manage", "enroll").await;
        let text = format!(
            "Failed to get power state for node {uuid}. Error: HTTP GET http://bmc/redfish/v1/ returned code 503. \
             Base.1.0.GeneralError: injected Extended information: None"
        );
        assert_eq!(node["last_error"], text);
        assert_eq!((&node["maintenance"], &node["power_state"]), (&json!(false), &Value::Null));
        assert_eq!(world.states(), ["enroll", "verifying", "enroll"]);
        // A real Ironic took 34 s.
        let took = world.client.now() - begun;
        assert!((25..40).contains(&took.as_secs()), "{took:?}");

        // An accepted verb clears the text; success leaves none.
        world.machine.state().status = None;
        assert_eq!(world.go("manage", "manageable").await["last_error"], Value::Null);
    });
}

#[test]
fn while_a_node_is_locked_others_wait_and_are_refused() {
    tell(settings(json!({})), |world| async move {
        let uuid = world.enroll().await;
        world.machine.state().status = Some(503);
        assert_eq!(world.provision(json!({ "target": "manage" })).await, StatusCode::ACCEPTED);
        let locked = (
            409,
            format!(
                "Node {uuid} is locked by host sim-conductor, please retry after the current operation is completed."
            ),
        );
        // A verb that does not fit is refused at once, all else after two pauses of a second.
        for (method, path, body, seconds) in [
            (Method::PUT, "states/provision", json!({ "target": "manage" }), 0),
            (Method::PUT, "states/power", json!({ "target": "power on" }), 2),
            (Method::PATCH, "", json!([{ "op": "add", "path": "/extra/a", "value": 1 }]), 2),
            (Method::PUT, "maintenance", Value::Null, 2),
            (Method::DELETE, "", Value::Null, 2),
        ] {
            let begun = world.client.now();
            let path = format!("nodes/{uuid}/{path}");
            assert_eq!(world.refusal(method, &path, body).await, locked, "{path}");
            assert_eq!((world.client.now() - begun).as_secs(), seconds, "{path}");
        }
        // Looking is always allowed, and so are ports.
        assert_eq!(world.node().await["reservation"], "sim-conductor");
        let port = json!({ "node_uuid": uuid, "address": "00:5c:52:31:00:77" });
        assert_eq!(world.ask(Method::POST, "ports", port).await.0, StatusCode::CREATED);
    });
}

#[test]
fn power_sync_gives_up_after_four_passes_and_takes_back_what_it_did() {
    tell(settings(json!({})), |world| async move {
        let uuid = world.managed().await;
        world.journal.lock().expect("nobody panicked").clear();
        world.machine.state().status = Some(503);
        let begun = world.client.now();
        let text = loop {
            world.client.sleep(Duration::from_secs(1)).await;
            let node = world.node().await;
            if node["maintenance"] == true {
                assert_eq!((&node["fault"], &node["power_state"]), (&json!("power failure"), &Value::Null));
                assert_eq!(node["maintenance_reason"], node["last_error"]);
                break node["last_error"].as_str().expect("a text").to_owned();
            }
        };
        let wanted = format!(
            "During sync_power_state, max retries exceeded for node {uuid}, node state None does not match expected \
             state 'power off'. Updating DB state to 'None' Switching node to maintenance mode. Error: HTTP GET "
        );
        assert!(text.starts_with(&wanted), "{text}");
        // Four passes, 120 s apart, of which the first begins within 120 s; a failing one takes half a minute.
        let took = (world.client.now() - begun).as_secs();
        assert!((360..=520).contains(&took), "{took}");

        world.machine.state().status = None;
        let begun = world.client.now();
        while world.node().await["maintenance"] == true {
            world.client.sleep(Duration::from_secs(1)).await;
        }
        assert!((world.client.now() - begun).as_secs() <= 300);
        let node = world.node().await;
        assert_eq!((&node["fault"], &node["power_state"]), (&Value::Null, &json!("power off")));
        assert_eq!(node["last_error"], text);
    });
}

#[test]
fn power_sync_drives_a_machine_back() {
    tell(settings(json!({})), |world| async move {
        world.managed().await;
        world.machine.power(true);
        world.client.sleep(Duration::from_secs(300)).await;
        assert!(!world.machine.state().on);
        assert_eq!(world.node().await["power_state"], "power off");
    });
    let record = settings(json!({ "conductor": { "force_power_state_during_sync": false } }));
    tell(record, |world| async move {
        world.managed().await;
        world.machine.power(true);
        world.client.sleep(Duration::from_secs(300)).await;
        assert!(world.machine.state().on);
        assert_eq!(world.node().await["power_state"], "power on");
    });
}

#[test]
fn adoption_and_images() {
    // Ironic's age, whether the image is there, where the node ends
    for (validates, there, end) in [
        (false, true, "active"),
        (false, false, "active"),
        (true, true, "active"),
        (true, false, "adopt failed"),
    ] {
        let settings = settings(json!({ "release": { "validate_image_on_adopt": validates } }));
        tell(settings, move |world| async move {
            let uuid = world.managed().await;
            world.set_image(IMAGE_SHA256).await;
            *world.cache.lock().expect("nobody panicked") = there;
            let node = world.go("adopt", end).await;
            let error = format!(
                "Error while attempting to adopt node {uuid}: Validation of image href http://cache/images/disk.raw \
                 failed, reason: Got HTTP code 404 instead of 200 in response to HEAD request.."
            );
            assert_eq!(node["last_error"].as_str(), (end != "active").then_some(error.as_str()));
            if end == "adopt failed" {
                assert_eq!(node["power_state"], Value::Null);
                *world.cache.lock().expect("nobody panicked") = true;
                assert_eq!(world.go("adopt", "active").await["last_error"], Value::Null);
            }
            assert_eq!(world.machine.state().disk, "blank");
        });
    }
}

#[test]
fn a_restart_ends_what_the_conductor_did_and_keeps_what_waits() {
    tell(settings(json!({})), |world| async move {
        let uuid = world.enroll().await;
        world.machine.state().status = Some(503);
        world.provision(json!({ "target": "manage" })).await;
        world.client.sleep(Duration::from_secs(5)).await;
        world.net.crash("ironic");
        world.client.sleep(Duration::from_secs(5)).await;
        world.ironic.serve(world.net.restart("ironic"));
        let node = world.reach("enroll").await;
        let text = "The verifying state can't be resumed by conductor sim-conductor. Moving to fail state.";
        assert_eq!((&node["last_error"], &node["uuid"]), (&json!(text), &json!(uuid)));

        // What waits for its agent goes on with the agent's next heartbeat.
        world.machine.state().status = None;
        world.go("manage", "manageable").await;
        world.go("inspect", "inspect wait").await;
        world.client.sleep(Duration::from_secs(10)).await;
        world.net.crash("ironic");
        world.ironic.serve(world.net.restart("ironic"));
        assert_eq!(world.reach("manageable").await["last_error"], Value::Null);

        // Without its database Ironic knows nothing.
        world.net.crash("ironic");
        world.database.lose();
        world.ironic.serve(world.net.restart("ironic"));
        assert_eq!(
            world.ask(Method::GET, &format!("nodes/{uuid}"), Value::Null).await.0,
            StatusCode::NOT_FOUND
        );
        world.managed().await;
    });
}

#[test]
fn aborts() {
    tell(settings(json!({})), |world| async move {
        world.managed().await;
        world.machine.state().hangs = true;
        world.go("inspect", "inspect wait").await;
        let node = world.go("abort", "inspect failed").await;
        assert_eq!(node["last_error"], "Inspection was aborted by request.");
        assert_eq!(
            (&node["power_state"], &node["target_provision_state"]),
            (&json!("power off"), &json!("manageable"))
        );
        // `manage` leaves the text.
        let node = world.go("manage", "manageable").await;
        assert_eq!(node["last_error"], "Inspection was aborted by request.");

        world.go("provide", "clean wait").await;
        world.errors();
        let node = world.go("abort", "clean failed").await;
        let text = "By request, the clean operation was aborted";
        assert_eq!((&node["last_error"], &node["maintenance"]), (&json!(text), &json!(false)));
        // It is lost for a while, and comes again.
        assert_eq!(world.errors(), [None, Some(text.to_owned()), None, Some(text.to_owned())]);

        world.go("manage", "manageable").await;
        world.patch(json!([{ "op": "add", "path": "/automated_clean", "value": false }])).await;
        world.go("provide", "available").await;
        world.set_image(IMAGE_SHA256).await;
        world.go("active", "wait call-back").await;
        let node = world.go("abort", "deploy failed").await;
        let text = "By request, the deploy operation was aborted during or after the completion of step \
                    \"deploy.deploy\"";
        assert_eq!((&node["last_error"], &node["power_state"]), (&json!(text), &json!("power off")));
        world.go("deleted", "available").await;
    });
}

#[test]
fn agents_that_never_come_are_given_up() {
    // Whether cleaning up powers the machine off in between, by which the inspection's text is lost
    for loses in [true, false] {
        let settings = settings(json!({ "release": { "clean_up_ramdisk_powers_off": loses } }));
        tell(settings, move |world| async move {
            let uuid = world.managed().await;
            world.machine.state().hangs = true;
            let begun = world.client.now();
            let node = world.go("inspect", "inspect failed").await;
            let text = "Timeout reached while inspecting the node. Please check if the ramdisk responsible for the \
                        inspection is running on the node.";
            assert_eq!(node["last_error"].as_str(), (!loses).then_some(text));
            let took = (world.client.now() - begun).as_secs();
            assert!((1800..=1900).contains(&took), "{took}");

            world.go("manage", "manageable").await;
            let node = world.go("provide", "clean failed").await;
            let text = "Timeout reached while cleaning the node. Please check if the ramdisk responsible for the \
                        cleaning is running on the node. Failed on step {}.";
            assert_eq!((&node["last_error"], &node["maintenance"]), (&json!(text), &json!(false)));

            world.go("manage", "manageable").await;
            world.patch(json!([{ "op": "add", "path": "/automated_clean", "value": false }])).await;
            world.go("provide", "available").await;
            world.set_image(IMAGE_SHA256).await;
            let node = world.go("active", "deploy failed").await;
            let text = format!("Timeout reached while waiting for callback for node {uuid}");
            assert_eq!((&node["last_error"], &node["power_state"]), (&json!(text), &json!("power off")));
        });
    }
}

#[test]
fn an_image_that_the_agent_refuses() {
    for loses in [true, false] {
        let settings = settings(json!({ "release": { "clean_up_ramdisk_powers_off": loses } }));
        tell(settings, move |world| async move {
            let uuid = world.available().await;
            world.set_image(&"0".repeat(64)).await;
            let node = world.go("active", "deploy failed").await;
            match node["last_error"].as_str() {
                None => assert!(loses),
                Some(text) => {
                    assert!(!loses);
                    let wanted = format!("Deploy step deploy.write_image failed on node {uuid}. ");
                    assert!(text.starts_with(&wanted), "{text}");
                }
            }
        });
    }
}

#[test]
fn deployments_that_are_refused_or_fail_before_the_agent() {
    tell(settings(json!({})), |world| async move {
        let uuid = world.available().await;
        let active = || json!({ "target": "active" });
        let path = "nodes/ns~host/states/provision";
        assert_eq!(
            world.refusal(Method::PUT, path, active()).await,
            (
                400,
                format!(
                    "Failed to validate deploy or power info for node {uuid}: Node {uuid} failed to validate deploy \
                     image info. Some parameters were missing. Missing are: ['instance_info.image_source']"
                )
            )
        );
        world.set_image(IMAGE_SHA256).await;
        world.ask(Method::PUT, "nodes/ns~host/maintenance", json!({ "reason": "x" })).await;
        assert_eq!(world.refusal(Method::PUT, path, active()).await.0, 400);
        world.ask(Method::DELETE, "nodes/ns~host/maintenance", Value::Null).await;

        *world.cache.lock().expect("nobody panicked") = false;
        let text = "Failed to prepare to deploy: Validation of image href http://cache/images/disk.raw failed, reason: \
                    Got HTTP code 404 instead of 200 in response to HEAD request.";
        assert_eq!(world.go("active", "deploy failed").await["last_error"], text);

        *world.cache.lock().expect("nobody panicked") = true;
        world.machine.state().status = Some(503);
        let node = world.go("active", "deploy failed").await;
        let text = node["last_error"].as_str().expect("a text");
        assert!(text.starts_with("Failed to prepare to deploy. Exception: HTTP GET http://bmc/"), "{text}");
        let node = world.go("deleted", "error").await;
        let text = node["last_error"].as_str().expect("a text");
        assert!(text.starts_with("Failed to tear down: HTTP GET http://bmc/"), "{text}");
        assert_eq!((&node["maintenance"], &node["target_provision_state"]), (&json!(false), &Value::Null));

        world.machine.state().status = None;
        world.go("deleted", "available").await;
    });
}

#[test]
fn an_agent_that_dies_while_cleaning_leaves_the_node_in_maintenance() {
    tell(settings(json!({})), |world| async move {
        world.managed().await;
        world.provision(json!({ "target": "provide" })).await;
        while world.node().await["clean_step"] == json!({}) {
            world.client.sleep(Duration::from_millis(100)).await;
        }
        world.machine.state().hangs = true;
        world.machine.power(false);
        let node = world.reach("clean failed").await;
        assert_eq!((&node["maintenance"], &node["fault"]), (&json!(true), &json!("clean failure")));
        let text = node["last_error"].as_str().expect("a text");
        assert!(text.contains("'step': 'erase_devices_metadata'"), "{text}");
        // `manage` keeps the maintenance, which the operator must end.
        assert_eq!(world.go("manage", "manageable").await["fault"], "clean failure");
        world.ask(Method::DELETE, "nodes/ns~host/maintenance", Value::Null).await;
        assert_eq!(world.node().await["fault"], Value::Null);
    });
}

#[test]
fn manual_cleaning() {
    tell(settings(json!({})), |world| async move {
        let uuid = world.managed().await;
        let clean = |step: &str| json!({ "target": "clean", "clean_steps": [{ "interface": "deploy", "step": step }] });
        assert_eq!(world.provision(clean("erase_devices_metadata")).await, StatusCode::ACCEPTED);
        assert_eq!(world.reach("clean wait").await["target_provision_state"], "manageable");
        world.reach("manageable").await;
        assert_eq!(world.machine.state().disk, "wiped");
        assert_eq!(world.provision(clean("nope")).await, StatusCode::ACCEPTED);
        let node = world.reach("clean failed").await;
        let text = format!(
            "Cannot clean node {uuid}: node does not support this clean step: {{'step': 'nope', 'interface': 'deploy'}}"
        );
        assert_eq!((&node["last_error"], &node["maintenance"]), (&json!(text), &json!(false)));
    });
}

#[test]
fn power_is_changed_on_request() {
    tell(settings(json!({})), |world| async move {
        world.managed().await;
        let power = |target: &str| json!({ "target": target });
        let path = "nodes/ns~host/states/power";
        assert_eq!(world.ask(Method::PUT, path, power("power on")).await.0, StatusCode::ACCEPTED);
        assert_eq!(world.node().await["target_power_state"], "power on");
        let node = world.reach("manageable").await;
        assert_eq!((&node["power_state"], &node["target_power_state"]), (&json!("power on"), &Value::Null));
        assert!(world.machine.state().on);
        world.ask(Method::PUT, path, power("power off")).await;
        assert_eq!(world.reach("manageable").await["power_state"], "power off");
        world.machine.state().status = Some(503);
        world.ask(Method::PUT, path, power("power on")).await;
        let node = world.reach("manageable").await;
        let text = node["last_error"].as_str().expect("a text");
        assert!(
            text.starts_with("Failed to change power state to 'power on'. Error: HTTP GET http://bmc/"),
            "{text}"
        );
    });
}

#[test]
fn deleting() {
    tell(settings(json!({})), |world| async move {
        let uuid = world.available().await;
        world.set_image(IMAGE_SHA256).await;
        world.go("active", "active").await;
        let path = format!("nodes/{uuid}");
        let text = format!(
            "Can not delete node \"{uuid}\" while it is in provision state \"active\". Valid provision states to \
             perform deletion are: \"('manageable', 'enroll', 'adopt failed', 'available')\", or set the node into \
             maintenance mode"
        );
        assert_eq!(world.refusal(Method::DELETE, &path, Value::Null).await, (409, text));
        world.ask(Method::PUT, &format!("{path}/maintenance"), Value::Null).await;
        assert_eq!(world.ask(Method::DELETE, &path, Value::Null).await.0, StatusCode::NO_CONTENT);
        assert_eq!(world.ask(Method::GET, "ports", Value::Null).await.1, json!({ "ports": [] }));
        assert_eq!(world.ask(Method::GET, &path, Value::Null).await.0, StatusCode::NOT_FOUND);
        assert_eq!(world.states().last().map(String::as_str), Some("none"));
    });
}

#[test]
fn faults_are_what_clients_see() {
    tell(settings(json!({})), |world| async move {
        world.enroll().await;
        let begin = |fault: Value| {
            let fault = serde_json::from_value(fault).expect("a fault");
            world.faults.begin("f", fault).expect("a fault that can be");
        };
        let manage = json!({ "target": "manage" });
        let path = "nodes/ns~host/states/provision";

        begin(json!({ "kind": "status", "code": 503, "on": { "method": "PUT", "count": 1 } }));
        assert_eq!(world.ask(Method::PUT, path, manage.clone()).await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            (world.node().await["provision_state"].clone(), world.faults.touched("f")),
            (json!("enroll"), 1)
        );

        begin(json!({ "kind": "stall", "on": { "path": "/v1/nodes/*" } }));
        let stalled = world.try_to_ask(Method::GET, "nodes/ns~host", Value::Null).await;
        assert!(matches!(stalled, Err(wire::http::Error::ReadTimeout { .. })), "{stalled:?}");

        begin(json!({ "kind": "reset" }));
        assert!(world.try_to_ask(Method::PUT, path, manage.clone()).await.is_err());
        world.faults.end("f");
        assert_eq!(world.node().await["provision_state"], "enroll");

        begin(json!({ "kind": "lock-held", "node": "ns~*" }));
        let (status, text) = world.refusal(Method::PUT, path, manage.clone()).await;
        assert!(status == 409 && text.contains("is locked by host lost-conductor"), "{text}");
        assert_eq!(world.node().await["reservation"], "lost-conductor");
        assert!(world.faults.touched("f") > 0);

        begin(json!({ "kind": "lose-answer", "on": { "method": "PUT" } }));
        assert!(world.try_to_ask(Method::PUT, path, manage).await.is_err());
        world.reach("manageable").await;
        assert_eq!(world.faults.touched("f"), 1);
    });
}
