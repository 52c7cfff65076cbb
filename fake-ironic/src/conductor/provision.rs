//! `PUT states/provision`: which verbs are accepted when, and which work each begins.

use serde_json::Value;
use uuid::Uuid;

use super::{Conductor, Lock, Worker, clean::step};
use crate::{
    failure::Failure,
    node::{Node, Step, Work, WorkKind},
    state::{Event, ProvisionState, Verb},
};

/// What a client asks for.
#[derive(Clone, Debug)]
pub(crate) struct ProvisionRequest {
    pub(crate) verb: Verb,
    /// For `active` and `rebuild`: a string or an object, handed on to the agent.
    pub(crate) configdrive: Option<Value>,
    pub(crate) deploy_steps: Vec<Value>,
    pub(crate) clean_steps: Vec<Value>,
}

impl Conductor {
    /// Begins what a client asks for. What can be refused is refused here; the rest happens in the background.
    pub(crate) async fn provision(&self, uuid: Uuid, request: ProvisionRequest) -> Result<(), Failure> {
        let node = self.database().node(uuid).map_err(|_| Failure::no_node(uuid))?;
        self.check_verb(&node, request.verb)?;
        let steps = read_steps(&request)?;
        let lock = self.lock(uuid).await?;
        match self.prepare(uuid, &request, steps) {
            Ok(Begun::Work(worker, node)) => {
                self.begin(lock, worker, request.verb, &node);
                Ok(())
            }
            Ok(Begun::AbortInspection) => lock.start(self.clone().abort_inspection(uuid)),
            Ok(Begun::AbortDeploy(step)) => lock.start(self.clone().abort_deploying(uuid, step)),
            Ok(Begun::Nothing) => {
                lock.release();
                Ok(())
            }
            Err(failure) => {
                lock.release();
                Err(failure)
            }
        }
    }

    /// A verb that does not fit the state is refused at once: for being locked, if that may be why it does not.
    fn check_verb(&self, node: &Node, verb: Verb) -> Result<(), Failure> {
        if node.provision_state.after(Event::Verb(verb)).is_some() {
            return Ok(());
        }
        match self.holder(node) {
            Some(holder) => Err(Failure::locked(node.uuid, &holder)),
            None => Err(Failure::invalid(format!(
                "The requested action \"{verb}\" can not be performed on node \"{}\" while it is in state \"{}\".",
                node.uuid, node.provision_state
            ))),
        }
    }

    /// Checks and moves the node. The lock is held.
    fn prepare(&self, uuid: Uuid, request: &ProvisionRequest, steps: Vec<Step>) -> Result<Begun, Failure> {
        let node = self.database().node(uuid).map_err(|_| Failure::no_node(uuid))?;
        let verb = request.verb;
        self.check_verb(&node, verb)?;
        let state = node.provision_state;
        match verb {
            Verb::Active | Verb::Deploy | Verb::Rebuild => {
                if node.maintenance {
                    return Err(Failure::invalid(format!(
                        "The provisioning operation can't be performed on node {uuid} because it's in maintenance mode."
                    )));
                }
                self.validate_before_deploy(&node)?;
            }
            Verb::Clean | Verb::Inspect => {
                self.driver()
                    .validate(&self.target(&node))
                    .map_err(|error| Failure::invalid(error.to_string()))?;
            }
            Verb::Abort if state == ProvisionState::InspectWait => return Ok(Begun::AbortInspection),
            Verb::Abort if state == ProvisionState::WaitCallBack => {
                return Ok(Begun::AbortDeploy(node.work.current));
            }
            Verb::Abort => {
                if node.work.current.as_ref().is_some_and(|step| step.abortable != Some(true)) {
                    self.change(uuid, |node| node.work.abort_after = true)?;
                    return Ok(Begun::Nothing);
                }
            }
            Verb::Rescue | Verb::Unrescue | Verb::Unhold | Verb::Service => {
                return Err(Failure::invalid(format!(
                    "Driver {} does not support {verb} (disabled or not implemented).",
                    node.driver
                )));
            }
            Verb::Deleted | Verb::Undeploy | Verb::Manage | Verb::Provide | Verb::Adopt => {}
        }
        let worker = self.worker()?;
        let kind = match verb {
            Verb::Active | Verb::Deploy | Verb::Rebuild => Some(WorkKind::Deploy),
            Verb::Clean => Some(WorkKind::ManualClean),
            Verb::Provide => Some(WorkKind::AutomatedClean),
            Verb::Deleted
            | Verb::Undeploy
            | Verb::Manage
            | Verb::Inspect
            | Verb::Abort
            | Verb::Adopt
            | Verb::Rescue
            | Verb::Unrescue
            | Verb::Unhold
            | Verb::Service => None,
        };
        if let Some(kind) = kind {
            // The target of what follows depends on it.
            self.change(uuid, |node| {
                node.work = Work { kind: Some(kind), wanted: steps, ..Work::default() }
            })?;
        }
        // `manage` from a failed state leaves the text, which operators rely on.
        let keeps_error = verb == Verb::Manage && state != ProvisionState::Enroll;
        self.advance(uuid, Event::Verb(verb), |node| {
            if !keeps_error {
                node.last_error = None;
            }
            if let Some(configdrive) = &request.configdrive {
                node.instance_info.insert("configdrive".to_owned(), configdrive.clone());
            }
        })?;
        Ok(Begun::Work(worker, Box::new(node)))
    }

