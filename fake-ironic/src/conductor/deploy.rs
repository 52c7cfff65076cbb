//! Deployment, by steps that the conductor and the agent have, and its opposite.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    Conductor, Stop,
    clean::{aborted, steps_in},
    power::Purpose,
};
use crate::{
    agent_client::Progress,
    database::NotFound,
    driver::PowerState,
    node::{Node, Step, Work, WorkKind},
    python,
    state::{Event, Verb},
};

/// The conductor's own steps, with their priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Core {
    /// Boot the agent.
    Deploy,
    /// Have the agent write the image.
    WriteImage,
    /// Make the machine boot from its disk.
    PrepareInstanceBoot,
    /// Have the agent power the machine off.
    TearDownAgent,
    /// Nothing without a network service.
    SwitchToTenantNetwork,
    /// Power the machine on.
    BootInstance,
}

impl Core {
    const ALL: [(Self, &'static str, i64); 6] = [
        (Self::Deploy, "deploy", 100),
        (Self::WriteImage, "write_image", 80),
        (Self::PrepareInstanceBoot, "prepare_instance_boot", 60),
        (Self::TearDownAgent, "tear_down_agent", 40),
        (Self::SwitchToTenantNetwork, "switch_to_tenant_network", 30),
        (Self::BootInstance, "boot_instance", 20),
    ];

    /// The conductor's step of that name; other steps are the agent's.
    fn of(step: &Step) -> Option<Self> {
        let found =
            Self::ALL.into_iter().find(|(_, name, _)| step.interface == "deploy" && step.step == *name);
        found.map(|(core, ..)| core)
    }
}

/// All steps of a deployment, highest priority first; a client's own come after the conductor's of the same priority.
fn plan(deploy_interface: &str, wanted: &[Step]) -> Vec<Step> {
    let writes = deploy_interface != "custom-agent";
    let core = Core::ALL.into_iter().filter(|(core, ..)| writes || *core != Core::WriteImage);
    let mut steps: Vec<Step> = core
        .map(|(_, name, priority)| Step {
            interface: "deploy".to_owned(),
            step: name.to_owned(),
            priority,
            args: None,
            abortable: None,
            reboot_requested: None,
        })
        .chain(wanted.iter().filter(|step| step.priority > 0).cloned())
        .collect();
    steps.sort_by_key(|step| std::cmp::Reverse(step.priority));
    steps
}

/// How one of the conductor's steps ended.
enum Ended {
    /// On to the next.
    Done,
    /// The agent goes on from here.
    Waits,
}

impl Conductor {
    /// Deploys a node in `deploying`, until the agent takes over.
    pub(super) async fn deploy(self, uuid: Uuid) -> Result<(), NotFound> {
        let node = self.database().node(uuid)?;
        if node.instance_info.contains_key("image_source") {
            match self.images().validate(&node.instance_info).await {
                // Redirects are followed once, by the conductor.
                Ok(image) => self.change(uuid, |node| {
                    node.instance_info.insert("image_source".to_owned(), image.href.into());
                    node.instance_info.insert("image_type".to_owned(), "whole-disk".into());
                })?,
                Err(error) => {
                    return self.fail(uuid, "deploying", &format!("Failed to prepare to deploy: {error}"));
                }
            }
        }
        self.change(uuid, |node| {
            let wanted = std::mem::take(&mut node.work.wanted);
            let steps = plan(&node.interfaces.deploy, &wanted);
            node.work = Work { kind: Some(WorkKind::Deploy), steps: Some(steps), ..Work::default() };
        })?;
        self.run_deploy_steps(uuid).await
    }

