//! What can be asked of Ironic to change something.

use std::{fmt, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Node, Patch};

/// A node's `driver_info`: how Ironic reaches the BMC. Passwords show in no debug output.
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct DriverInfo(pub Map<String, Value>);

impl fmt::Debug for DriverInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |key: &String, value: &Value| match key.ends_with("_password") {
            true => Value::from("…"),
            false => value.clone(),
        };
        f.debug_map().entries(self.0.iter().map(|(key, value)| (key, shown(key, value)))).finish()
    }
}

/// The body of `POST /v1/nodes`. Empty interfaces are left to Ironic's defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NewNode {
    /// `<namespace>~<name>`.
    pub name: String,
    /// Ironic's driver.
    pub driver: String,
    /// How the BMC is reached.
    pub driver_info: DriverInfo,
    /// What the machine is.
    pub properties: Map<String, Value>,
    /// BIOS settings.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub bios_interface: &'static str,
    /// How it boots a ramdisk.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub boot_interface: &'static str,
    /// How images get onto it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub deploy_interface: &'static str,
    /// Firmware updates.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub firmware_interface: &'static str,
    /// How its hardware is looked at.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub inspect_interface: &'static str,
    /// Boot device and the like.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub management_interface: &'static str,
    /// Power.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub power_interface: &'static str,
    /// RAID.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub raid_interface: &'static str,
    /// The vendor's own.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub vendor_interface: &'static str,
    /// Power-offs become reboots. `None` if Ironic does not know the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_power_off: Option<bool>,
}

/// Where a node's provision state is sent (`PUT …/states/provision`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisionTarget {
    /// Try the BMC; from a failed state, go back to manageable.
    Manage,
    /// Look at the hardware.
    Inspect,
    /// Make it available, wiping it on the way.
    Provide,
    /// Take it over as it is.
    Adopt,
    /// Put an image on it.
    Active,
    /// Take the image off.
    Deleted,
    /// Stop what is going on.
    Abort,
}

impl ProvisionTarget {
    /// Ironic's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manage => "manage",
            Self::Inspect => "inspect",
            Self::Provide => "provide",
            Self::Adopt => "adopt",
            Self::Active => "active",
            Self::Deleted => "deleted",
            Self::Abort => "abort",
        }
    }
}

/// What cloud-init finds on the machine. Shows in no debug output: user data holds secrets.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct ConfigDrive {
    /// The machine's names and id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<Map<String, Value>>,
    /// The user's own data, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Network settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<Value>,
}

impl fmt::Debug for ConfigDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigDrive").finish_non_exhaustive()
    }
}

/// Where a node's power is sent (`PUT …/states/power`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerTarget {
    /// On.
    On,
    /// Off, at once.
    Off,
    /// Off, by asking the operating system.
    SoftOff,
    /// Off and on, at once.
    Reboot,
    /// Off and on, by asking the operating system.
    SoftReboot,
}

impl PowerTarget {
    /// Ironic's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "power on",
            Self::Off => "power off",
            Self::SoftOff => "soft power off",
            Self::Reboot => "rebooting",
            Self::SoftReboot => "soft rebooting",
        }
    }
}

/// A change of power.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPower {
    /// Where the power is sent.
    pub target: PowerTarget,
    /// How long the operating system may take; whole seconds.
    pub timeout: Option<Duration>,
    /// What to ask for instead when Ironic answers 400: the driver knows no soft power-off.
    pub otherwise: Option<PowerTarget>,
}

