//! What PATCH and actions do.
//!
//! A request is wholly understood before anything is changed: one that is wrong anywhere changes nothing.

use serde_json::{Map, Value};
use wire::Instant;

use super::{
    message::Problem,
    path::Resource,
    resource::{RESET_TYPES, TARGETS, has_property},
};
use crate::{
    controller::{Controller, NotInserted},
    machine::{BootMode, BootSettings, By, Control, Hold, Medium, Override, Refused, Slot},
};

const RESET: &str = "ComputerSystem.Reset";
const INSERT: &str = "VirtualMedia.InsertMedia";
const EJECT: &str = "VirtualMedia.EjectMedia";

type Object = Map<String, Value>;

/// The power command that a `ResetType` is.
pub(super) fn control(reset_type: &str) -> Option<Control> {
    Some(match reset_type {
        "On" | "ForceOn" => Control::On,
        "ForceOff" => Control::ForceOff,
        "ForceRestart" => Control::ForceRestart,
        "GracefulShutdown" => Control::SoftOff,
        "GracefulRestart" => Control::GracefulRestart,
        "PowerCycle" => Control::PowerCycle,
        "PushPowerButton" => Control::PushButton,
        _ => return None,
    })
}

/// Changes a resource, whose body is at present `present`.
pub(super) fn patch(
    controller: &mut Controller,
    resource: &Resource,
    present: &Value,
    wanted: &Object,
) -> Result<(), Problem> {
    if *resource == Resource::System {
        let value = the_one_change(present, wanted, "Boot")?;
        let members = value.as_object().ok_or_else(|| wrong_type("Boot", value))?;
        let settings = boot_settings(controller.machine.boot(), &present["Boot"], members)?;
        controller.set_boot(settings);
        Ok(())
    } else if *resource == Resource::SecureBoot {
        let value = the_one_change(present, wanted, "SecureBootEnable")?;
        let enable = value.as_bool().ok_or_else(|| wrong_type("SecureBootEnable", value))?;
        controller.machine.set_secure_boot(enable);
        Ok(())
    } else {
        Err(Problem::MethodNotAllowed)
    }
}

/// The new value of the one property that can be changed; it must be there, and no other may.
fn the_one_change<'a>(present: &Value, wanted: &'a Object, changeable: &str) -> Result<&'a Value, Problem> {
    let other = wanted.keys().find(|name| *name != changeable && !name.starts_with("@odata."));
    if let Some(name) = other {
        return Err(not_changeable(present, name));
    }
    wanted.get(changeable).ok_or(Problem::NoOperation)
}

fn boot_settings(held: &BootSettings, present: &Value, wanted: &Object) -> Result<BootSettings, Problem> {
    let mut settings = held.clone();
    let mut source = held.instead.as_ref().map(|instead| instead.source);
    let mut hold = held.instead.as_ref().map(|instead| instead.hold);
    for (name, value) in wanted {
        match name.as_str() {
            "BootSourceOverrideTarget" => {
                let target = text(name, value)?;
                source = match TARGETS.into_iter().find(|(_, known)| *known == target) {
                    Some((source, _)) => Some(source),
                    None if target == "None" => None,
                    None => return Err(not_in_list(name, target)),
                };
            }
            "BootSourceOverrideEnabled" => {
                hold = match text(name, value)? {
                    "Disabled" => None,
                    "Once" => Some(Hold::Once),
                    "Continuous" => Some(Hold::Continuous),
                    other => return Err(not_in_list(name, other)),
                };
            }
            "BootSourceOverrideMode" => {
                settings.mode = match text(name, value)? {
                    "UEFI" => BootMode::Uefi,
                    "Legacy" => BootMode::Bios,
                    other => return Err(not_in_list(name, other)),
                };
            }
            "HttpBootUri" => {
                settings.http_uri = if value.is_null() { None } else { Some(text(name, value)?.to_owned()) };
            }
            _ => return Err(not_changeable(present, name)),
        }
    }
    // A target alone that nothing enables would be accepted without effect, so it holds for one boot.
    let named_source =
        wanted.contains_key("BootSourceOverrideTarget") && !wanted.contains_key("BootSourceOverrideEnabled");
    if named_source && hold.is_none() {
        hold = Some(Hold::Once);
    }
    settings.instead = match (source, hold) {
        (Some(source), Some(hold)) => Some(Override { source, hold, lapses: None }),
        (None, _) | (_, None) => None,
    };
    Ok(settings)
}

/// Carries an action out.
pub(super) fn act(
    controller: &mut Controller,
    resource: &Resource,
    parameters: &Object,
    now: Instant,
) -> Result<(), Problem> {
    if *resource == Resource::SystemReset {
        reset(controller, parameters, now)
    } else if let Resource::InsertMedia(_, slot) = resource {
        insert(controller, *slot, parameters)
    } else if let Resource::EjectMedia(_, slot) = resource {
        check_names(EJECT, parameters, &[])?;
        controller.machine.eject(*slot, By::Redfish);
        Ok(())
    } else {
        Err(Problem::MethodNotAllowed)
    }
}

