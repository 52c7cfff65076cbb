//! A scenario's file as it is written. Field documentation becomes the JSON Schema's, which editors show.
//!
//! No `flatten`, no untagged enums: serde's messages for them point nowhere.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::{
    plan::{BmcKind, Checksum, Initial},
    step::Pod,
};

/// A scenario: the world, what happens in it, and what must be seen.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "bmsim scenario")]
pub(super) struct Scenario {
    /// Why this story is told: one or two sentences.
    #[schemars(with = "String")]
    pub(super) about: Spanned<String>,
    /// The calendar date at which the world's clock starts, e.g. `2020-11-03T14:00:00Z`.
    #[schemars(with = "Option<String>")]
    pub(super) start: Option<Spanned<String>>,
    /// How long the timeline runs in simulated time, e.g. `2h`.
    #[schemars(with = "String")]
    pub(super) duration: Spanned<String>,
    /// The seed that is used if the command line names none; 1 by default.
    pub(super) seed: Option<u64>,
    /// Where the story comes from.
    pub(super) provenance: Option<Provenance>,
    /// The regressions (see `bmsim regressions`) that must turn this scenario red.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub(super) kills: Vec<Spanned<String>>,
    /// The namespace of the hosts; `metal3` by default.
    #[schemars(with = "Option<String>")]
    pub(super) namespace: Option<Spanned<String>>,
    /// Ironic's settings, by the sections and names of `ironic.conf`; `release` holds what its version decides.
    #[schemars(with = "serde_json::Value")]
    pub(super) ironic: Option<Spanned<fake_ironic::settings::Settings>>,
    /// The network when nothing is wrong with it.
    pub(super) network: Option<Network>,
    /// HTTP servers that hold images and their checksum files.
    #[serde(default)]
    #[schemars(with = "Vec<ImageCache>")]
    pub(super) image_cache: Vec<Spanned<ImageCache>>,
    /// Machines, each with its BMC, its BareMetalHost and its Secret.
    #[serde(default)]
    #[schemars(with = "Vec<Host>")]
    pub(super) host: Vec<Spanned<Host>>,
    /// What happens.
    #[serde(default)]
    #[schemars(with = "Vec<Step>")]
    pub(super) step: Vec<Spanned<Step>>,
    /// What must be seen.
    #[serde(default)]
    #[schemars(with = "Vec<Expect>")]
    pub(super) expect: Vec<Spanned<Expect>>,
}

/// Where a story comes from.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Provenance {
    /// Bug reports, e.g. `metal3-io/baremetal-operator#708`.
    pub(super) reports: Vec<String>,
    /// The change that mended it.
    pub(super) fixed_in: Option<String>,
    /// What should be known to read the scenario.
    pub(super) note: Option<String>,
}

/// The network between any two hosts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    /// The least time a packet takes; `1ms` by default.
    #[schemars(with = "Option<String>")]
    pub(super) latency: Option<Spanned<String>>,
    /// How much longer it may take; `1ms` by default.
    #[schemars(with = "Option<String>")]
    pub(super) jitter: Option<Spanned<String>>,
    /// The share of packets that get lost, at least 0 and less than 1; 0 by default.
    #[schemars(with = "Option<f64>")]
    pub(super) loss: Option<Spanned<f64>>,
}

/// An HTTP server that holds images and their checksum files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageCache {
    /// Its name on the network.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// What it holds.
    #[schemars(with = "Vec<Image>")]
    pub(super) images: Vec<Spanned<Image>>,
}

/// An image file, with a checksum file beside it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    /// The file's name.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// Its size, e.g. `64KiB`, which is also the default. It needs not be an image's real size.
    #[schemars(with = "Option<String>")]
    pub(super) size: Option<Spanned<String>>,
    /// Which checksum lies beside it; `sha256` by default.
    pub(super) checksum: Option<Checksum>,
}

