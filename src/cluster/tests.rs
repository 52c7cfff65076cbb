//! Reads and writes against a small API, on a simulated network.

use std::time::Duration;

use serde_json::json;
use wire::{Host, Seed};

use super::{
    fixture::{Api, bare_metal_host, secret_of},
    *,
};

/// Runs a test with an API and a cluster that looks at the namespace `metal3` of it.
fn with<F: Future<Output = ()>>(test: impl FnOnce(Api, Cluster, Host) -> F + Send + 'static) {
    engine::simulate(Seed(1), move |net| async move {
        let api = Api::start(&net.host("kube"));
        let host = net.host("operator");
        let (kube, ironic) = ("http://kube:80", "http://ironic:6385/v1/");
        let mut options = Options::new(kube.parse().expect("a URL"), ironic.parse().expect("a URL"));
        options.namespace = Some("metal3".to_owned());
        let cluster = Cluster::new(plain_client(&host, &options.kube), &host, &options);
        test(api, cluster, host).await;
    });
}

/// Keeps the caches of a cluster, as a controller would.
async fn keep(cluster: &Cluster, host: &Host) {
    let Informers { mut hosts, mut secrets, mut hardware } = cluster.informers();
    drop(host.spawn(async move {
        loop {
            tokio::select! {
                biased;
                _ = hosts.next() => {}
                _ = secrets.next() => {}
                _ = hardware.next() => {}
            }
        }
    }));
    host.sleep(Duration::from_secs(1)).await;
}

fn key(name: &str) -> Key {
    Key::new("metal3", name)
}

#[test]
fn a_write_of_what_was_read_before_somebody_elses_write_is_a_conflict() {
    with(async |api, cluster, host| {
        api.put("baremetalhosts", "host-0", bare_metal_host());
        keep(&cluster, &host).await;
        let mut read = cluster.get_host(&key("host-0")).expect("it is known");
        api.change("baremetalhosts", "host-0", |host| host["spec"]["online"] = json!(false));

        read.metadata.finalizers = Some(vec!["f".to_owned()]);
        let error = cluster.update_host(&read).await.expect_err("somebody was faster");
        assert!(error.is_conflict(), "{error:?}");
        assert_eq!(error.to_string(), "update BareMetalHost metal3/host-0");

        host.sleep(Duration::from_secs(1)).await;
        let mut read = cluster.get_host(&key("host-0")).expect("it is known");
        assert!(!read.spec.online, "the watch has brought the other's write");
        read.metadata.finalizers = Some(vec!["f".to_owned()]);
        let written = cluster.update_host(&read).await.expect("nobody was faster");
        assert_eq!(api.get("baremetalhosts", "host-0")["metadata"]["finalizers"], json!(["f"]));
        assert_ne!(written.metadata.resource_version, read.metadata.resource_version);
    });
}

#[test]
fn status_and_the_rest_are_written_apart() {
    with(async |api, cluster, host| {
        api.put("baremetalhosts", "host-0", bare_metal_host());
        keep(&cluster, &host).await;
        let mut read = cluster.get_host(&key("host-0")).expect("it is known");
        read.spec.online = false;
        read.status.get_or_insert_default().error_count = 3;
        cluster.update_status(&read).await.expect("it is accepted");
        let stored = api.get("baremetalhosts", "host-0");
        assert_eq!((&stored["spec"]["online"], &stored["status"]["errorCount"]), (&json!(true), &json!(3)));
    });
}

#[test]
fn a_host_that_cannot_be_read_hides_no_other() {
    with(async |api, cluster, host| {
        api.put("baremetalhosts", "host-0", bare_metal_host());
        let mut odd = bare_metal_host();
        odd["status"] = json!({"operationalStatus": "meditating"});
        api.put("baremetalhosts", "host-1", odd);
        keep(&cluster, &host).await;
        let known = || ["host-0", "host-1"].map(|name| cluster.get_host(&key(name)).is_some());
        assert_eq!(known(), [true, false], "in a list");
        // operational status of host-1, whether it can be read
        for (word, readable) in [("OK", true), ("meditating", false), ("error", true)] {
            api.change("baremetalhosts", "host-1", |host| host["status"]["operationalStatus"] = json!(word));
            host.sleep(Duration::from_secs(1)).await;
            assert_eq!(known(), [true, readable], "in a watch: {word}");
        }
    });
}