/// Something to ask of Ironic. `node` is a node's UUID throughout.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// `POST /v1/nodes`; success is 201 with the node.
    CreateNode(Box<NewNode>),
    /// `PATCH /v1/nodes/{node}`; success is 200 with the node.
    PatchNode {
        /// The node.
        node: String,
        /// What to change; never empty.
        patch: Patch,
    },
    /// `POST /v1/ports` with `node_uuid`, `address`, `pxe_enabled`; success is 201.
    CreatePort {
        /// The node.
        node: String,
        /// The MAC address.
        address: String,
        /// Whether the machine boots from it.
        pxe_enabled: bool,
    },
    /// `PUT /v1/nodes/{node}/states/provision`; success is 202.
    Provision {
        /// The node.
        node: String,
        /// `target`.
        target: ProvisionTarget,
        /// `configdrive`, left out if `None`.
        configdrive: Option<Box<ConfigDrive>>,
        /// `deploy_steps`, left out if empty.
        deploy_steps: Vec<Value>,
    },
    /// `PUT /v1/nodes/{node}/states/power` with `target` and, if there is one, `timeout`; success is 202.
    Power {
        /// The node.
        node: String,
        /// The change.
        power: SetPower,
    },
    /// `PUT /v1/nodes/{node}/maintenance` with `reason`; success is 202.
    SetMaintenance {
        /// The node.
        node: String,
        /// Why.
        reason: &'static str,
    },
    /// `DELETE /v1/nodes/{node}/maintenance`; success is 202.
    UnsetMaintenance {
        /// The node.
        node: String,
    },
    /// `DELETE /v1/nodes/{node}`; success is 204.
    DeleteNode {
        /// The node.
        node: String,
    },
}

/// What Ironic answered to a request that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The node as it is now.
    Node(Box<Node>),
    /// Nothing of interest.
    Accepted,
}

/// What an unsuccessful answer means for the pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    /// The node is locked by other work: look again soon.
    Busy,
    /// Nothing was left to do.
    Done,
    /// Ask for this in its place, at once.
    Instead(Request),
    /// The pass has failed.
    Fail,
}

impl Request {
    /// What the HTTP status of an unsuccessful answer means (upstream: `pkg/provisioner/ironic/ironic.go`).
    /// `None` is no answer at all.
    pub fn reaction(&self, status: Option<u16>) -> Reaction {
        match (self, status) {
            // A second port with the same address also answers 409, and waiting does not help against that.
            (Self::CreatePort { .. }, Some(409)) => Reaction::Fail,
            (_, Some(409)) => Reaction::Busy,
            (Self::DeleteNode { .. }, Some(404)) => Reaction::Done,
            (Self::Power { node, power: SetPower { otherwise: Some(target), .. } }, Some(400)) => {
                let power = SetPower { target: *target, timeout: None, otherwise: None };
                Reaction::Instead(Self::Power { node: node.clone(), power })
            }
            (_, _) => Reaction::Fail,
        }
    }

    /// A name for logs that holds no secret.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateNode(_) => "create node",
            Self::PatchNode { .. } => "patch node",
            Self::CreatePort { .. } => "create port",
            Self::Provision { target, .. } => target.as_str(),
            Self::Power { power, .. } => power.target.as_str(),
            Self::SetMaintenance { .. } => "set maintenance",
            Self::UnsetMaintenance { .. } => "unset maintenance",
            Self::DeleteNode { .. } => "delete node",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_upstream_takes_them_for() {
        let node = || "n".to_owned();
        let power = |target, otherwise| Request::Power {
            node: node(),
            power: SetPower { target, timeout: None, otherwise },
        };
        let manage = Request::Provision {
            node: node(),
            target: ProvisionTarget::Manage,
            configdrive: None,
            deploy_steps: vec![],
        };
        let port = Request::CreatePort { node: node(), address: String::new(), pxe_enabled: true };
        let soft = power(PowerTarget::SoftOff, Some(PowerTarget::Off));
        let hard = power(PowerTarget::Off, None);
        let delete = Request::DeleteNode { node: node() };
        for (request, status, reaction) in [
            (&manage, Some(409), Reaction::Busy),
            (&manage, Some(404), Reaction::Fail),
            (&manage, Some(503), Reaction::Fail),
            (&manage, None, Reaction::Fail),
            (&port, Some(409), Reaction::Fail),
            (&soft, Some(400), Reaction::Instead(hard.clone())),
            (&soft, Some(409), Reaction::Busy),
            (&hard, Some(400), Reaction::Fail),
            (&delete, Some(404), Reaction::Done),
            (&delete, Some(409), Reaction::Busy),
        ] {
            assert_eq!(request.reaction(status), reaction, "{request:?} {status:?}");
        }
    }
}