/// A machine, its BMC, its BareMetalHost and its Secret.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    /// The BareMetalHost's name. The machine's BMC is `NAME-bmc` on the network.
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// What the BMC speaks; `redfish-virtualmedia` by default.
    pub(super) bmc: Option<BmcKind>,
    /// The boot NIC's MAC address; one is made up by default.
    #[schemars(with = "Option<String>")]
    pub(super) mac: Option<Spanned<String>>,
    /// The BMC's user; `admin` by default.
    #[schemars(with = "Option<String>")]
    pub(super) username: Option<Spanned<String>>,
    /// The BMC's password; one is made up by default.
    #[schemars(with = "Option<String>")]
    pub(super) password: Option<Spanned<String>>,
    /// `spec.online`; true by default.
    #[schemars(with = "Option<bool>")]
    pub(super) online: Option<Spanned<bool>>,
    /// The name in `spec.consumerRef`; none by default.
    pub(super) consumer: Option<String>,
    /// The image in `spec.image`: `IMAGE` or `CACHE/IMAGE`; none by default.
    #[schemars(with = "Option<String>")]
    pub(super) image: Option<Spanned<String>>,
    /// How far the host has come when the timeline begins; `new` by default.
    #[schemars(with = "Option<Initial>")]
    pub(super) state: Option<Spanned<Initial>>,
}

/// One thing that happens: a moment (`at`, or `when` with `after`) and exactly one action.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// At this moment of the timeline, e.g. `90s`, or at one drawn between two, e.g. `10s..20s`.
    #[schemars(with = "Option<String>")]
    pub(super) at: Option<Spanned<String>>,
    /// As soon as this holds.
    #[schemars(with = "Option<Condition>")]
    pub(super) when: Option<Spanned<Condition>>,
    /// How long after `when`; at once by default.
    #[schemars(with = "Option<String>")]
    pub(super) after: Option<Spanned<String>>,
    /// Something breaks.
    #[schemars(with = "Option<Fault>")]
    pub(super) fault: Option<Spanned<Fault>>,
    /// A pod dies as by a power cut and comes back.
    pub(super) restart: Option<Restart>,
    /// A user creates the BareMetalHosts of hosts whose state is `absent`.
    pub(super) create: Option<Which>,
    /// A user deletes BareMetalHosts.
    pub(super) delete: Option<Which>,
    /// A user edits the spec of BareMetalHosts.
    #[schemars(with = "Option<Edit>")]
    pub(super) edit: Option<Spanned<Edit>>,
    /// A user sets or removes an annotation.
    #[schemars(with = "Option<Annotate>")]
    pub(super) annotate: Option<Spanned<Annotate>>,
    /// A user edits the BMC's Secret.
    #[schemars(with = "Option<Secret>")]
    pub(super) secret: Option<Spanned<Secret>>,
    /// Somebody changes the password in the BMC itself.
    pub(super) bmc: Option<BmcPassword>,
    /// Somebody moves files of image caches away, or back.
    #[schemars(with = "Option<Files>")]
    pub(super) image_cache: Option<Spanned<Files>>,
}

/// BareMetalHosts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Names, with commas between them; `*` stands for any letters.
    #[schemars(with = "String")]
    pub(super) host: Spanned<String>,
}

/// Something breaks, seen from its clients: exactly one of `kind` (the network), `bmc`, `ironic`, `kube`, `image_cache`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// A fault of the network, by what clients see of it.
    #[schemars(with = "Option<FaultKind>")]
    pub(super) kind: Option<Spanned<FaultKind>>,
    /// A fault of BMCs, e.g. `{ kind = "status", code = 503 }`.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub(super) bmc: Option<Spanned<toml::Value>>,
    /// A fault of Ironic, e.g. `{ kind = "stall", on = { path = "/v1/nodes*" } }`.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub(super) ironic: Option<Spanned<toml::Value>>,
    /// A fault of the Kubernetes API, e.g. `{ kind = "conflict" }`.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub(super) kube: Option<Spanned<toml::Value>>,
    /// A fault of image caches, e.g. `{ kind = "status", code = 404 }`.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub(super) image_cache: Option<Spanned<toml::Value>>,
    /// Who is hard to reach, or whose fault it is: names on the network (`node-0-bmc`, `ironic`, `kube`, `operator`, an
    /// image cache), with commas between them; `*` stands for any letters. Not needed for `ironic` and `kube`.
    #[schemars(with = "Option<String>")]
    pub(super) target: Option<Spanned<String>>,
    /// For `kind`: who finds the target hard to reach; everybody by default.
    #[schemars(with = "Option<String>")]
    pub(super) from: Option<Spanned<String>>,
    /// How long, e.g. `10s` or `5s..20s`; to the end by default.
    #[serde(rename = "for")]
    #[schemars(with = "Option<String>")]
    pub(super) lasts: Option<Spanned<String>>,
    /// For `loss`: the share of packets that get lost, more than 0 and at most 1.
    #[schemars(with = "Option<f64>")]
    pub(super) share: Option<Spanned<f64>>,
    /// For `slow`: how much longer each packet takes.
    #[schemars(with = "Option<String>")]
    pub(super) latency: Option<Spanned<String>>,
}

