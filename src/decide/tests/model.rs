//! A world of one host, small enough to be killed between any two effects.
//!
//! Its Ironic does at the next tick what it was asked, or fails while the model's faults say so. It is no stand-in for
//! a real one: it only lets decisions meet their consequences.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{MAC, Undecided, date, decide, new_host, options, secret};
use crate::{
    act::{apply, claimed, hardware_data},
    bmh::{
        BareMetalHost, ErrorType, FINALIZER, HardwareData, HardwareDataSpec, ProvisioningState,
        SECRET_FINALIZER,
    },
    decide::{Decision, Effect, LookAgain},
    observe::{FoundBy, IronicFound, NodeFound, Observation, Question},
    options::Options,
    provisioner::{Node, Op, Patch, Port, PowerTarget, ProvisionState, ProvisionTarget, Request, Validation},
    regression::Regression,
};

/// The world.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// `None` once its last finalizer is gone while it is being deleted.
    pub(super) host: Option<BareMetalHost>,
    pub(super) secret: k8s_openapi::api::core::v1::Secret,
    pub(super) hardware: Option<HardwareData>,
    pub(super) node: Option<Node>,
    pub(super) ports: Vec<Port>,
    pub(super) inventory: Option<Value>,
    pub(super) now: jiff::Timestamp,
    pub(super) options: std::sync::Arc<Options>,
    /// The BMC does not answer.
    pub(super) bmc_down: bool,
    /// Adoption fails, as it did when an image could not be found.
    pub(super) image_gone: bool,
    /// All provision targets that Ironic was ever sent to.
    pub(super) targets: Vec<ProvisionTarget>,
    /// All states and errors that the host showed, without repetition.
    pub(super) history: Vec<(ProvisioningState, Option<ErrorType>)>,
    created: u32,
}

impl Model {
    pub(super) fn new() -> Self {
        let mut host = new_host();
        host.metadata.finalizers = None;
        Self {
            host: Some(host),
            secret: secret("1"),
            hardware: None,
            node: None,
            ports: Vec::new(),
            inventory: None,
            now: date(),
            options: options(),
            bmc_down: false,
            image_gone: false,
            targets: Vec::new(),
            history: Vec::new(),
            created: 0,
        }
    }

    pub(super) fn with(regression: Option<Regression>) -> Self {
        let mut model = Self::new();
        std::sync::Arc::make_mut(&mut model.options).regressions = regression.into_iter().collect();
        model
    }

    pub(super) fn state(&self) -> Option<ProvisioningState> {
        self.host
            .as_ref()
            .map(|host| host.status.as_ref().map_or_else(Default::default, |s| s.provisioning.state))
    }

    pub(super) fn spec(&mut self) -> &mut crate::bmh::BareMetalHostSpec {
        &mut self.host.as_mut().expect("the host exists").spec
    }

    /// Ironic loses everything.
    pub(super) fn lose_database(&mut self) {
        self.node = None;
        self.ports.clear();
        self.inventory = None;
    }

    /// Observes and decides. `None` once the host is gone.
    pub(super) fn decide(&self) -> Option<Result<Decision, String>> {
        let host = self.host.clone()?;
        let mut seen = Observation::new(host, self.hardware.clone(), self.now, 0.5, self.options.clone());
        loop {
            match decide(&seen) {
                Ok(decision) => return Some(Ok(decision)),
                Err(Undecided::Fails(why)) => return Some(Err(why)),
                Err(Undecided::Needs(question)) => self.answer(&mut seen, question),
            }
        }
    }

    /// One whole pass: decides, acts, and lets time go on until the next look. `false` when there will be none.
    pub(super) fn pass(&mut self) -> bool {
        let Some(decision) = self.decide() else { return false };
        let wait = match decision {
            Err(_) => Duration::from_secs(1),
            Ok(decision) => {
                for effect in decision.effects {
                    self.apply(effect);
                }
                match decision.look_again {
                    LookAgain::Never => return false,
                    LookAgain::Now | LookAgain::Continue => Duration::from_millis(5),
                    LookAgain::After(wait) => wait,
                }
            }
        };
        self.now += wait;
        if wait >= Duration::from_secs(1) {
            self.tick();
        }
        self.host.is_some()
    }

    /// Lets the operator work until `done`, at most for a number of passes. Tells whether it came that far.
    pub(super) fn run_until(&mut self, passes: usize, done: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..passes {
            if done(self) {
                return true;
            }
            if !self.pass() {
                break;
            }
        }
        done(self)
    }

