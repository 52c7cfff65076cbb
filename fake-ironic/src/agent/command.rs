//! The commands that the agent was given, and carrying them out.
//!
//! There is one at a time. Some are done when they are answered; the others run on, and Ironic reads from the list
//! how they end.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use wire::Host;

use super::{Hardware, write};
use crate::agent_client::{CommandError, CommandStatus, Progress};

/// How long writing the firmware's boot entry takes.
const BOOTLOADER: Duration = Duration::from_secs(2);
/// How long the operating system takes from `power_off` until the power is off.
const SHUTDOWN: Duration = Duration::from_secs(2);

/// The agent's logs, when there are none: an empty file, gzipped, in base64.
const NO_LOGS: &str = "H4sIAAAAAAAAAAMAAAAAAAAAAAA=";

/// The commands of one boot.
pub(super) struct Commands {
    pub(super) host: Host,
    pub(super) hardware: Arc<dyn Hardware>,
    table: Mutex<Table>,
    /// There is a command to carry out.
    given: Notify,
    /// A command that ran on has ended, which Ironic should hear soon.
    ended: Notify,
    /// How many commands have ended.
    count: watch::Sender<u64>,
}

#[derive(Default)]
struct Table {
    token: Option<String>,
    list: Vec<CommandStatus>,
    /// Parameters of the last command, with the node and ports that the list leaves out.
    pending: Option<(Name, Value)>,
}

/// What the agent can do, by extension and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    GetCleanSteps,
    ExecuteCleanStep,
    GetDeploySteps,
    ExecuteDeployStep,
    GetPartitionUuids,
    InstallBootloader,
    CollectSystemLogs,
    Sync,
    PowerOff,
    RunImage,
}

impl Name {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "clean.get_clean_steps" => Self::GetCleanSteps,
            "clean.execute_clean_step" => Self::ExecuteCleanStep,
            "deploy.get_deploy_steps" => Self::GetDeploySteps,
            "deploy.execute_deploy_step" => Self::ExecuteDeployStep,
            "standby.get_partition_uuids" => Self::GetPartitionUuids,
            "image.install_bootloader" => Self::InstallBootloader,
            "log.collect_system_logs" => Self::CollectSystemLogs,
            "standby.sync" => Self::Sync,
            "standby.power_off" => Self::PowerOff,
            "standby.run_image" => Self::RunImage,
            _ => return None,
        })
    }

    /// Whether the command runs on after it was answered.
    fn runs_on(self) -> bool {
        match self {
            Self::ExecuteCleanStep
            | Self::ExecuteDeployStep
            | Self::InstallBootloader
            | Self::PowerOff
            | Self::RunImage => true,
            Self::GetCleanSteps
            | Self::GetDeploySteps
            | Self::GetPartitionUuids
            | Self::CollectSystemLogs
            | Self::Sync => false,
        }
    }
}

/// Why a command is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// This one has not ended.
    Busy(String),
    /// There is no such command.
    Unknown(String),
}

/// How a command ended, if not well.
#[derive(Debug)]
pub(super) enum Unwell {
    Failed(CommandError),
    VersionMismatch,
}

impl Unwell {
    /// An error of the agent: its class, its own words, and what went wrong.
    pub(super) fn failed(kind: &str, message: &str, details: String) -> Self {
        Self::Failed(CommandError { kind: kind.to_owned(), code: 500, message: message.to_owned(), details })
    }
}

