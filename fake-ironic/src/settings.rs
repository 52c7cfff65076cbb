//! Ironic's settings, by the sections and names that `ironic.conf` gives them.
//!
//! The defaults are those of the metal3 project's Ironic image in 2026, which sets some values differently from
//! Ironic itself. Waits are in seconds, as in `ironic.conf`. What no setting decides, but the release does, stands in
//! [`Release`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// All settings of one Ironic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The name under which the conductor takes reservations; by default the host's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What the release decides.
    pub release: Release,
    /// The conductor.
    pub conductor: Conductor,
    /// Deploying and cleaning.
    pub deploy: Deploy,
    /// Inspection.
    pub inspector: Inspector,
    /// Talking to the agent.
    pub agent: Agent,
    /// Talking Redfish.
    pub redfish: Redfish,
    /// Talking IPMI.
    pub ipmi: Ipmi,
    /// Network boot.
    pub pxe: Pxe,
    /// Talking to image servers.
    pub image: Image,
}

/// Behaviours that differ from release to release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Release {
    /// Whether `adopt` validates the boot interface and with it the image, for nodes that boot locally. Ironic before
    /// 20.0.0 did (changed in d342b07dd, December 2021).
    pub validate_image_on_adopt: bool,
    /// The minor number of the newest microversion that the API offers.
    pub api_max_version: u16,
    /// Whether a power change that belongs to a failing operation wipes `last_error` before the failure is written,
    /// so that the text is lost (since 38.0.0, with virtual media).
    pub clean_up_ramdisk_powers_off: bool,
    /// In which words failed connections are told.
    pub connection_errors: ConnectionErrors,
}

impl Default for Release {
    fn default() -> Self {
        Self {
            validate_image_on_adopt: false,
            api_max_version: 115,
            clean_up_ramdisk_powers_off: true,
            connection_errors: ConnectionErrors::Urllib3V2,
        }
    }
}

/// The words for a failed connection, which are those of the libraries that a release runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectionErrors {
    /// urllib3 2.
    #[serde(rename = "urllib3-2")]
    Urllib3V2,
    /// urllib3 1 on Python 3.6 under eventlet, as in 2020.
    #[serde(rename = "eventlet")]
    Eventlet,
}

/// `[conductor]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conductor {
    /// Pause between two passes that compare power states; 0 turns them off. 60 s before September 2025.
    #[serde(with = "seconds")]
    pub sync_power_state_interval: Duration,
    /// How often in a row a node's power may differ or be unreadable before it goes to maintenance.
    pub power_state_sync_max_retries: u32,
    /// How many nodes one pass looks at side by side.
    pub sync_power_state_workers: usize,
    /// Whether a power state that differs is driven back to the recorded one, or else recorded.
    pub force_power_state_during_sync: bool,
    /// Pause between two looks at nodes in maintenance for a power failure; 0 turns them off.
    #[serde(with = "seconds")]
    pub power_failure_recovery_interval: Duration,
    /// Pause between two looks for nodes that waited too long.
    #[serde(with = "seconds")]
    pub check_provision_state_interval: Duration,
    /// How long `wait call-back` may last; 0 for ever.
    #[serde(with = "seconds")]
    pub deploy_callback_timeout: Duration,
    /// How long `clean wait` may last; 0 for ever.
    #[serde(with = "seconds")]
    pub clean_callback_timeout: Duration,
    /// How long `inspect wait` may last; 0 for ever.
    #[serde(with = "seconds")]
    pub inspect_wait_timeout: Duration,
    /// How long a power change may take.
    #[serde(with = "seconds")]
    pub power_state_change_timeout: Duration,
    /// How long the operating system may take to power off.
    #[serde(with = "seconds")]
    pub soft_power_off_timeout: Duration,
    /// How often a held lock is tried again.
    pub node_locked_retry_attempts: u32,
    /// Pause between two tries.
    #[serde(with = "seconds")]
    pub node_locked_retry_interval: Duration,
    /// Whether failures are kept in the node's history; if so, power sync clears `last_error`.
    pub node_history: bool,
    /// Whether nodes are cleaned when they become available, unless the node says otherwise.
    pub automated_clean: bool,
    /// Whether a node may be deleted while `available`.
    pub allow_deleting_available_nodes: bool,
    /// How many background tasks may run at once; beyond that requests are answered 503.
    pub workers_pool_size: usize,
    /// The agent's kernel, for nodes that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_kernel: Option<String>,
    /// The agent's initial ramdisk, for nodes that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_ramdisk: Option<String>,
}

