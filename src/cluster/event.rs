//! Events: what `kubectl describe` tells of a host's past.

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource as _;
use wire::Host;

use crate::bmh::BareMetalHost;

/// Who reports, in both of the fields that Kubernetes has had for it; the names are upstream's.
const COMPONENT: &str = "metal3-baremetal-controller";
const CONTROLLER: &str = "metal3.io/baremetal-controller";

/// How much of an id makes an event's name its own, as long as what the server would append to a `generateName`.
const SUFFIX: usize = 5;

/// An event about a host, as upstream writes it: always of type Normal, never aggregated. Its name repeats with the
/// seed, so it is made here and not by the server.
pub(super) fn event(from: &Host, about: &BareMetalHost, reason: &str, message: &str) -> Event {
    let now = Time(from.date());
    let suffix: String = from.uuid("event").simple().to_string().chars().take(SUFFIX).collect();
    let meta = about.meta();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{reason}-{suffix}")),
            namespace: meta.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(BareMetalHost::api_version(&()).into_owned()),
            kind: Some(BareMetalHost::kind(&()).into_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        },
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        type_: Some("Normal".to_owned()),
        reporting_component: Some(CONTROLLER.to_owned()),
        ..Event::default()
    }
}
