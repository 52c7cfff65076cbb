//! Cleaning: the agent's steps, one after the other, before a node becomes available or because a client asked.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Conductor, Stop, power::Purpose};
use crate::{
    agent_client::{CommandStatus, Progress},
    database::NotFound,
    node::{Fault, Node, Step, Work, WorkKind},
    python,
    settings::Deploy,
    state::{Event, Verb},
};

impl Conductor {
    /// Begins to clean a node in `cleaning`.
    pub(super) async fn clean(self, uuid: Uuid) -> Result<(), NotFound> {
        let node = self.database().node(uuid)?;
        let manual = node.work.kind == Some(WorkKind::ManualClean);
        if !manual && !node.is_cleaned(self.settings().conductor.automated_clean) {
            return self.advance(uuid, Event::Done, |node| node.work = Work::default());
        }
        if let Err(error) = self.driver().validate(&self.target(&node)) {
            let text = format!(
                "Failed to validate power or network driver for cleaning node {uuid}. Error: {error}"
            );
            return self.fail_cleaning(uuid, &text).await;
        }
        if let Some(step) = node.work.wanted.iter().find(|step| !in_agent(step)) {
            return self.fail_cleaning(uuid, &unsupported(uuid, step)).await;
        }
        match self.boot_agent(uuid, Purpose::Commands).await {
            Ok(()) => self.advance(uuid, Event::Wait, |_| {}),
            Err(Stop::Gone) => Err(NotFound),
            Err(Stop::Failed { text, .. }) => {
                self.fail_cleaning(uuid, &format!("Failed to prepare node {uuid} for cleaning: {text}")).await
            }
        }
    }

    /// Goes on with a node in `clean wait` whose agent has come back.
    pub(super) async fn continue_cleaning(&self, uuid: Uuid) -> Result<(), NotFound> {
        let node = self.database().node(uuid)?;
        let Some(current) = node.work.current.clone() else {
            self.advance(uuid, Event::Resume, |_| {})?;
            return match self.learn_clean_steps(&node).await {
                Ok(Ok(())) => self.next_clean_step(uuid).await,
                Ok(Err(text)) => self.fail_cleaning(uuid, &text).await,
                Err(Stop::Gone) => Err(NotFound),
                Err(Stop::Failed { text, .. }) => {
                    self.fail_cleaning(uuid, &format!("Failed to continue cleaning node {uuid}: {text}"))
                        .await
                }
            };
        };
        let Some(command) = self.last_step_command(&node, "execute_clean_step", &current).await? else {
            return Ok(());
        };
        match command.progress {
            Progress::Running => Ok(()),
            Progress::Succeeded if node.work.abort_after => {
                self.advance(uuid, Event::Fail, |_| {})?;
                self.clone().abort_cleaning(uuid, Some(current)).await
            }
            Progress::Succeeded => {
                self.advance(uuid, Event::Resume, |_| {})?;
                self.next_clean_step(uuid).await
            }
            Progress::Failed | Progress::CleanVersionMismatch => {
                let text = format!(
                    "Clean step {} failed on node {uuid}. {}",
                    current.full_name(),
                    command.error.map(|error| error.details).unwrap_or_default()
                );
                self.fail_cleaning(uuid, &text).await
            }
        }
    }

    /// Asks the agent which steps it has, and orders them. The inner error is what is wrong with the wanted ones.
    async fn learn_clean_steps(&self, node: &Node) -> Result<Result<(), String>, Stop> {
        let answer = self.ask_agent(node, "clean.get_clean_steps", self.node_and_ports(node), true).await?;
        let offered = steps_in(&answer.result, "clean_steps");
        let steps = if node.work.kind == Some(WorkKind::ManualClean) {
            let mut steps = Vec::new();
            for wanted in &node.work.wanted {
                match offered
                    .iter()
                    .find(|step| step.step == wanted.step && step.interface == wanted.interface)
                {
                    Some(step) => steps.push(Step { args: wanted.args.clone(), priority: 0, ..step.clone() }),
                    None => return Ok(Err(unsupported(node.uuid, wanted))),
                }
            }
            steps
        } else {
            automated(offered, &self.settings().deploy)
        };
        let version = answer.result.get("hardware_manager_version").cloned().unwrap_or_default();
        self.change(node.uuid, |node| {
            node.work.steps = Some(steps);
            node.work.hardware_manager_version = version;
        })?;
        Ok(Ok(()))
    }