    /// Starts the work of a verb; `node` is as it was before.
    fn begin(&self, lock: Lock, worker: Worker, verb: Verb, node: &Node) {
        let (conductor, uuid) = (self.clone(), node.uuid);
        match verb {
            Verb::Manage if node.provision_state == ProvisionState::Enroll => {
                lock.hand_over(worker, conductor.verify(uuid));
            }
            Verb::Provide | Verb::Clean => lock.hand_over(worker, conductor.clean(uuid)),
            Verb::Inspect => lock.hand_over(worker, conductor.inspect(uuid)),
            Verb::Adopt => lock.hand_over(worker, conductor.adopt(uuid)),
            Verb::Active | Verb::Deploy | Verb::Rebuild => lock.hand_over(worker, conductor.deploy(uuid)),
            Verb::Deleted | Verb::Undeploy => lock.hand_over(worker, conductor.tear_down(uuid)),
            Verb::Abort => {
                let step = node.work.current.clone();
                lock.hand_over(worker, conductor.abort_cleaning(uuid, step));
            }
            Verb::Manage | Verb::Rescue | Verb::Unrescue | Verb::Unhold | Verb::Service => lock.release(),
        }
    }
}

/// What follows a request that was accepted.
enum Begun {
    /// Work on the node, given as it was before.
    Work(Worker, Box<Node>),
    /// The inspection is aborted; its state changes when that is done.
    AbortInspection,
    /// The deployment is aborted, at this step; so here.
    AbortDeploy(Option<Step>),
    /// It is done already.
    Nothing,
}

/// The steps that a client asks for.
fn read_steps(request: &ProvisionRequest) -> Result<Vec<Step>, Failure> {
    let asked = match request.verb {
        Verb::Clean => &request.clean_steps,
        Verb::Active | Verb::Deploy | Verb::Rebuild => &request.deploy_steps,
        Verb::Deleted
        | Verb::Undeploy
        | Verb::Manage
        | Verb::Provide
        | Verb::Inspect
        | Verb::Abort
        | Verb::Adopt
        | Verb::Rescue
        | Verb::Unrescue
        | Verb::Unhold
        | Verb::Service => return Ok(Vec::new()),
    };
    asked
        .iter()
        .map(|value| {
            // Ironic 39.0.0 stumbles over such a step rather than refusing it.
            let missing = ["interface", "step"].into_iter().find(|key| value.get(*key).is_none());
            match (missing, step(value)) {
                (Some(key), _) => Err(Failure::server(format!("'{key}'"))),
                (None, Some(step)) => Ok(step),
                (None, None) => {
                    Err(Failure::invalid(format!("Schema error for steps: {} is not valid", value)))
                }
            }
        })
        .collect()
}