    /// Goes on with a node in `wait call-back` whose agent has come back.
    pub(super) async fn continue_deploying(&self, uuid: Uuid) -> Result<(), NotFound> {
        let node = self.database().node(uuid)?;
        let Some(current) = node.work.current.clone() else { return Ok(()) };
        if Core::of(&current) == Some(Core::Deploy) {
            return match self.learn_deploy_steps(&node).await {
                Ok(()) => {
                    self.advance(uuid, Event::Resume, |_| {})?;
                    self.run_deploy_steps(uuid).await
                }
                Err(Stop::Gone) => Err(NotFound),
                Err(Stop::Failed { text, .. }) => {
                    self.fail_deploying(uuid, &format!("Failed to continue deploying node {uuid}: {text}"))
                        .await
                }
            };
        }
        let Some(command) = self.last_step_command(&node, "execute_deploy_step", &current).await? else {
            return Ok(());
        };
        match command.progress {
            Progress::Running => Ok(()),
            Progress::Succeeded if node.work.abort_after => {
                self.clone().abort_deploying(uuid, Some(current)).await
            }
            Progress::Succeeded => {
                self.advance(uuid, Event::Resume, |_| {})?;
                self.run_deploy_steps(uuid).await
            }
            Progress::Failed | Progress::CleanVersionMismatch => {
                let text = format!(
                    "Deploy step {} failed on node {uuid}. {}",
                    current.full_name(),
                    command.error.map(|error| error.details).unwrap_or_default()
                );
                self.fail_deploying(uuid, &text).await
            }
        }
    }

    async fn learn_deploy_steps(&self, node: &Node) -> Result<(), Stop> {
        let answer = self.ask_agent(node, "deploy.get_deploy_steps", self.node_and_ports(node), true).await?;
        let offered = steps_in(&answer.result, "deploy_steps");
        let steps = node.work.steps.iter().flatten();
        let lacking = steps.filter(|step| Core::of(step).is_none()).find(|wanted| {
            !offered.iter().any(|step| step.step == wanted.step && step.interface == wanted.interface)
        });
        if let Some(step) = lacking {
            let step = python::repr(&step.to_value());
            return Err(Stop::failed(format!("node does not support this deploy step: {step}")));
        }
        let version = answer.result.get("hardware_manager_version").cloned().unwrap_or_default();
        self.change(node.uuid, |node| node.work.hardware_manager_version = version)?;
        Ok(())
    }

    /// Runs steps until one of them is the agent's, or all are done. The node is in `deploying`.
    async fn run_deploy_steps(&self, uuid: Uuid) -> Result<(), NotFound> {
        loop {
            let (step, node) = self.change(uuid, |node| (node.work.begin_next(), node.clone()))?;
            let Some(step) = step else {
                return self.advance(uuid, Event::Done, |node| node.work = Work::default());
            };
            let ended = match Core::of(&step) {
                Some(Core::Deploy) => self.boot_agent(uuid, Purpose::Commands).await.map(|()| Ended::Waits),
                Some(Core::WriteImage) => {
                    let info = image_info(&node, self.settings().agent.stream_raw_images);
                    let configdrive = info.get("configdrive").cloned();
                    let args = json!({ "image_info": info, "configdrive": configdrive });
                    let step = json!({ "interface": "deploy", "step": "write_image", "args": args });
                    self.give_deploy_step(&node, step).await
                }
                Some(Core::PrepareInstanceBoot) => self.prepare_instance_boot(&node).await,
                Some(Core::TearDownAgent) => self.tear_down_agent(&node).await,
                Some(Core::SwitchToTenantNetwork) => Ok(Ended::Done),
                Some(Core::BootInstance) => self.boot_instance(&node).await,
                None => self.give_deploy_step(&node, step.to_value()).await,
            };
            match ended {
                Ok(Ended::Done) => {}
                Ok(Ended::Waits) => return self.advance(uuid, Event::Wait, |_| {}),
                Err(Stop::Gone) => return Err(NotFound),
                Err(Stop::Failed { text, unexpected }) if Core::of(&step) == Some(Core::Deploy) => {
                    // Ironic powers the machine on in this step, but does all that comes before while preparing.
                    let exception = if unexpected { ". Exception" } else { "" };
                    self.change(uuid, |node| node.work = Work::default())?;
                    return self.fail(
                        uuid,
                        "deploying",
                        &format!("Failed to prepare to deploy{exception}: {text}"),
                    );
                }
                Err(Stop::Failed { text, .. }) => {
                    let step = python::repr(&step.to_value());
                    return self
                        .fail_deploying(
                            uuid,
                            &format!("Failed to deploy: Deploy step {step}, error: {text}."),
                        )
                        .await;
                }
            }
        }
    }

