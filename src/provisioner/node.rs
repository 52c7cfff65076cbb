//! A node and its ports, with the fields that decisions use.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Where a node stands in Ironic's own state machine (`ironic/common/states.py`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum ProvisionState {
    /// Known by name only; its BMC has not been tried.
    #[serde(rename = "enroll")]
    Enroll,
    /// Its BMC is being tried.
    #[serde(rename = "verifying")]
    Verifying,
    /// Its BMC answers.
    #[serde(rename = "manageable")]
    Manageable,
    /// It can be deployed.
    #[serde(rename = "available")]
    Available,
    /// Its hardware is being looked at.
    #[serde(rename = "inspecting")]
    Inspecting,
    /// The same, while the agent works.
    #[serde(rename = "inspect wait")]
    InspectWait,
    /// Its hardware could not be looked at.
    #[serde(rename = "inspect failed")]
    InspectFailed,
    /// It is being taken over as it is.
    #[serde(rename = "adopting")]
    Adopting,
    /// It could not be taken over.
    #[serde(rename = "adopt failed")]
    AdoptFailed,
    /// An image is being put on it.
    #[serde(rename = "deploying")]
    Deploying,
    /// The same, while the agent works.
    #[serde(rename = "wait call-back")]
    DeployWait,
    /// The image could not be put on it.
    #[serde(rename = "deploy failed")]
    DeployFailed,
    /// It is in use.
    #[serde(rename = "active")]
    Active,
    /// Its image is being taken off.
    #[serde(rename = "deleting")]
    Deleting,
    /// It is being wiped or set up.
    #[serde(rename = "cleaning")]
    Cleaning,
    /// The same, while the agent works.
    #[serde(rename = "clean wait")]
    CleanWait,
    /// It could not be wiped or set up.
    #[serde(rename = "clean failed")]
    CleanFailed,
    /// Its image could not be taken off.
    #[serde(rename = "error")]
    Error,
    /// Its firmware is being changed while it is in use.
    #[serde(rename = "servicing")]
    Servicing,
    /// The same, while the agent works.
    #[serde(rename = "service wait")]
    ServiceWait,
    /// Its firmware could not be changed.
    #[serde(rename = "service failed")]
    ServiceFailed,
    /// A state that the operator never asks for: rescue, rebuild, hold, or one that is newer than it.
    #[default]
    #[serde(other)]
    Other,
}

impl ProvisionState {
    /// Whether ports may be added to a node in this state without meeting a lock.
    pub const fn is_stable(self) -> bool {
        match self {
            Self::Enroll
            | Self::Manageable
            | Self::Available
            | Self::Active
            | Self::Error
            | Self::InspectFailed
            | Self::AdoptFailed
            | Self::DeployFailed
            | Self::CleanFailed
            | Self::ServiceFailed => true,
            Self::Verifying
            | Self::Inspecting
            | Self::InspectWait
            | Self::Adopting
            | Self::Deploying
            | Self::DeployWait
            | Self::Deleting
            | Self::Cleaning
            | Self::CleanWait
            | Self::Servicing
            | Self::ServiceWait
            | Self::Other => false,
        }
    }

    /// Whether a node in this state counts against the number of hosts that may be busy at once.
    pub const fn is_busy(self) -> bool {
        match self {
            Self::Inspecting
            | Self::InspectWait
            | Self::Deploying
            | Self::DeployWait
            | Self::Deleting
            | Self::Cleaning
            | Self::CleanWait => true,
            Self::Enroll
            | Self::Verifying
            | Self::Manageable
            | Self::Available
            | Self::InspectFailed
            | Self::Adopting
            | Self::AdoptFailed
            | Self::DeployFailed
            | Self::Active
            | Self::CleanFailed
            | Self::Error
            | Self::Servicing
            | Self::ServiceWait
            | Self::ServiceFailed
            | Self::Other => false,
        }
    }
}

/// An Ironic node. In a list, only the fields that were asked for are filled in.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its id.
    pub uuid: String,
    /// Its name; a discovered node has none.
    pub name: Option<String>,
    /// Where it stands.
    pub provision_state: ProvisionState,
    /// Where it is going, in Ironic's words.
    pub target_provision_state: Option<String>,
    /// `power on`, `power off`, `error`; `None` when not known.
    pub power_state: Option<String>,
    /// Where its power is going.
    pub target_power_state: Option<String>,
    /// What went wrong last. Ironic clears it when the next operation begins.
    #[serde(deserialize_with = "or_default")]
    pub last_error: String,
    /// Ironic leaves it alone.
    #[serde(deserialize_with = "or_default")]
    pub maintenance: bool,
    /// Why Ironic itself put it into maintenance; empty otherwise.
    #[serde(deserialize_with = "or_default")]
    pub fault: String,
    /// Whether it is wiped between uses.
    pub automated_clean: Option<bool>,
    /// Whose instance it runs.
    pub instance_uuid: Option<String>,
    /// What it runs.
    #[serde(deserialize_with = "or_default")]
    pub instance_info: Map<String, Value>,
    /// What it is.
    #[serde(deserialize_with = "or_default")]
    pub properties: Map<String, Value>,
    /// How its BMC is reached; passwords are masked.
    #[serde(deserialize_with = "or_default")]
    pub driver_info: Map<String, Value>,
    /// How it boots a ramdisk.
    pub boot_interface: Option<String>,
    /// How images get onto it.
    pub deploy_interface: Option<String>,
    /// How its hardware is looked at.
    pub inspect_interface: Option<String>,
    /// Power-offs become reboots.
    #[serde(deserialize_with = "or_default")]
    pub disable_power_off: bool,
}

impl Node {
    /// Whether the machine is on; `None` when Ironic does not know.
    pub fn is_on(&self) -> Option<bool> {
        match self.power_state.as_deref() {
            Some("power on") => Some(true),
            Some("power off") => Some(false),
            Some(_) | None => None,
        }
    }
}

/// A port: one MAC address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its MAC address, in lower case.
    pub address: String,
    /// The node that it belongs to.
    pub node_uuid: String,
}

/// What Ironic says about deploying a node: `None` if it may be, else why not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// The boot interface's objection.
    pub boot: Option<String>,
    /// The deploy interface's objection.
    pub deploy: Option<String>,
}

/// Ironic writes `null` for what has never been set.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