    /// Sends the next step to the agent, or ends the cleaning. The node is in `cleaning`.
    async fn next_clean_step(&self, uuid: Uuid) -> Result<(), NotFound> {
        let (step, node) = self.change(uuid, |node| (node.work.begin_next(), node.clone()))?;
        let Some(step) = step else { return self.finish_cleaning(uuid).await };
        let mut params = self.node_and_ports(&node);
        params.insert("step".to_owned(), step.to_value());
        params.insert("clean_version".to_owned(), node.work.hardware_manager_version.clone());
        match self.ask_agent(&node, "clean.execute_clean_step", params, false).await {
            Ok(_) => self.advance(uuid, Event::Wait, |_| {}),
            Err(Stop::Gone) => Err(NotFound),
            Err(Stop::Failed { text, .. }) => {
                let text = format!("Node {uuid} failed step {}: {text}", python::repr(&step.to_value()));
                self.fail_cleaning(uuid, &text).await
            }
        }
    }

    async fn finish_cleaning(&self, uuid: Uuid) -> Result<(), NotFound> {
        let node = self.change(uuid, |node| {
            node.work.current = None;
            node.clone()
        })?;
        self.collect_logs(&node).await;
        match self.take_agent_down(uuid).await {
            Ok(()) => {}
            Err(Stop::Gone) => return Err(NotFound),
            Err(Stop::Failed { text, .. }) => {
                let text = format!("Failed to tear down from cleaning for node {uuid}, reason: {text}");
                return self.fail(uuid, "cleaning", &text);
            }
        }
        let manual = node.work.kind == Some(WorkKind::ManualClean);
        let end = if manual { Event::Verb(Verb::Manage) } else { Event::Done };
        self.advance(uuid, end, |node| node.work = Work::default())
    }

    /// Ends a cleaning that went wrong, from `cleaning` or `clean wait`.
    pub(super) async fn fail_cleaning(&self, uuid: Uuid, text: &str) -> Result<(), NotFound> {
        let text = self.clean_up_after_cleaning(uuid, text).await?;
        self.remember(uuid, "cleaning", &text);
        self.advance(uuid, Event::Fail, |node| {
            node.last_error = Some(text);
            node.work = Work::default();
        })
    }

    /// Gives up on an agent that does not come back. Here the failure shows before the machine is powered off, and
    /// its reason after.
    pub(super) async fn time_cleaning_out(self, uuid: Uuid) -> Result<(), NotFound> {
        let step = self.database().node(uuid)?.work.current;
        let step = step.map_or_else(|| "{}".to_owned(), |step| python::repr(&step.to_value()));
        let text = format!(
            "Timeout reached while cleaning the node. Please check if the ramdisk responsible for the cleaning is \
             running on the node. Failed on step {step}."
        );
        self.advance(uuid, Event::Fail, |_| {})?;
        let text = self.clean_up_after_cleaning(uuid, &text).await?;
        self.remember(uuid, "cleaning", &text);
        self.change(uuid, |node| {
            node.last_error = Some(text);
            node.work = Work::default();
        })
    }

    /// Powers the machine off, and puts the node into maintenance if a step was running, because nobody knows what
    /// became of its disks. Gives the text, with what also went wrong.
    async fn clean_up_after_cleaning(&self, uuid: Uuid, text: &str) -> Result<String, NotFound> {
        let running = self.change(uuid, |node| {
            let running = node.work.current.is_some();
            if running && (!node.maintenance || node.fault.is_none()) {
                node.maintenance = true;
                node.fault = Some(Fault::Clean);
            }
            running
        })?;
        let text = match self.take_agent_down(uuid).await {
            Ok(()) => text.to_owned(),
            Err(Stop::Gone) => return Err(NotFound),
            Err(Stop::Failed { .. }) => format!("{text}. Also failed to tear down cleaning."),
        };
        self.change(uuid, |node| {
            if running {
                node.maintenance_reason.get_or_insert_with(|| text.clone());
            }
        })?;
        Ok(text)
    }

