//! The world at its beginning: hosts with their BMCs, image caches, the network, Ironic's settings.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// The network hosts that every world has: the Kubernetes API server, the operator, Ironic.
pub const COMPONENTS: &[&str] = &["kube", "operator", "ironic"];

/// All that is built before time moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The hosts, in the order of the scenario.
    pub hosts: Vec<HostPlan>,
    /// The image servers, in the order of the scenario.
    pub image_caches: Vec<ImageCachePlan>,
    /// How the network is when nothing is wrong with it.
    pub network: NetworkPlan,
    /// Ironic's settings.
    pub ironic: fake_ironic::settings::Settings,
    /// The namespace in which the hosts and their secrets live.
    pub namespace: String,
}

impl Plan {
    /// The host of that name.
    pub fn host(&self, name: &str) -> Option<&HostPlan> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// All names on the network: components, image caches, machines and their BMCs.
    pub fn network_names(&self) -> Vec<String> {
        let caches = self.image_caches.iter().map(|cache| cache.name.clone());
        let machines = self.hosts.iter().flat_map(|host| [host.name.clone(), host.bmc_name()]);
        COMPONENTS.iter().map(|name| (*name).to_owned()).chain(caches).chain(machines).collect()
    }

    /// The image that a reference names.
    pub fn image(&self, reference: &ImageRef) -> Option<&ImagePlan> {
        let cache = self.image_caches.iter().find(|cache| cache.name == reference.cache)?;
        cache.images.iter().find(|image| image.name == reference.image)
    }
}

/// A machine, its BMC and its BareMetalHost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostPlan {
    /// The BareMetalHost's name and the name of the machine itself on the network.
    pub name: String,
    /// What its BMC speaks.
    pub bmc: BmcKind,
    /// The boot NIC's address, lower case with colons.
    pub mac: String,
    /// The BMC's user, in the BMC and in the Secret.
    pub username: String,
    /// The BMC's password, in the BMC and in the Secret.
    pub password: Password,
    /// `spec.online`.
    pub online: bool,
    /// The name in `spec.consumerRef`.
    pub consumer: Option<String>,
    /// The image in `spec.image`.
    pub image: Option<ImageRef>,
    /// How far the host has come when the timeline begins.
    pub initial: Initial,
}

impl HostPlan {
    /// The BMC's name on the network.
    pub fn bmc_name(&self) -> String {
        bmc_name(&self.name)
    }
}

/// The name on the network of a host's BMC.
pub fn bmc_name(host: &str) -> String {
    format!("{host}-bmc")
}

/// What a BMC speaks; the schemes of `spec.bmc.address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BmcKind {
    /// `redfish+http://`: Redfish, booting the ramdisk by PXE.
    Redfish,
    /// `redfish-virtualmedia+http://`: Redfish, booting the ramdisk from a virtual CD.
    RedfishVirtualmedia,
    /// `ipmi://`: IPMI 2.0 over LAN, booting the ramdisk by PXE.
    Ipmi,
}

/// How far a host has come when the timeline begins. Everything but `New` and `Absent` is reached by running the
/// world before that, with the scenario's own protocols and timing, while nothing is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// Its BareMetalHost is created at the timeline's zero.
    #[default]
    New,
    /// Registered, inspected, prepared.
    Available,
    /// Provisioned with its image.
    Provisioned,
    /// Marked as externally provisioned, with an operating system of its own, and adopted.
    ExternallyProvisioned,
    /// The machine is there, its BareMetalHost is not; a step creates it.
    Absent,
}

impl Initial {
    /// The state in which the host begins the timeline; `None` if it has none yet.
    pub fn state(self) -> Option<&'static str> {
        match self {
            Self::New | Self::Absent => None,
            Self::Available => Some("available"),
            Self::Provisioned => Some("provisioned"),
            Self::ExternallyProvisioned => Some("externally provisioned"),
        }
    }
}

/// An image on an image server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ImageRef {
    /// The server.
    pub cache: String,
    /// The file.
    pub image: String,
}

/// An HTTP server with operating system images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageCachePlan {
    /// Its name on the network.
    pub name: String,
    /// What it holds.
    pub images: Vec<ImagePlan>,
}

/// An image file, with a checksum file beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImagePlan {
    /// The file's name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Which checksum lies beside it.
    pub checksum: Checksum,
}

/// A kind of checksum; also the ending of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// `.md5sum`, as OpenShift's cache has it.
    Md5,
    /// `.sha256sum`.
    #[default]
    Sha256,
    /// `.sha512sum`.
    Sha512,
}

/// The network between any two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkPlan {
    /// The least time a packet takes.
    pub latency: Duration,
    /// How much longer than `latency` it may take.
    pub jitter: Duration,
    /// The share of packets that get lost, from 0 to below 1.
    pub loss: f64,
}

impl Default for NetworkPlan {
    /// A quiet management LAN.
    fn default() -> Self {
        Self { latency: Duration::from_millis(1), jitter: Duration::from_millis(1), loss: 0.0 }
    }
}

/// A password: serialised as it is, never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The password itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