    async fn give_deploy_step(&self, node: &Node, step: Value) -> Result<Ended, Stop> {
        let mut params = self.node_and_ports(node);
        params.insert("step".to_owned(), step);
        params.insert("deploy_version".to_owned(), node.work.hardware_manager_version.clone());
        self.ask_agent(node, "deploy.execute_deploy_step", params, false).await?;
        Ok(Ended::Waits)
    }

    /// The firmware gets its boot entry from the agent, and the BMC is told to boot from disk.
    async fn prepare_instance_boot(&self, node: &Node) -> Result<Ended, Stop> {
        if node.interfaces.deploy != "custom-agent" {
            self.ask_agent(node, "standby.get_partition_uuids", Map::new(), true).await?;
            let mode = node.capability("boot_mode").unwrap_or_else(|| "uefi".to_owned());
            let params = json!({
                "root_uuid": null, "efi_system_part_uuid": null, "prep_boot_part_uuid": null, "target_boot_mode": mode,
            });
            let params = params.as_object().cloned().unwrap_or_default();
            self.ask_agent(node, "image.install_bootloader", params, false).await?;
            self.await_command(node, "install_bootloader").await?;
        }
        self.driver().prepare_instance(&self.target(node)).await?;
        Ok(Ended::Done)
    }

    /// Asks the agent at intervals until a command has ended.
    async fn await_command(&self, node: &Node, name: &str) -> Result<(), Stop> {
        let settings = &self.settings().agent;
        let (Some(url), Some(token)) = (&node.agent.url, &node.agent.token) else {
            return Err(Stop::failed(format!("Node {} has no agent to talk to", node.uuid)));
        };
        for _ in 0..settings.command_wait_attempts {
            let commands = self.agents().statuses(url, token).await;
            let commands = commands.map_err(|error| Stop::failed(error.in_words(node.uuid)))?;
            match commands.into_iter().rev().find(|command| command.name == name) {
                Some(command) if command.progress == Progress::Succeeded => return Ok(()),
                Some(command) if command.progress != Progress::Running => {
                    return Err(Stop::failed(command.error.map(|error| error.details).unwrap_or_default()));
                }
                Some(_) | None => self.host().sleep(settings.command_wait_interval).await,
            }
        }
        Err(Stop::failed(format!("Agent command {name} timed out on node {}", node.uuid)))
    }

    /// The agent powers its machine off; if that takes too long, the BMC does.
    async fn tear_down_agent(&self, node: &Node) -> Result<Ended, Stop> {
        let settings = &self.settings().agent;
        self.collect_logs(node).await;
        let asked = self.ask_agent(node, "standby.power_off", Map::new(), false).await.is_ok();
        let target = self.target(node);
        let mut off = false;
        let tries = if asked { settings.post_deploy_get_power_state_retries + 1 } else { 0 };
        for attempt in 0..tries {
            if attempt > 0 {
                self.host().sleep(settings.post_deploy_get_power_state_retry_interval).await;
            }
            off = matches!(self.driver().power_state(&target).await, Ok(PowerState::Off));
            if off {
                break;
            }
        }
        if !off {
            self.power_off(node.uuid).await?;
        }
        self.change(node.uuid, Node::forget_agent)?;
        Ok(Ended::Done)
    }

    async fn boot_instance(&self, node: &Node) -> Result<Ended, Stop> {
        self.change(node.uuid, |node| node.target_power_state = Some(PowerState::On))?;
        let booted = self.driver().boot_instance(&self.target(node)).await;
        self.change(node.uuid, |node| {
            node.target_power_state = None;
            if booted.is_ok() {
                node.power_state = Some(PowerState::On);
            }
        })?;
        booted?;
        Ok(Ended::Done)
    }

    /// Ends a deployment that went wrong after its agent was booted. With virtual media, releases that power the
    /// machine off while cleaning up lose the text by it.
    pub(super) async fn fail_deploying(&self, uuid: Uuid, text: &str) -> Result<(), NotFound> {
        self.remember(uuid, "deploying", text);
        self.change(uuid, |node| node.last_error = Some(text.to_owned()))?;
        let kept = self.clean_up_after_deploying(uuid, text).await?;
        self.advance(uuid, Event::Fail, |node| {
            node.work = Work::default();
            if let Some(text) = kept {
                node.last_error = Some(text);
            }
        })
    }

