//! What can be set on a machine from outside: where it boots from, what lies in its virtual drives; and what its
//! disks hold.

use std::fmt;

use serde::{Deserialize, Serialize};
use wire::Instant;

/// Where a machine may boot from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootSource {
    /// The network, by PXE.
    Pxe,
    /// The virtual CD drive.
    Cd,
    /// The virtual floppy or USB stick.
    Floppy,
    /// The first disk that holds a system.
    Hdd,
    /// An image that the UEFI firmware itself gets by HTTP.
    UefiHttp,
}

/// For how many boots an override holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// For the next one.
    Once,
    /// Until it is taken back.
    Continuous,
}

/// How the firmware boots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootMode {
    /// UEFI.
    #[default]
    Uefi,
    /// PC compatible, "legacy".
    Bios,
}

/// Where the machine shall boot from instead of its usual order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// From where.
    pub source: BootSource,
    /// For how long.
    pub hold: Hold,
    /// When it lapses unless the machine has been started by then. IPMI's boot flags do so after 60 s (IPMI 2.0
    /// section 28.13, parameter 3); Redfish's override never does.
    pub lapses: Option<Instant>,
}

/// The boot settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootSettings {
    /// The override in force.
    pub instead: Option<Override>,
    /// The boot mode.
    pub mode: BootMode,
    /// The image of [`BootSource::UefiHttp`].
    pub http_uri: Option<String>,
}

/// A virtual drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slot {
    /// For CD and DVD images.
    Cd,
    /// For floppy and USB stick images.
    Floppy,
}

impl Slot {
    /// Both drives.
    pub const ALL: [Self; 2] = [Self::Cd, Self::Floppy];

    /// Its name in the journal and in Redfish URIs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cd => "Cd",
            Self::Floppy => "Floppy",
        }
    }
}

/// What is in a virtual drive.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Medium {
    /// Where the BMC gets the image from.
    pub(crate) image: String,
    /// How the BMC proves who it is to that server: user name and password.
    pub(crate) login: Option<(String, String)>,
    /// Whether the host may write to it.
    pub(crate) write_protected: bool,
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Medium").field("image", &self.image).finish_non_exhaustive()
    }
}

/// What a disk holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DiskContent {
    /// Nothing: a new disk.
    #[default]
    Blank,
    /// A bootable system.
    Image {
        /// What identifies its bytes, e.g. `sha256:…`.
        digest: String,
        /// Where it was got from.
        url: String,
    },
    /// Nothing any more: it was erased.
    Wiped,
}

/// Who asked for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum By {
    /// A Redfish client.
    Redfish,
    /// An IPMI client.
    Ipmi,
    /// What runs on the machine.
    Software,
    /// The BMC itself, as it starts.
    Bmc,
}

/// A power command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Control {
    /// Power on; nothing to do if it is.
    On,
    /// Cut the power; nothing to do if it is off.
    ForceOff,
    /// Reset a running machine without cutting its power.
    ForceRestart,
    /// Cut the power of a running machine, then power it on.
    PowerCycle,
    /// Ask what runs to shut down and power off.
    SoftOff,
    /// Ask what runs to restart.
    GracefulRestart,
    /// The button on the front: on when off, else a soft off.
    PushButton,
}

/// The power state that a BMC reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// Off.
    Off,
    /// On its way to on.
    PoweringOn,
    /// On.
    On,
    /// On its way to off.
    PoweringOff,
}