    /// Aborts a cleaning; the node is in `clean failed` already. The text shows, is lost while the machine is powered
    /// off, and shows again.
    pub(super) async fn abort_cleaning(self, uuid: Uuid, step: Option<Step>) -> Result<(), NotFound> {
        let text = aborted("clean", step.as_ref());
        self.change(uuid, |node| {
            node.last_error = Some(text.clone());
            node.work.current = None;
        })?;
        match self.power_off(uuid).await {
            Ok(()) | Err(Stop::Failed { .. }) => self.change(uuid, |node| node.last_error = None)?,
            Err(Stop::Gone) => return Err(NotFound),
        }
        if let Err(Stop::Gone) = self.eject_agent(uuid).await {
            return Err(NotFound);
        }
        self.remember(uuid, "cleaning", &text);
        self.change(uuid, |node| {
            node.last_error = Some(text);
            node.work = Work::default();
        })
    }

    /// Gives the agent what it needs to know of its node.
    pub(super) fn node_and_ports(&self, node: &Node) -> Map<String, Value> {
        let ports: Vec<Value> = {
            let tables = self.database().tables();
            tables.ports_of(node.uuid).map(|port| Value::Object(crate::view::port_fields(port))).collect()
        };
        let node = crate::view::node_fields(node, node.reservation.clone());
        let params = json!({ "node": node, "ports": ports });
        match params {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// The last command that the agent was given, if it is this step. An agent that does not say will heartbeat again.
    pub(super) async fn last_step_command(
        &self,
        node: &Node,
        name: &str,
        step: &Step,
    ) -> Result<Option<CommandStatus>, NotFound> {
        let is_step = |command: &CommandStatus| {
            let given = command.params.get("step").and_then(|step| step.get("step")).and_then(Value::as_str);
            command.name == name && given == Some(step.step.as_str())
        };
        match self.agents_commands(node).await {
            Ok(commands) => Ok(commands.into_iter().next_back().filter(is_step)),
            Err(Stop::Gone) => Err(NotFound),
            Err(Stop::Failed { text, .. }) => {
                tracing::debug!(node = %node.uuid, text, "the agent does not tell how it stands");
                Ok(None)
            }
        }
    }

    async fn agents_commands(&self, node: &Node) -> Result<Vec<CommandStatus>, Stop> {
        let (url, token) = agent_of(node)?;
        let commands = self.agents().statuses(url, token).await;
        commands.map_err(|error| Stop::failed(error.in_words(node.uuid)))
    }

    /// Gives the agent a command.
    pub(super) async fn ask_agent(
        &self,
        node: &Node,
        name: &str,
        params: Map<String, Value>,
        wait: bool,
    ) -> Result<CommandStatus, Stop> {
        let (url, token) = agent_of(node)?;
        let answer = self.agents().command(url, token, name, Value::Object(params), wait).await;
        let answer = answer.map_err(|error| Stop::failed(error.in_words(node.uuid)))?;
        match answer.progress {
            Progress::Running | Progress::Succeeded => Ok(answer),
            Progress::Failed | Progress::CleanVersionMismatch => {
                Err(Stop::failed(answer.error.map(|error| error.details).unwrap_or_default()))
            }
        }
    }

    /// Fetches the agent's logs, as metal3 asks for after every deployment and cleaning. Failing to is no failure.
    pub(super) async fn collect_logs(&self, node: &Node) {
        if let Err(stop) = self.ask_agent(node, "log.collect_system_logs", Map::new(), true).await {
            tracing::debug!(node = %node.uuid, ?stop, "no logs");
        }
    }
}

fn agent_of(node: &Node) -> Result<(&str, &str), Stop> {
    match (&node.agent.url, &node.agent.token) {
        (Some(url), Some(token)) => Ok((url, token)),
        (None, _) | (_, None) => Err(Stop::failed(format!("Node {} has no agent to talk to", node.uuid))),
    }
}

impl Work {
    /// Begins the next step.
    pub(super) fn begin_next(&mut self) -> Option<Step> {
        let next = self.steps.as_ref().and_then(|steps| steps.get(self.begun)).cloned();
        self.begun += usize::from(next.is_some());
        self.current.clone_from(&next);
        next
    }
}

/// Whether the agent, rather than the conductor, has the step.
fn in_agent(step: &Step) -> bool {
    matches!(step.interface.as_str(), "deploy" | "raid")
}

fn unsupported(node: Uuid, step: &Step) -> String {
    let (name, interface) = (Value::from(step.step.as_str()), Value::from(step.interface.as_str()));
    let args = step.args.clone().map(Value::Object);
    let pairs = [("step", Some(&name)), ("interface", Some(&interface)), ("args", args.as_ref())];
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key, value?)));
    format!("Cannot clean node {node}: node does not support this clean step: {}", python::repr_pairs(pairs))
}

