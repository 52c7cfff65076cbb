//! Registration: makes sure, in every pass, that Ironic knows the host and can use its BMC.
//!
//! That it happens every time is what makes the loss of Ironic's database harmless: a node that is gone is created
//! again by whichever pass comes next.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    LookAgain, Undecided, image,
    pass::{Pass, Progress},
    profile,
};
use crate::{
    bmh::{AutomatedCleaning, BootMode, ErrorType, InspectionMode, ProvisioningState},
    ironic::Microversion,
    names::BmcAddress,
    observe::{FoundBy, IronicFound, NodeFound, Question},
    provisioner::{DriverInfo, NewNode, Node, Patch, ProvisionState, ProvisionTarget, Request},
    regression::Regression,
};

/// `None` when the host is registered and nothing has changed by it.
pub(super) fn register(pass: &mut Pass<'_>) -> Progress {
    let Some(credentials) = &pass.credentials else { return Ok(None) };
    let wanted = credentials.version.clone();
    match pass.state() {
        ProvisioningState::New
        | ProvisioningState::Unmanaged
        | ProvisioningState::MatchProfile
        | ProvisioningState::Deleting => return Ok(None),
        ProvisioningState::Registering => {}
        ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete => {
            if pass.failed_with(ErrorType::Registration) || pass.status.good_credentials != wanted {
                pass.reopen_registration();
            }
        }
    }
    let changed = pass.status.tried_credentials != wanted;
    if pass.has(Regression::Metal3708) && pass.failed_with(ErrorType::Registration) && !changed {
        // As it was: the same credentials will not do better, so nothing is tried, and nothing asks to look again.
        return Ok(Some(LookAgain::Never));
    }
    pass.status.tried_credentials = wanted.clone();
    let address = match check(pass)? {
        Ok(address) => address,
        Err(message) => return Ok(Some(pass.fail(ErrorType::Registration, message))),
    };
    let node = match pass.find()? {
        NodeFound::Absent => return create(pass, &address).map(Some),
        NodeFound::Found { node, by: FoundBy::Mac } if node.name.is_some() => {
            let name = node.name.as_deref().unwrap_or_default();
            let mac = &pass.spec().boot_mac_address;
            let message = format!("MAC address {mac} conflicts with existing node {name}");
            return Ok(Some(pass.fail(ErrorType::Registration, message)));
        }
        NodeFound::Found { node, by: FoundBy::Id | FoundBy::Name | FoundBy::Mac } => node,
    };
    if needs_mac(pass, &address) {
        return Ok(Some(pass.fail(ErrorType::Registration, NO_MAC)));
    }
    if pass.status.provisioning.id != node.uuid {
        pass.status.provisioning.id = node.uuid.clone();
    }
    add_ports(pass, node)?;
    if let Some(look_again) = bring_up(pass, node, &address, changed)? {
        return Ok(Some(look_again));
    }
    complete(pass, wanted)
}

const NO_MAC: &str =
    "the host's boot MAC address is not known, and its BMC does not tell it: set bootMACAddress";

/// What can be seen to be wrong without asking anyone.
fn check(pass: &Pass<'_>) -> Result<Result<BmcAddress, String>, Undecided> {
    let address: BmcAddress = match pass.spec().bmc.address.parse() {
        Ok(address) => address,
        Err(error) => return Ok(Err(format!("failed to {error}"))),
    };
    let fast = pass.spec().inspection_mode == Some(InspectionMode::Fast);
    let objection = if fast && address.fast_inspection().is_none() {
        Some(format!("a BMC of kind {} cannot inspect its machine by itself", address.kind))
    } else if pass.spec().boot_mode == Some(BootMode::UefiSecureBoot) && !address.kind.is_redfish() {
        Some(format!("a BMC of kind {} cannot turn on secure boot", address.kind))
    } else if pass.spec().disable_power_off && !knows_disable_power_off(pass)? {
        Some("this version of Ironic cannot disable power-off".to_owned())
    } else {
        None
    };
    Ok(objection.map_or(Ok(address), Err))
}

fn knows_disable_power_off(pass: &Pass<'_>) -> Result<bool, Undecided> {
    Ok(matches!(pass.ironic()?, IronicFound::Ready(version) if version >= Microversion::DISABLE_POWER_OFF))
}

fn needs_mac(pass: &Pass<'_>, address: &BmcAddress) -> bool {
    pass.spec().boot_mac_address.is_empty() && address.kind == crate::names::BmcKind::Libvirt
}

