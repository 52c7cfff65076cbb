//! Redfish.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use engine::{Effect, Rule};
use http::{Method, StatusCode};
use wire::http::Timeouts;

use super::{
    super::{Driver, PowerChange, PowerState, requests::Requests},
    NODE,
    bmc::{Behaviour, Bmc},
    driver, redfish_target, serve_cache, simulate,
};

/// The first contact with a BMC that behaves so: what Ironic says, and after how many seconds.
fn first_contact(behaviour: Option<Behaviour>) -> (String, u64) {
    simulate(move |net| async move {
        let (host, bmc) = (net.host("ironic"), net.host("bmc"));
        if let Some(behaviour) = behaviour {
            Bmc::serve(&bmc).state().behaviour = behaviour;
        }
        let began = host.now();
        let error = driver(&host).verify(&redfish_target()).await.expect_err("the BMC misbehaves");
        (error.to_string(), (host.now() - began).as_secs())
    })
}

#[test]
fn each_failure_of_the_first_contact_has_its_time_and_words() {
    let lost = |why: &str| {
        format!(
            "Redfish connection failed for node {NODE}: Unable to connect to http://bmc/redfish/v1/. Error: {why}"
        )
    };
    // 5 attempts of 10 requests, with 9 pauses of 3 s in each and 4 pauses of 4 s between them, are 151 s; a
    // request that is not answered adds 60 s.
    let silent = 151 + 5 * 10 * 60;
    for (behaviour, words, seconds) in [
        (
            None,
            lost("HTTPConnectionPool(host='bmc', port=80): Max retries exceeded with url: /redfish/v1/ (Caused by NewConnectionError(\"HTTPConnection(host='bmc', port=80): Failed to establish a new connection: [Errno 111] Connection refused\"))"),
            151,
        ),
        (
            Some(Behaviour::Silent),
            lost("HTTPConnectionPool(host='bmc', port=80): Read timed out. (read timeout=60)"),
            silent,
        ),
        (
            Some(Behaviour::Status(401)),
            "Redfish exception occurred. Error: HTTP GET http://bmc/redfish/v1/ returned code 401. Base.1.0.GeneralError: injected Extended information: None".to_owned(),
            0,
        ),
        (
            Some(Behaviour::Status(503)),
            "HTTP GET http://bmc/redfish/v1/ returned code 503. Base.1.0.GeneralError: injected Extended information: None".to_owned(),
            30,
        ),
        (Some(Behaviour::Garbage), "Expecting value: line 1 column 1 (char 0)".to_owned(), 0),
    ] {
        let (said, took) = first_contact(behaviour);
        assert_eq!(said, words, "{behaviour:?}");
        assert!((seconds..=seconds + 2).contains(&took), "{behaviour:?} took {took} s rather than {seconds} s");
    }
}

#[test]
fn a_bmc_that_swallows_packets_costs_the_connect_timeout_each_time() {
    let (words, took) = simulate(|net| async move {
        let host = net.host("ironic");
        Bmc::serve(&net.host("bmc"));
        net.add_rule(Rule { from: None, to: Some("bmc".to_owned()), effect: Effect::Unreachable });
        let error = driver(&host).verify(&redfish_target()).await.expect_err("nothing arrives");
        (error.to_string(), host.now().0.as_secs())
    });
    assert!(
        words.contains("Caused by ConnectTimeoutError(<HTTPConnection(host='bmc', port=80) at 0x7f"),
        "{words}"
    );
    assert!(words.ends_with("'Connection to bmc timed out. (connect timeout=30)'))"), "{words}");
    assert_eq!(took, 151 + 5 * 10 * 30);
}

