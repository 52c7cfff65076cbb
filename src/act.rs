//! Carries a decision out: its effects in order, up to the first that fails.
//!
//! This is the only place that changes anything outside of the operator. What a refusal by Ironic means is said by
//! [`Request::reaction`]; a write that Kubernetes refuses fails the pass, and the next one starts from what is there.

use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::api::TypeMeta;

use crate::{
    bmh::{
        BareMetalHost, FINALIZER, HARDWARE_DATA_FINALIZER, HardwareData, HardwareDataSpec, SECRET_FINALIZER,
        SECRET_LABEL, SECRET_LABEL_VALUE,
    },
    cluster::{ClusterError, Key},
    decide::{Busy, Decision, Effect, HostEdit, LookAgain},
    ironic::{IronicError, Session},
    observe::{Observation, Outside},
    provisioner::{Reaction, Request},
};

/// Why a decision could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// Kubernetes refused a write, or could not be reached.
    #[error("write to the cluster")]
    Cluster(#[from] ClusterError),
    /// Ironic refused a request, or could not be reached.
    #[error("{request} in Ironic")]
    Ironic {
        /// What was asked.
        request: &'static str,
        /// How it failed.
        source: IronicError,
    },
    /// A request was decided on without Ironic having been found ready.
    #[error("{request} in an Ironic that is not ready")]
    NotReady {
        /// What was to be asked.
        request: &'static str,
    },
}

/// The host after a pass, and when to look again.
#[derive(Debug)]
pub(crate) struct Acted {
    pub(crate) host: BareMetalHost,
    pub(crate) look_again: LookAgain,
}

/// Carries out a decision that was made on what was `seen`.
pub(crate) async fn act(
    outside: &Outside,
    seen: &Observation,
    session: Option<&Session>,
    decision: Decision,
) -> Result<Acted, ActError> {
    let mut host = seen.host.clone();
    for effect in decision.effects {
        match effect {
            Effect::Ironic(request) => {
                if let Ran::Busy = run(session, request).await? {
                    return wait(outside, host, decision.when_busy).await;
                }
            }
            Effect::EditHost(edits) => {
                for edit in edits {
                    apply(&mut host, edit);
                }
                host = outside.cluster.update_host(&host).await?;
            }
            Effect::SaveStatus(status) => {
                host.status = Some(*status);
                host = outside.cluster.update_status(&host).await?;
            }
            Effect::ClaimSecret { finalizer } => {
                if let Some(Some(secret)) = &seen.facts.secret {
                    outside.cluster.update_secret(&claimed(secret, &host, finalizer)).await?;
                }
            }
            Effect::ReleaseSecret => {
                if let Some(Some(secret)) = &seen.facts.secret {
                    let mut secret = secret.clone();
                    without_finalizer(&mut secret.metadata, SECRET_FINALIZER);
                    unless_gone(outside.cluster.update_secret(&secret).await)?;
                }
            }
            Effect::CreateHardwareData(details) => {
                let spec = HardwareDataSpec { hardware: Some(*details) };
                outside.cluster.create_hardware_data(&hardware_data(&host, spec)).await?;
            }
            Effect::ReleaseHardwareData => {
                if let Some(data) = &seen.hardware_data {
                    let mut data = data.clone();
                    without_finalizer(&mut data.metadata, HARDWARE_DATA_FINALIZER);
                    unless_gone(outside.cluster.update_hardware_data(&data).await)?;
                }
            }
            Effect::DeleteHardwareData => {
                unless_gone(outside.cluster.delete_hardware_data(&Key::of(&host)).await)?;
            }
            Effect::Event { reason, message } => {
                if let Err(error) = outside.cluster.record_event(&host, reason, &message).await {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::warn!(%host, reason, error, "record an event");
                }
            }
        }
    }
    Ok(Acted { host, look_again: decision.look_again })
}

/// A busy node is left alone for a while, and counts as one that works.
async fn wait(outside: &Outside, mut host: BareMetalHost, busy: Busy) -> Result<Acted, ActError> {
    tracing::info!(%host, wait = ?busy.wait, "the node is busy");
    if let Some(status) = busy.save {
        host.status = Some(*status);
        host = outside.cluster.update_status(&host).await?;
    }
    Ok(Acted { host, look_again: LookAgain::After(busy.wait) })
}

/// What came of a request.
enum Ran {
    Done,
    Busy,
}

async fn run(session: Option<&Session>, mut request: Request) -> Result<Ran, ActError> {
    let session = session.ok_or(ActError::NotReady { request: request.name() })?;
    loop {
        let Err(source) = session.execute(&request).await else { return Ok(Ran::Done) };
        match request.reaction(source.status().map(|status| status.as_u16())) {
            Reaction::Busy => return Ok(Ran::Busy),
            Reaction::Done => return Ok(Ran::Done),
            Reaction::Instead(other) => request = other,
            Reaction::Fail => return Err(ActError::Ironic { request: request.name(), source }),
        }
    }
}

fn unless_gone<T>(written: Result<T, ClusterError>) -> Result<(), ClusterError> {
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes one change to a host.
pub(crate) fn apply(host: &mut BareMetalHost, edit: HostEdit) {
    match edit {
        HostEdit::AddFinalizer => host.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned()),
        HostEdit::RemoveFinalizer => without_finalizer(&mut host.metadata, FINALIZER),
        HostEdit::RemoveAnnotation(annotation) => {
            if let Some(annotations) = &mut host.metadata.annotations {
                annotations.remove(annotation);
            }
        }
        HostEdit::SetArchitecture(architecture) => host.spec.architecture = architecture,
    }
}

fn without_finalizer(meta: &mut ObjectMeta, finalizer: &str) {
    if let Some(finalizers) = &mut meta.finalizers {
        finalizers.retain(|found| found != finalizer);
    }
}

/// The Secret with the marks of a host that uses it.
pub(crate) fn claimed(secret: &Secret, host: &BareMetalHost, finalizer: bool) -> Secret {
    let mut secret = secret.clone();
    let meta = &mut secret.metadata;
    meta.labels.get_or_insert_default().insert(SECRET_LABEL.to_owned(), SECRET_LABEL_VALUE.to_owned());
    let owner = owner(host, None);
    let owners = meta.owner_references.get_or_insert_default();
    if !owners.iter().any(|known| known.uid == owner.uid) {
        owners.push(owner);
    }
    let finalizers = meta.finalizers.get_or_insert_default();
    if finalizer && !finalizers.iter().any(|found| found == SECRET_FINALIZER) {
        finalizers.push(SECRET_FINALIZER.to_owned());
    }
    secret
}

/// A new HardwareData of a host.
pub(crate) fn hardware_data(host: &BareMetalHost, spec: HardwareDataSpec) -> HardwareData {
    let mut data = HardwareData::new(host.name(), spec);
    data.metadata.namespace = Some(host.namespace().to_owned());
    data.metadata.owner_references = Some(vec![owner(host, Some(true))]);
    data.metadata.finalizers = Some(vec![HARDWARE_DATA_FINALIZER.to_owned()]);
    data
}

fn owner(host: &BareMetalHost, controller: Option<bool>) -> OwnerReference {
    let TypeMeta { api_version, kind } = TypeMeta::resource::<BareMetalHost>();
    OwnerReference {
        api_version,
        kind,
        name: host.name().to_owned(),
        uid: host.metadata.uid.clone().unwrap_or_default(),
        controller,
        block_owner_deletion: controller,
    }
}

#[cfg(test)]
mod tests;
