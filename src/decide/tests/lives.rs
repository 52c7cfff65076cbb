//! Whole lives of a host, with the operator killed between any two effects, and the bug reports that the regressions
//! come from.

use std::collections::BTreeSet;

use serde_json::json;

use super::{IMAGE, model::Model};
use crate::{
    bmh::{ErrorType, OperationalStatus, ProvisioningState as State},
    provisioner::{ProvisionState, ProvisionTarget},
    regression::Regression,
};

/// More passes than any life here takes.
const PASSES: usize = 200;

fn with_image(model: &mut Model) {
    model.spec().image =
        serde_json::from_value(json!({"url": IMAGE, "checksum": "abc", "checksumType": "sha256"}))
            .expect("an image");
}

fn delete(model: &mut Model) {
    let now = model.now;
    let host = model.host.as_mut().expect("the host exists");
    host.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    if !host.has_finalizer(crate::bmh::FINALIZER) {
        model.host = None;
    }
}

fn is_free(model: &Model) -> bool {
    model.state() == Some(State::Available) && is_well(model)
}

fn is_provisioned(model: &Model) -> bool {
    model.state() == Some(State::Provisioned) && is_well(model)
}

/// Nothing is wrong, the machine is on, and the next look is the usual one.
fn is_well(model: &Model) -> bool {
    let node = model.node.as_ref().and_then(|node| node.power_state.as_deref());
    model.host.as_ref().and_then(|host| host.status.as_ref()).is_some_and(|status| {
        status.operational_status == OperationalStatus::Ok && status.error_count == 0 && status.powered_on
    }) && node == Some("power on")
}

fn provisioned() -> Model {
    let mut model = Model::new();
    with_image(&mut model);
    assert!(model.run_until(PASSES, is_provisioned), "{:?}", model.history);
    model
}

/// Kills the operator after every effect of every pass of a life, and expects it to end well each time.
fn survives(name: &str, start: &Model, done: fn(&Model) -> bool, check: fn(&Model)) {
    let mut life = start.clone();
    let mut kills = 0;
    for _ in 0..PASSES {
        if done(&life) {
            break;
        }
        let Some(Ok(decision)) = life.decide() else {
            life.pass();
            continue;
        };
        for effects in 0..decision.effects.len() {
            let mut killed = life.clone();
            for effect in decision.effects.iter().take(effects + 1) {
                killed.apply(effect.clone());
            }
            kills += 1;
            assert!(
                killed.run_until(PASSES, done),
                "{name}: killed in {:?} after {effects} of {:?}, it went {:?}",
                life.state(),
                decision.effects,
                killed.history
            );
            check(&killed);
        }
        life.pass();
    }
    assert!(done(&life), "{name}: {:?}", life.history);
    assert!(kills > 0, "{name}: nothing happened");
    check(&life);
}

#[test]
fn a_crash_between_effects_loses_nothing_on_the_way_to_available() {
    survives("register", &Model::new(), is_free, |model| {
        assert!(!model.targets.contains(&ProvisionTarget::Active), "{:?}", model.targets);
        assert_eq!(model.ports.len(), 1);
    });
}

#[test]
fn a_crash_between_effects_loses_nothing_while_provisioning() {
    let mut free = Model::new();
    assert!(free.run_until(PASSES, is_free), "{:?}", free.history);
    with_image(&mut free);
    survives("provision", &free, is_provisioned, |model| {
        let image = model.node.as_ref().and_then(|node| node.instance_info.get("image_source").cloned());
        assert_eq!(image, Some(IMAGE.into()));
    });
}

#[test]
fn a_crash_between_effects_loses_nothing_while_deprovisioning() {
    let mut model = provisioned();
    model.spec().image = None;
    survives("deprovision", &model, is_free, |model| {
        assert!(model.targets.contains(&ProvisionTarget::Deleted))
    });
}

#[test]
fn a_crash_between_effects_leaves_nothing_behind_after_deletion() {
    let mut model = provisioned();
    delete(&mut model);
    survives(
        "delete",
        &model,
        |model| model.host.is_none(),
        |model| {
            assert!(model.node.is_none(), "a node was left in Ironic");
            assert!(
                model.secret.metadata.finalizers.iter().flatten().next().is_none(),
                "the secret is still held"
            );
        },
    );
}

#[test]
fn a_host_deleted_at_any_time_leaves_nothing_behind() {
    let mut life = Model::new();
    with_image(&mut life);
    let mut seen = BTreeSet::new();
    for _ in 0..PASSES {
        seen.insert(life.state());
        let mut deleted = life.clone();
        delete(&mut deleted);
        assert!(
            deleted.run_until(PASSES, |model| model.host.is_none()),
            "from {:?}: {:?}",
            life.state(),
            deleted.history
        );
        assert!(deleted.node.is_none(), "a node was left in Ironic, from {:?}", life.state());
        if is_provisioned(&life) {
            break;
        }
        life.pass();
    }
    assert!(seen.contains(&Some(State::Inspecting)) && seen.contains(&Some(State::Provisioned)), "{seen:?}");
}

#[test]
fn a_lost_database_is_made_good_without_touching_the_machine() {
    let mut model = provisioned();
    model.lose_database();
    let before = model.targets.len();
    survives(
        "adopt",
        &model,
        |model| {
            is_provisioned(model)
                && model.node.as_ref().is_some_and(|node| node.provision_state == ProvisionState::Active)
        },
        |model| assert_eq!(model.state(), Some(State::Provisioned)),
    );
    assert!(model.run_until(PASSES, is_provisioned));
    let after = &model.targets[before..];
    assert!(
        after.iter().all(|target| matches!(target, ProvisionTarget::Manage | ProvisionTarget::Adopt)),
        "{after:?}"
    );
}