#[test]
fn older_releases_have_other_words() {
    use crate::settings::{ConnectionErrors, Redfish, Release, Settings};
    let settings = Settings {
        release: Release { connection_errors: ConnectionErrors::Eventlet, ..Release::default() },
        redfish: Redfish {
            connect_timeout: Duration::from_secs(180),
            server_side_retries: 1,
            ..Redfish::default()
        },
        ..Settings::default()
    };
    let (words, took) = simulate(|net| async move {
        let host = net.host("ironic");
        net.add_rule(Rule { from: None, to: Some("bmc".to_owned()), effect: Effect::Unreachable });
        let mut target = redfish_target();
        target.driver_info["redfish_address"] = "https://bmc".into();
        let driver = Driver::new(host.clone(), Arc::new(settings));
        let error = driver.verify(&target).await.expect_err("nothing arrives");
        (error.to_string(), host.now().0.as_secs())
    });
    let (begins, ends) = words.split_once("0x7f").expect("an object of Python is shown");
    assert_eq!(
        begins,
        format!(
            "Redfish connection failed for node {NODE}: Unable to connect to https://bmc/redfish/v1/. Error: HTTPSConnectionPool(host='bmc', port=443): Max retries exceeded with url: /redfish/v1/ (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at "
        )
    );
    assert_eq!(&ends[10..], ">: Failed to establish a new connection: [Errno 110] ETIMEDOUT',))");
    // Without a limit of its own, each attempt takes as long as Linux takes to give up.
    assert_eq!(took, 5 * 127 + 4 * 4);
}

#[test]
fn a_system_that_is_not_there_is_named() {
    let words = simulate(|net| async move {
        let host = net.host("ironic");
        Bmc::serve(&net.host("bmc"));
        let mut target = redfish_target();
        target.driver_info["redfish_system_id"] = "/redfish/v1/Systems/99".into();
        driver(&host).verify(&target).await.expect_err("there is no such system").to_string()
    });
    assert_eq!(
        words,
        "Redfish exception occurred. Error: Resource http://bmc/redfish/v1/Systems/99 not found"
    );
}

#[test]
fn a_wrong_password_is_refused_by_session_and_by_basic_authentication() {
    let (words, seen, recovered) = simulate(|net| async move {
        let host = net.host("ironic");
        let bmc = Bmc::serve(&net.host("bmc"));
        bmc.state().password = "other".to_owned();
        let driver = driver(&host);
        let error = driver.verify(&redfish_target()).await.expect_err("the password is wrong");
        let seen = std::mem::take(&mut bmc.state().seen);
        // Once the BMC has the password too, nothing of the failure is left.
        bmc.state().password = "secret".to_owned();
        (error.to_string(), seen, driver.verify(&redfish_target()).await.ok())
    });
    assert_eq!(
        words,
        "Redfish exception occurred. Error: HTTP GET http://bmc/redfish/v1/Systems/1 returned code 401. unknown error Extended information: None"
    );
    assert_eq!(
        seen,
        ["GET /redfish/v1/", "POST /redfish/v1/SessionService/Sessions", "GET /redfish/v1/Systems/1"]
    );
    assert_eq!(recovered, Some(PowerState::Off));
}

#[test]
fn a_session_that_ended_is_made_again_once() {
    let (state, logins) = simulate(|net| async move {
        let host = net.host("ironic");
        let bmc = Bmc::serve(&net.host("bmc"));
        let driver = driver(&host);
        driver.verify(&redfish_target()).await.expect("the BMC is fine");
        bmc.state().tokens.clear();
        let state = driver.power_state(&redfish_target()).await;
        let logins = bmc.state().seen.iter().filter(|line| line.ends_with("/Sessions")).count();
        (state.ok(), logins)
    });
    assert_eq!((state, logins), (Some(PowerState::Off), 2));
}

#[test]
fn a_bmc_without_sessions_gets_the_password_each_time() {
    let state = simulate(|net| async move {
        let host = net.host("ironic");
        Bmc::serve(&net.host("bmc")).state().has_sessions = false;
        driver(&host).power_state(&redfish_target()).await.ok()
    });
    assert_eq!(state, Some(PowerState::Off));
}

#[test]
fn an_outage_shorter_than_patience_is_not_noticed() {
    let (state, took) = simulate(|net| async move {
        let host = net.host("ironic");
        Bmc::serve(&net.host("bmc"));
        let rule = net.add_rule(Rule { from: None, to: Some("bmc".to_owned()), effect: Effect::Refused });
        let (driver, target) = (driver(&host), redfish_target());
        let (state, ()) = futures::join!(driver.verify(&target), async {
            host.sleep(Duration::from_secs(10)).await;
            net.remove_rule(rule);
        });
        (state.ok(), host.now().0.as_secs())
    });
    assert_eq!(state, Some(PowerState::Off));
    assert_eq!(took, 12);
}