    fn answer(&self, seen: &mut Observation, question: Question) {
        let facts = &mut seen.facts;
        match question {
            Question::Secret(_) => facts.secret = Some(Some(self.secret.clone())),
            Question::Ironic => facts.ironic = Some(IronicFound::Ready("1.110".parse().expect("a version"))),
            Question::Node(search) => {
                let by = |node: &Node| {
                    let named = || search.names.iter().any(|name| node.name.as_ref() == Some(name));
                    let at = || self.ports.iter().any(|port| port.address == search.mac);
                    [(search.id == node.uuid, FoundBy::Id), (named(), FoundBy::Name), (at(), FoundBy::Mac)]
                        .into_iter()
                        .find(|(found, _)| *found)
                        .map(|(_, by)| by)
                };
                let found = self.node.as_ref().and_then(|node| Some((node, by(node)?)));
                facts.node = Some(match found {
                    Some((node, by)) => NodeFound::Found { node: Box::new(node.clone()), by },
                    None => NodeFound::Absent,
                });
            }
            Question::Ports { .. } => facts.ports = Some(self.ports.clone()),
            Question::PortOwners(addresses) => {
                facts.port_owners = Some(addresses.into_iter().map(|address| (address, None)).collect());
            }
            Question::Inventory { .. } => facts.inventory = Some(self.inventory.clone()),
            Question::Nodes => facts.nodes = Some(self.node.iter().cloned().collect()),
            Question::Validation { .. } => facts.validation = Some(Validation::default()),
            Question::UserSecrets(names) => {
                facts.user_secrets = Some(names.into_iter().map(|name| (name, None)).collect());
            }
        }
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Ironic(request) => self.request(request),
            Effect::EditHost(edits) => {
                let host = self.host.as_mut().expect("the host exists");
                for edit in edits {
                    apply(host, edit);
                }
                if host.is_being_deleted() && !host.has_finalizer(FINALIZER) {
                    self.host = None;
                }
            }
            Effect::SaveStatus(status) => {
                let shown = (status.provisioning.state, status.error_type);
                if self.history.last() != Some(&shown) {
                    self.history.push(shown);
                }
                self.host.as_mut().expect("the host exists").status = Some(*status);
            }
            Effect::ClaimSecret { finalizer } => {
                let host = self.host.as_ref().expect("the host exists");
                self.secret = claimed(&self.secret, host, finalizer);
            }
            Effect::ReleaseSecret => {
                self.secret
                    .metadata
                    .finalizers
                    .iter_mut()
                    .for_each(|all| all.retain(|one| one != SECRET_FINALIZER));
            }
            Effect::CreateHardwareData(details) => {
                assert!(self.hardware.is_none(), "hardware data exists already");
                let host = self.host.as_ref().expect("the host exists");
                self.hardware = Some(hardware_data(host, HardwareDataSpec { hardware: Some(*details) }));
            }
            Effect::ReleaseHardwareData => {
                self.hardware.iter_mut().for_each(|data| data.metadata.finalizers = None);
            }
            Effect::DeleteHardwareData => self.hardware = None,
            Effect::Event { .. } => {}
        }
    }

    fn request(&mut self, request: Request) {
        if let Request::CreateNode(new) = request {
            assert!(self.node.is_none(), "a second node for the same machine");
            self.created += 1;
            self.node = Some(Node {
                uuid: format!("00000000-0000-4000-8000-{:012}", self.created),
                name: Some(new.name),
                provision_state: ProvisionState::Enroll,
                power_state: Some("power off".to_owned()),
                properties: new.properties,
                driver_info: new.driver_info.0,
                deploy_interface: Some("direct".to_owned()),
                inspect_interface: Some(new.inspect_interface.to_owned()),
                ..Node::default()
            });
            return;
        }
        if let Request::DeleteNode { .. } = request {
            self.lose_database();
            return;
        }
        let node = self.node.as_mut().expect("the node exists");
        match request {
            Request::CreateNode(_) | Request::DeleteNode { .. } => {}
            Request::PatchNode { patch, .. } => change(node, patch),
            Request::CreatePort { node, address, .. } => {
                assert!(
                    !self.ports.iter().any(|port| port.address == address),
                    "a second port for {address}"
                );
                self.ports.push(Port { address, node_uuid: node });
            }
            Request::Provision { target, .. } => {
                self.targets.push(target);
                send(node, target);
            }
            Request::Power { power, .. } => {
                assert_eq!(node.target_provision_state, None, "power of a node that is on its way");
                node.last_error.clear();
                node.target_power_state = Some(power.target.as_str().to_owned());
            }
            Request::SetMaintenance { .. } => node.maintenance = true,
            Request::UnsetMaintenance { .. } => node.maintenance = false,
        }
    }

    /// Ironic does what it was asked.
    pub(super) fn tick(&mut self) {
        let Some(node) = &mut self.node else { return };
        if let Some(target) = node.target_power_state.take() {
            let on = target == PowerTarget::On.as_str();
            node.power_state = Some(if on { "power on" } else { "power off" }.to_owned());
        }
        let (next, error) = match node.provision_state {
            ProvisionState::Verifying if self.bmc_down => {
                (ProvisionState::Enroll, "Failed to get power state")
            }
            ProvisionState::Verifying => (ProvisionState::Manageable, ""),
            ProvisionState::Inspecting => {
                self.inventory = Some(json!({"inventory": {
                    "interfaces": [{"name": "eth0", "mac_address": MAC}], "cpu": {"architecture": "x86_64"},
                }}));
                (ProvisionState::Manageable, "")
            }
            ProvisionState::Adopting if self.image_gone || self.bmc_down => {
                node.power_state = None;
                (ProvisionState::AdoptFailed, "Error while attempting to adopt node")
            }
            ProvisionState::Adopting => {
                node.power_state = Some("power on".to_owned());
                (ProvisionState::Active, "")
            }
            ProvisionState::Deploying => {
                node.power_state = Some("power on".to_owned());
                (ProvisionState::Active, "")
            }
            ProvisionState::Deleting => {
                node.instance_info = Map::new();
                node.instance_uuid = None;
                (ProvisionState::Cleaning, "")
            }
            ProvisionState::Cleaning => (ProvisionState::Available, ""),
            _ => return,
        };
        node.provision_state = next;
        node.last_error = error.to_owned();
        if next != ProvisionState::Cleaning {
            node.target_provision_state = None;
        }
    }
}

