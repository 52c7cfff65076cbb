//! Registration, row by row.

use serde_json::json;

use super::super::tests::{
    change_node, check, decided, failed, patch, regress, request, settled, status, with_node,
};
use super::*;
use crate::bmh::ProvisioningState as State;

fn enroll_with_error(seen: &mut crate::observe::Observation) {
    change_node(seen, |node| {
        node.provision_state = ProvisionState::Enroll;
        node.last_error = "Failed to get power state".to_owned();
    });
}

#[test]
fn a_new_host_is_registered_step_by_step() {
    check(
        State::Registering,
        &[
            ("no node", |s| s.facts.node = Some(NodeFound::Absent), "create node, Registered, continue"),
            ("the BMC is to be tried", |_| {}, "manage, 3s"),
            (
                "the BMC is being tried",
                |s| change_node(s, |n| n.provision_state = ProvisionState::Verifying),
                "3s",
            ),
            (
                "the node is asked already",
                |s| change_node(s, |n| n.target_provision_state = Some("manageable".into())),
                "3s",
            ),
            (
                "the node has no port",
                |s| {
                    s.facts.ports = Some(Vec::new());
                    s.facts.port_owners = Some([("00:11:22:33:44:55".to_owned(), None)].into());
                },
                "create port, manage, 3s",
            ),
            ("the port is not looked up", |s| s.facts.ports = Some(Vec::new()), "? port owners"),
            (
                "the port is another node's",
                |s| {
                    s.facts.ports = Some(Vec::new());
                    s.facts.port_owners =
                        Some([("00:11:22:33:44:55".to_owned(), Some("other".to_owned()))].into());
                },
                "fails to create a port for 00:11:22:33:44:55: node other has that address",
            ),
            (
                "the BMC works",
                |s| change_node(s, |n| n.provision_state = ProvisionState::Manageable),
                "save, ProfileSet, BMCAccessValidated, now",
            ),
            (
                "the node is new to Ironic's images",
                |s| {
                    change_node(s, |n| {
                        n.provision_state = ProvisionState::Manageable;
                        n.driver_info.remove("deploy_kernel");
                        n.automated_clean = None;
                    })
                },
                "patch /driver_info/deploy_kernel /automated_clean, save, ProfileSet, BMCAccessValidated, now",
            ),
            (
                "found by an old name",
                |s| change_node(s, |n| n.name = Some("worker-0".into())),
                "patch /name, manage, 3s",
            ),
            ("a discovered node", |s| with_node_by_mac(s, None), "patch /name, manage, 3s"),
            (
                "another host's node",
                |s| with_node_by_mac(s, Some("metal3~other")),
                "save Error 1, RegistrationError, 120s",
            ),
            (
                "an address that is none",
                |s| s.host.spec.bmc.address = "irmc://a".into(),
                "save Error 1, RegistrationError, 120s",
            ),
            (
                "libvirt without a MAC address",
                |s| {
                    s.host.spec.bmc.address = "libvirt://a".into();
                    s.host.spec.boot_mac_address.clear();
                },
                "save Error 1, RegistrationError, 120s",
            ),
            (
                "secure boot over IPMI",
                |s| {
                    s.host.spec.bmc.address = "ipmi://a".into();
                    s.host.spec.boot_mode = Some(BootMode::UefiSecureBoot);
                },
                "save Error 1, RegistrationError, 120s",
            ),
            (
                "no power-off with an old Ironic",
                |s| {
                    s.host.spec.disable_power_off = true;
                    s.facts.ironic = Some(IronicFound::Ready("1.93".parse().expect("a version")));
                },
                "save Error 1, RegistrationError, 120s",
            ),
        ],
    );
}

fn with_node_by_mac(seen: &mut crate::observe::Observation, name: Option<&str>) {
    change_node(seen, |node| node.name = name.map(str::to_owned));
    let Some(NodeFound::Found { by, .. }) = &mut seen.facts.node else { panic!("there is a node") };
    *by = FoundBy::Mac;
}

