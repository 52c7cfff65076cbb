//! The `ipmi` hardware type: power, and booting from the network.
//!
//! Each command is what one run of `ipmitool -I lanplus` sends, in a session of its own, and two commands to one BMC
//! are kept apart. Ironic repeats what fails, or lets ipmitool do that, as older releases did.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ::ipmi::{
    CipherSuite, Client, ClientError, Completion, Credentials, Privilege, Retry, Status,
    command::{
        BootDevice, BootFlags, BootOption, ChassisControl, Command, Control, GetBootOption, GetChassisStatus,
        GetDeviceId, SetBootOption,
    },
};
use serde_json::{Map, Value};
use wire::{Host, Instant};

use super::{BootMode, DriverError, PowerChange, PowerPolls, PowerState, Target, ramdisk::Ramdisks, text_of};
use crate::{python::repr_text, settings::Settings};

/// How long ipmitool waits for an answer (`-N`).
const INTERVAL: Duration = Duration::from_secs(5);

/// The driver.
pub(super) struct Ipmi {
    host: Host,
    settings: Arc<Settings>,
    ramdisks: Arc<Ramdisks>,
    /// When the last command to an address ended.
    last: Mutex<BTreeMap<String, Instant>>,
}

/// One BMC and how to log in there, from a node's `driver_info`.
struct Bmc {
    address: String,
    port: u16,
    username: String,
    credentials: Credentials,
    privilege: Privilege,
    suites: Vec<CipherSuite>,
}

impl Bmc {
    fn of(target: &Target, settings: &Settings) -> Result<Self, DriverError> {
        let info = &target.driver_info;
        let invalid = |text: String| Err(DriverError::Invalid(text));
        let Some(address) = text_of(info, "ipmi_address") else {
            return invalid(
                "Missing the following IPMI credentials in node's driver_info: ['ipmi_address'].".to_owned(),
            );
        };
        let Some(port) = port_of(info) else {
            return invalid("IPMI port must be a number between 1 and 65535.".to_owned());
        };
        let privilege = match text_of(info, "ipmi_priv_level").unwrap_or("ADMINISTRATOR") {
            "ADMINISTRATOR" => Privilege::Administrator,
            "OPERATOR" => Privilege::Operator,
            "USER" => Privilege::User,
            "CALLBACK" => Privilege::Callback,
            other => {
                return invalid(format!(
                    "Invalid privilege level value:{other}, the valid value can be one of ['ADMINISTRATOR', 'CALLBACK', 'OPERATOR', 'USER']"
                ));
            }
        };
        let username = text_of(info, "ipmi_username").unwrap_or_default();
        let password = text_of(info, "ipmi_password").unwrap_or_default();
        let credentials = Credentials::new(username, password)
            .map_err(|error| DriverError::Invalid(format!("Failed to {error}")))?;
        let suites = match number_of(info, "ipmi_cipher_suite") {
            Some(number) => vec![number],
            None => settings.ipmi.cipher_suite_versions.iter().map(|number| u64::from(*number)).collect(),
        };
        let suites: Option<Vec<_>> =
            suites.into_iter().map(|number| CipherSuite::from_number(u8::try_from(number).ok()?)).collect();
        let Some(suites) = suites else {
            return invalid("Invalid cipher suite, it must be one that IPMI 2.0 defines.".to_owned());
        };
        Ok(Self {
            address: address.to_owned(),
            port,
            username: username.to_owned(),
            credentials,
            privilege,
            // Without any, ipmitool finds one out; every BMC has suite 3.
            suites: if suites.is_empty() { vec![CipherSuite::C3] } else { suites },
        })
    }

