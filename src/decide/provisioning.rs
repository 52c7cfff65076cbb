//! Provisioning: an image is put on the machine.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};

use super::{
    LookAgain, Undecided, image,
    pass::{Outcome, Pass, Progress, Sent},
    provisioned, reboot,
};
use crate::{
    bmh::{ErrorType, Image, ProvisioningState, SecretReference},
    observe::Question,
    provisioner::{ConfigDrive, Node, Patch, ProvisionState, ProvisionTarget},
};

pub(super) fn handle(pass: &mut Pass<'_>) -> Outcome {
    if pass.status.error_type.is_some() {
        // What a failed attempt left behind is taken off before the next.
        pass.status.provisioning_fail_count = pass.status.provisioning_fail_count.saturating_add(1);
        return pass.enter(ProvisioningState::Deprovisioning);
    }
    if provisioned::is_cancelled(pass) {
        return pass.enter(ProvisioningState::Deprovisioning);
    }
    pass.status.last_attempted_image = pass.spec().image.clone();
    let node = pass.node()?;
    if let Some(look_again) = provision(pass, node)? {
        return Ok(look_again);
    }
    pass.event("ProvisioningComplete", format!("Image provisioning completed for {}", target(pass)));
    pass.clear_error();
    pass.status.error_count = 0;
    pass.status.provisioning_fail_count = 0;
    pass.status.provisioning.image = pass.spec().image.clone().unwrap_or_default();
    pass.status.provisioning.custom_deploy = pass.spec().custom_deploy.clone();
    pass.enter(ProvisioningState::Provisioned)
}

/// What is put on the machine, for messages.
fn target(pass: &Pass<'_>) -> String {
    let spec = pass.spec();
    match (wanted_image(pass), &spec.custom_deploy) {
        (Some(image), _) => image.url.clone(),
        (None, Some(custom)) => custom.method.clone(),
        (None, None) => String::new(),
    }
}

fn wanted_image<'a>(pass: &Pass<'a>) -> Option<&'a Image> {
    pass.spec().image.as_ref().filter(|image| !image.url.is_empty())
}

/// `None` once the image is on the machine.
fn provision(pass: &mut Pass<'_>, node: &Node) -> Progress {
    let wanted = wanted_image(pass);
    if let Some(message) = wanted.and_then(image::objection) {
        return Ok(Some(pass.fail(ErrorType::Provisioning, message)));
    }
    let look_again = match node.provision_state {
        ProvisionState::DeployFailed if image::has_image(node, wanted) => {
            if !node.last_error.is_empty() {
                let message = format!("Image provisioning failed for {}: {}", target(pass), node.last_error);
                return Ok(Some(pass.fail(ErrorType::Provisioning, message)));
            }
            LookAgain::Now
        }
        ProvisionState::DeployFailed | ProvisionState::Available => return deploy(pass, node, wanted),
        ProvisionState::Manageable => pass.send_to(node, ProvisionTarget::Provide).look_again(),
        ProvisionState::CleanFailed => pass.recover(node),
        ProvisionState::Active => return Ok(None),
        ProvisionState::DeployWait if reboot::wanted(pass, true).is_some() => {
            pass.send_to(node, ProvisionTarget::Deleted).look_again()
        }
        ProvisionState::DeployWait
        | ProvisionState::Deploying
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::Deleting
        | ProvisionState::Enroll
        | ProvisionState::Verifying
        | ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::InspectFailed
        | ProvisionState::Adopting
        | ProvisionState::AdoptFailed
        | ProvisionState::Error
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceFailed
        | ProvisionState::Other => pass.later(),
    };
    Ok(Some(pass.working(look_again)))
}