/// metal3-io/baremetal-operator 708 and 739: the BMC is away while a new host registers.
fn outage(regression: Option<Regression>) -> Model {
    let mut model = Model::with(regression);
    model.bmc_down = true;
    let in_error =
        |model: &Model| model.history.last() == Some(&(State::Registering, Some(ErrorType::Registration)));
    assert!(model.run_until(PASSES, in_error), "{:?}", model.history);
    model.bmc_down = false;
    model.run_until(PASSES, is_free);
    model
}

#[test]
fn a_host_whose_bmc_was_away_registers_when_it_is_back() {
    let model = outage(None);
    assert_eq!(
        model.history,
        [
            (State::Registering, None),
            (State::Registering, Some(ErrorType::Registration)),
            (State::Registering, None),
            (State::Inspecting, None),
            (State::Preparing, None),
            (State::Available, None),
        ]
    );
    assert!(is_free(&model));
}

#[test]
fn with_metal3_708_the_host_is_never_looked_at_again() {
    let mut model = outage(Some(Regression::Metal3708));
    assert_eq!(model.history.last(), Some(&(State::Registering, Some(ErrorType::Registration))));
    assert!(!model.pass(), "something asks to look again");
    assert_eq!(model.targets, [ProvisionTarget::Manage]);
}

#[test]
fn with_metal3_739_the_old_error_is_reported_for_ever() {
    let model = outage(Some(Regression::Metal3739));
    let status = model.host.as_ref().and_then(|host| host.status.clone()).expect("a status");
    assert_eq!(
        (status.provisioning.state, status.error_type),
        (State::Registering, Some(ErrorType::Registration))
    );
    assert!(status.error_count > 100, "{}", status.error_count);
    assert_eq!(model.targets, [ProvisionTarget::Manage]);
}

/// A Secret that is changed before the BMC's own password: the host must recover without another edit.
#[test]
fn credentials_that_are_too_early_are_tried_again() {
    let mut model = provisioned();
    model.secret.metadata.resource_version = Some("2".to_owned());
    model.bmc_down = true;
    model.lose_database();
    let in_error =
        |model: &Model| model.history.last() == Some(&(State::Provisioned, Some(ErrorType::Registration)));
    assert!(model.run_until(PASSES, in_error), "{:?}", model.history);
    model.bmc_down = false;
    assert!(model.run_until(PASSES, is_provisioned), "{:?}", model.history);
    assert_eq!(model.state(), Some(State::Provisioned));
}

/// Red Hat bugzilla 1972430: the images are away when Ironic loses its database.
fn images_away(regression: Option<Regression>, external: bool) -> Model {
    let mut model = Model::with(regression);
    model.spec().externally_provisioned = external;
    with_image(&mut model);
    let wanted = if external { State::ExternallyProvisioned } else { State::Provisioned };
    assert!(
        model.run_until(PASSES, |model| model.state() == Some(wanted) && is_well(model)),
        "{:?}",
        model.history
    );
    model.lose_database();
    model.image_gone = true;
    model.history.clear();
    model.targets.clear();
    for _ in 0..30 {
        model.pass();
    }
    model
}

#[test]
fn hosts_whose_image_is_away_stay_as_they_are() {
    for external in [false, true] {
        let mut model = images_away(None, external);
        let state = if external { State::ExternallyProvisioned } else { State::Provisioned };
        assert!(
            model.history.contains(&(state, Some(ErrorType::ProvisionedRegistration))),
            "{:?}",
            model.history
        );
        let source = model.node.as_ref().and_then(|node| node.instance_info.get("image_source").cloned());
        assert_eq!(source, Some(IMAGE.into()), "an old Ironic would have no image to look at");
        model.image_gone = false;
        assert!(model.run_until(PASSES, is_well), "{:?}", model.history);
        assert!(model.history.iter().all(|(seen, _)| *seen == state), "{:?}", model.history);
        let gentle =
            |target: &ProvisionTarget| matches!(target, ProvisionTarget::Manage | ProvisionTarget::Adopt);
        assert!(model.targets.iter().all(gentle), "{:?}", model.targets);
    }
}

#[test]
fn with_rhbz_1972430_workers_are_wiped_once_the_image_is_back() {
    let mut model = images_away(Some(Regression::Rhbz1972430), false);
    assert_eq!(model.state(), Some(State::Deprovisioning));
    assert!(!model.targets.contains(&ProvisionTarget::Deleted), "{:?}", model.targets);
    assert!(
        model.history.contains(&(State::Deprovisioning, Some(ErrorType::ProvisionedRegistration))),
        "{:?}",
        model.history
    );
    model.image_gone = false;
    model.history.clear();
    assert!(model.run_until(PASSES, is_provisioned), "{:?}", model.history);
    let mut states: Vec<State> = model.history.iter().map(|(state, _)| *state).collect();
    states.dedup();
    assert_eq!(states, [State::Deprovisioning, State::Available, State::Provisioning, State::Provisioned]);
    assert!(model.targets.contains(&ProvisionTarget::Deleted));
}

#[test]
fn with_rhbz_1972430_masters_stay_as_they_are() {
    let model = images_away(Some(Regression::Rhbz1972430), true);
    assert!(
        model.history.iter().all(|(state, _)| *state == State::ExternallyProvisioned),
        "{:?}",
        model.history
    );
}
