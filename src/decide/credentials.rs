//! The BMC's credentials: found, claimed for this host, and complete; or an error that says what is missing.

use k8s_openapi::api::core::v1::Secret;

use super::{
    Effect, LookAgain, Undecided, backoff,
    pass::{Credentials, Pass, Progress},
};
use crate::{
    bmh::{
        CredentialsStatus, ErrorType, ProvisioningState, SECRET_FINALIZER, SECRET_LABEL, SECRET_LABEL_VALUE,
        SecretReference,
    },
    observe::Question,
};

/// Reads the credentials into the pass. A host that is being deleted goes on without them.
pub(super) fn read(pass: &mut Pass<'_>) -> Progress {
    match pass.state() {
        ProvisioningState::New | ProvisioningState::Unmanaged => return Ok(None),
        ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting => {}
    }
    let bmc = &pass.spec().bmc;
    if bmc.address.is_empty() {
        return Ok(missing(pass, "Missing BMC connection detail 'Address'", LookAgain::Never));
    }
    if bmc.credentials_name.is_empty() {
        return Ok(missing(pass, "Missing BMC connection detail 'CredentialsName'", LookAgain::Never));
    }
    let secret = pass
        .seen
        .facts
        .secret
        .as_ref()
        .ok_or_else(|| Undecided::Needs(Question::Secret(bmc.credentials_name.clone())))?;
    let Some(secret) = secret else {
        let message =
            format!("The BMC secret {}/{} does not exist", pass.seen.host.namespace(), bmc.credentials_name);
        return Ok(missing(pass, &message, LookAgain::After(backoff::SECRET_MISSING)));
    };
    let finalizer = pass.state() != ProvisioningState::Deleting;
    if finalizer && !is_claimed(pass, secret) {
        pass.effect(Effect::ClaimSecret { finalizer });
        return Ok(Some(LookAgain::Continue));
    }
    let (username, password) = (text(secret, "username"), text(secret, "password"));
    for (value, key) in [(&username, "username"), (&password, "password")] {
        if value.is_empty() {
            let message = format!("Missing BMC connection detail '{key}' in credentials");
            return Ok(missing(pass, &message, LookAgain::Never));
        }
    }
    let version = CredentialsStatus {
        credentials: Some(SecretReference {
            name: bmc.credentials_name.clone(),
            namespace: pass.seen.host.namespace().to_owned(),
        }),
        credentials_version: secret.metadata.resource_version.clone().unwrap_or_default(),
    };
    pass.credentials = Some(Credentials { username, password, version });
    Ok(None)
}

/// The credentials cannot be used. Each look counts as one more error, as it does upstream.
fn missing(pass: &mut Pass<'_>, message: &str, look_again: LookAgain) -> Option<LookAgain> {
    if pass.is_being_deleted() {
        return None;
    }
    pass.set_error(ErrorType::Registration, message);
    pass.event("BMCCredentialError", message);
    Some(look_again)
}

/// Whether the Secret has the label, owner and finalizer that claiming it gives.
fn is_claimed(pass: &Pass<'_>, secret: &Secret) -> bool {
    let meta = &secret.metadata;
    let labelled = meta.labels.as_ref().and_then(|labels| labels.get(SECRET_LABEL)).map(String::as_str);
    let owned = meta
        .owner_references
        .iter()
        .flatten()
        .any(|owner| Some(&owner.uid) == pass.seen.host.metadata.uid.as_ref());
    labelled == Some(SECRET_LABEL_VALUE)
        && owned
        && meta.finalizers.iter().flatten().any(|finalizer| finalizer == SECRET_FINALIZER)
}

/// A value of a Secret without the white space around it; empty if it is missing or not text.
fn text(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.and_then(|bytes| std::str::from_utf8(&bytes.0).ok()).map(str::trim).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, delete, secret};
    use crate::bmh::ProvisioningState as State;

    #[test]
    fn what_is_missing_is_said_and_waited_for() {
        check(
            State::Registering,
            &[
                ("not looked up", |s| s.facts.secret = None, "? secret"),
                ("no secret", |s| s.facts.secret = Some(None), "save Error 1, BMCCredentialError, 10s"),
                ("not yet claimed", |s| s.facts.secret = Some(Some(secret("1"))), "claim secret, continue"),
                (
                    "no password",
                    |s| {
                        s.facts.secret.iter_mut().flatten().for_each(|secret| {
                            secret.data.iter_mut().for_each(|data| drop(data.remove("password")));
                        });
                    },
                    "save Error 1, BMCCredentialError, never",
                ),
                (
                    "no name",
                    |s| s.host.spec.bmc.credentials_name.clear(),
                    "save Error 1, BMCCredentialError, never",
                ),
                (
                    "no address",
                    |s| s.host.spec.bmc.address.clear(),
                    "save Error 1, BMCCredentialError, never",
                ),
            ],
        );
        // A host that leaves does not wait for credentials.
        check(
            State::Deleting,
            &[(
                "no secret",
                |s| {
                    delete(s);
                    s.facts.secret = Some(None);
                },
                "delete node, now",
            )],
        );
    }
}
