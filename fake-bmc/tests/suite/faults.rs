//! Each fault, as a Redfish client sees it.

use fake_bmc::{Fault, FaultId, Inert, Power};
use http::StatusCode;
use serde_json::json;
use wire::http::Error;

use crate::world::{Redfish, USER, World, config, installed, world};

fn apply(world: &World, fault: &str) -> FaultId {
    world.bmc.apply(serde_json::from_str::<Fault>(fault).expect("a fault"))
}

#[test]
fn stall() {
    world(config(), Inert, |world| async move {
        let fault = apply(&world, r#"{"kind":"stall","on":{"request":"power-status"}}"#);
        let began = world.client.now();
        let answer = world.redfish().try_send("GET", &world.system(), "").await;
        assert!(matches!(answer, Err(Error::ReadTimeout { .. })), "{answer:?}");
        assert_eq!((world.client.now() - began).as_secs(), 60);
        assert_eq!(world.redfish().get("/redfish/v1/Managers").await.status, StatusCode::OK);
        assert!(world.bmc.clear(fault));
        assert_eq!(world.redfish().get(&world.system()).await.status, StatusCode::OK);
        assert_eq!(world.bmc.touched(fault), 1);
    });
}

#[test]
fn status_from_the_nth_request_on_for_a_while() {
    world(config(), Inert, |world| async move {
        let fault =
            r#"{"kind":"status","code":503,"on":{"request":"GET /redfish/v1/Systems*","nth":2,"count":2}}"#;
        let fault = apply(&world, fault);
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(world.redfish().get(&world.system()).await.status.as_u16());
        }
        assert_eq!(statuses, [200, 503, 503, 200]);
        assert_eq!(world.bmc.touched(fault), 2);
        apply(&world, r#"{"kind":"status","code":500}"#);
        let answer = world.redfish().get("/redfish/v1/").await;
        assert_eq!((answer.status.as_u16(), answer.message_id().as_str()), (500, "GeneralError"));
    });
}

#[test]
fn a_lost_answer_does_not_undo_its_work() {
    world(config(), Inert, |world| async move {
        let system = world.system();
        let reset = format!("{system}/Actions/ComputerSystem.Reset");
        for (work, power) in [("skipped", Power::Off), ("done", Power::PoweringOn)] {
            let fault = format!(r#"{{"kind":"reset","on":{{"request":"power-on"}},"work":"{work}"}}"#);
            let fault = apply(&world, &fault);
            let answer = world.redfish().try_send("POST", &reset, json!({ "ResetType": "On" })).await;
            assert!(matches!(answer, Err(Error::Reset { .. })), "{answer:?}");
            assert_eq!(world.bmc.power(), power, "{work}");
            world.bmc.clear(fault);
        }
    });
}

#[test]
fn reset_in_the_middle_of_the_answer() {
    world(config(), Inert, |world| async move {
        let fault = apply(&world, r#"{"kind":"reset","bytes":20}"#);
        let answer = world.redfish().try_send("GET", &world.system(), "").await;
        assert!(matches!(answer, Err(Error::Reset { .. })), "{answer:?}");
        assert_eq!(world.bmc.touched(fault), 1);
    });
}

#[test]
fn truncate() {
    world(config(), Inert, |world| async move {
        apply(&world, r#"{"kind":"truncate","bytes":20}"#);
        let answer = world.redfish().get(&world.system()).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 20));
        assert_eq!(answer.header("content-length"), "20");
        assert!(answer.header("content-type").starts_with("application/json"));
        assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).is_err());
    });
}

#[test]
fn slow() {
    world(config(), Inert, |world| async move {
        apply(&world, r#"{"kind":"slow","seconds":45,"on":{"request":"reset"}}"#);
        let began = world.client.now();
        assert_eq!(world.redfish().reset(&world.system(), "On").await.status, StatusCode::NO_CONTENT);
        assert_eq!((world.client.now() - began).as_secs(), 45);
        assert_eq!(world.bmc.power(), Power::On, "it was carried out at once");
    });
}

#[test]
fn password_changed() {
    world(config(), Inert, |world| async move {
        let fault = apply(&world, r#"{"kind":"password-changed","to":"new"}"#);
        let status = async |password: &str| {
            Redfish::new(&world.client, USER, password).get(&world.system()).await.status.as_u16()
        };
        assert_eq!((status("password").await, status("new").await, status("old").await), (401, 200, 401));
        assert_eq!(world.bmc.touched(fault), 1, "only who had the right password was struck");
        world.bmc.clear(fault);
        assert_eq!((status("password").await, status("new").await), (200, 401));
    });
}

#[test]
fn power_ignored() {
    world(config(), Inert, |world| async move {
        let fault = apply(&world, r#"{"kind":"power-ignored","on":{"request":"power-on","count":1}}"#);
        assert_eq!(world.redfish().reset(&world.system(), "On").await.status, StatusCode::NO_CONTENT);
        world.sleep(60).await;
        assert_eq!(world.bmc.power(), Power::Off);
        world.redfish().reset(&world.system(), "On").await;
        world.wait_for(Power::On).await;
        assert_eq!(world.bmc.touched(fault), 1);
    });
}

#[test]
fn soft_off_ignored() {
    let mut config = config();
    (config.powered, config.disk) = (true, installed());
    world(config, Inert, |world| async move {
        let fault = apply(&world, r#"{"kind":"soft-off-ignored"}"#);
        world.redfish().reset(&world.system(), "GracefulShutdown").await;
        world.sleep(600).await;
        assert_eq!((world.bmc.power(), world.bmc.touched(fault)), (Power::On, 1));
        world.redfish().reset(&world.system(), "ForceOff").await;
        world.wait_for(Power::Off).await;
        assert_eq!(world.bmc.touched(fault), 1);
    });
}

#[test]
fn boot_override_dropped() {
    world(config(), Inert, |world| async move {
        let fault = apply(&world, r#"{"kind":"boot-override-dropped"}"#);
        let once =
            json!({ "Boot": { "BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once" } });
        let answer = world.redfish().send("PATCH", &world.system(), once).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT);
        assert_eq!((world.bmc.boot().instead, world.bmc.touched(fault)), (None, 1));
    });
}

#[test]
fn media_refused() {
    world(config(), Inert, |world| async move {
        let fault = apply(&world, r#"{"kind":"media-refused"}"#);
        let insert = format!("{}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", world.system());
        let image = json!({ "Image": "http://ironic/boot.iso", "UserName": "u", "Password": "p" });
        let answer = world.redfish().send("POST", &insert, image).await;
        assert_eq!((answer.status.as_u16(), answer.message_id().as_str()), (400, "AccessDenied"));
        assert_eq!(world.bmc.touched(fault), 1);
        assert_eq!(world.bmc.image(fake_bmc::Slot::Cd), None);
    });
}