impl Default for Conductor {
    fn default() -> Self {
        Self {
            sync_power_state_interval: Duration::from_secs(120),
            power_state_sync_max_retries: 3,
            sync_power_state_workers: 8,
            force_power_state_during_sync: true,
            power_failure_recovery_interval: Duration::from_secs(300),
            check_provision_state_interval: Duration::from_secs(60),
            deploy_callback_timeout: Duration::from_secs(4800),
            clean_callback_timeout: Duration::from_secs(1800),
            inspect_wait_timeout: Duration::from_secs(1800),
            power_state_change_timeout: Duration::from_secs(120),
            soft_power_off_timeout: Duration::from_secs(600),
            node_locked_retry_attempts: 3,
            node_locked_retry_interval: Duration::from_secs(1),
            node_history: false,
            automated_clean: true,
            allow_deleting_available_nodes: true,
            workers_pool_size: 300,
            deploy_kernel: None,
            deploy_ramdisk: None,
        }
    }
}

/// `[deploy]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deploy {
    /// Where BMCs and machines fetch what the conductor publishes; by default `http://HOST:6180`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_url: Option<String>,
    /// Priority of wiping whole disks in automated cleaning; 0 leaves it out.
    pub erase_devices_priority: u32,
    /// Priority of wiping partition tables in automated cleaning; 0 leaves it out.
    pub erase_devices_metadata_priority: u32,
    /// How long after its last heartbeat an agent counts as dead.
    #[serde(with = "seconds")]
    pub ramdisk_heartbeat_timeout: Duration,
}

impl Default for Deploy {
    fn default() -> Self {
        Self {
            http_url: None,
            erase_devices_priority: 0,
            erase_devices_metadata_priority: 10,
            ramdisk_heartbeat_timeout: Duration::from_secs(300),
        }
    }
}

/// `[inspector]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Inspector {
    /// Which of a machine's network interfaces get ports when it is inspected.
    pub add_ports: AddPorts,
    /// Whether ports stay that were not found.
    pub keep_ports: KeepPorts,
    /// Whether the machine is powered off afterwards.
    pub power_off: bool,
}

impl Default for Inspector {
    fn default() -> Self {
        Self { add_ports: AddPorts::All, keep_ports: KeepPorts::Present, power_off: true }
    }
}

/// Which network interfaces get ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddPorts {
    /// All that have a MAC address.
    All,
    /// Those that have an address.
    Active,
    /// The one that the machine booted from.
    Pxe,
    /// None.
    Disabled,
}

/// Which ports stay after an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepPorts {
    /// All.
    All,
    /// Those whose MAC address was found.
    Present,
    /// Those that would have been added.
    Added,
}

/// `[agent]`, and what else decides how the conductor and the agent talk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// Whether agents must offer their commands over TLS.
    pub require_tls: bool,
    /// How long the agent may take to answer a command.
    #[serde(with = "seconds")]
    pub command_timeout: Duration,
    /// How often a command is sent again when the connection fails.
    pub max_command_attempts: u32,
    /// How often the agent is asked whether a command has ended.
    pub command_wait_attempts: u32,
    /// Pause between two such questions.
    #[serde(with = "seconds")]
    pub command_wait_interval: Duration,
    /// How often the power state is read while the agent powers its machine off.
    pub post_deploy_get_power_state_retries: u32,
    /// Pause between two such readings.
    #[serde(with = "seconds")]
    pub post_deploy_get_power_state_retry_interval: Duration,
    /// Whether raw images are written while they are downloaded.
    pub stream_raw_images: bool,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            require_tls: false,
            command_timeout: Duration::from_secs(60),
            max_command_attempts: 30,
            command_wait_attempts: 100,
            command_wait_interval: Duration::from_secs(6),
            post_deploy_get_power_state_retries: 6,
            post_deploy_get_power_state_retry_interval: Duration::from_secs(5),
            stream_raw_images: true,
        }
    }
}