/// What clients see of a network that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultKind {
    /// No answer at all.
    Unreachable,
    /// What is sent to the target is lost; what it sends arrives.
    RequestsLost,
    /// The target hears and acts, but its answers are lost.
    RepliesLost,
    /// The target's ports are closed.
    Refused,
    /// Connections to the target open and are reset at the first byte.
    Reset,
    /// A share of the packets is lost.
    Loss,
    /// Packets take longer.
    Slow,
    /// Packets are held back and all arrive when the fault ends.
    Hold,
}

/// A pod dies as by a power cut and comes back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Restart {
    /// Which: `metal3` is operator and Ironic in one pod.
    pub(super) pod: Pod,
    /// How long it is away; `30s` by default.
    #[schemars(with = "Option<String>")]
    pub(super) down_for: Option<Spanned<String>>,
    /// Whether Ironic's database is gone with the pod; false by default.
    #[schemars(with = "Option<bool>")]
    pub(super) lose_database: Option<Spanned<bool>>,
}

/// Changes to the spec of BareMetalHosts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// Names, with commas between them; `*` stands for any letters.
    #[schemars(with = "String")]
    pub(super) host: Spanned<String>,
    /// The new `spec.online`.
    pub(super) online: Option<bool>,
    /// The new image, `IMAGE` or `CACHE/IMAGE`; empty removes it.
    #[schemars(with = "Option<String>")]
    pub(super) image: Option<Spanned<String>>,
    /// The new `spec.externallyProvisioned`.
    pub(super) externally_provisioned: Option<bool>,
}

/// An annotation of BareMetalHosts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Annotate {
    /// Names, with commas between them; `*` stands for any letters.
    #[schemars(with = "String")]
    pub(super) host: Spanned<String>,
    /// The annotation, e.g. `reboot.metal3.io`.
    #[schemars(with = "String")]
    pub(super) key: Spanned<String>,
    /// Its value; empty by default.
    pub(super) value: Option<String>,
    /// Whether it is removed instead.
    pub(super) remove: Option<bool>,
}

/// New contents of a BMC's Secret.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Secret {
    /// Names of BareMetalHosts, with commas between them; `*` stands for any letters.
    #[schemars(with = "String")]
    pub(super) host: Spanned<String>,
    /// The new user.
    pub(super) username: Option<String>,
    /// The new password.
    pub(super) password: Option<String>,
}

/// A new password in the BMC itself.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BmcPassword {
    /// Names of BareMetalHosts, with commas between them; `*` stands for any letters.
    #[schemars(with = "String")]
    pub(super) host: Spanned<String>,
    /// The new password.
    pub(super) password: String,
}

/// Files of image caches are moved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    /// Names of image caches, with commas between them; `*` stands for any letters. All by default.
    #[schemars(with = "Option<String>")]
    pub(super) name: Option<Spanned<String>>,
    /// The images and their checksum files that are moved away; `*` stands for any letters.
    #[schemars(with = "Option<String>")]
    pub(super) move_away: Option<Spanned<String>>,
    /// The images and their checksum files that are put back; `*` stands for any letters.
    #[schemars(with = "Option<String>")]
    pub(super) restore: Option<Spanned<String>>,
}

