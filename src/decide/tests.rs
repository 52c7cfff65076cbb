//! What the tests of decisions share: a host of which everything is known, decisions in words, and lives.
//!
//! A table's row takes that host, changes what matters, and says in words what is decided. [`model`] is a world small
//! enough to be killed between any two effects; [`lives`] does that.

mod lives;
mod model;

use k8s_openapi::{
    ByteString,
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde_json::{Value, json};

use super::{Decision, Effect, LookAgain, Undecided, decide};
use crate::{
    act::claimed,
    bmh::{
        BareMetalHost, BareMetalHostStatus, CredentialsStatus, FINALIZER, ProvisioningState, SecretReference,
    },
    names::BmcAddress,
    observe::{FoundBy, IronicFound, NodeFound, Observation, Question},
    options::Options,
    provisioner::{Node, Port, ProvisionState, Request},
    regression::Regression,
};

pub(super) const NODE: &str = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123";
pub(super) const IMAGE: &str = "http://images/rhcos.qcow2";
const MAC: &str = "00:11:22:33:44:55";

/// A host of virtual media over Redfish in a state, of which everything is known and settled: registered, switched on
/// as it should be, and with an image in the states that have one. Its node has the provision state that belongs to it.
pub(super) fn settled(state: ProvisioningState) -> Observation {
    let (node_state, has_image) = match state {
        ProvisioningState::New | ProvisioningState::Unmanaged | ProvisioningState::Registering => {
            (ProvisionState::Enroll, false)
        }
        ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Available => (ProvisionState::Manageable, false),
        ProvisioningState::Provisioning => (ProvisionState::Available, false),
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => {
            (ProvisionState::Active, true)
        }
        ProvisioningState::Deprovisioning => (ProvisionState::Active, true),
        ProvisioningState::PoweringOffBeforeDelete | ProvisioningState::Deleting => {
            (ProvisionState::Manageable, false)
        }
    };
    let image = json!({"url": IMAGE, "checksum": "http://images/rhcos.sha256", "checksumType": "sha256", "format": "qcow2"});
    let in_use = matches!(
        state,
        ProvisioningState::Provisioning
            | ProvisioningState::Provisioned
            | ProvisioningState::ExternallyProvisioned
            | ProvisioningState::Deprovisioning
    );
    let mut seen = Observation::new(new_host(), None, date(), 0.0, options());
    if in_use {
        seen.host.spec.image = serde_json::from_value(image.clone()).expect("an image");
    }
    seen.host.spec.externally_provisioned = state == ProvisioningState::ExternallyProvisioned;
    let secret = claimed(&secret("1"), &seen.host, true);
    let version = CredentialsStatus {
        credentials: Some(SecretReference {
            name: "worker-0-bmc".to_owned(),
            namespace: "metal3".to_owned(),
        }),
        credentials_version: "1".to_owned(),
    };
    let known = !matches!(state, ProvisioningState::New | ProvisioningState::Unmanaged);
    let good = known && state != ProvisioningState::Registering;
    let mut status: BareMetalHostStatus = serde_json::from_value(json!({
        "operationalStatus": if known { "OK" } else { "" },
        "poweredOn": true,
        "lastUpdated": "2021-06-15T09:00:00Z",
        "hardwareProfile": if good { "unknown" } else { "" },
        "provisioning": {
            "state": state,
            "ID": if known { NODE } else { "" },
            "image": if has_image && state != ProvisioningState::ExternallyProvisioned { image } else { json!({"url": ""}) },
            "bootMode": "UEFI",
        },
    }))
    .expect("a status");
    if known {
        status.tried_credentials = version.clone();
    }
    if good {
        status.good_credentials = version;
        status.provisioning.root_device_hints =
            Some(serde_json::from_value(json!({"deviceName": "/dev/sda"})).expect("hints"));
    }
    seen.host.status = Some(status);
    seen.facts.secret = Some(Some(secret));
    seen.facts.ironic = Some(IronicFound::Ready("1.110".parse().expect("a version")));
    seen.facts.ports = Some(vec![Port { address: MAC.to_owned(), node_uuid: NODE.to_owned() }]);
    with_node(&mut seen, node(node_state));
    seen
}

pub(super) fn date() -> jiff::Timestamp {
    "2021-06-15T10:00:00.7Z".parse().expect("a date")
}

pub(super) fn options() -> std::sync::Arc<Options> {
    let uri = |text: &str| text.parse().expect("a URI");
    let mut options = Options::new(uri("http://kube:6443"), uri("http://ironic:6385/v1/"));
    options.deploy_kernel_url = Some("http://ironic/ipa.kernel".to_owned());
    options.deploy_ramdisk_url = Some("http://ironic/ipa.initramfs".to_owned());
    std::sync::Arc::new(options)
}

pub(super) fn new_host() -> BareMetalHost {
    let mut host = BareMetalHost::new(
        "worker-0",
        serde_json::from_value(json!({
            "online": true, "bootMACAddress": MAC,
            "bmc": {"address": "redfish-virtualmedia+http://bmc-0:8000/redfish/v1/Systems/1", "credentialsName": "worker-0-bmc"},
        }))
        .expect("a spec"),
    );
    host.metadata.namespace = Some("metal3".to_owned());
    host.metadata.uid = Some("c9a9d1cc-0b2a-4a6c-9a79-6a9f7a3c1f00".to_owned());
    host.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    host
}

pub(super) fn secret(version: &str) -> Secret {
    let text = |text: &str| ByteString(text.as_bytes().to_vec());
    Secret {
        metadata: ObjectMeta {
            name: Some("worker-0-bmc".to_owned()),
            namespace: Some("metal3".to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("username".to_owned(), text("admin")), ("password".to_owned(), text("pass\n"))].into()),
        ..Secret::default()
    }
}

/// The settled host's node, as registration leaves it.
pub(super) fn node(state: ProvisionState) -> Node {
    let address: BmcAddress = new_host().spec.bmc.address.parse().expect("an address");
    let mut driver_info = address.driver_info("admin", "******", true).0;
    driver_info.insert("deploy_kernel".to_owned(), "http://ironic/ipa.kernel".into());
    driver_info.insert("deploy_ramdisk".to_owned(), "http://ironic/ipa.initramfs".into());
    Node {
        uuid: NODE.to_owned(),
        name: Some("metal3~worker-0".to_owned()),
        provision_state: state,
        power_state: Some("power on".to_owned()),
        automated_clean: Some(true),
        inspect_interface: Some("agent".to_owned()),
        properties: [("capabilities", "boot_mode:uefi"), ("cpu_arch", "x86_64")]
            .map(|(key, value)| (key.to_owned(), value.into()))
            .into_iter()
            .collect(),
        driver_info,
        ..Node::default()
    }
}

pub(super) fn with_node(seen: &mut Observation, node: Node) {
    seen.facts.node = Some(NodeFound::Found { node: Box::new(node), by: FoundBy::Id });
}

/// Changes the node of an observation that has one.
pub(super) fn change_node(seen: &mut Observation, change: impl FnOnce(&mut Node)) {
    match &mut seen.facts.node {
        Some(NodeFound::Found { node, .. }) => change(node),
        Some(NodeFound::Absent) | None => panic!("there is no node to change"),
    }
}

pub(super) fn status(seen: &mut Observation) -> &mut BareMetalHostStatus {
    seen.host.status.get_or_insert_default()
}

/// Lets the last attempt have failed.
pub(super) fn failed(seen: &mut Observation, error: crate::bmh::ErrorType, count: u32) {
    let status = status(seen);
    status.operational_status = crate::bmh::OperationalStatus::Error;
    status.error_type = Some(error);
    status.error_message = "it went wrong".to_owned();
    status.error_count = count;
}

pub(super) fn annotate(seen: &mut Observation, key: &str, value: &str) {
    seen.host.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

pub(super) fn delete(seen: &mut Observation) {
    seen.host.metadata.deletion_timestamp = Some(Time(date()));
}

/// Brings a bug of the past back.
pub(super) fn regress(seen: &mut Observation, regression: Regression) {
    std::sync::Arc::make_mut(&mut seen.options).regressions.insert(regression);
}

/// A decision in words: its effects, and when to look again.
pub(super) fn decided(seen: &Observation) -> String {
    match decide(seen) {
        Ok(decision) => words(seen, &decision),
        Err(Undecided::Needs(question)) => format!("? {}", asked(&question)),
        Err(Undecided::Fails(why)) => format!("fails to {why}"),
    }
}

fn asked(question: &Question) -> &'static str {
    match question {
        Question::Secret(_) => "secret",
        Question::Ironic => "ironic",
        Question::Node(_) => "node",
        Question::Ports { .. } => "ports",
        Question::PortOwners(_) => "port owners",
        Question::Inventory { .. } => "inventory",
        Question::Nodes => "nodes",
        Question::Validation { .. } => "validation",
        Question::UserSecrets(_) => "user secrets",
    }
}

fn words(seen: &Observation, decision: &Decision) -> String {
    let mut words: Vec<String> = decision.effects.iter().map(|effect| word(seen, effect)).collect();
    words.push(match decision.look_again {
        LookAgain::Never => "never".to_owned(),
        LookAgain::Now => "now".to_owned(),
        LookAgain::Continue => "continue".to_owned(),
        LookAgain::After(wait) => format!("{}s", wait.as_secs()),
    });
    words.join(", ")
}

fn word(seen: &Observation, effect: &Effect) -> String {
    match effect {
        Effect::Ironic(Request::PatchNode { patch, .. }) => {
            let paths: Vec<_> = patch.0.iter().map(|op| op.path.as_str()).collect();
            format!("patch {}", paths.join(" "))
        }
        Effect::Ironic(request) => request.name().to_owned(),
        Effect::EditHost(edits) => format!("edit {edits:?}"),
        Effect::SaveStatus(status) => saved(&seen.host.status.clone().unwrap_or_default(), status),
        Effect::ClaimSecret { .. } => "claim secret".to_owned(),
        Effect::ReleaseSecret => "release secret".to_owned(),
        Effect::CreateHardwareData(_) => "create hardware data".to_owned(),
        Effect::ReleaseHardwareData => "release hardware data".to_owned(),
        Effect::DeleteHardwareData => "delete hardware data".to_owned(),
        Effect::Event { reason, .. } => (*reason).to_owned(),
    }
}

/// What of a status is new: the state, else the error, else just that something is.
fn saved(before: &BareMetalHostStatus, after: &BareMetalHostStatus) -> String {
    let mut words = vec!["save".to_owned()];
    if before.provisioning.state != after.provisioning.state {
        words.push(format!("{:?}", after.provisioning.state));
    }
    if before.operational_status != after.operational_status || before.error_count != after.error_count {
        words.push(format!("{:?} {}", after.operational_status, after.error_count));
    }
    words.join(" ")
}

/// The fields of a request's body that a table cares about.
pub(super) fn request(seen: &Observation, name: &str) -> Request {
    let decision = decide(seen).unwrap_or_else(|undecided| panic!("undecided: {undecided:?}"));
    let mut requests = decision.effects.into_iter().filter_map(|effect| match effect {
        Effect::Ironic(request) if request.name() == name => Some(request),
        _ => None,
    });
    requests.next().unwrap_or_else(|| panic!("no request {name:?} in {}", decided(seen)))
}

/// A patch as JSON.
pub(super) fn patch(seen: &Observation) -> Value {
    match request(seen, "patch node") {
        Request::PatchNode { patch, .. } => json!(patch),
        other => panic!("{other:?}"),
    }
}

/// What happens to a settled host before a decision, told in words so that a table stays one.
type Change = fn(&mut Observation);

/// Checks the rows of a table: what happens to a settled host of a state, and what is then decided.
pub(super) fn check(state: ProvisioningState, rows: &[(&str, Change, &str)]) {
    for (story, change, expected) in rows {
        let mut seen = settled(state);
        change(&mut seen);
        assert_eq!(decided(&seen), *expected, "{state}: {story}");
    }
}