/// Creates the node. The next pass finds it by its name.
fn create(pass: &mut Pass<'_>, address: &BmcAddress) -> Result<LookAgain, Undecided> {
    if needs_mac(pass, address) {
        return Ok(pass.fail(ErrorType::Registration, NO_MAC));
    }
    let mut properties = Map::new();
    properties.insert("capabilities".to_owned(), image::capabilities("", pass).into());
    properties.insert("cpu_arch".to_owned(), pass.seen.host.architecture().into());
    let (current, custom) = pass.current();
    let mut node = NewNode {
        name: pass.node_name(),
        driver_info: driver_info(pass, address),
        properties,
        inspect_interface: inspect_interface(pass, address),
        deploy_interface: image::deploy_interface(current, custom),
        disable_power_off: knows_disable_power_off(pass)?.then_some(pass.spec().disable_power_off),
        ..NewNode::default()
    };
    address.describe(&mut node);
    pass.sends_credentials();
    pass.ironic_request(Request::CreateNode(Box::new(node)));
    pass.event("Registered", "Registered new host");
    Ok(pass.working(LookAgain::Continue))
}

fn driver_info(pass: &Pass<'_>, address: &BmcAddress) -> DriverInfo {
    let verify = !pass.spec().bmc.disable_certificate_verification;
    match &pass.credentials {
        Some(credentials) => address.driver_info(&credentials.username, &credentials.password, verify),
        None => DriverInfo::default(),
    }
}