    /// The command line of an ipmitool that repeats by itself, as Python shows a list.
    fn command_line(&self, attempts: u32, password_file: &str, words: &str) -> String {
        let port = self.port.to_string();
        let (attempts, interval) = (attempts.to_string(), INTERVAL.as_secs().to_string());
        let privilege = match self.privilege {
            Privilege::Callback => "CALLBACK",
            Privilege::User => "USER",
            Privilege::Operator => "OPERATOR",
            Privilege::Administrator | Privilege::Oem => "ADMINISTRATOR",
        };
        let mut arguments = vec!["ipmitool", "-I", "lanplus", "-H", &self.address, "-L", privilege];
        arguments.extend(["-p", &port]);
        if !self.username.is_empty() {
            arguments.extend(["-U", &self.username]);
        }
        arguments.extend(["-R", &attempts, "-N", &interval, "-f", password_file]);
        arguments.extend(words.split(' '));
        format!("[{}]", arguments.into_iter().map(repr_text).collect::<Vec<_>>().join(", "))
    }
}

/// A field that BMO writes as text and others as a number.
fn number_of(info: &Map<String, Value>, key: &str) -> Option<u64> {
    let value = info.get(key)?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn port_of(info: &Map<String, Value>) -> Option<u16> {
    match info.get("ipmi_port") {
        None | Some(Value::Null) => Some(::ipmi::PORT),
        Some(_) => {
            number_of(info, "ipmi_port").and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
        }
    }
}

impl Ipmi {
    pub(super) fn new(host: Host, settings: Arc<Settings>, ramdisks: Arc<Ramdisks>) -> Self {
        Self { host, settings, ramdisks, last: Mutex::default() }
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn validate(&self, target: &Target) -> Result<(), DriverError> {
        Bmc::of(target, &self.settings).map(drop)
    }

    pub(super) async fn verify(&self, target: &Target) -> Result<PowerState, DriverError> {
        let state = self.power_state(target).await?;
        // The vendor, which Ironic does without if it must.
        if let Err(error) = self.command(target, "mc info", &[GetDeviceId]).await {
            tracing::debug!(node = %target.uuid, %error, "left out of the caches");
        }
        Ok(state)
    }

    pub(super) async fn power_state(&self, target: &Target) -> Result<PowerState, DriverError> {
        let status = self.command(target, "power status", &[GetChassisStatus]).await?;
        Ok(if status.is_some_and(|status| status.on) { PowerState::On } else { PowerState::Off })
    }

    pub(super) async fn change_power(
        &self,
        target: &Target,
        change: PowerChange,
        timeout: Option<Duration>,
    ) -> Result<PowerState, DriverError> {
        let state = self.power_state(target).await?;
        let soft = timeout.unwrap_or(self.settings.conductor.soft_power_off_timeout);
        match change {
            PowerChange::On | PowerChange::Off | PowerChange::SoftOff if state == change.result() => {}
            PowerChange::On => self.control(target, Control::Up, timeout).await?,
            PowerChange::Off => self.control(target, Control::Down, timeout).await?,
            PowerChange::SoftOff => self.control(target, Control::Soft, Some(soft)).await?,
            PowerChange::Reboot | PowerChange::SoftReboot => {
                match (state, change) {
                    (PowerState::Off, _) => {}
                    (PowerState::On, PowerChange::SoftReboot) => {
                        self.control(target, Control::Soft, Some(soft)).await?;
                    }
                    (
                        PowerState::On,
                        PowerChange::On | PowerChange::Off | PowerChange::SoftOff | PowerChange::Reboot,
                    ) => self.control(target, Control::Down, timeout).await?,
                }
                self.control(target, Control::Up, timeout).await?;
            }
        }
        Ok(change.result())
    }

    /// Sends a power command and waits for its effect.
    async fn control(
        &self,
        target: &Target,
        control: Control,
        timeout: Option<Duration>,
    ) -> Result<(), DriverError> {
        let (words, wanted) = match control {
            Control::Up => ("power on", PowerState::On),
            Control::Down => ("power off", PowerState::Off),
            Control::Soft => ("power soft", PowerState::Off),
            Control::Cycle => ("power cycle", PowerState::On),
            Control::Reset => ("power reset", PowerState::On),
            Control::Diagnostic => ("power diag", PowerState::On),
        };
        self.command(target, words, &[ChassisControl(control)]).await?;
        let limit = timeout.unwrap_or(self.settings.conductor.power_state_change_timeout);
        let mut polls = PowerPolls::new(&self.host, target.uuid, limit);
        while let Some(wait) = polls.next() {
            self.host.sleep(wait).await;
            if self.power_state(target).await? == wanted {
                return Ok(());
            }
        }
        Err(DriverError::PowerState(wanted.as_str()))
    }

    async fn power_off(&self, target: &Target) -> Result<(), DriverError> {
        self.change_power(target, PowerChange::Off, None).await.map(drop)
    }

    pub(super) async fn boot_ramdisk(
        &self,
        target: &Target,
        parameters: &BTreeMap<String, String>,
    ) -> Result<(), DriverError> {
        self.ramdisks.validate(target)?;
        self.power_off(target).await?;
        self.ramdisks.publish_network_boot(target, parameters).await?;
        self.set_boot_device(target, BootDevice::Pxe, false).await?;
        self.change_power(target, PowerChange::On, None).await.map(drop)
    }

    pub(super) async fn clean_up_ramdisk(&self, target: &Target) -> Result<(), DriverError> {
        self.power_off(target).await?;
        self.ramdisks.withdraw(target);
        Ok(())
    }

    pub(super) async fn prepare_instance(&self, target: &Target) -> Result<(), DriverError> {
        self.ramdisks.withdraw(target);
        self.set_boot_device(target, BootDevice::Disk, true).await
    }

    pub(super) async fn adopt(&self, target: &Target) -> Result<(), DriverError> {
        self.ramdisks.withdraw(target);
        let get = GetBootOption { number: 5 };
        let found = self.command(target, "chassis bootparam get 5", &[get]).await?;
        match found {
            Some(BootOption::Flags(flags)) if flags == boot_flags(target, BootDevice::Disk, true) => Ok(()),
            Some(
                BootOption::Flags(_)
                | BootOption::SetInProgress(_)
                | BootOption::ValidBitClearing(_)
                | BootOption::Acknowledge { .. },
            )
            | None => self.set_boot_device(target, BootDevice::Disk, true).await,
        }
    }

    pub(super) async fn boot_instance(&self, target: &Target) -> Result<(), DriverError> {
        self.power_off(target).await?;
        self.adopt(target).await?;
        self.change_power(target, PowerChange::On, None).await.map(drop)
    }

    /// Sets the boot device, having told the BMC not to forget it after a minute.
    async fn set_boot_device(
        &self,
        target: &Target,
        device: BootDevice,
        lasting: bool,
    ) -> Result<(), DriverError> {
        let keep = SetBootOption(BootOption::ValidBitClearing(0x08));
        self.command(target, "raw 0x00 0x08 0x03 0x08", &[keep]).await?;
        let flags = boot_flags(target, device, lasting);
        let set = SetBootOption(BootOption::Flags(flags));
        match target.boot_mode {
            BootMode::Uefi => {
                let bytes: Vec<String> = flags.encode().iter().map(|byte| format!("0x{byte:02x}")).collect();
                self.command(target, &format!("raw 0x00 0x08 0x05 {}", bytes.join(" ")), &[set]).await?;
            }
            BootMode::Bios => {
                let name = if device == BootDevice::Disk { "disk" } else { "pxe" };
                let options = if lasting { " options=persistent" } else { "" };
                let sequence = [
                    SetBootOption(BootOption::SetInProgress(1)),
                    SetBootOption(BootOption::Acknowledge { mask: 1, data: 1 }),
                    set,
                    SetBootOption(BootOption::SetInProgress(2)),
                    SetBootOption(BootOption::SetInProgress(0)),
                ];
                self.command(target, &format!("chassis bootdev {name}{options}"), &sequence).await?;
            }
        }
        Ok(())
    }

    /// Runs one ipmitool, with these words on its command line and these commands on the wire, and again while it
    /// fails and patience lasts. Returns the last answer.
    async fn command<C>(
        &self,
        target: &Target,
        words: &str,
        commands: &[C],
    ) -> Result<Option<C::Answer>, DriverError>
    where
        C: Command + Sync,
        C::Answer: Send,
    {
        let bmc = Bmc::of(target, &self.settings)?;
        let settings = &self.settings.ipmi;
        let tries = whole_parts(settings.command_retry_timeout, settings.min_command_interval);
        let end = self.host.now() + settings.command_retry_timeout;
        let mut suites = bmc.suites.clone();
        let mut left = tries;
        loop {
            left = left.saturating_sub(1);
            let last = self.last().get(&bmc.address).copied();
            if let Some(last) = last {
                self.host.sleep_until(last + settings.min_command_interval).await;
            }
            let suite = suites.last().copied().unwrap_or(CipherSuite::C3);
            let outcome = self.run(&bmc, suite, tries, words, commands).await;
            self.last().insert(bmc.address.clone(), self.host.now());
            let error = match outcome? {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tracing::debug!(node = %target.uuid, words, %error, left, "ipmitool failed");
            if error.status() == Some(Status::NoCipherSuite) && suites.len() > 1 {
                suites.pop();
            }
            let again = !settings.use_ipmitool_retries || is_passing(&error);
            if !again || left == 0 || self.host.now() > end {
                return Err(DriverError::Ipmi { command: words.to_owned() });
            }
        }
    }

    /// One run of ipmitool. The outer error is of an ipmitool that was killed because it took too long.
    async fn run<C>(
        &self,
        bmc: &Bmc,
        suite: CipherSuite,
        tries: u32,
        words: &str,
        commands: &[C],
    ) -> Result<Result<Option<C::Answer>, ClientError>, DriverError>
    where
        C: Command + Sync,
        C::Answer: Send,
    {
        let settings = &self.settings.ipmi;
        if !settings.use_ipmitool_retries {
            return Ok(self.session(bmc, suite, Retry::ONCE, commands).await);
        }
        let retry = Retry { interval: INTERVAL, attempts: tries };
        let limit = settings.command_retry_timeout;
        let done = wire::within(limit, self.session(bmc, suite, retry, commands)).await;
        done.ok_or_else(|| {
            let file = self.host.uuid("password file").simple().to_string();
            let command = bmc.command_line(tries, &format!("/tmp/tmp{}", &file[..8]), words);
            DriverError::TimedOut { command, limit }
        })
    }

    async fn session<C>(
        &self,
        bmc: &Bmc,
        suite: CipherSuite,
        retry: Retry,
        commands: &[C],
    ) -> Result<Option<C::Answer>, ClientError>
    where
        C: Command + Sync,
        C::Answer: Send,
    {
        let connecting = Client::connect(
            &self.host,
            &bmc.address,
            bmc.port,
            &bmc.credentials,
            suite,
            bmc.privilege,
            retry,
        );
        let mut client = connecting.await?;
        client.probe().await?;
        let mut answer = None;
        for command in commands {
            answer = Some(client.run(command).await?);
        }
        // The command is done; how the session ends changes nothing.
        let _ = client.close().await;
        Ok(answer)
    }
}

fn boot_flags(target: &Target, device: BootDevice, lasting: bool) -> BootFlags {
    let efi = target.boot_mode == BootMode::Uefi;
    BootFlags { valid: true, persistent: lasting, efi, device, rest: [0; 5] }
}

/// Whether ipmitool's error is one that Ironic takes to be passing.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Completion { completion, .. } => matches!(
            *completion,
            Completion::NODE_BUSY | Completion::TIMEOUT | Completion::OUT_OF_SPACE | Completion::INITIALIZING
        ),
        ClientError::Setup { status, .. } => *status == Status::InsufficientResources,
        ClientError::NoAnswer { .. }
        | ClientError::Refused { .. }
        | ClientError::Resolve { .. }
        | ClientError::Socket { .. }
        | ClientError::Unsupported
        | ClientError::WrongPassword
        | ClientError::WrongKey
        | ClientError::Malformed { .. } => false,
    }
}

/// How often `part` fits into `whole`, at least once.
fn whole_parts(whole: Duration, part: Duration) -> u32 {
    let parts = whole.as_millis().checked_div(part.as_millis()).unwrap_or(1);
    u32::try_from(parts).unwrap_or(u32::MAX).max(1)
}