#[test]
fn secrets_come_from_the_cache_or_else_from_the_server() {
    with(async |api, cluster, host| {
        api.put("secrets", "watched", secret_of("host-0"));
        keep(&cluster, &host).await;
        let watches = api.take_requests();
        assert!(
            watches.iter().any(
                |line| line.contains("/secrets?") && line.contains("labelSelector=environment.metal3.io")
            ),
            "{watches:?}"
        );
        cluster.get_secret(&key("watched")).await.expect("it is there");
        assert_eq!(api.take_requests(), [""; 0]);
        let error = cluster.get_secret(&key("absent")).await.expect_err("it is not there");
        assert!(error.is_not_found(), "{error:?}");
        assert_eq!(api.take_requests(), ["GET /api/v1/namespaces/metal3/secrets/absent"]);
    });
}

#[test]
fn hardware_data_is_created_once_and_deleted() {
    with(async |_, cluster, host| {
        keep(&cluster, &host).await;
        let mut data = HardwareData::new("host-0", crate::bmh::HardwareDataSpec::default());
        data.metadata.namespace = Some("metal3".to_owned());
        cluster.create_hardware_data(&data).await.expect("it is new");
        let error = cluster.create_hardware_data(&data).await.expect_err("it is there");
        assert!(error.is_already_exists() && !error.is_conflict(), "{error:?}");
        host.sleep(Duration::from_secs(1)).await;
        assert!(cluster.get_hardware_data(&key("host-0")).is_some());
        cluster.delete_hardware_data(&key("host-0")).await.expect("it is there");
        host.sleep(Duration::from_secs(1)).await;
        assert!(cluster.get_hardware_data(&key("host-0")).is_none());
    });
}

#[test]
fn an_event_is_written_as_upstream_writes_it() {
    with(async |api, cluster, host| {
        api.put("baremetalhosts", "host-0", bare_metal_host());
        keep(&cluster, &host).await;
        let about = cluster.get_host(&key("host-0")).expect("it is known");
        api.take_requests();
        for _ in 0..2 {
            cluster.record_event(&about, "Registered", "Registered new host").await.expect("it is accepted");
        }
        assert_eq!(
            api.take_requests(),
            ["POST /api/v1/namespaces/metal3/events?"; 2],
            "and their names differ"
        );
    });
    engine::simulate(Seed(1), |net| async move {
        let about: BareMetalHost = serde_json::from_value({
            let mut host = bare_metal_host();
            host["metadata"]["name"] = json!("host-0");
            host["metadata"]["namespace"] = json!("metal3");
            host
        })
        .expect("it is a host");
        let event = event::event(&net.host("operator"), &about, "Registered", "Registered new host");
        let mut event = serde_json::to_value(event).expect("an event is JSON");
        let name = event["metadata"]["name"].take();
        let (word, suffix) =
            name.as_str().and_then(|name| name.split_once('-')).expect("it is a word and a suffix");
        assert_eq!((word, suffix.len()), ("Registered", 5));
        assert_eq!(event["firstTimestamp"].take(), event["lastTimestamp"].take());
        assert_eq!(
            event,
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": null, "namespace": "metal3"},
                "involvedObject": {
                    "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "namespace": "metal3", "name": "host-0",
                    "uid": "uid-1",
                },
                "reason": "Registered", "message": "Registered new host", "type": "Normal", "count": 1,
                "firstTimestamp": null, "lastTimestamp": null,
                "source": {"component": "metal3-baremetal-controller"},
                "reportingComponent": "metal3.io/baremetal-controller",
            })
        );
    });
}

#[test]
fn a_silent_server_is_given_up_after_45_seconds() {
    with(async |api, cluster, host| {
        api.fall_silent();
        let began = host.now();
        let error = cluster.get_secret(&key("s")).await.expect_err("nobody answers");
        assert!(matches!(error.cause, Cause::TimedOut(_)), "{error:?}");
        assert_eq!(host.now() - began, LIMIT);
    });
}

#[test]
fn requests_beyond_the_burst_wait_for_their_turn() {
    with(async |api, cluster, host| {
        api.put("secrets", "s", secret_of("host-0"));
        let began = host.now();
        for _ in 0..30 {
            cluster.get_secret(&key("s")).await.expect("it is there");
        }
        let burst = host.now() - began;
        assert!(burst < Duration::from_secs(1), "{burst:?}");
        for _ in 0..60 {
            cluster.get_secret(&key("s")).await.expect("it is there");
        }
        let (rest, whole) = (host.now() - began - burst, host.now() - began);
        assert!(rest > Duration::from_secs(2) && whole < Duration::from_millis(3100), "{burst:?} {rest:?}");
    });
}