/// The interface that a host is to be inspected by.
pub(super) fn inspect_interface(pass: &Pass<'_>, address: &BmcAddress) -> &'static str {
    match (pass.spec().inspection_mode, address.fast_inspection()) {
        (Some(InspectionMode::Fast), Some(interface)) => interface,
        (_, _) => "agent",
    }
}

/// Gives the node the ports that it lacks: what boots on a MAC address that Ironic does not know is not recognised.
fn add_ports(pass: &mut Pass<'_>, node: &Node) -> Result<(), Undecided> {
    if !node.provision_state.is_stable() {
        return Ok(());
    }
    let ports = pass
        .seen
        .facts
        .ports
        .as_ref()
        .ok_or_else(|| Undecided::Needs(Question::Ports { node: node.uuid.clone() }))?;
    let mut known: BTreeSet<String> = ports.iter().map(|port| port.address.to_lowercase()).collect();
    let boot = std::iter::once((pass.spec().boot_mac_address.as_str(), true));
    let hardware = pass.seen.hardware_data.as_ref().and_then(|data| data.spec.hardware.as_ref());
    let inspected = hardware.iter().flat_map(|details| &details.nics).map(|nic| (nic.mac.as_str(), nic.pxe));
    let missing: Vec<(&str, bool)> = boot
        .chain(inspected)
        .filter(|(mac, _)| !mac.is_empty() && known.insert(mac.to_lowercase()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let owners = pass.seen.facts.port_owners.as_ref().ok_or_else(|| {
        Undecided::Needs(Question::PortOwners(missing.iter().map(|(mac, _)| (*mac).to_owned()).collect()))
    })?;
    for (mac, pxe_enabled) in missing {
        match owners.get(mac).and_then(Option::as_ref) {
            None => {
                let (node, address) = (node.uuid.clone(), mac.to_owned());
                pass.ironic_request(Request::CreatePort { node, address, pxe_enabled });
            }
            Some(owner) if *owner == node.uuid => {}
            Some(owner) => {
                return Err(Undecided::Fails(format!(
                    "create a port for {mac}: node {owner} has that address"
                )));
            }
        }
    }
    Ok(())
}

/// Brings the node up to date and to a state where its BMC is known to work; `None` once it is there.
fn bring_up(pass: &mut Pass<'_>, node: &Node, address: &BmcAddress, changed: bool) -> Progress {
    let mut patch = Patch::default();
    let name = pass.node_name();
    patch.want("/name", node.name.clone().map(Value::from).as_ref(), Some(name.into()));
    let info = driver_info(pass, address);
    let key = address.address_key();
    let current_info = if changed || node.driver_info.get(key) != info.0.get(key) {
        // Passwords come back masked, so what Ironic holds cannot be compared; it is replaced as a whole.
        pass.sends_credentials();
        patch.want("/driver_info", None, Some(Value::Object(info.0.clone())));
        info.0
    } else {
        node.driver_info.clone()
    };
    if knows_disable_power_off(pass)? {
        let wanted = pass.spec().disable_power_off;
        patch.want("/disable_power_off", Some(&node.disable_power_off.into()), Some(wanted.into()));
    }
    patch.want_in("properties", &node.properties, "cpu_arch", Some(pass.seen.host.architecture().into()));
    match node.provision_state {
        ProvisionState::Enroll => {
            pass.patch(node, patch);
            let retry = pass.failed_with(ErrorType::Registration) && !pass.has(Regression::Metal3739);
            if !node.last_error.is_empty() && !changed && !retry {
                return Ok(Some(pass.fail(ErrorType::Registration, node.last_error.clone())));
            }
            let look_again = match node.target_provision_state.as_deref() {
                Some("manageable") => pass.soon(),
                Some(_) | None => pass.send_to(node, ProvisionTarget::Manage).look_again(),
            };
            Ok(Some(pass.working(look_again)))
        }
        ProvisionState::Verifying => {
            pass.patch(node, patch);
            let look_again = pass.soon();
            Ok(Some(pass.working(look_again)))
        }
        // The node is locked by what it is doing.
        ProvisionState::CleanWait
        | ProvisionState::Cleaning
        | ProvisionState::DeployWait
        | ProvisionState::Deploying
        | ProvisionState::Inspecting => {
            pass.patch(node, patch);
            Ok(None)
        }
        ProvisionState::Manageable
        | ProvisionState::Available
        | ProvisionState::InspectWait
        | ProvisionState::InspectFailed
        | ProvisionState::Adopting
        | ProvisionState::AdoptFailed
        | ProvisionState::DeployFailed
        | ProvisionState::Active
        | ProvisionState::Deleting
        | ProvisionState::CleanFailed
        | ProvisionState::Error
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceFailed
        | ProvisionState::Other => {
            configure(pass, node, address, &current_info, &mut patch);
            pass.patch(node, patch);
            Ok(None)
        }
    }
}

/// What the agent's boot and the cleaning need.
fn configure(
    pass: &Pass<'_>,
    node: &Node,
    address: &BmcAddress,
    info: &Map<String, Value>,
    patch: &mut Patch,
) {
    let options = &pass.seen.options;
    let iso = options.deploy_iso_url.clone().filter(|_| address.kind.boots_iso());
    let unless_iso = |url: &Option<String>| url.clone().filter(|_| iso.is_none());
    for (key, url) in [
        ("deploy_kernel", unless_iso(&options.deploy_kernel_url)),
        ("deploy_ramdisk", unless_iso(&options.deploy_ramdisk_url)),
        ("deploy_iso", iso.clone()),
    ] {
        let wanted = url.map(Value::from);
        let replaced = patch.0.iter_mut().find(|op| op.path == "/driver_info");
        match (replaced, wanted) {
            (Some(op), Some(wanted)) => op.put(key, wanted),
            (Some(_), None) => {}
            (None, wanted) => patch.want_in("driver_info", info, key, wanted),
        }
    }
    patch.want(
        "/automated_clean",
        node.automated_clean.map(Value::from).as_ref(),
        Some(automated_clean(pass).into()),
    );
    let current = node.properties.get("capabilities").and_then(Value::as_str).unwrap_or_default();
    let wanted = image::capabilities(current, pass);
    patch.want_in("properties", &node.properties, "capabilities", Some(wanted.into()));
}

/// Whether disks are to be wiped between uses.
pub(super) fn automated_clean(pass: &Pass<'_>) -> bool {
    pass.spec().automated_cleaning_mode != Some(AutomatedCleaning::Disabled)
}

/// The BMC works: settles what depends on that. `None` if all of it was settled before.
fn complete(pass: &mut Pass<'_>, wanted: crate::bmh::CredentialsStatus) -> Progress {
    profile::settle(pass)?;
    let fresh = pass.status.good_credentials != wanted;
    if fresh {
        pass.status.good_credentials = wanted;
        pass.event("BMCAccessValidated", "Verified access to BMC");
    }
    if fresh || pass.failed_with(ErrorType::Registration) {
        pass.clear_error();
    }
    if pass.state() != ProvisioningState::Registering {
        pass.close_registration();
    }
    Ok(pass.is_dirty().then_some(LookAgain::Now))
}

#[cfg(test)]
mod tests;