/// What `last_error` says after an abort.
pub(super) fn aborted(operation: &str, step: Option<&Step>) -> String {
    let text = format!("By request, the {operation} operation was aborted");
    match step {
        Some(step) => format!("{text} during or after the completion of step \"{}\"", step.full_name()),
        None => text,
    }
}

/// The steps in an agent's answer, of all its hardware managers.
pub(super) fn steps_in(result: &Value, key: &str) -> Vec<Step> {
    let managers = result.get(key).and_then(Value::as_object).into_iter().flat_map(Map::values);
    managers.filter_map(Value::as_array).flatten().filter_map(step).collect()
}

/// Reads a step as the agent describes it or a client asks for it.
pub(super) fn step(value: &Value) -> Option<Step> {
    let text = |key: &str| value.get(key)?.as_str().map(ToOwned::to_owned);
    let flag = |key: &str| value.get(key).and_then(Value::as_bool);
    Some(Step {
        interface: text("interface")?,
        step: text("step")?,
        priority: value.get("priority").and_then(Value::as_i64).unwrap_or_default(),
        args: value.get("args").and_then(Value::as_object).cloned(),
        abortable: flag("abortable"),
        reboot_requested: flag("reboot_requested"),
    })
}

/// The steps of automated cleaning: those with a priority, highest first. The settings decide over the agent.
fn automated(mut offered: Vec<Step>, settings: &Deploy) -> Vec<Step> {
    for step in &mut offered {
        match step.step.as_str() {
            "erase_devices" => step.priority = settings.erase_devices_priority.into(),
            "erase_devices_metadata" => step.priority = settings.erase_devices_metadata_priority.into(),
            _ => {}
        }
    }
    offered.retain(|step| step.priority > 0);
    offered.sort_by_key(|step| std::cmp::Reverse(step.priority));
    offered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automated_cleaning_takes_steps_by_priority() {
        let result = json!({ "clean_steps": { "GenericHardwareManager": [
            { "step": "erase_devices", "priority": 10, "interface": "deploy", "abortable": true },
            { "step": "burnin_cpu", "priority": 0, "interface": "deploy" },
            { "step": "erase_devices_metadata", "priority": 99, "interface": "deploy" },
            { "step": "scrub", "priority": 30, "interface": "deploy" },
            { "no": "step" },
        ] } });
        let names = |settings: &Deploy| -> Vec<String> {
            automated(steps_in(&result, "clean_steps"), settings).into_iter().map(|step| step.step).collect()
        };
        assert_eq!(names(&Deploy::default()), ["scrub", "erase_devices_metadata"]);
        let both =
            Deploy { erase_devices_priority: 40, erase_devices_metadata_priority: 0, ..Deploy::default() };
        assert_eq!(names(&both), ["erase_devices", "scrub"]);
    }

    #[test]
    fn texts_name_the_step() {
        let nope = step(&json!({ "step": "nope", "interface": "deploy" })).expect("a step");
        assert_eq!(
            unsupported(Uuid::nil(), &nope),
            "Cannot clean node 00000000-0000-0000-0000-000000000000: node does not support this clean step: \
             {'step': 'nope', 'interface': 'deploy'}"
        );
        assert_eq!(aborted("clean", None), "By request, the clean operation was aborted");
        assert_eq!(
            aborted("deploy", Some(&nope)),
            "By request, the deploy operation was aborted during or after the completion of step \"deploy.nope\""
        );
    }
}
