//! The resources of the group `metal3.io`, version `v1alpha1`, that this operator reads and writes.
//!
//! Field names and spellings are upstream's (baremetal-operator, `apis/metal3.io/v1alpha1`). Fields that the operator
//! does not act on are kept as they came (`other`), because the host is written back as a whole.

use std::{collections::BTreeMap, fmt};

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod hardware;
mod spec;
mod status;

pub use hardware::{Bios, Cpu, Disk, DiskType, Firmware, HardwareDetails, Lldp, Nic, SystemVendor, Vlan};
pub use spec::{
    AutomatedCleaning, BmcDetails, BootMode, CustomDeploy, Image, InspectionMode, RootDeviceHints,
    SecretReference,
};
pub use status::{
    BareMetalHostStatus, Condition, CredentialsStatus, ErrorType, OperationHistory, OperationMetric,
    OperationalStatus, ProvisionStatus, ProvisioningState,
};

use crate::bmh::spec::absent;

/// The finalizer of a BareMetalHost.
pub const FINALIZER: &str = "baremetalhost.metal3.io";
/// The finalizer of a Secret that a host uses.
pub const SECRET_FINALIZER: &str = "baremetalhost.metal3.io/secret";
/// The finalizer of a HardwareData object.
pub const HARDWARE_DATA_FINALIZER: &str = "baremetalhost.metal3.io/hardwareData";
/// The label of Secrets that the operator may watch; its value is [`SECRET_LABEL_VALUE`].
pub const SECRET_LABEL: &str = "environment.metal3.io";
/// The value of [`SECRET_LABEL`].
pub const SECRET_LABEL_VALUE: &str = "baremetal";
/// While present, the operator leaves the host alone altogether.
pub const PAUSED_ANNOTATION: &str = "baremetalhost.metal3.io/paused";
/// While present, the host is taken out of Ironic but keeps running.
pub const DETACHED_ANNOTATION: &str = "baremetalhost.metal3.io/detached";
/// A status to start from, as `clusterctl move` leaves it.
pub const STATUS_ANNOTATION: &str = "baremetalhost.metal3.io/status";
/// Asks for one power cycle, or, with a `/suffix`, to stay off until it is removed.
pub const REBOOT_ANNOTATION: &str = "reboot.metal3.io";
/// `disabled` turns inspection off; any other value asks an available host to be inspected again.
pub const INSPECT_ANNOTATION: &str = "inspect.metal3.io";
/// Hardware details to use in place of an inspection.
pub const HARDWARE_DETAILS_ANNOTATION: &str = "inspect.metal3.io/hardwaredetails";

/// What the user wants of a bare-metal machine. [`BareMetalHost`] is the whole resource.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "BareMetalHost",
    plural = "baremetalhosts",
    shortname = "bmh",
    shortname = "bmhost",
    namespaced,
    status = "BareMetalHostStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostSpec {
    /// How to reach the machine's BMC.
    #[serde(default, skip_serializing_if = "absent")]
    pub bmc: BmcDetails,
    /// The MAC address that the machine boots from, six hex pairs.
    #[serde(default, rename = "bootMACAddress", skip_serializing_if = "String::is_empty")]
    pub boot_mac_address: String,
    /// How it boots; UEFI when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    /// Whether the machine should be switched on.
    #[serde(default)]
    pub online: bool,
    /// Turns every power-off into a reboot.
    #[serde(default, skip_serializing_if = "absent")]
    pub disable_power_off: bool,
    /// What should run on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// A deploy step to run in place of, or besides, writing an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    /// The Secret with cloud-init user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,
    /// The Secret with network data for the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,
    /// The Secret with metadata for the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,
    /// The Secret with network data for the ramdisk, and for the image when it has none of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preprovisioning_network_data_name: String,
    /// Which disk to write to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    /// The machine has its own operating system: it is adopted, never inspected or wiped.
    #[serde(default, skip_serializing_if = "absent")]
    pub externally_provisioned: bool,
    /// Whether disks are wiped between uses; metadata when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automated_cleaning_mode: Option<AutomatedCleaning>,
    /// How the machine is inspected; by the agent when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection_mode: Option<InspectionMode>,
    /// Processor architecture, e.g. `x86_64`. Filled in after inspection.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// Deprecated; gives the default root device.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hardware_profile: String,
    /// Who uses the host. The operator itself ignores it; `kubectl` shows the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<k8s_openapi::api::core::v1::ObjectReference>,
    /// Fields that the operator does not act on, kept as they came.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What the operator found out about a machine. [`HardwareData`] is the whole resource; it has its host's name.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HardwareData",
    plural = "hardwaredata",
    shortname = "hd",
    namespaced,
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct HardwareDataSpec {
    /// The result of the inspection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
}

