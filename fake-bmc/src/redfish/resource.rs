//! The bodies of the resources.
//!
//! Property names and types are those of the DMTF schemas named in each `@odata.type`. A property that this machine
//! has nothing to say about is left out rather than sent empty.

mod parts;

use serde_json::{Value, json};

use self::parts::drive_id;
use super::path::{CONTROLLER, Owner, Resource};
use crate::{
    controller::{Controller, SESSION_TIMEOUT, Session},
    machine::{BootMode, BootSettings, BootSource, Hold, Power, Progress, Slot},
};

pub(super) const RESET_TYPES: [&str; 8] = [
    "On",
    "ForceOn",
    "ForceOff",
    "ForceRestart",
    "GracefulShutdown",
    "GracefulRestart",
    "PowerCycle",
    "PushPowerButton",
];

/// What an override can be set to, with its name in Redfish.
pub(super) const TARGETS: [(BootSource, &str); 5] = [
    (BootSource::Pxe, "Pxe"),
    (BootSource::Cd, "Cd"),
    (BootSource::Floppy, "Floppy"),
    (BootSource::Hdd, "Hdd"),
    (BootSource::UefiHttp, "UefiHttp"),
];

/// What the bodies are made from.
pub(super) struct View<'a> {
    pub(super) controller: &'a Controller,
    /// The machine's name.
    pub(super) name: &'a str,
    /// What the system, its manager and its chassis are called in paths.
    pub(super) id: &'a str,
    pub(super) date: jiff::Timestamp,
}

fn link(uri: impl Into<String>) -> Value {
    json!({ "@odata.id": uri.into() })
}

fn ok() -> Value {
    json!({ "State": "Enabled", "Health": "OK" })
}

