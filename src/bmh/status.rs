//! A host's status: what the operator found and where it stands.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    hardware::HardwareDetails,
    spec::{BootMode, CustomDeploy, Image, RootDeviceHints, SecretReference, absent},
};
use crate::words::words;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

words! {
    /// Where a host stands in its life.
    #[derive(Default)]
    pub enum ProvisioningState {
        /// Nothing has been looked at yet.
        #[default]
        New => "",
        /// No BMC is known.
        Unmanaged => "unmanaged",
        /// The BMC's address and credentials are being tried.
        Registering => "registering",
        /// Legacy; moves on to preparing.
        MatchProfile => "match profile",
        /// The hardware is being looked at.
        Inspecting => "inspecting",
        /// The hardware is being set up.
        Preparing => "preparing",
        /// Free to be provisioned.
        Available => "available" | "ready",
        /// An image is being put on it.
        Provisioning => "provisioning",
        /// The image is on it.
        Provisioned => "provisioned",
        /// It runs something that the operator did not put there.
        ExternallyProvisioned => "externally provisioned",
        /// The image is being taken off.
        Deprovisioning => "deprovisioning",
        /// It is being switched off, the last step before it leaves.
        PoweringOffBeforeDelete => "powering off before delete",
        /// It is being forgotten.
        Deleting => "deleting",
    }
}

words! {
    /// How a host is doing.
    #[derive(Default)]
    pub enum OperationalStatus {
        /// Not known yet.
        #[default]
        Unknown => "",
        /// Well.
        Ok => "OK",
        /// Seen, but not managed.
        Discovered => "discovered",
        /// See the error type and message.
        Error => "error",
        /// Waiting until fewer other hosts are busy.
        Delayed => "delayed",
        /// Taken out of Ironic at the user's wish.
        Detached => "detached",
        /// Its firmware is being changed. Not written by this operator.
        Servicing => "servicing",
    }
}

words! {
    /// What kind of work failed.
    pub enum ErrorType {
        /// The host could not be adopted into Ironic.
        ProvisionedRegistration => "provisioned registration error",
        /// The BMC could not be used.
        Registration => "registration error",
        /// The hardware could not be looked at.
        Inspection => "inspection error",
        /// The hardware could not be set up.
        Preparation => "preparation error",
        /// An image could not be put on, or taken off.
        Provisioning => "provisioning error",
        /// The power could not be changed.
        PowerManagement => "power management error",
        /// The host could not be taken out of Ironic.
        Detach => "detach error",
        /// The firmware could not be changed. Not written by this operator.
        Servicing => "servicing error",
    }
}

impl ErrorType {
    /// The reason of the event that tells of such an error.
    pub const fn event_reason(self) -> &'static str {
        match self {
            Self::ProvisionedRegistration => "ProvisionedRegistrationError",
            Self::Registration => "RegistrationError",
            Self::Inspection => "InspectionError",
            Self::Preparation => "PreparationError",
            Self::Provisioning => "ProvisioningError",
            Self::PowerManagement => "PowerManagementError",
            Self::Detach => "DetachError",
            Self::Servicing => "ServicingError",
        }
    }
}

/// Which version of which Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialsStatus {
    /// The Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretReference>,
    /// Its resource version.
    #[serde(skip_serializing_if = "absent")]
    pub credentials_version: String,
}

/// When a kind of work was last begun and ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationMetric {
    /// When it was begun.
    pub start: Option<Time>,
    /// When it ended; `None` while it goes on.
    pub end: Option<Time>,
}

/// When each kind of work was last begun and ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationHistory {
    /// Registering.
    pub register: OperationMetric,
    /// Inspecting.
    pub inspect: OperationMetric,
    /// Provisioning.
    pub provision: OperationMetric,
    /// Deprovisioning.
    pub deprovision: OperationMetric,
}

/// What is on a host, or being put there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisionStatus {
    /// Where the host stands.
    pub state: ProvisioningState,
    /// The UUID of its Ironic node; empty until it is registered.
    #[serde(rename = "ID")]
    pub id: String,
    /// The image that was last put on it; empty when there is none.
    pub image: Image,
    /// The same for a custom deploy step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    /// The root device hints in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    /// The boot mode in force.
    #[serde(deserialize_with = "blank_is_none", skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    /// Fields that the operator does not act on, kept as they came.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What the operator found and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalHostStatus {
    /// How the host is doing.
    pub operational_status: OperationalStatus,
    /// What kind of work failed last, until it succeeds or other work begins.
    #[serde(deserialize_with = "blank_is_none", skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorType>,
    /// Why it failed.
    pub error_message: String,
    /// How often work has failed since it last succeeded. Not zeroed together with the error.
    pub error_count: u32,
    /// When the status was last written; `None` means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The hardware profile in force.
    #[serde(skip_serializing_if = "absent")]
    pub hardware_profile: String,
    /// The result of the last inspection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
    /// What is on the host, or being put there.
    pub provisioning: ProvisionStatus,
    /// The credentials that Ironic last used with success.
    pub good_credentials: CredentialsStatus,
    /// The credentials that were last given to Ironic.
    pub tried_credentials: CredentialsStatus,
    /// Whether the machine was on when it was last looked at.
    pub powered_on: bool,
    /// When each kind of work was last begun and ended.
    pub operation_history: OperationHistory,
    /// How often provisioning of [`Self::last_attempted_image`] has failed.
    #[serde(skip_serializing_if = "absent")]
    pub provisioning_fail_count: u32,
    /// The image that was last tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_image: Option<Image>,
    /// Fields that the operator does not act on, kept as they came.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Go writes an unset word as an empty string.
fn blank_is_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    match Option::<String>::deserialize(deserializer)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}
