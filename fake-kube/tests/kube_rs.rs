//! kube-rs against the API, in a simulated world.

use futures::{StreamExt as _, TryStreamExt as _};
use hyper_util::{client::legacy, rt::TokioTimer};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    client::{Body, ClientBuilder, middleware::BaseUriLayer},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;
use tower::ServiceBuilder;
use wire::{Host, Seed, http::Connector};

use fake_kube::KubeApi;

fn client(host: &Host) -> kube::Client {
    let connector = Connector { host: host.clone(), limit: None };
    let service = legacy::Client::builder(wire::http::Executor(host.clone()))
        .pool_timer(TokioTimer::new())
        .build::<_, Body>(connector);
    let base = http::Uri::from_static("http://kube:6443");
    ClientBuilder::new(ServiceBuilder::new().layer(BaseUriLayer::new(base)).service(service), "metal3")
        .build()
}

fn hosts(client: kube::Client) -> Api<DynamicObject> {
    let kind = ApiResource {
        group: "metal3.io".into(),
        version: "v1alpha1".into(),
        api_version: "metal3.io/v1alpha1".into(),
        kind: "BareMetalHost".into(),
        plural: "baremetalhosts".into(),
    };
    Api::namespaced_with(client, "metal3", &kind)
}

fn object<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).expect("an object")
}

#[test]
fn a_controllers_round_works_by_list_and_watch_and_by_streamed_lists() {
    for streaming in [false, true] {
        let seen = engine::simulate(Seed(1), move |net| async move {
            drop(KubeApi::new().serve(net.host("kube")));
            let machine = net.host("operator");
            machine.sleep(std::time::Duration::from_millis(10)).await;
            let client = client(&machine);
            let namespace = json!({ "metadata": { "name": "metal3" } });
            Api::<Namespace>::all(client.clone())
                .create(&PostParams::default(), &object(namespace))
                .await
                .expect("a namespace");
            let api = hosts(client.clone());
            let new = json!({
                "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": { "name": "w" },
                "spec": { "online": true },
            });
            let created = api.create(&PostParams::default(), &object(new)).await.expect("a host");

            let config = watcher::Config::default();
            let config = if streaming { config.streaming_lists() } else { config };
            let mut states = watcher(api.clone(), config)
                .applied_objects()
                .map_ok(|host| host.data["status"]["provisioning"]["state"].as_str().map(str::to_owned))
                .boxed();
            let mut seen = vec![states.next().await.expect("no end").expect("a host")];
            for state in ["registering", "inspecting"] {
                let status = json!({ "status": {
                    "errorCount": 0, "errorMessage": "", "operationalStatus": "OK", "poweredOn": false,
                    "provisioning": { "ID": "", "state": state },
                } });
                api.patch_status("w", &PatchParams::default(), &Patch::Merge(status))
                    .await
                    .expect("a status");
                seen.push(states.next().await.expect("no end").expect("a host"));
            }

            let stale = api.replace("w", &PostParams::default(), &created).await;
            match stale {
                Err(kube::Error::Api(status)) => assert!(status.is_conflict(), "{status:?}"),
                other => panic!("a stale write went through: {other:?}"),
            }
            assert_eq!(api.list(&ListParams::default().limit(1)).await.expect("a list").items.len(), 1);
            api.delete("w", &DeleteParams::default()).await.expect("a deletion");
            assert!(api.get_opt("w").await.expect("an answer").is_none());
            seen
        });
        assert_eq!(
            seen,
            [None, Some("registering".to_owned()), Some("inspecting".to_owned())],
            "streaming: {streaming}"
        );
    }
}

#[test]
fn typed_objects_and_apply_round_trip() {
    engine::simulate(Seed(2), |net| async move {
        drop(KubeApi::new().serve(net.host("kube")));
        let machine = net.host("operator");
        machine.sleep(std::time::Duration::from_millis(10)).await;
        let secrets: Api<Secret> = Api::namespaced(client(&machine), "default");
        let config = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "labels": { "a": "b" } },
            "stringData": { "password": "x" },
        });
        let apply = PatchParams::apply("me");
        let made = secrets.patch("s", &apply, &Patch::Apply(&config)).await.expect("applied");
        assert_eq!(
            made.data.as_ref().and_then(|data| data.get("password")).map(|bytes| &bytes.0[..]),
            Some(&b"x"[..])
        );
        let same = secrets.patch("s", &apply, &Patch::Apply(&config)).await.expect("applied again");
        assert_eq!(same.labels().get("a").map(String::as_str), Some("b"));
        let strategic = Patch::Strategic(json!({ "metadata": { "labels": { "a": null } } }));
        let freed = secrets.patch("s", &PatchParams::default(), &strategic).await.expect("patched");
        assert!(freed.labels().is_empty());
    });
}