impl View<'_> {
    fn system_uri(&self) -> String {
        format!("/redfish/v1/Systems/{}", self.id)
    }

    fn manager_uri(&self) -> String {
        format!("/redfish/v1/Managers/{}", self.id)
    }

    fn chassis_uri(&self) -> String {
        format!("/redfish/v1/Chassis/{}", self.id)
    }

    fn media_uri(&self, owner: Owner) -> String {
        let owner = match owner {
            Owner::System => self.system_uri(),
            Owner::Manager => self.manager_uri(),
        };
        format!("{owner}/VirtualMedia")
    }

    /// The body of a resource; `None` if it does not exist or has none.
    pub(super) fn body(&self, resource: &Resource) -> Option<Value> {
        Some(match resource {
            Resource::Versions => json!({ "v1": "/redfish/v1/" }),
            Resource::Root => self.root(),
            Resource::OData => self.odata(),
            Resource::SessionService => self.session_service(),
            Resource::Sessions => {
                let members = self.controller.sessions().map(|session| session_uri(&session.id)).collect();
                collection("SessionCollection", "/redfish/v1/SessionService/Sessions", members)
            }
            Resource::Session(id) => session(self.controller.sessions().find(|session| session.id == *id)?),
            Resource::Systems => {
                collection("ComputerSystemCollection", "/redfish/v1/Systems", vec![self.system_uri()])
            }
            Resource::System => self.system(),
            Resource::EthernetInterfaces => {
                let uri = format!("{}/EthernetInterfaces", self.system_uri());
                let nics = &self.controller.machine.inventory().nics;
                let members = nics.iter().map(|nic| format!("{uri}/{}", nic.name)).collect();
                collection("EthernetInterfaceCollection", &uri, members)
            }
            Resource::EthernetInterface(name) => {
                let nics = &self.controller.machine.inventory().nics;
                self.ethernet_interface(nics.iter().find(|nic| nic.name == *name)?)
            }
            Resource::Processors => {
                let uri = format!("{}/Processors", self.system_uri());
                let members = (0..self.sockets()).map(|n| format!("{uri}/CPU{n}")).collect();
                collection("ProcessorCollection", &uri, members)
            }
            Resource::Processor(name) => {
                (0..self.sockets()).find(|n| *name == format!("CPU{n}"))?;
                self.processor(name)
            }
            Resource::SimpleStorages => {
                let uri = format!("{}/SimpleStorage", self.system_uri());
                let members = vec![format!("{uri}/{CONTROLLER}")];
                collection("SimpleStorageCollection", &uri, members)
            }
            Resource::SimpleStorage => self.simple_storage(),
            Resource::Storages => {
                let uri = format!("{}/Storage", self.system_uri());
                let members = vec![format!("{uri}/{CONTROLLER}")];
                collection("StorageCollection", &uri, members)
            }
            Resource::Storage => self.storage(),
            Resource::Drive(name) => {
                let mut disks = self.controller.machine.inventory().disks.iter();
                self.drive(disks.find(|disk| drive_id(disk) == *name)?)
            }
            Resource::SecureBoot => self.secure_boot(),
            Resource::Media(owner) => {
                let uri = self.media_uri(*owner);
                let members = Slot::ALL.map(|slot| format!("{uri}/{}", slot.name())).into();
                collection("VirtualMediaCollection", &uri, members)
            }
            Resource::Medium(owner, slot) => self.medium(*owner, *slot),
            Resource::Managers => {
                collection("ManagerCollection", "/redfish/v1/Managers", vec![self.manager_uri()])
            }
            Resource::Manager => self.manager(),
            Resource::AllChassis => {
                collection("ChassisCollection", "/redfish/v1/Chassis", vec![self.chassis_uri()])
            }
            Resource::Chassis => self.chassis(),
            Resource::Metadata
            | Resource::SystemReset
            | Resource::InsertMedia(..)
            | Resource::EjectMedia(..) => return None,
        })
    }

    fn root(&self) -> Value {
        let inventory = self.controller.machine.inventory();
        let mut root = json!({
            "@odata.id": "/redfish/v1/",
            "@odata.type": "#ServiceRoot.v1_9_0.ServiceRoot",
            "Id": "RootService",
            "Name": "Root Service",
            "RedfishVersion": "1.15.0",
            "Vendor": inventory.manufacturer,
            "Product": inventory.model,
            "Systems": link("/redfish/v1/Systems"),
            "Managers": link("/redfish/v1/Managers"),
            "Chassis": link("/redfish/v1/Chassis"),
            "SessionService": link("/redfish/v1/SessionService"),
            "Links": { "Sessions": link("/redfish/v1/SessionService/Sessions") },
            "ProtocolFeaturesSupported": {
                "ExcerptQuery": false,
                "FilterQuery": false,
                "SelectQuery": false,
                "OnlyMemberQuery": false,
            },
        });
        set(&mut root, "UUID", inventory.uuid.map(|uuid| uuid.to_string()));
        root
    }

    fn odata(&self) -> Value {
        let service = |name: &str, url: &str| json!({ "name": name, "kind": "Singleton", "url": url });
        json!({
            "@odata.context": "/redfish/v1/$metadata",
            "value": [
                service("Service", "/redfish/v1/"),
                service("Systems", "/redfish/v1/Systems"),
                service("Managers", "/redfish/v1/Managers"),
                service("Chassis", "/redfish/v1/Chassis"),
                service("SessionService", "/redfish/v1/SessionService"),
                service("Sessions", "/redfish/v1/SessionService/Sessions"),
            ],
        })
    }

    fn session_service(&self) -> Value {
        json!({
            "@odata.id": "/redfish/v1/SessionService",
            "@odata.type": "#SessionService.v1_1_8.SessionService",
            "Id": "SessionService",
            "Name": "Session Service",
            "ServiceEnabled": true,
            "SessionTimeout": SESSION_TIMEOUT.as_secs(),
            "Status": ok(),
            "Sessions": link("/redfish/v1/SessionService/Sessions"),
        })
    }

    fn system(&self) -> Value {
        let machine = &self.controller.machine;
        let inventory = machine.inventory();
        let uri = self.system_uri();
        let mut system = json!({
            "@odata.id": uri,
            "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
            "Id": self.id,
            "Name": self.name,
            "SystemType": "Physical",
            "Manufacturer": inventory.manufacturer,
            "Model": inventory.model,
            "BiosVersion": inventory.firmware.version,
            "PowerState": power_state(machine.power()),
            "Status": ok(),
            "BootProgress": { "LastState": boot_progress(machine.progress()) },
            "Boot": boot(machine.boot()),
            "ProcessorSummary": {
                "Count": inventory.processors.sockets,
                "CoreCount": inventory.processors.sockets.saturating_mul(inventory.processors.cores),
                "LogicalProcessorCount": inventory.processors.count(),
                "Model": inventory.processors.model,
                "Status": ok(),
            },
            "MemorySummary": { "TotalSystemMemoryGiB": inventory.memory_gib, "Status": ok() },
            "EthernetInterfaces": link(format!("{uri}/EthernetInterfaces")),
            "Processors": link(format!("{uri}/Processors")),
            "SimpleStorage": link(format!("{uri}/SimpleStorage")),
            "Storage": link(format!("{uri}/Storage")),
            "SecureBoot": link(format!("{uri}/SecureBoot")),
            "VirtualMedia": link(format!("{uri}/VirtualMedia")),
            "Links": { "Chassis": [link(self.chassis_uri())], "ManagedBy": [link(self.manager_uri())] },
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": format!("{uri}/Actions/ComputerSystem.Reset"),
                    "ResetType@Redfish.AllowableValues": RESET_TYPES,
                },
            },
        });
        set(&mut system, "UUID", inventory.uuid.map(|uuid| uuid.to_string()));
        set(&mut system, "SerialNumber", inventory.serial_number.clone());
        system
    }

    fn sockets(&self) -> u32 {
        self.controller.machine.inventory().processors.sockets
    }

    fn secure_boot(&self) -> Value {
        let secure = self.controller.machine.secure_boot();
        json!({
            "@odata.id": format!("{}/SecureBoot", self.system_uri()),
            "@odata.type": "#SecureBoot.v1_1_0.SecureBoot",
            "Id": "SecureBoot",
            "Name": "UEFI Secure Boot",
            "SecureBootEnable": secure.enable,
            "SecureBootCurrentBoot": if secure.current { "Enabled" } else { "Disabled" },
            "SecureBootMode": "UserMode",
        })
    }

    fn medium(&self, owner: Owner, slot: Slot) -> Value {
        let held = self.controller.machine.medium(slot);
        let uri = format!("{}/{}", self.media_uri(owner), slot.name());
        let (name, types) = match slot {
            Slot::Cd => ("Virtual CD", ["CD", "DVD"]),
            Slot::Floppy => ("Virtual Removable Media", ["Floppy", "USBStick"]),
        };
        json!({
            "@odata.id": uri,
            "@odata.type": "#VirtualMedia.v1_4_0.VirtualMedia",
            "Id": slot.name(),
            "Name": name,
            "MediaTypes": types,
            "Image": held.map(|medium| medium.image.as_str()),
            "ImageName": held.map(|medium| image_name(&medium.image)),
            "ConnectedVia": if held.is_some() { "URI" } else { "NotConnected" },
            "Inserted": held.is_some(),
            "WriteProtected": held.is_none_or(|medium| medium.write_protected),
            "UserName": held.and_then(|medium| medium.login.as_ref()).map(|(username, _)| username),
            "Password": null,
            "TransferMethod": "Stream",
            "TransferProtocolType": "HTTP",
            "Actions": {
                "#VirtualMedia.InsertMedia": {
                    "target": format!("{uri}/Actions/VirtualMedia.InsertMedia"),
                    "TransferMethod@Redfish.AllowableValues": ["Stream"],
                    "TransferProtocolType@Redfish.AllowableValues": ["HTTP"],
                },
                "#VirtualMedia.EjectMedia": { "target": format!("{uri}/Actions/VirtualMedia.EjectMedia") },
            },
        })
    }

    fn manager(&self) -> Value {
        let inventory = self.controller.machine.inventory();
        let mut manager = json!({
            "@odata.id": self.manager_uri(),
            "@odata.type": "#Manager.v1_10_0.Manager",
            "Id": self.id,
            "Name": format!("{} BMC", self.name),
            "ManagerType": "BMC",
            "FirmwareVersion": inventory.bmc_version,
            "DateTime": self.date.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "DateTimeLocalOffset": "+00:00",
            "PowerState": "On",
            "Status": ok(),
            "VirtualMedia": link(self.media_uri(Owner::Manager)),
            "Links": {
                "ManagerForServers": [link(self.system_uri())],
                "ManagerForChassis": [link(self.chassis_uri())],
            },
        });
        set(&mut manager, "UUID", inventory.uuid.map(|uuid| uuid.to_string()));
        manager
    }

    fn chassis(&self) -> Value {
        let inventory = self.controller.machine.inventory();
        let mut chassis = json!({
            "@odata.id": self.chassis_uri(),
            "@odata.type": "#Chassis.v1_14_0.Chassis",
            "Id": self.id,
            "Name": format!("{} chassis", self.name),
            "ChassisType": "RackMount",
            "Manufacturer": inventory.manufacturer,
            "Model": inventory.model,
            "PowerState": power_state(self.controller.machine.power()),
            "Status": ok(),
            "Links": {
                "ComputerSystems": [link(self.system_uri())],
                "ManagedBy": [link(self.manager_uri())],
            },
        });
        set(&mut chassis, "UUID", inventory.uuid.map(|uuid| uuid.to_string()));
        set(&mut chassis, "SerialNumber", inventory.serial_number.clone());
        chassis
    }
}