fn change(node: &mut Node, patch: Patch) {
    for change in patch.0 {
        let value = match change.op {
            Op::Add(value) => value,
            Op::Remove => Value::Null,
        };
        let text = || value.as_str().map(str::to_owned);
        match change.path.trim_start_matches('/').split_once('/') {
            Some((section, key)) => {
                let section = match section {
                    "driver_info" => &mut node.driver_info,
                    "instance_info" => &mut node.instance_info,
                    "properties" => &mut node.properties,
                    other => panic!("no section {other}"),
                };
                section.remove(key);
                if !value.is_null() {
                    section.insert(key.to_owned(), value);
                }
            }
            None => match change.path.as_str() {
                "/name" => node.name = text(),
                "/driver_info" => node.driver_info = value.as_object().cloned().expect("an object"),
                "/automated_clean" => node.automated_clean = value.as_bool(),
                "/instance_uuid" => node.instance_uuid = text(),
                "/deploy_interface" => node.deploy_interface = text(),
                "/inspect_interface" => node.inspect_interface = text(),
                "/disable_power_off" => node.disable_power_off = value == true,
                other => panic!("no field {other}"),
            },
        }
    }
}

/// Begins a change of the provision state, as Ironic's state machine allows it.
fn send(node: &mut Node, target: ProvisionTarget) {
    use ProvisionState as State;
    use ProvisionTarget as To;
    assert!(!node.maintenance, "{target:?} of a node in maintenance");
    let (next, goal) = match (node.provision_state, target) {
        (State::Enroll, To::Manage) => (State::Verifying, Some("manageable")),
        (State::Available | State::AdoptFailed | State::CleanFailed | State::InspectFailed, To::Manage) => {
            (State::Manageable, None)
        }
        (State::Manageable, To::Inspect) => (State::Inspecting, Some("manageable")),
        (State::Manageable, To::Provide) => (State::Cleaning, Some("available")),
        (State::Manageable | State::AdoptFailed, To::Adopt) => (State::Adopting, Some("active")),
        (State::Available | State::DeployFailed, To::Active) => (State::Deploying, Some("active")),
        (State::Active | State::DeployFailed | State::Error, To::Deleted) => {
            (State::Deleting, Some("available"))
        }
        (state, target) => panic!("Ironic refuses {target:?} in {state:?}"),
    };
    node.provision_state = next;
    node.target_provision_state = goal.map(str::to_owned);
    node.last_error.clear();
}
