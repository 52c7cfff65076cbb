//! The CustomResourceDefinitions of metal3.io that are there from the beginning.
//!
//! Fields and limits are those of baremetal-operator's `apis/metal3.io/v1alpha1`.

use serde_json::Value;

const FILES: [&str; 9] = [
    include_str!("../crds/baremetalhosts.json"),
    include_str!("../crds/bmceventsubscriptions.json"),
    include_str!("../crds/dataimages.json"),
    include_str!("../crds/firmwareschemas.json"),
    include_str!("../crds/hardwaredata.json"),
    include_str!("../crds/hostfirmwarecomponents.json"),
    include_str!("../crds/hostfirmwaresettings.json"),
    include_str!("../crds/hostupdatepolicies.json"),
    include_str!("../crds/preprovisioningimages.json"),
];

/// The definitions, by name.
pub(crate) fn metal3() -> Vec<Value> {
    FILES
        .iter()
        .map(|file| {
            serde_json::from_str(file)
                .unwrap_or_else(|error| unreachable!("our own definitions are JSON: {error}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::{object, resource::Resource};

    #[test]
    fn every_definition_defines_one_resource() {
        for definition in super::metal3() {
            let resources = Resource::from_definition(&definition).expect("a definition");
            let names: Vec<String> = resources.iter().map(Resource::stored_as).collect();
            assert_eq!(names, [object::name(&definition)]);
        }
    }
}
