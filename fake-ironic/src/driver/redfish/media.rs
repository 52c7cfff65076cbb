//! Virtual media: where a BMC has it, and changing what lies in it.

use http::StatusCode;
use serde_json::{Value, json};

use super::{
    error::Error,
    sushy::{Sushy, System, members},
};

/// How often an insertion is tried while the BMC answers 5xx.
const INSERT_TRIES: u32 = 3;
/// Pause between two such tries.
const INSERT_PAUSE: std::time::Duration = std::time::Duration::from_secs(3);

/// A slot that takes CD or DVD images.
struct Slot {
    path: String,
    body: Value,
}

impl Slot {
    fn inserted(&self) -> bool {
        self.body.get("Inserted").and_then(Value::as_bool).unwrap_or(false)
    }

    fn action(&self, name: &str) -> Option<&str> {
        self.body.get("Actions")?.get(format!("#VirtualMedia.{name}"))?.get("target")?.as_str()
    }
}

/// The slots for optical discs: the system's own, or else those of its managers.
async fn slots(sushy: &Sushy, system: &System) -> Result<Vec<Slot>, Error> {
    let bmc = &system.bmc;
    let mut collections = Vec::new();
    if let Some(path) = system.link("/VirtualMedia") {
        collections.push(path.to_owned());
    } else {
        for manager in managers(system) {
            let (manager, _) = sushy.get(bmc, manager).await?;
            collections.extend(
                manager.pointer("/VirtualMedia/@odata.id").and_then(Value::as_str).map(str::to_owned),
            );
        }
    }
    let mut slots = Vec::new();
    for collection in collections {
        let (collection, _) = sushy.get(bmc, &collection).await?;
        for path in members(&collection) {
            let (body, _) = sushy.get(bmc, path).await?;
            let kinds = body.get("MediaTypes").and_then(Value::as_array);
            if kinds.is_some_and(|kinds| kinds.iter().any(|kind| matches!(kind.as_str(), Some("CD" | "DVD"))))
            {
                slots.push(Slot { path: path.to_owned(), body });
            }
        }
    }
    Ok(slots)
}

/// The managers of a system.
pub(super) fn managers(system: &System) -> impl Iterator<Item = &str> {
    let links =
        ["/Links/ManagedBy", "/Links/Managers"].iter().find_map(|pointer| system.body.pointer(pointer));
    let links = links.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    links.iter().filter_map(|link| link.get("@odata.id")?.as_str())
}

/// Takes out what lies in the slots for optical discs.
pub(super) async fn eject(sushy: &Sushy, system: &System) -> Result<(), Error> {
    for slot in slots(sushy, system).await? {
        eject_slot(sushy, system, &slot).await?;
    }
    Ok(())
}

async fn eject_slot(sushy: &Sushy, system: &System, slot: &Slot) -> Result<(), Error> {
    if !slot.inserted() {
        return Ok(());
    }
    let bmc = &system.bmc;
    let Some(action) = slot.action("EjectMedia") else {
        let body = json!({ "Image": null, "Inserted": false });
        return sushy.patch(bmc, &slot.path, &body, None).await;
    };
    match sushy.post(bmc, action, None).await {
        // Some BMCs want a body, if only an empty one.
        Err(error)
            if matches!(
                error.status(),
                Some(StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::BAD_REQUEST)
            ) =>
        {
            sushy.post(bmc, action, Some(&json!({}))).await
        }
        done => done,
    }
}

/// Puts an image into the first slot that takes it, once all are empty.
pub(super) async fn insert(sushy: &Sushy, system: &System, image: &str) -> Result<(), Error> {
    let slots = slots(sushy, system).await?;
    for slot in &slots {
        eject_slot(sushy, system, slot).await?;
    }
    let mut refused = None;
    for slot in &slots {
        match insert_slot(sushy, system, slot, image).await {
            Ok(()) => return Ok(()),
            Err(error)
                if matches!(
                    error.status(),
                    Some(StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED)
                ) || matches!(error, Error::MissingAttribute { .. }) =>
            {
                refused = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(refused.unwrap_or_else(|| Error::MissingAttribute {
        attribute: "VirtualMedia",
        resource: system.path.clone(),
    }))
}

async fn insert_slot(sushy: &Sushy, system: &System, slot: &Slot, image: &str) -> Result<(), Error> {
    let Some(action) = slot.action("InsertMedia") else {
        return Err(Error::MissingAttribute {
            attribute: "Actions/#VirtualMedia.InsertMedia",
            resource: slot.path.clone(),
        });
    };
    let body = json!({ "Image": image });
    let mut tries = 1;
    loop {
        match sushy.post(&system.bmc, action, Some(&body)).await {
            Err(error)
                if tries < INSERT_TRIES && error.status().is_some_and(|status| status.is_server_error()) =>
            {
                tries += 1;
                sushy.pause(INSERT_PAUSE).await;
            }
            done => return done,
        }
    }
}