const CD_ONCE: &str = r#"PATCH {"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Cd","HttpBootUri":null}}"#;
const HDD: &str = r#"PATCH {"Boot":{"BootSourceOverrideTarget":"Hdd","HttpBootUri":null}}"#;
const ON: &str = r#"POST /Actions/ComputerSystem.Reset {"ResetType":"On"}"#;
const OFF: &str = r#"POST /Actions/ComputerSystem.Reset {"ResetType":"ForceOff"}"#;
const EJECT: &str = "POST /VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia";

#[test]
fn a_life_changes_the_machine_in_the_order_that_was_recorded() {
    let phases = simulate(|net| async move {
        let host = net.host("ironic");
        let bmc = Bmc::serve(&net.host("bmc"));
        serve_cache(&net.host("cache"));
        let driver = driver(&host);
        let target = redfish_target();
        let parameters = BTreeMap::new();
        driver.verify(&target).await.expect("verify");
        let mut phases = vec![bmc.changes()];
        for _ in ["inspect", "clean"] {
            driver.boot_ramdisk(&target, &parameters).await.expect("boot the agent");
            driver.clean_up_ramdisk(&target).await.expect("clean up");
            phases.push(bmc.changes());
        }
        driver.boot_ramdisk(&target, &parameters).await.expect("boot the agent");
        driver.prepare_instance(&target).await.expect("prepare the instance");
        // The agent powers its machine off by itself.
        bmc.state().on = false;
        driver.boot_instance(&target).await.expect("boot the instance");
        phases.push(bmc.changes());
        driver.adopt(&target).await.expect("adopt");
        phases.push(bmc.changes());
        driver.clean_up_ramdisk(&target).await.expect("tear down");
        phases.push(bmc.changes());
        phases
    });
    let insert = format!(
        r#"POST /VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia {{"Image":"http://ironic:6180/redfish/boot-{NODE}.iso"}}"#
    );
    let booted = [insert.as_str(), CD_ONCE, ON];
    assert_eq!(phases[0], [""; 0]);
    assert_eq!(phases[1], [&booted[..], &[OFF, EJECT]].concat());
    assert_eq!(phases[2], phases[1]);
    assert_eq!(phases[3], [&booted[..], &[HDD, EJECT, HDD, ON]].concat());
    assert_eq!(phases[4], [""; 0]);
    assert_eq!(phases[5], [OFF]);
}