/// What can be true of hosts at a moment; what is left out is not asked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// Names, with commas between them; `*` stands for any letters. It must hold for all of them (in `never`: for
    /// none).
    #[schemars(with = "String")]
    pub(super) host: Spanned<String>,
    /// `status.provisioning.state`, or `gone` for a deleted host.
    #[schemars(with = "Option<String>")]
    pub(super) state: Option<Spanned<String>>,
    /// `status.operationalStatus`.
    #[schemars(with = "Option<String>")]
    pub(super) status: Option<Spanned<String>>,
    /// `status.errorType`, or `none`, or `any`.
    #[schemars(with = "Option<String>")]
    pub(super) error: Option<Spanned<String>>,
    /// `status.errorMessage`; `*` stands for any text.
    pub(super) message: Option<String>,
    /// `status.errorCount`.
    pub(super) error_count: Option<u64>,
    /// `spec.online`.
    pub(super) online: Option<bool>,
    /// `status.poweredOn`.
    pub(super) powered_on: Option<bool>,
    /// Whether the machine itself has power.
    pub(super) power: Option<Power>,
    /// Ironic's provision state of the node, e.g. `verifying`.
    #[schemars(with = "Option<String>")]
    pub(super) node: Option<Spanned<String>>,
}

/// A machine's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Power {
    /// It has power.
    On,
    /// It has none.
    Off,
}

/// What must be seen: exactly one of `history`, `never`, `always`, `eventually`, `stable`, `count`, `table`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// Hosts go through exactly these states.
    pub(super) history: Option<History>,
    /// This holds for none of its hosts at any moment.
    #[schemars(with = "Option<Condition>")]
    pub(super) never: Option<Spanned<Condition>>,
    /// This holds for all its hosts at every moment.
    #[schemars(with = "Option<Condition>")]
    pub(super) always: Option<Spanned<Condition>>,
    /// This holds for all its hosts at some moment.
    #[schemars(with = "Option<Condition>")]
    pub(super) eventually: Option<Spanned<Condition>>,
    /// This holds for all its hosts to the end of the run, for at least `for`.
    #[schemars(with = "Option<Condition>")]
    pub(super) stable: Option<Spanned<Condition>>,
    /// So many facts are noted: `TOPIC[@HOST] SUBJECT [key=value …]`, each but the topic with `*` for any text.
    /// Topics are `request`, `node`, `power`, `disk`, `kube` and others (see `bmsim run --trace`).
    #[schemars(with = "Option<String>")]
    pub(super) count: Option<Spanned<String>>,
    /// The hosts as `kubectl get bmh` lists them. Of its columns those are compared that the header names.
    #[schemars(with = "Option<String>")]
    pub(super) table: Option<Spanned<String>>,
    /// Only in runs with this regression: what the bug looked like in the field.
    #[schemars(with = "Option<String>")]
    pub(super) with: Option<Spanned<String>>,
    /// For `never`, `always`, `eventually` and `count`: from this moment on; the beginning by default.
    #[schemars(with = "Option<String>")]
    pub(super) from: Option<Spanned<String>>,
    /// For `never`, `always` and `count`: to this moment; the end by default.
    #[schemars(with = "Option<String>")]
    pub(super) until: Option<Spanned<String>>,
    /// For `eventually`: by when, counted from `from`; the end by default.
    #[schemars(with = "Option<String>")]
    pub(super) within: Option<Spanned<String>>,
    /// For `stable`: how long.
    #[serde(rename = "for")]
    #[schemars(with = "Option<String>")]
    pub(super) lasts: Option<Spanned<String>>,
    /// For `table`: when; the end by default.
    #[schemars(with = "Option<String>")]
    pub(super) at: Option<Spanned<String>>,
    /// For `count`: exactly so many.
    pub(super) equals: Option<u64>,
    /// For `count`: not more.
    pub(super) at_most: Option<u64>,
    /// For `count`: not fewer.
    pub(super) at_least: Option<u64>,
}

/// Hosts go through exactly these states, from the beginning of the timeline to its end.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    /// Names, with commas between them; `*` stands for any letters. Each must have this history.
    #[schemars(with = "String")]
    pub(super) host: Spanned<String>,
    /// Each as `STATE`, `STATE ! ERROR TYPE` or `STATE (OPERATIONAL STATUS)`; `gone` for a deleted host. A host without a
    /// state yet is left out. `...` stands for the two before it, again and again.
    #[schemars(with = "Vec<String>")]
    pub(super) states: Vec<Spanned<String>>,
}