/// Sets a property unless there is nothing to set.
fn set(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let (Some(value), Some(body)) = (value, body.as_object_mut()) {
        body.insert(name.to_owned(), value.into());
    }
}

fn collection(kind: &str, uri: &str, members: Vec<String>) -> Value {
    json!({
        "@odata.id": uri,
        "@odata.type": format!("#{kind}.{kind}"),
        "Name": format!("{} Collection", kind.trim_end_matches("Collection")),
        "Members@odata.count": members.len(),
        "Members": members.into_iter().map(link).collect::<Vec<_>>(),
    })
}

pub(super) fn session_uri(id: &str) -> String {
    format!("/redfish/v1/SessionService/Sessions/{id}")
}

pub(super) fn session(session: &Session) -> Value {
    json!({
        "@odata.id": session_uri(&session.id),
        "@odata.type": "#Session.v1_3_0.Session",
        "Id": session.id,
        "Name": "User Session",
        "UserName": session.username,
        "Password": null,
    })
}

fn image_name(image: &str) -> &str {
    let path = image.split(['?', '#']).next().unwrap_or(image);
    path.rsplit('/').next().unwrap_or(path)
}

fn power_state(power: Power) -> &'static str {
    match power {
        Power::Off => "Off",
        Power::PoweringOn => "PoweringOn",
        Power::On => "On",
        Power::PoweringOff => "PoweringOff",
    }
}

