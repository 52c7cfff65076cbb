//! The parts of a host's spec.

use serde::{Deserialize, Serialize};

use crate::words::words;

/// Whether a field has its default value and is therefore left out of the JSON, as Go's `omitempty` does.
pub(super) fn absent<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How to reach a machine's BMC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcDetails {
    /// The BMC's URL; see [`crate::names::BmcAddress`].
    pub address: String,
    /// The Secret of the same namespace that holds `username` and `password`.
    pub credentials_name: String,
    /// Do not check the BMC's TLS certificate.
    #[serde(skip_serializing_if = "absent")]
    pub disable_certificate_verification: bool,
}

words! {
    /// How a machine boots.
    pub enum BootMode {
        /// UEFI.
        Uefi => "UEFI",
        /// UEFI with secure boot.
        UefiSecureBoot => "UEFISecureBoot",
        /// BIOS.
        Legacy => "legacy",
    }
}

impl BootMode {
    /// The value of Ironic's capability `boot_mode`.
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Uefi | Self::UefiSecureBoot => "uefi",
            Self::Legacy => "bios",
        }
    }
}

words! {
    /// Whether disks are wiped between uses.
    pub enum AutomatedCleaning {
        /// Their metadata is.
        Metadata => "metadata",
        /// They are not.
        Disabled => "disabled",
    }
}

words! {
    /// How a machine is inspected.
    pub enum InspectionMode {
        /// Not at all.
        Disabled => "disabled",
        /// By the agent, booted on the machine.
        Agent => "agent",
        /// Through the BMC, without booting anything.
        Fast => "fast",
    }
}

/// What should run on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Where the image is.
    pub url: String,
    /// Its checksum, or the URL of a file that holds it.
    #[serde(skip_serializing_if = "absent")]
    pub checksum: String,
    /// `md5`, `sha256`, `sha512`; empty or `auto` lets Ironic find out.
    #[serde(skip_serializing_if = "absent")]
    pub checksum_type: String,
    /// `raw`, `qcow2`, `vdi`, `vmdk`, or `live-iso`, which is booted and never written to a disk.
    #[serde(skip_serializing_if = "absent")]
    pub format: String,
    /// The Secret with credentials for an OCI registry.
    #[serde(skip_serializing_if = "absent")]
    pub oci_auth_secret_name: String,
}

impl Image {
    /// Whether the image is booted from a virtual CD and never written to a disk.
    pub fn is_live_iso(&self) -> bool {
        self.format == "live-iso"
    }
}

/// A deploy step that a custom agent offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomDeploy {
    /// The step's name.
    pub method: String,
}

/// Names a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    /// Its name.
    #[serde(skip_serializing_if = "absent")]
    pub name: String,
    /// Its namespace; the host's own when empty.
    #[serde(skip_serializing_if = "absent")]
    pub namespace: String,
}

/// Which disk to write to. A disk must match all that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RootDeviceHints {
    /// A path such as `/dev/vda`.
    #[serde(skip_serializing_if = "absent")]
    pub device_name: String,
    /// SCSI address, `host:channel:target:lun`.
    #[serde(skip_serializing_if = "absent")]
    pub hctl: String,
    /// A part of the model's name.
    #[serde(skip_serializing_if = "absent")]
    pub model: String,
    /// A part of the vendor's name.
    #[serde(skip_serializing_if = "absent")]
    pub vendor: String,
    /// The whole serial number.
    #[serde(skip_serializing_if = "absent")]
    pub serial_number: String,
    /// At least this many gigabytes.
    #[serde(skip_serializing_if = "absent")]
    pub min_size_gigabytes: u64,
    /// The whole World Wide Name.
    #[serde(skip_serializing_if = "absent")]
    pub wwn: String,
    /// The same with the vendor's extension.
    #[serde(skip_serializing_if = "absent")]
    pub wwn_with_extension: String,
    /// The vendor's extension alone.
    #[serde(skip_serializing_if = "absent")]
    pub wwn_vendor_extension: String,
    /// Whether it spins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}