    /// Takes the agent down if it came by virtual media; what came by network goes by itself. Gives the text if it is
    /// to be written again.
    async fn clean_up_after_deploying(&self, uuid: Uuid, text: &str) -> Result<Option<String>, NotFound> {
        if !self.database().node(uuid)?.boots_from_virtual_media() {
            return Ok(Some(text.to_owned()));
        }
        match self.take_agent_down(uuid).await {
            Ok(()) => Ok((!self.settings().release.clean_up_ramdisk_powers_off).then(|| text.to_owned())),
            Err(Stop::Failed { .. }) => Ok(Some(text.to_owned())),
            Err(Stop::Gone) => Err(NotFound),
        }
    }

    /// Gives up on an agent that does not come back. The text is written before the failure and survives it.
    pub(super) async fn time_deploying_out(self, uuid: Uuid) -> Result<(), NotFound> {
        let text = format!("Timeout reached while waiting for callback for node {uuid}");
        self.fail(uuid, "deploying", &text)?;
        self.clean_up_after_deploying(uuid, &text).await?;
        self.change(uuid, |node| node.work = Work::default())
    }

    /// Aborts a deployment that waits for its agent.
    pub(super) async fn abort_deploying(self, uuid: Uuid, step: Option<Step>) -> Result<(), NotFound> {
        let text = aborted("deploy", step.as_ref());
        self.fail(uuid, "deploying", &text)?;
        self.clean_up_after_deploying(uuid, &text).await?;
        self.change(uuid, |node| {
            node.last_error = Some(text);
            node.work = Work::default();
        })
    }

    /// Takes a deployment away: the machine is powered off, the instance forgotten, and the node cleaned.
    pub(super) async fn tear_down(self, uuid: Uuid) -> Result<(), NotFound> {
        match self.take_agent_down(uuid).await {
            Ok(()) => {}
            Err(Stop::Gone) => return Err(NotFound),
            Err(Stop::Failed { text, .. }) => {
                return self.fail(uuid, "undeploy", &format!("Failed to tear down: {text}"));
            }
        }
        self.advance(uuid, Event::Verb(Verb::Clean), |node| {
            node.instance_info.clear();
            node.instance_uuid = None;
            node.work = Work { kind: Some(WorkKind::AutomatedClean), ..Work::default() };
        })?;
        self.clean(uuid).await
    }
}

/// What the agent must know to write the image.
fn image_info(node: &Node, stream_raw_images: bool) -> Map<String, Value> {
    let of = |key: &str| node.instance_info.get(key).cloned().unwrap_or_default();
    let source = of("image_source");
    let id = source.as_str().and_then(|url| url.rsplit('/').next()).unwrap_or_default().to_owned();
    let mut info = Map::from_iter([
        ("id".to_owned(), Value::from(id)),
        ("urls".to_owned(), json!([source])),
        ("disk_format".to_owned(), of("image_disk_format")),
        ("container_format".to_owned(), of("image_container_format")),
        ("stream_raw_images".to_owned(), stream_raw_images.into()),
        ("checksum".to_owned(), of("image_checksum")),
        ("os_hash_algo".to_owned(), of("image_os_hash_algo")),
        ("os_hash_value".to_owned(), of("image_os_hash_value")),
        ("node_uuid".to_owned(), node.uuid.to_string().into()),
    ]);
    for key in ["configdrive", "root_device"] {
        if let Some(value) = node.instance_info.get(key) {
            info.insert(key.to_owned(), value.clone());
        }
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_by_priority() {
        let names = |interface: &str, wanted: &[Step]| -> Vec<String> {
            plan(interface, wanted).into_iter().map(|step| step.step).collect()
        };
        let core = [
            "deploy",
            "write_image",
            "prepare_instance_boot",
            "tear_down_agent",
            "switch_to_tenant_network",
            "boot_instance",
        ];
        assert_eq!(names("direct", &[]), core);
        let wanted =
            super::super::clean::step(&json!({ "interface": "deploy", "step": "install", "priority": 80 }));
        let wanted: Vec<Step> = wanted.into_iter().collect();
        assert_eq!(names("custom-agent", &wanted)[..3], ["deploy", "install", "prepare_instance_boot"]);
        assert_eq!(
            names("direct", &wanted)[..4],
            ["deploy", "write_image", "install", "prepare_instance_boot"]
        );
    }
}