impl Commands {
    pub(super) fn new(host: Host, hardware: Arc<dyn Hardware>) -> Self {
        Self {
            host,
            hardware,
            table: Mutex::default(),
            given: Notify::new(),
            ended: Notify::new(),
            count: watch::Sender::new(0),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_token(&self, token: &str) {
        self.table().token = Some(token.to_owned());
    }

    pub(super) fn token(&self) -> Option<String> {
        self.table().token.clone()
    }

    pub(super) fn list(&self) -> Vec<CommandStatus> {
        self.table().list.clone()
    }

    /// Waits until a command that ran on has ended; each ending is told once.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Takes a command. Returns it as it then stands: ended if `wait`, or if it does not run on.
    pub(super) async fn give(
        &self,
        full_name: &str,
        params: Value,
        wait: bool,
    ) -> Result<CommandStatus, Rejection> {
        let Some(name) = Name::parse(full_name) else { return Err(Rejection::Unknown(full_name.to_owned())) };
        let (id, mut ended) = {
            let mut table = self.table();
            if let Some(last) = table.list.last().filter(|last| last.progress == Progress::Running) {
                return Err(Rejection::Busy(last.name.clone()));
            }
            let id = self.host.uuid("agent command").to_string();
            let short = full_name.rsplit_once('.').map_or(full_name, |(_, short)| short);
            table.list.push(CommandStatus {
                id: id.clone(),
                name: short.to_owned(),
                params: without_node(&params),
                progress: Progress::Running,
                error: None,
                result: Value::Null,
            });
            table.pending = Some((name, params));
            (id, self.count.subscribe())
        };
        self.given.notify_one();
        if wait || !name.runs_on() {
            // The sender lives as long as `self`.
            let _ = ended.changed().await;
        }
        let command = self.table().list.iter().find(|command| command.id == id).cloned();
        command.ok_or_else(|| Rejection::Unknown(full_name.to_owned()))
    }

    /// Carries out what is given, for ever.
    pub(super) async fn execute_all(&self) {
        loop {
            self.given.notified().await;
            let Some((name, params)) = self.table().pending.take() else { continue };
            let outcome = self.execute(name, &params).await;
            self.finish(name, outcome);
            match name {
                Name::PowerOff => {
                    self.host.sleep(SHUTDOWN).await;
                    self.hardware.power_off();
                    return std::future::pending().await;
                }
                Name::RunImage => {
                    self.host.sleep(SHUTDOWN).await;
                    self.hardware.reboot();
                    return std::future::pending().await;
                }
                Name::GetCleanSteps
                | Name::ExecuteCleanStep
                | Name::GetDeploySteps
                | Name::ExecuteDeployStep
                | Name::GetPartitionUuids
                | Name::InstallBootloader
                | Name::CollectSystemLogs
                | Name::Sync => {}
            }
        }
    }

    fn finish(&self, name: Name, outcome: Result<Value, Unwell>) {
        if let Some(command) = self.table().list.last_mut() {
            match outcome {
                Ok(result) => {
                    command.progress = Progress::Succeeded;
                    command.result = result;
                }
                Err(Unwell::Failed(error)) => {
                    command.progress = Progress::Failed;
                    command.error = Some(error);
                }
                Err(Unwell::VersionMismatch) => command.progress = Progress::CleanVersionMismatch,
            }
        }
        self.count.send_modify(|count| *count += 1);
        if name.runs_on() {
            self.ended.notify_one();
        }
    }

    async fn execute(&self, name: Name, params: &Value) -> Result<Value, Unwell> {
        match name {
            Name::GetCleanSteps => Ok(json!({
                "clean_steps": { "GenericHardwareManager": [
                    step("erase_devices", 10, true),
                    step("erase_devices_metadata", 99, true),
                    step("erase_devices_express", 0, true),
                ] },
                "hardware_manager_version": hardware_managers(),
            })),
            Name::GetDeploySteps => Ok(json!({
                "deploy_steps": { "GenericHardwareManager": [step("write_image", 0, false)] },
                "hardware_manager_version": hardware_managers(),
            })),
            Name::ExecuteCleanStep => self.clean(params).await,
            Name::ExecuteDeployStep => self.deploy(params).await,
            Name::InstallBootloader => {
                self.host.sleep(BOOTLOADER).await;
                Ok(Value::Null)
            }
            Name::CollectSystemLogs => Ok(json!({ "system_logs": NO_LOGS })),
            Name::GetPartitionUuids => Ok(json!({})),
            Name::Sync | Name::PowerOff | Name::RunImage => Ok(Value::Null),
        }
    }

    async fn clean(&self, params: &Value) -> Result<Value, Unwell> {
        check_version(params.get("clean_version"))?;
        let step = params.get("step").unwrap_or(&Value::Null);
        match step.get("step").and_then(Value::as_str).unwrap_or_default() {
            "erase_devices" | "erase_devices_metadata" | "erase_devices_express" => {
                self.hardware.wipe_disk().await;
                Ok(json!({ "clean_result": null, "clean_step": step }))
            }
            unknown => Err(Unwell::failed(
                "CleaningError",
                "Clean step failed",
                format!(
                    "Error performing clean step {unknown}: Incompatible hardware manager: no method {unknown}"
                ),
            )),
        }
    }

    async fn deploy(&self, params: &Value) -> Result<Value, Unwell> {
        check_version(params.get("deploy_version"))?;
        let step = params.get("step").unwrap_or(&Value::Null);
        let failed = |name: &str, reason: String| {
            let details = format!("Error performing deploy_step {name}: {reason}");
            Unwell::failed("DeploymentError", "Deploy step failed", details)
        };
        match step.get("step").and_then(Value::as_str).unwrap_or_default() {
            "write_image" => {
                let image = step.pointer("/args/image_info").unwrap_or(&Value::Null);
                let written = write::write_image(self, image).await;
                let result = written.map_err(|error| failed("write_image", error.to_string()))?;
                Ok(json!({ "deploy_result": result, "deploy_step": step }))
            }
            unknown => Err(failed(unknown, format!("Incompatible hardware manager: no method {unknown}"))),
        }
    }
}

fn step(name: &str, priority: u32, cleaning: bool) -> Value {
    let mut step =
        json!({ "step": name, "priority": priority, "interface": "deploy", "reboot_requested": false });
    if cleaning {
        step["abortable"] = true.into();
    }
    step
}

/// The agent's hardware managers and their versions; steps are only carried out for those who know them.
fn hardware_managers() -> Value {
    json!({ "generic_hardware_manager": "1.2" })
}

fn check_version(known: Option<&Value>) -> Result<(), Unwell> {
    match known {
        Some(known) if !known.is_null() && *known != hardware_managers() => Err(Unwell::VersionMismatch),
        Some(_) | None => Ok(()),
    }
}

/// The parameters as the list shows them.
fn without_node(params: &Value) -> Value {
    let shown =
        params.as_object().into_iter().flatten().filter(|(key, _)| !matches!(key.as_str(), "node" | "ports"));
    Value::Object(shown.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>())
}