fn boot_progress(progress: Progress) -> &'static str {
    match progress {
        Progress::None => "None",
        Progress::SelfTest => "MemoryInitializationStarted",
        Progress::Loading => "SystemHardwareInitializationComplete",
        Progress::Starting => "OSBootStarted",
        Progress::Running => "OSRunning",
    }
}

fn boot(settings: &BootSettings) -> Value {
    let (target, enabled) = match &settings.instead {
        None => ("None", "Disabled"),
        Some(instead) => (
            TARGETS
                .into_iter()
                .find(|(source, _)| *source == instead.source)
                .map_or("None", |(_, name)| name),
            match instead.hold {
                Hold::Once => "Once",
                Hold::Continuous => "Continuous",
            },
        ),
    };
    let mode = match settings.mode {
        BootMode::Uefi => "UEFI",
        BootMode::Bios => "Legacy",
    };
    let mut targets = vec!["None"];
    targets.extend(TARGETS.map(|(_, name)| name));
    json!({
        "BootSourceOverrideTarget": target,
        "BootSourceOverrideEnabled": enabled,
        "BootSourceOverrideMode": mode,
        "BootSourceOverrideTarget@Redfish.AllowableValues": targets,
        "BootSourceOverrideEnabled@Redfish.AllowableValues": ["Disabled", "Once", "Continuous"],
        "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI", "Legacy"],
        "HttpBootUri": settings.http_uri,
    })
}

/// Whether a resource has a property, for telling a read-only one from an unknown one.
pub(super) fn has_property(body: &Value, name: &str) -> bool {
    body.as_object().is_some_and(|object| object.contains_key(name))
}
