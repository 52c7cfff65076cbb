//! Which resource a path names, and what can be done with it.

use http::Method;

use crate::machine::Slot;

/// Whose virtual media a path goes through: the same drives are found under both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    System,
    Manager,
}

/// A resource of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Versions,
    Root,
    OData,
    Metadata,
    SessionService,
    Sessions,
    Session(String),
    Systems,
    System,
    SystemReset,
    EthernetInterfaces,
    EthernetInterface(String),
    Processors,
    Processor(String),
    SimpleStorages,
    SimpleStorage,
    Storages,
    Storage,
    Drive(String),
    SecureBoot,
    Media(Owner),
    Medium(Owner, Slot),
    InsertMedia(Owner, Slot),
    EjectMedia(Owner, Slot),
    Managers,
    Manager,
    AllChassis,
    Chassis,
}

/// The one storage controller's id.
pub(crate) const CONTROLLER: &str = "1";

/// Finds the resource at a path. There is one system, manager and chassis, all called `id`.
pub(crate) fn find(path: &str, id: &str) -> Option<Resource> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let ["redfish", rest @ ..] = segments.as_slice() else { return None };
    Some(match rest {
        [] => Resource::Versions,
        ["v1"] => Resource::Root,
        ["v1", "odata"] => Resource::OData,
        ["v1", "$metadata"] => Resource::Metadata,
        ["v1", "SessionService"] => Resource::SessionService,
        ["v1", "SessionService", "Sessions"] => Resource::Sessions,
        ["v1", "SessionService", "Sessions", session] => Resource::Session((*session).to_owned()),
        ["v1", "Systems"] => Resource::Systems,
        ["v1", "Systems", name, below @ ..] if *name == id => below_system(below)?,
        ["v1", "Managers"] => Resource::Managers,
        ["v1", "Managers", name, below @ ..] if *name == id => match below {
            [] => Resource::Manager,
            ["VirtualMedia", below @ ..] => below_media(Owner::Manager, below)?,
            _ => return None,
        },
        ["v1", "Chassis"] => Resource::AllChassis,
        ["v1", "Chassis", name] if *name == id => Resource::Chassis,
        _ => return None,
    })
}

fn below_system(segments: &[&str]) -> Option<Resource> {
    Some(match segments {
        [] => Resource::System,
        ["Actions", "ComputerSystem.Reset"] => Resource::SystemReset,
        ["EthernetInterfaces"] => Resource::EthernetInterfaces,
        ["EthernetInterfaces", name] => Resource::EthernetInterface((*name).to_owned()),
        ["Processors"] => Resource::Processors,
        ["Processors", name] => Resource::Processor((*name).to_owned()),
        ["SimpleStorage"] => Resource::SimpleStorages,
        ["SimpleStorage", CONTROLLER] => Resource::SimpleStorage,
        ["Storage"] => Resource::Storages,
        ["Storage", CONTROLLER] => Resource::Storage,
        ["Storage", CONTROLLER, "Drives", name] => Resource::Drive((*name).to_owned()),
        ["SecureBoot"] => Resource::SecureBoot,
        ["VirtualMedia", below @ ..] => below_media(Owner::System, below)?,
        _ => return None,
    })
}

fn below_media(owner: Owner, segments: &[&str]) -> Option<Resource> {
    let slot = |name: &str| Slot::ALL.into_iter().find(|slot| slot.name() == name);
    Some(match segments {
        [] => Resource::Media(owner),
        [name] => Resource::Medium(owner, slot(name)?),
        [name, "Actions", "VirtualMedia.InsertMedia"] => Resource::InsertMedia(owner, slot(name)?),
        [name, "Actions", "VirtualMedia.EjectMedia"] => Resource::EjectMedia(owner, slot(name)?),
        _ => return None,
    })
}

impl Resource {
    /// What can be done with it.
    pub(crate) fn methods(&self) -> &'static [Method] {
        const READ: &[Method] = &[Method::GET, Method::HEAD];
        const CHANGE: &[Method] = &[Method::GET, Method::HEAD, Method::PATCH];
        const CREATE: &[Method] = &[Method::GET, Method::HEAD, Method::POST];
        const DELETE: &[Method] = &[Method::GET, Method::HEAD, Method::DELETE];
        const ACT: &[Method] = &[Method::POST];
        match self {
            Self::Sessions => CREATE,
            Self::Session(_) => DELETE,
            Self::System | Self::SecureBoot => CHANGE,
            Self::SystemReset | Self::InsertMedia(..) | Self::EjectMedia(..) => ACT,
            Self::Versions
            | Self::Root
            | Self::OData
            | Self::Metadata
            | Self::SessionService
            | Self::Systems
            | Self::EthernetInterfaces
            | Self::EthernetInterface(_)
            | Self::Processors
            | Self::Processor(_)
            | Self::SimpleStorages
            | Self::SimpleStorage
            | Self::Storages
            | Self::Storage
            | Self::Drive(_)
            | Self::Media(_)
            | Self::Medium(..)
            | Self::Managers
            | Self::Manager
            | Self::AllChassis
            | Self::Chassis => READ,
        }
    }

    /// Whether anybody may do this without proving who they are (DSP0266 section 13.2.3).
    pub(crate) fn is_open(&self, method: &Method) -> bool {
        match self {
            Self::Versions | Self::Root | Self::OData | Self::Metadata => true,
            Self::Sessions => *method == Method::POST,
            Self::SessionService
            | Self::Session(_)
            | Self::Systems
            | Self::System
            | Self::SystemReset
            | Self::EthernetInterfaces
            | Self::EthernetInterface(_)
            | Self::Processors
            | Self::Processor(_)
            | Self::SimpleStorages
            | Self::SimpleStorage
            | Self::Storages
            | Self::Storage
            | Self::Drive(_)
            | Self::SecureBoot
            | Self::Media(_)
            | Self::Medium(..)
            | Self::InsertMedia(..)
            | Self::EjectMedia(..)
            | Self::Managers
            | Self::Manager
            | Self::AllChassis
            | Self::Chassis => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources() {
        let cases = [
            ("/redfish", Some(Resource::Versions)),
            ("/redfish/v1", Some(Resource::Root)),
            ("/redfish/v1/", Some(Resource::Root)),
            ("/redfish/v1/Systems/u", Some(Resource::System)),
            ("/redfish/v1/Systems/other", None),
            ("/redfish/v1/Systems/u/VirtualMedia/Cd", Some(Resource::Medium(Owner::System, Slot::Cd))),
            (
                "/redfish/v1/Managers/u/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia",
                Some(Resource::EjectMedia(Owner::Manager, Slot::Cd)),
            ),
            ("/redfish/v1/Systems/u/VirtualMedia/Tape", None),
            ("/redfish/v1//", None),
            ("redfish/v1", None),
            ("/", None),
            ("", None),
        ];
        for (path, resource) in cases {
            assert_eq!(find(path, "u"), resource, "{path}");
        }
    }
}