/// `[redfish]`, and the sushy library's own constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redfish {
    /// How often Ironic tries to reach a BMC.
    pub connection_attempts: u32,
    /// Pause between two tries.
    #[serde(with = "seconds")]
    pub connection_retry_interval: Duration,
    /// How long a connection may take.
    #[serde(with = "seconds")]
    pub connect_timeout: Duration,
    /// How long an answer may take.
    #[serde(with = "seconds")]
    pub read_timeout: Duration,
    /// How often sushy repeats a request within one try, after a transport error or a server error.
    pub server_side_retries: u32,
    /// Pause between two such requests.
    #[serde(with = "seconds")]
    pub server_side_retries_delay: Duration,
    /// Which authentication is used; `auto` tries sessions first.
    pub auth_type: RedfishAuth,
}

impl Default for Redfish {
    fn default() -> Self {
        Self {
            connection_attempts: 5,
            connection_retry_interval: Duration::from_secs(4),
            connect_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(60),
            server_side_retries: 10,
            server_side_retries_delay: Duration::from_secs(3),
            auth_type: RedfishAuth::Auto,
        }
    }
}

/// How Ironic shows a BMC who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedfishAuth {
    /// By a session, or by each request where the BMC has no sessions.
    Auto,
    /// By a session.
    Session,
    /// By each request.
    Basic,
}

/// `[ipmi]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ipmi {
    /// How long a failing command is tried again.
    #[serde(with = "seconds")]
    pub command_retry_timeout: Duration,
    /// Pause between two commands to one BMC.
    #[serde(with = "seconds")]
    pub min_command_interval: Duration,
    /// Whether ipmitool repeats commands by itself.
    pub use_ipmitool_retries: bool,
    /// The cipher suites to try in turn, best last; empty leaves it to the client.
    pub cipher_suite_versions: Vec<u8>,
}

impl Default for Ipmi {
    fn default() -> Self {
        Self {
            command_retry_timeout: Duration::from_secs(60),
            min_command_interval: Duration::from_secs(5),
            use_ipmitool_retries: false,
            cipher_suite_versions: vec![3, 17],
        }
    }
}

/// `[pxe]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pxe {
    /// After how long without an agent a machine is booted again; 0 never.
    #[serde(with = "seconds")]
    pub boot_retry_timeout: Duration,
    /// Pause between two looks for such machines.
    #[serde(with = "seconds")]
    pub boot_retry_check_interval: Duration,
}

impl Default for Pxe {
    fn default() -> Self {
        Self {
            boot_retry_timeout: Duration::from_secs(1200),
            boot_retry_check_interval: Duration::from_secs(90),
        }
    }
}

/// How the conductor asks image servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Image {
    /// How long an image server may take to answer.
    #[serde(with = "seconds")]
    pub webserver_connection_timeout: Duration,
}

impl Default for Image {
    fn default() -> Self {
        Self { webserver_connection_timeout: Duration::from_secs(60) }
    }
}

/// Waits as numbers of seconds, whole or not.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(wait: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        if wait.subsec_nanos() == 0 {
            serializer.serialize_u64(wait.as_secs())
        } else {
            serializer.serialize_f64(wait.as_secs_f64())
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| D::Error::custom(format!("{seconds} is not a number of seconds")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_survive_their_text() {
        let settings: Settings = serde_json::from_value(json!({
            "release": { "validate_image_on_adopt": true },
            "conductor": { "sync_power_state_interval": 60, "power_failure_recovery_interval": 0.5 },
            "inspector": { "add_ports": "pxe" },
        }))
        .expect("these are settings");
        assert_eq!(settings.conductor.sync_power_state_interval, Duration::from_secs(60));
        assert_eq!(settings.conductor.power_failure_recovery_interval, Duration::from_millis(500));
        assert_eq!(settings.conductor.inspect_wait_timeout, Duration::from_secs(1800));
        let text = serde_json::to_string(&settings).expect("settings have a text");
        assert_eq!(serde_json::from_str::<Settings>(&text).expect("the text is of settings"), settings);
    }

    #[test]
    fn mistakes_in_settings_are_named() {
        for (settings, complaint) in [
            (json!({ "conductor": { "sync_power": 1 } }), "unknown field `sync_power`"),
            (json!({ "conductor": { "sync_power_state_interval": -1 } }), "-1 is not a number of seconds"),
            (json!({ "conductor": { "node_history": "no" } }), "expected a boolean"),
            (json!({ "inspector": { "add_ports": "some" } }), "unknown variant `some`"),
        ] {
            let error = serde_json::from_value::<Settings>(settings).expect_err(complaint).to_string();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