/// Tells Ironic what is wanted, asks whether it could be done, and starts it. Each step sees what came of the last.
fn deploy(pass: &mut Pass<'_>, node: &Node, wanted: Option<&Image>) -> Progress {
    let patch = set_up(pass, node, wanted);
    if !patch.is_empty() {
        pass.patch(node, patch);
        return Ok(Some(pass.working(LookAgain::Continue)));
    }
    let question = || Undecided::Needs(Question::Validation { node: node.uuid.clone() });
    let validation = pass.seen.facts.validation.as_ref().ok_or_else(question)?;
    let objections: Vec<_> = [&validation.boot, &validation.deploy].into_iter().flatten().cloned().collect();
    if !objections.is_empty() {
        let message = format!("host validation error: {}", objections.join("; "));
        return Ok(Some(pass.fail(ErrorType::Provisioning, message)));
    }
    let drive =
        if wanted.is_some_and(Image::is_live_iso) { ConfigDrive::default() } else { config_drive(pass)? };
    let step = |method: &str| json!({"interface": "deploy", "step": method, "args": {}, "priority": 80});
    let steps = pass.current().1.map(|custom| step(&custom.method)).into_iter().collect();
    let look_again = match pass.send_to_with(node, ProvisionTarget::Active, Some(Box::new(drive)), steps) {
        Sent::Yes(look_again) => {
            pass.event("ProvisioningStarted", format!("Image provisioning started for {}", target(pass)));
            look_again
        }
        Sent::NotYet(look_again) => look_again,
    };
    Ok(Some(pass.working(look_again)))
}

/// What Ironic must be told before it can deploy.
fn set_up(pass: &Pass<'_>, node: &Node, wanted: Option<&Image>) -> Patch {
    let mut patch = Patch::default();
    let uid = pass.seen.host.metadata.uid.clone().map(Value::from);
    patch.want("/instance_uuid", node.instance_uuid.clone().map(Value::from).as_ref(), uid);
    patch.want_in(
        "instance_info",
        &node.instance_info,
        "capabilities",
        Some(image::instance_capabilities(pass)),
    );
    let root = pass.status.provisioning.root_device_hints.as_ref().and_then(image::root_device);
    patch.want_in("instance_info", &node.instance_info, "root_device", root);
    image::want_image(&mut patch, node, wanted);
    let present = node.deploy_interface.as_deref().unwrap_or_default();
    match image::deploy_interface(wanted, pass.current().1) {
        "" if matches!(present, "ramdisk" | "custom-agent") => {
            patch.want("/deploy_interface", Some(&present.into()), None);
        }
        "" => {}
        interface => patch.want("/deploy_interface", Some(&present.into()), Some(interface.into())),
    }
    patch.want_in("driver_info", &node.driver_info, "force_persistent_boot_device", Some("Default".into()));
    patch
}

/// What cloud-init will find on the machine.
fn config_drive(pass: &Pass<'_>) -> Result<ConfigDrive, Undecided> {
    let spec = pass.spec();
    let network = spec.network_data.clone().or_else(|| {
        let name = spec.preprovisioning_network_data_name.clone();
        (!name.is_empty()).then(|| SecretReference { name, namespace: String::new() })
    });
    let references = [&spec.user_data, &network, &spec.meta_data];
    let mut names: Vec<String> =
        references.into_iter().flatten().map(|reference| reference.name.clone()).collect();
    names.sort();
    names.dedup();
    let none = BTreeMap::new();
    let secrets = match (&pass.seen.facts.user_secrets, names.is_empty()) {
        (Some(secrets), _) => secrets,
        (None, true) => &none,
        (None, false) => return Err(Undecided::Needs(Question::UserSecrets(names))),
    };
    let read = |reference: &Option<SecretReference>, key: &str| match reference {
        None => Ok(None),
        Some(reference) => content(pass, secrets, reference, key).map(Some),
    };
    let network = read(&network, "networkData")?.filter(|text| !text.is_empty());
    let mut meta_data = names_and_id(pass);
    if let Some(text) = read(&spec.meta_data, "metaData")?.filter(|text| !text.is_empty()) {
        let own: Map<String, Value> = structured("metaData", &text)?;
        meta_data.extend(own);
    }
    Ok(ConfigDrive {
        meta_data: Some(meta_data),
        user_data: read(&spec.user_data, "userData")?.filter(|text| !text.is_empty()),
        network_data: network.map(|text| structured("networkData", &text)).transpose()?,
    })
}

fn names_and_id(pass: &Pass<'_>) -> Map<String, Value> {
    let host = &pass.seen.host;
    [
        ("uuid", host.metadata.uid.as_deref().unwrap_or_default()),
        ("metal3-namespace", host.namespace()),
        ("metal3-name", host.name()),
        ("local-hostname", host.name()),
        ("local_hostname", host.name()),
        ("name", host.name()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.into()))
    .collect()
}