#[test]
fn the_boot_disc_says_what_to_boot_and_how() {
    let (disc, after) = simulate(|net| async move {
        let host = net.host("ironic");
        let bmc = Bmc::serve(&net.host("bmc"));
        serve_cache(&net.host("cache"));
        let driver = driver(&host);
        let router = driver.boot_server_router();
        let server = host.clone();
        drop(host.spawn(async move { wire::http::serve(&server, 6180, router).await }));
        let parameters = [("ipa-api-url", "http://ironic:6385"), ("ipa-agent-token", "t")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
        driver.boot_ramdisk(&redfish_target(), &parameters.into()).await.expect("boot the agent");
        let url = bmc.state().disc.clone().expect("there is a disc");
        let requests = Requests::new(&net.host("bmc"), Timeouts::default());
        let disc = requests.fetch(Method::GET, &url).await.expect("the disc is there");
        driver.clean_up_ramdisk(&redfish_target()).await.expect("clean up");
        let after = requests.fetch(Method::GET, &url).await.expect("the server is there");
        (String::from_utf8_lossy(&disc.body).into_owned(), after.status)
    });
    assert_eq!(
        disc,
        "bmsim ramdisk image 1\nlinux http://cache/ipa.kernel ipa-agent-token=t ipa-api-url=http://ironic:6385\n"
    );
    assert_eq!(after, StatusCode::NOT_FOUND);
}

#[test]
fn a_kernel_that_is_gone_fails_the_boot_before_the_machine_is_touched() {
    let (words, changes) = simulate(|net| async move {
        let host = net.host("ironic");
        let bmc = Bmc::serve(&net.host("bmc"));
        let cache = net.host("cache");
        let app = axum::Router::new();
        drop(cache.clone().spawn(async move { wire::http::serve(&cache, 80, app).await }));
        let error = driver(&host).boot_ramdisk(&redfish_target(), &BTreeMap::new()).await;
        (error.expect_err("there is no kernel").to_string(), bmc.changes())
    });
    assert_eq!(
        words,
        "Failed to download image http://cache/ipa.kernel, reason: Got HTTP code 404 instead of 200 in response to GET request."
    );
    assert_eq!(changes, [""; 0]);
}

#[test]
fn power_is_only_changed_when_it_differs() {
    use PowerChange::{Off, On, Reboot, SoftOff, SoftReboot};
    const SOFT_OFF: &str = r#"POST /Actions/ComputerSystem.Reset {"ResetType":"GracefulShutdown"}"#;
    const SOFT_REBOOT: &str = r#"POST /Actions/ComputerSystem.Reset {"ResetType":"GracefulRestart"}"#;
    let table: [(bool, PowerChange, &[&str]); 9] = [
        (false, On, &[ON]),
        (true, On, &[]),
        (true, Off, &[OFF]),
        (false, Off, &[]),
        (true, SoftOff, &[SOFT_OFF]),
        (false, SoftOff, &[]),
        (true, Reboot, &[OFF, ON]),
        (false, Reboot, &[ON]),
        (true, SoftReboot, &[SOFT_REBOOT]),
    ];
    for (on, change, sent) in table {
        let (state, changes) = simulate(move |net| async move {
            let host = net.host("ironic");
            let bmc = Bmc::serve(&net.host("bmc"));
            bmc.state().on = on;
            let state = driver(&host).change_power(&redfish_target(), change, None).await;
            (state.ok(), bmc.changes())
        });
        assert_eq!(state, Some(change.result()), "{change} when on: {on}");
        assert_eq!(changes, sent, "{change} when on: {on}");
    }
}

#[test]
fn a_bmc_that_is_still_busy_is_asked_again_to_power_on() {
    for (conflicts, works, seconds) in [(0, true, 1), (2, true, 21), (6, true, 61), (7, false, 60)] {
        let (state, took) = simulate(move |net| async move {
            let host = net.host("ironic");
            Bmc::serve(&net.host("bmc")).state().conflicts = conflicts;
            let state = driver(&host).change_power(&redfish_target(), PowerChange::On, None).await;
            (state.is_ok(), host.now().0.as_secs())
        });
        assert_eq!((state, took), (works, seconds), "{conflicts} conflicts");
    }
}

#[test]
fn a_refused_power_change_is_not_repeated() {
    let (words, changes) = simulate(|net| async move {
        let host = net.host("ironic");
        let bmc = Bmc::serve(&net.host("bmc"));
        let driver = driver(&host);
        driver.verify(&redfish_target()).await.expect("the BMC is fine");
        bmc.state().behaviour = Behaviour::StatusToPosts(503);
        let error = driver.change_power(&redfish_target(), PowerChange::On, None).await;
        (error.expect_err("the BMC refuses").to_string(), bmc.changes())
    });
    assert_eq!(
        words,
        "HTTP POST http://bmc/redfish/v1/Systems/1/Actions/ComputerSystem.Reset returned code 503. Base.1.0.GeneralError: injected Extended information: None"
    );
    assert_eq!(changes, [ON]);
}

#[test]
fn driver_info_is_checked_without_sending_anything() {
    use serde_json::json;
    for (key, value, complaint) in [
        ("redfish_address", json!(null), "Missing the following Redfish properties"),
        ("redfish_address", json!("http://"), "Invalid Redfish address http://"),
        ("redfish_auth_type", json!("magic"), "Invalid value \"magic\""),
        ("redfish_system_id", json!("http://bmc/redfish/v1/Systems/1"), "must be a path"),
    ] {
        let words = simulate(move |net| async move {
            let mut target = redfish_target();
            target.driver_info.insert(key.to_owned(), value);
            driver(&net.host("ironic")).validate(&target).expect_err("it is wrong").to_string()
        });
        assert!(words.starts_with(complaint) || words.contains(complaint), "{words}");
    }
}
