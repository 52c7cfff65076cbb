//! Adoption: Ironic takes a machine over as it is, after it has lost what it knew of it.
//!
//! Ironic before 20.0 (December 2021) asks for the image while adopting, and so does a newer one for a live ISO. The
//! operator therefore tells Ironic which image is on the machine before it asks for the adoption, as upstream's
//! releases before July 2025 did at registration. Later ones do not, and cannot adopt in either of these cases.

use serde_json::Value;

use super::{
    LookAgain, Undecided, image,
    pass::{Pass, Progress},
};
use crate::{
    bmh::{ErrorType, ProvisioningState},
    provisioner::{Node, Patch, ProvisionState, ProvisionTarget, Request},
};

/// Brings a node to `active` whose machine is in use; `None` once it is there, or where nothing can be done about it.
pub(super) fn adopt(pass: &mut Pass<'_>, node: &Node) -> Progress {
    let look_again = match node.provision_state {
        ProvisionState::Enroll | ProvisionState::Verifying => {
            return Err(Undecided::Fails("adopt a node that is not yet registered".to_owned()));
        }
        // A machine that is to be wiped anyway need not be adopted.
        ProvisionState::Manageable if pass.state() == ProvisioningState::Deprovisioning => return Ok(None),
        ProvisionState::Manageable => send(pass, node),
        ProvisionState::Adopting => pass.soon(),
        ProvisionState::AdoptFailed => {
            if !pass.failed_with(ErrorType::ProvisionedRegistration) {
                let message = format!("Host adoption failed: {}", node.last_error);
                return Ok(Some(pass.fail(ErrorType::ProvisionedRegistration, message)));
            }
            send(pass, node)
        }
        ProvisionState::Active if node.maintenance && node.fault.is_empty() => {
            pass.ironic_request(Request::UnsetMaintenance { node: node.uuid.clone() });
            LookAgain::Now
        }
        ProvisionState::Active
        | ProvisionState::Available
        | ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::InspectFailed
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::DeployFailed
        | ProvisionState::Deleting
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::CleanFailed
        | ProvisionState::Error
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceFailed
        | ProvisionState::Other => {
            if pass.failed_with(ErrorType::ProvisionedRegistration) {
                pass.clear_error();
            }
            return Ok(None);
        }
    };
    Ok(Some(pass.working(look_again)))
}

fn send(pass: &mut Pass<'_>, node: &Node) -> LookAgain {
    let mut patch = Patch::default();
    let uid = pass.seen.host.metadata.uid.clone().map(Value::from);
    patch.want("/instance_uuid", node.instance_uuid.clone().map(Value::from).as_ref(), uid);
    image::want_image(&mut patch, node, pass.current().0);
    pass.patch(node, patch);
    pass.send_to(node, ProvisionTarget::Adopt).look_again()
}