impl BareMetalHost {
    /// The host's name; empty in a host that never was on a server.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The host's namespace; empty in a host that never was on a server.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// All annotations, in the order of their keys.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.annotations.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether a finalizer is there.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().flatten().any(|found| found == finalizer)
    }

    /// Whether the user has asked for the host to be removed.
    pub fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The architecture in force: the spec's, else the inspected one, else `x86_64`.
    pub fn architecture(&self) -> &str {
        let inspected = self.status.as_ref().and_then(|status| status.hardware.as_ref());
        [self.spec.architecture.as_str(), inspected.map_or("", |hardware| hardware.cpu.arch.as_str())]
            .into_iter()
            .find(|architecture| !architecture.is_empty())
            .unwrap_or("x86_64")
    }
}

impl fmt::Display for BareMetalHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the Go operator of 2026-06 was seen to write for a new host.
    #[test]
    fn a_fresh_status_is_written_as_upstream_writes_it() {
        let status = serde_json::to_value(BareMetalHostStatus::default()).expect("a status is JSON");
        let period = json!({"start": null, "end": null});
        assert_eq!(
            status,
            json!({
                "operationalStatus": "",
                "provisioning": {"state": "", "ID": "", "image": {"url": ""}},
                "goodCredentials": {}, "triedCredentials": {},
                "errorMessage": "", "poweredOn": false, "errorCount": 0,
                "operationHistory": {"register": period, "inspect": period, "provision": period, "deprovision": period},
            })
        );
    }

    #[test]
    fn what_the_operator_does_not_know_survives_a_round_trip() {
        let text = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "worker-0", "namespace": "metal3"},
            "spec": {
                "online": true,
                "bmc": {"address": "ipmi://192.0.2.1", "credentialsName": "worker-0-bmc"},
                "bootMACAddress": "00:11:22:33:44:55",
                "raid": {"softwareRAIDVolumes": [{"level": "1"}]},
                "taints": [{"key": "a", "effect": "NoSchedule"}],
            },
            "status": {
                "operationalStatus": "error", "errorType": "provisioned registration error", "errorMessage": "m",
                "errorCount": 3, "poweredOn": true, "somethingNew": {"a": 1}, "goodCredentials": {}, "triedCredentials": {},
                "provisioning": {
                    "state": "externally provisioned", "ID": "7f0e", "image": {"url": ""}, "raid": {"hardwareRAIDVolumes": null},
                },
                "operationHistory": {
                    "register": {"start": "2021-06-15T10:00:00Z", "end": null},
                    "inspect": {"start": null, "end": null}, "provision": {"start": null, "end": null},
                    "deprovision": {"start": null, "end": null},
                },
            },
        });
        let host: BareMetalHost = serde_json::from_value(text.clone()).expect("it is a host");
        assert_eq!(
            host.status.as_ref().map(|s| s.provisioning.state),
            Some(ProvisioningState::ExternallyProvisioned)
        );
        assert_eq!(serde_json::to_value(&host).expect("a host is JSON"), text);
    }

    #[test]
    fn the_legacy_name_of_available_is_understood() {
        assert_eq!("ready".parse(), Ok(ProvisioningState::Available));
        assert!("happy".parse::<ProvisioningState>().is_err());
    }
}