fn reset(controller: &mut Controller, parameters: &Object, now: Instant) -> Result<(), Problem> {
    const NAME: &str = "ResetType";
    check_names(RESET, parameters, &[NAME])?;
    let wanted = parameter(RESET, parameters, NAME)?
        .ok_or(Problem::ActionParameterMissing { action: RESET, name: NAME })?;
    let control = control(wanted).filter(|_| RESET_TYPES.contains(&wanted)).ok_or_else(|| {
        Problem::ActionParameterValueNotInList { action: RESET, name: NAME, value: wanted.to_owned() }
    })?;
    match controller.control(now, control, By::Redfish) {
        Ok(()) => Ok(()),
        Err(Refused::PowerIsOff) => Err(Problem::ResourceInStandby),
    }
}

fn insert(controller: &mut Controller, slot: Slot, parameters: &Object) -> Result<(), Problem> {
    const NAMES: [&str; 7] = [
        "Image",
        "Inserted",
        "WriteProtected",
        "UserName",
        "Password",
        "TransferMethod",
        "TransferProtocolType",
    ];
    check_names(INSERT, parameters, &NAMES)?;
    let image = parameter(INSERT, parameters, "Image")?
        .ok_or(Problem::ActionParameterMissing { action: INSERT, name: "Image" })?;
    // This BMC gets images by plain HTTP, and streams them.
    if !image.parse::<http::Uri>().is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some()) {
        return Err(Problem::ActionParameterValueFormat {
            action: INSERT,
            name: "Image",
            value: image.to_owned(),
        });
    }
    for (name, only) in [("TransferMethod", "Stream"), ("TransferProtocolType", "HTTP")] {
        if let Some(value) = parameter(INSERT, parameters, name)?.filter(|value| *value != only) {
            return Err(Problem::ActionParameterValueNotInList {
                action: INSERT,
                name,
                value: value.to_owned(),
            });
        }
    }
    let username = parameter(INSERT, parameters, "UserName")?;
    let password = parameter(INSERT, parameters, "Password")?;
    let inserted = flag(parameters, "Inserted")?;
    let write_protected = flag(parameters, "WriteProtected")?;
    if !inserted {
        return Err(Problem::ActionParameterValueNotInList {
            action: INSERT,
            name: "Inserted",
            value: "false".to_owned(),
        });
    }
    let login = username.map(|username| (username.to_owned(), password.unwrap_or_default().to_owned()));
    let medium = Medium { image: image.to_owned(), login, write_protected };
    match controller.insert(slot, medium, By::Redfish) {
        Ok(()) => Ok(()),
        Err(NotInserted::InUse) => Err(Problem::ResourceInUse),
        Err(NotInserted::Unreachable) => {
            Err(Problem::AccessDenied { uri: crate::machine::without_login(image) })
        }
    }
}

fn check_names(action: &'static str, parameters: &Object, known: &[&str]) -> Result<(), Problem> {
    match parameters.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Problem::ActionParameterUnknown { action, name: name.clone() }),
        None => Ok(()),
    }
}

/// A parameter that is a string; null counts as missing.
fn parameter<'a>(
    action: &'static str,
    parameters: &'a Object,
    name: &'static str,
) -> Result<Option<&'a str>, Problem> {
    match parameters.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) if name == "Password" => {
            Err(Problem::ActionParameterValueType { action, name, value: "******".to_owned() })
        }
        Some(other) => Err(Problem::ActionParameterValueType { action, name, value: other.to_string() }),
    }
}

/// A parameter of InsertMedia that is true unless it says otherwise.
fn flag(parameters: &Object, name: &'static str) -> Result<bool, Problem> {
    match parameters.get(name) {
        None | Some(Value::Null) => Ok(true),
        Some(value) => value.as_bool().ok_or_else(|| Problem::ActionParameterValueType {
            action: INSERT,
            name,
            value: value.to_string(),
        }),
    }
}

fn text<'a>(name: &str, value: &'a Value) -> Result<&'a str, Problem> {
    value.as_str().ok_or_else(|| wrong_type(name, value))
}

fn wrong_type(name: &str, value: &Value) -> Problem {
    Problem::PropertyValueType { name: name.to_owned(), value: value.to_string() }
}

fn not_in_list(name: &str, value: &str) -> Problem {
    Problem::PropertyValueNotInList { name: name.to_owned(), value: value.to_owned() }
}

fn not_changeable(present: &Value, name: &str) -> Problem {
    let name = name.to_owned();
    if has_property(present, &name) {
        Problem::PropertyNotWritable { name }
    } else {
        Problem::PropertyUnknown { name }
    }
}