#[test]
fn a_registration_that_failed_is_tried_again() {
    check(
        State::Registering,
        &[
            ("fails for the first time", enroll_with_error, "save Error 1, RegistrationError, 120s"),
            (
                "its retry",
                |s| {
                    enroll_with_error(s);
                    failed(s, ErrorType::Registration, 1);
                },
                "manage, save Ok 1, 3s",
            ),
            (
                "its retry, as metal3-739 had it",
                |s| {
                    enroll_with_error(s);
                    failed(s, ErrorType::Registration, 1);
                    regress(s, Regression::Metal3739);
                },
                "save Error 2, RegistrationError, 240s",
            ),
            (
                "its retry, as metal3-708 had it",
                |s| {
                    enroll_with_error(s);
                    failed(s, ErrorType::Registration, 1);
                    regress(s, Regression::Metal3708);
                },
                "never",
            ),
            (
                "metal3-708 with other credentials",
                |s| {
                    enroll_with_error(s);
                    failed(s, ErrorType::Registration, 1);
                    status(s).tried_credentials.credentials_version = "0".to_owned();
                    regress(s, Regression::Metal3708);
                },
                "patch /driver_info, manage, save Ok 1, 3s",
            ),
            (
                "other credentials need no retry",
                |s| {
                    enroll_with_error(s);
                    status(s).tried_credentials.credentials_version = "0".to_owned();
                },
                "patch /driver_info, manage, save, 3s",
            ),
            (
                "the retry works",
                |s| {
                    change_node(s, |n| n.provision_state = ProvisionState::Manageable);
                    failed(s, ErrorType::Registration, 1);
                },
                "save Ok 1, ProfileSet, BMCAccessValidated, now",
            ),
        ],
    );
}

#[test]
fn a_registered_host_is_registered_again_in_every_pass() {
    check(
        State::Available,
        &[
            ("nothing changed", |_| {}, "60s"),
            (
                "Ironic has forgotten it",
                |s| s.facts.node = Some(NodeFound::Absent),
                "create node, Registered, continue",
            ),
            ("Ironic has it under another id", |s| status(s).provisioning.id = "old".into(), "save, now"),
            (
                "the BMC moved",
                |s| s.host.spec.bmc.address = "redfish-virtualmedia+http://bmc-9/redfish/v1/Systems/1".into(),
                "patch /driver_info, 60s",
            ),
            (
                "the credentials changed",
                |s| {
                    let Some(Some(secret)) = &mut s.facts.secret else { panic!("there is a secret") };
                    secret.metadata.resource_version = Some("2".to_owned());
                },
                "patch /driver_info, save, BMCAccessValidated, now",
            ),
            (
                "cleaning is turned off",
                |s| s.host.spec.automated_cleaning_mode = Some(AutomatedCleaning::Disabled),
                "patch /automated_clean, 60s",
            ),
            (
                "another error is not the registration's to clear",
                |s| failed(s, ErrorType::Preparation, 1),
                "save Error 0, 60s",
            ),
        ],
    );
}

#[test]
fn a_node_is_created_as_upstream_creates_it() {
    let mut seen = settled(State::Registering);
    seen.facts.node = Some(NodeFound::Absent);
    let Request::CreateNode(node) = request(&seen, "create node") else { panic!("it is a node") };
    assert_eq!(
        json!(node),
        json!({
            "name": "metal3~worker-0", "driver": "redfish", "boot_interface": "redfish-virtual-media",
            "disable_power_off": false, "firmware_interface": "redfish", "inspect_interface": "agent",
            "raid_interface": "redfish",
            "driver_info": {"redfish_address": "http://bmc-0:8000", "redfish_password": "pass",
                "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "admin"},
            "properties": {"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"},
        })
    );
}

#[test]
fn new_credentials_replace_the_whole_of_driver_info_and_keep_the_ramdisk() {
    let mut seen = settled(State::Available);
    status(&mut seen).tried_credentials.credentials_version = "0".to_owned();
    let patch = patch(&seen);
    assert_eq!(patch[0]["value"]["redfish_password"], "pass");
    assert_eq!(patch[0]["value"]["deploy_kernel"], "http://ironic/ipa.kernel");
    assert_eq!(patch.as_array().map(Vec::len), Some(1));
}

#[test]
fn credentials_that_a_busy_node_did_not_take_are_sent_again() {
    let mut seen = settled(State::Available);
    status(&mut seen).tried_credentials.credentials_version = "0".to_owned();
    let decision = super::super::decide(&seen).expect("a decision");
    assert!(decision.when_busy.save.is_none(), "{:?}", decision.when_busy);
    failed(&mut seen, ErrorType::Registration, 1);
    let decision = super::super::decide(&seen).expect("a decision");
    let saved = decision.when_busy.save.expect("the error is forgotten");
    assert_eq!((saved.error_type, saved.tried_credentials.credentials_version.as_str()), (None, "0"));
}

#[test]
fn a_locked_node_is_not_configured() {
    let mut seen = settled(State::Provisioning);
    let mut locked = super::super::tests::node(ProvisionState::Deploying);
    locked.automated_clean = None;
    with_node(&mut seen, locked);
    assert_eq!(decided(&seen), "save, 10s");
}
