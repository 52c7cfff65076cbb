//! What an operator is told when it starts. Names and defaults are those of upstream's flags and environment.

use std::{fmt, time::Duration};

use http::Uri;
use serde::{Deserialize, Serialize};

use crate::regression::Regressions;

/// Everything that an operator is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Where the Kubernetes API is, e.g. `http://kube:6443`. Plain HTTP; see [`run_on`](crate::run_on) for clusters
    /// that want TLS and authentication.
    #[serde(with = "as_text")]
    pub kube: Uri,
    /// The only namespace to look at; `None` looks at all (`WATCH_NAMESPACE`).
    #[serde(default)]
    pub namespace: Option<String>,
    /// Where Ironic's API is, with its version path, e.g. `http://ironic:6385/v1/` (`IRONIC_ENDPOINT`).
    #[serde(with = "as_text")]
    pub ironic: Uri,
    /// What to authenticate with at Ironic by HTTP basic; `None` does not (`METAL3_AUTH_ROOT_DIR`).
    #[serde(default)]
    pub credentials: Option<Credentials>,
    /// The kernel of the deploy ramdisk (`DEPLOY_KERNEL_URL`).
    #[serde(default)]
    pub deploy_kernel_url: Option<String>,
    /// The deploy ramdisk (`DEPLOY_RAMDISK_URL`).
    #[serde(default)]
    pub deploy_ramdisk_url: Option<String>,
    /// The deploy ramdisk as an ISO image, for virtual media (`DEPLOY_ISO_URL`).
    #[serde(default)]
    pub deploy_iso_url: Option<String>,
    /// How many hosts are worked on at once (`-controller-concurrency`, `BMO_CONCURRENCY`). At least one is.
    #[serde(default = "defaults::concurrency")]
    pub concurrency: usize,
    /// After how many failed attempts a host is no longer provisioned with the same image; 0 never gives up
    /// (`-max-provisioning-retries`).
    #[serde(default = "defaults::max_provisioning_retries")]
    pub max_provisioning_retries: u32,
    /// How many hosts may be busy in Ironic at once, those with virtual media not counted (`PROVISIONING_LIMIT`).
    #[serde(default = "defaults::provisioning_limit")]
    pub provisioning_limit: usize,
    /// Requests a second to the Kubernetes API (`-kube-api-qps`).
    #[serde(default = "defaults::kube_api_qps")]
    pub kube_api_qps: u32,
    /// How many of them at once after a quiet time (`-kube-api-burst`).
    #[serde(default = "defaults::kube_api_burst")]
    pub kube_api_burst: u32,
    /// How long one request to Ironic may take (`IRONIC_CLIENT_TIMEOUT`).
    #[serde(default = "defaults::ironic_timeout")]
    pub ironic_timeout: Duration,
    /// For how long Ironic that was found ready is not asked again (`IRONIC_CLIENT_CACHE_TTL`).
    #[serde(default = "defaults::ironic_cache")]
    pub ironic_cache: Duration,
    /// Which bugs of the past are brought back.
    #[serde(default)]
    pub regressions: Regressions,
}

impl Options {
    /// The defaults, for a Kubernetes API and an Ironic API.
    pub fn new(kube: Uri, ironic: Uri) -> Self {
        Self {
            kube,
            namespace: None,
            ironic,
            credentials: None,
            deploy_kernel_url: None,
            deploy_ramdisk_url: None,
            deploy_iso_url: None,
            concurrency: defaults::concurrency(),
            max_provisioning_retries: defaults::max_provisioning_retries(),
            provisioning_limit: defaults::provisioning_limit(),
            kube_api_qps: defaults::kube_api_qps(),
            kube_api_burst: defaults::kube_api_burst(),
            ironic_timeout: defaults::ironic_timeout(),
            ironic_cache: defaults::ironic_cache(),
            regressions: Regressions::default(),
        }
    }
}

/// A user name and its password. The password shows in no debug output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Who.
    pub username: String,
    /// How that is proved.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

mod defaults {
    use super::Duration;

    /// Upstream takes the number of processors, at least 2 and at most 8; a simulated operator always has three.
    pub(super) fn concurrency() -> usize {
        3
    }

    pub(super) fn max_provisioning_retries() -> u32 {
        5
    }

    pub(super) fn provisioning_limit() -> usize {
        20
    }

    pub(super) fn kube_api_qps() -> u32 {
        20
    }

    pub(super) fn kube_api_burst() -> u32 {
        30
    }

    pub(super) fn ironic_timeout() -> Duration {
        Duration::from_secs(30)
    }

    pub(super) fn ironic_cache() -> Duration {
        Duration::from_secs(5)
    }
}

/// Serialises what can be written and parsed as text.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::Uri;

    pub(super) fn serialize<S: Serializer>(uri: &Uri, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(uri)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uri, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
