//! Hardware profiles: the deprecated way to say which disk to write to, still the source of the default.

use super::{Undecided, pass::Pass};
use crate::bmh::RootDeviceHints;

/// The profile of a host that names none.
const DEFAULT: &str = "unknown";

/// Puts the profile and the root device hints that are in force into the status.
pub(super) fn settle(pass: &mut Pass<'_>) -> Result<(), Undecided> {
    let name = [pass.spec().hardware_profile.as_str(), pass.status.hardware_profile.as_str(), DEFAULT]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(DEFAULT)
        .to_owned();
    let default = hints(&name).ok_or_else(|| {
        Undecided::Fails(format!("use the hardware profile {name:?}: there is none of that name"))
    })?;
    if pass.status.hardware_profile != name {
        pass.event("ProfileSet", format!("Hardware profile set: {name}"));
        pass.status.hardware_profile = name;
    }
    pass.status.provisioning.root_device_hints =
        Some(pass.spec().root_device_hints.clone().unwrap_or(default));
    Ok(())
}

/// The root device of a profile; `None` if there is no such profile.
fn hints(profile: &str) -> Option<RootDeviceHints> {
    let device = |name: &str| RootDeviceHints { device_name: name.to_owned(), ..RootDeviceHints::default() };
    let scsi = |address: &str| RootDeviceHints { hctl: address.to_owned(), ..RootDeviceHints::default() };
    match profile {
        "unknown" => Some(device("/dev/sda")),
        "libvirt" => Some(device("/dev/vda")),
        "openstack" => Some(device("/dev/vdb")),
        "dell" => Some(scsi("0:0:0:0")),
        "dell-raid" => Some(scsi("0:2:0:0")),
        "empty" => Some(RootDeviceHints::default()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, status};
    use crate::bmh::{ProvisioningState as State, RootDeviceHints};

    #[test]
    fn the_disk_to_write_to_is_the_users_or_the_profiles() {
        check(
            State::Available,
            &[
                ("settled", |_| {}, "60s"),
                (
                    "the user's",
                    |s| {
                        s.host.spec.root_device_hints =
                            Some(RootDeviceHints { model: "QEMU".into(), ..RootDeviceHints::default() });
                    },
                    "save, now",
                ),
                (
                    "another profile's",
                    |s| s.host.spec.hardware_profile = "dell".into(),
                    "save, ProfileSet, now",
                ),
                (
                    "the profile's, kept",
                    |s| {
                        status(s).hardware_profile = "libvirt".into();
                        status(s).provisioning.root_device_hints = super::hints("libvirt");
                    },
                    "60s",
                ),
                (
                    "of a profile that is none",
                    |s| s.host.spec.hardware_profile = "vax".into(),
                    r#"fails to use the hardware profile "vax": there is none of that name"#,
                ),
            ],
        );
    }
}