/// The text under `key`, else under `value`. Network data may be left out of its Secret.
fn content(
    pass: &Pass<'_>,
    secrets: &BTreeMap<String, Option<Secret>>,
    reference: &SecretReference,
    key: &str,
) -> Result<String, Undecided> {
    let fail = |why: &str| Undecided::Fails(format!("use the secret {} for {key}: {why}", reference.name));
    if !reference.namespace.is_empty() && reference.namespace != pass.seen.host.namespace() {
        return Err(fail("it is in another namespace than the host"));
    }
    let secret =
        secrets.get(&reference.name).and_then(Option::as_ref).ok_or_else(|| fail("it does not exist"))?;
    let data = secret.data.iter().flatten();
    let found = |wanted: &str| data.clone().find(|(name, _)| *name == wanted).map(|(_, bytes)| bytes);
    match found(key).or_else(|| found("value")) {
        Some(bytes) => String::from_utf8(bytes.0.clone()).map_err(|_| fail("it is not text")),
        None if key == "networkData" => Ok(String::new()),
        None => Err(fail("it has neither that key nor the key value")),
    }
}

/// Reads a document. Upstream reads YAML, of which this operator knows the part that is JSON.
fn structured<T: serde::de::DeserializeOwned>(key: &str, text: &str) -> Result<T, Undecided> {
    serde_json::from_str(text).map_err(|_| Undecided::Fails(format!("read {key}: it is not a JSON document")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{
        annotate, change_node, check, decided, failed, patch, request, settled, status,
    };
    use super::*;
    use crate::{
        bmh::ProvisioningState as State,
        observe::Observation,
        provisioner::{Op, Request, Validation},
    };

    /// The node after it has been told what is wanted.
    fn set_up(seen: &mut Observation) {
        let Request::PatchNode { patch, .. } = request(seen, "patch node") else { panic!("it is a patch") };
        change_node(seen, |node| {
            for op in patch.0 {
                let Op::Add(value) = op.op else { panic!("nothing is removed") };
                match op.path.trim_start_matches('/').split_once('/') {
                    Some(("instance_info", key)) => drop(node.instance_info.insert(key.to_owned(), value)),
                    Some(("driver_info", key)) => drop(node.driver_info.insert(key.to_owned(), value)),
                    Some(other) => panic!("{other:?}"),
                    None => node.instance_uuid = value.as_str().map(str::to_owned),
                }
            }
        });
        seen.facts.validation = Some(Validation::default());
    }

    fn deploy_failed(seen: &mut Observation) {
        set_up(seen);
        change_node(seen, |node| {
            node.provision_state = ProvisionState::DeployFailed;
            node.last_error = "no space".into();
        });
    }

    #[test]
    fn an_image_is_put_on_the_machine() {
        check(
            State::Provisioning,
            &[
                (
                    "the node knows of nothing",
                    |_| {},
                    "patch /instance_uuid /instance_info/capabilities \
/instance_info/root_device /instance_info/image_source /instance_info/image_disk_format \
/instance_info/image_os_hash_algo /instance_info/image_os_hash_value /driver_info/force_persistent_boot_device, \
save, continue",
                ),
                (
                    "the node knows",
                    |s| {
                        set_up(s);
                        s.facts.validation = None;
                    },
                    "? validation",
                ),
                ("it can be done", set_up, "active, save, ProvisioningStarted, 3s"),
                (
                    "it cannot be done",
                    |s| {
                        set_up(s);
                        s.facts.validation =
                            Some(Validation { boot: None, deploy: Some("no ramdisk".into()) });
                    },
                    "save Error 1, ProvisioningError, 120s",
                ),
                (
                    "user data is wanted",
                    |s| {
                        set_up(s);
                        s.host.spec.user_data =
                            Some(SecretReference { name: "user".into(), ..SecretReference::default() });
                    },
                    "? user secrets",
                ),
                (
                    "user data is not there",
                    |s| {
                        set_up(s);
                        s.host.spec.user_data =
                            Some(SecretReference { name: "user".into(), ..SecretReference::default() });
                        s.facts.user_secrets = Some([("user".to_owned(), None)].into());
                    },
                    "fails to use the secret user for userData: it does not exist",
                ),
                (
                    "manageable",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Manageable),
                    "provide, save, 3s",
                ),
                (
                    "wiping failed",
                    |s| {
                        change_node(s, |n| {
                            n.provision_state = ProvisionState::CleanFailed;
                            n.maintenance = true;
                        })
                    },
                    "unset maintenance, manage, save, 3s",
                ),
                (
                    "at work",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::DeployWait),
                    "save, 10s",
                ),
                (
                    "at work, and a reboot is forced",
                    |s| {
                        change_node(s, |n| n.provision_state = ProvisionState::DeployWait);
                        annotate(s, "reboot.metal3.io/x", r#"{"force": true}"#);
                    },
                    "deleted, save, 3s",
                ),
                (
                    "done",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Active),
                    "save Provisioned, ProvisioningComplete, now",
                ),
                ("failed", deploy_failed, "save Error 1, ProvisioningError, 120s"),
                (
                    "after a failure",
                    |s| {
                        deploy_failed(s);
                        failed(s, ErrorType::Provisioning, 1);
                    },
                    "save Deprovisioning, now",
                ),
                (
                    "failed with another image",
                    |s| {
                        deploy_failed(s);
                        s.host.spec.image.iter_mut().for_each(|image| image.url.push('2'));
                    },
                    "patch /instance_info/image_source, save, continue",
                ),
                ("no longer wanted", |s| s.host.spec.image = None, "save Deprovisioning, now"),
                (
                    "without a checksum",
                    |s| s.host.spec.image.iter_mut().for_each(|image| image.checksum.clear()),
                    "save Error 1, ProvisioningError, 120s",
                ),
            ],
        );
    }

    #[test]
    fn each_failure_is_counted_for_its_image() {
        let mut seen = settled(State::Provisioning);
        failed(&mut seen, ErrorType::Provisioning, 1);
        status(&mut seen).provisioning_fail_count = 2;
        let decision = super::super::decide(&seen).expect("a decision");
        let super::super::Effect::SaveStatus(after) = &decision.effects[0] else { panic!("{decision:?}") };
        assert_eq!(after.provisioning_fail_count, 3);
    }

    #[test]
    fn the_node_is_told_as_upstream_tells_it() {
        let patch = patch(&settled(State::Provisioning));
        let value = |path: &str| {
            let ops = patch.as_array().expect("a list");
            ops.iter().find(|op| op["path"] == path).map(|op| op["value"].clone())
        };
        assert_eq!(value("/instance_uuid"), Some(json!("c9a9d1cc-0b2a-4a6c-9a79-6a9f7a3c1f00")));
        assert_eq!(value("/instance_info/root_device"), Some(json!({"name": "s== /dev/sda"})));
        assert_eq!(value("/instance_info/capabilities"), Some(json!({})));
        assert_eq!(value("/instance_info/image_os_hash_algo"), Some(json!("sha256")));
        assert_eq!(value("/driver_info/force_persistent_boot_device"), Some(json!("Default")));
    }

    #[test]
    fn the_config_drive_holds_names_and_user_data() {
        let mut seen = settled(State::Provisioning);
        seen.host.spec.user_data =
            Some(SecretReference { name: "user".into(), ..SecretReference::default() });
        seen.host.spec.meta_data =
            Some(SecretReference { name: "meta".into(), ..SecretReference::default() });
        set_up(&mut seen);
        let secret = |key: &str, text: &str| {
            let data = [(key.to_owned(), k8s_openapi::ByteString(text.into()))].into();
            Some(Secret { data: Some(data), ..Secret::default() })
        };
        let secrets =
            [("user", secret("value", "#cloud-config")), ("meta", secret("metaData", r#"{"name": "own"}"#))];
        seen.facts.user_secrets = Some(secrets.map(|(name, secret)| (name.to_owned(), secret)).into());
        let Request::Provision { configdrive: Some(drive), .. } = request(&seen, "active") else {
            panic!("{}", decided(&seen))
        };
        assert_eq!(
            json!(drive),
            json!({
                "user_data": "#cloud-config",
                "meta_data": {"local-hostname": "worker-0", "local_hostname": "worker-0", "metal3-name": "worker-0",
                    "metal3-namespace": "metal3", "name": "own", "uuid": "c9a9d1cc-0b2a-4a6c-9a79-6a9f7a3c1f00"},
            })
        );
    }

    #[test]
    fn a_live_iso_is_booted_and_not_written() {
        let mut seen = settled(State::Provisioning);
        seen.host.spec.image =
            serde_json::from_value(json!({"url": "http://images/live.iso", "format": "live-iso"}))
                .expect("an image");
        assert_eq!(
            decided(&seen),
            "patch /instance_uuid /instance_info/capabilities /instance_info/root_device \
/instance_info/boot_iso /deploy_interface /driver_info/force_persistent_boot_device, save, continue"
        );
    }
}
