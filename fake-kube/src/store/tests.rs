//! Who goes along with whom, what is written on top of what, and how far back one can look.

use serde_json::json;

use super::*;
use crate::{resource::Registry, selector::Selector};

/// A store with a namespace, and the resources to use it with.
struct Fixture {
    store: Store,
    registry: Registry,
    ids: u128,
    seconds: i64,
}

fn fixture() -> Fixture {
    let definitions = crate::definitions::metal3();
    let registry = Registry::with(definitions.iter());
    let mut fixture = Fixture { store: Store::new(), registry, ids: 0, seconds: 0 };
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns" } });
    fixture.create("", "v1", "namespaces", namespace).expect("a namespace");
    fixture
}

impl Fixture {
    fn moment(&mut self) -> Moment {
        self.ids += 1;
        Moment { now: Timestamp::from_second(self.seconds).expect("a time"), uid: Uuid::from_u128(self.ids) }
    }

    fn create(
        &mut self,
        group: &str,
        version: &str,
        plural: &str,
        object: Value,
    ) -> Result<Arc<Value>, Failure> {
        let resource = self.registry.get(group, version, plural).expect("a resource");
        let moment = self.moment();
        let mut object = object;
        resource.normalize(&mut object);
        self.store.create(&resource, object, moment)
    }

    /// Creates a Secret that the named Secrets own.
    fn secret(&mut self, name: &str, owners: &[&str], blocks: bool) -> Arc<Value> {
        let owners: Vec<Value> = owners
            .iter()
            .map(|owner| {
                let uid = object::uid(self.store.get(&key(owner)).expect("an owner"));
                json!({ "apiVersion": "v1", "kind": "Secret", "name": owner, "uid": uid, "blockOwnerDeletion": blocks })
            })
            .collect();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "namespace": "ns", "ownerReferences": owners },
        });
        self.create("", "v1", "secrets", secret).expect("a secret")
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Value)) -> Result<Arc<Value>, Failure> {
        let resource = self.registry.get("", "v1", "secrets").expect("a resource");
        let mut new = (**self.store.get(&key(name)).expect("an object")).clone();
        change(&mut new);
        let moment = self.moment();
        self.store.update(&resource, &key(name), Part::Main, new, moment)
    }

    fn delete(&mut self, name: &str, propagation: Propagation) {
        let moment = self.moment();
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        self.store.delete(&key(name), &options, moment).expect("a deletion");
    }

    fn secrets(&self) -> Vec<String> {
        self.store.list("secrets", "ns").map(|(key, _)| key.name.clone()).collect()
    }

    /// What a watcher of all Secrets sees after a revision.
    fn seen(&self, after: u64) -> Vec<String> {
        let all = Selector::default();
        self.store
            .seen_since("secrets", "", &all, after)
            .map(|(happening, change)| format!("{} {}", happening.word(), change.key.name))
            .collect()
    }
}

fn key(name: &str) -> Key {
    Key { resource: "secrets".into(), namespace: "ns".into(), name: name.into() }
}

#[test]
fn dependents_follow_their_last_owner() {
    for (deleted, propagation, left) in [
        (vec!["a"], Propagation::Background, vec!["b", "of-a-and-b"]),
        (vec!["a", "b"], Propagation::Background, vec![]),
        (vec!["a"], Propagation::Foreground, vec!["b", "of-a-and-b"]),
        (vec!["a"], Propagation::Orphan, vec!["b", "of-a", "of-a-and-b", "of-of-a"]),
    ] {
        let mut world = fixture();
        world.secret("a", &[], false);
        world.secret("b", &[], false);
        world.secret("of-a", &["a"], true);
        world.secret("of-of-a", &["of-a"], true);
        world.secret("of-a-and-b", &["a", "b"], false);
        deleted.iter().for_each(|name| world.delete(name, propagation));
        assert_eq!(world.secrets(), left, "{deleted:?} {propagation:?}");
        if let Some(kept) = world.store.get(&key("of-a-and-b")) {
            let references = object::at(kept, &["metadata", "ownerReferences"]).and_then(Value::as_array);
            assert_eq!(references.map(Vec::len), Some(1), "{deleted:?} {propagation:?}");
        }
    }
}

#[test]
fn an_owner_in_the_foreground_waits_for_dependents_with_finalizers() {
    let mut world = fixture();
    world.secret("a", &[], false);
    world.secret("of-a", &["a"], true);
    world.change("of-a", |new| new["metadata"]["finalizers"] = json!(["f"])).expect("a change");
    world.delete("a", Propagation::Foreground);
    assert_eq!(world.secrets(), ["a", "of-a"]);
    world.change("of-a", |new| drop(object::metadata(new).remove("finalizers"))).expect("a change");
    assert_eq!(world.secrets(), [] as [&str; 0]);
}

#[test]
fn writes_are_only_taken_on_what_they_know() {
    let mut world = fixture();
    let made = world.secret("a", &[], false);
    let changed = world.change("a", |new| new["data"] = json!({ "k": "dg==" })).expect("a change");
    assert_ne!(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let stale = made["metadata"]["resourceVersion"].clone();
    for (field, value, code) in [
        ("resourceVersion", stale, 409),
        ("uid", json!("another"), 409),
        ("resourceVersion", Value::Null, 0),
        ("creationTimestamp", json!("1999-01-01T00:00:00Z"), 0),
    ] {
        let outcome = world.change("a", |new| {
            new["metadata"][field] = value.clone();
            new["data"] = json!({ "k": "bmV3" });
        });
        assert_eq!(outcome.map_or_else(|failure| failure.code, |_| 0), code, "{field} {value}");
    }
    let last = world.store.get(&key("a")).expect("a");
    assert_eq!(last["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
    assert_eq!(last["metadata"]["uid"], made["metadata"]["uid"]);

    for (options, code) in [
        (DeleteOptions { uid: Some("another".into()), ..DeleteOptions::default() }, 409),
        (DeleteOptions { revision: Some("1".into()), ..DeleteOptions::default() }, 409),
        (DeleteOptions { uid: Some(object::uid(&made).into()), ..DeleteOptions::default() }, 0),
        (DeleteOptions::default(), 404),
    ] {
        let moment = world.moment();
        let outcome = world.store.delete(&key("a"), &options, moment);
        assert_eq!(outcome.map_or_else(|failure| failure.code, |_| 0), code, "{options:?}");
    }
}

#[test]
fn the_past_can_be_read_as_long_as_it_is_known() {
    let mut world = fixture();
    world.secret("a", &[], false);
    let then = world.store.revision();
    world.secret("b", &[], false);
    world.change("a", |new| new["metadata"]["labels"] = json!({ "l": "1" })).expect("a change");
    world.delete("a", Propagation::Background);
    assert_eq!(world.seen(then), ["ADDED b", "MODIFIED a", "DELETED a"]);
    let past: Vec<String> =
        world.store.as_of("secrets", "ns", then).into_keys().map(|key| key.name).collect();
    assert_eq!((past, world.secrets()), (vec!["a".to_owned()], vec!["b".to_owned()]));
    assert_eq!(world.store.check_known("secrets", then), Ok(()));

    // A hundred changes are kept however old they are, more only while they are young.
    for round in 0..200 {
        world
            .change("b", |new| new["metadata"]["labels"] = json!({ "l": format!("{round}") }))
            .expect("a change");
    }
    assert_eq!(world.store.check_known("secrets", then), Ok(()));
    world.seconds += 100;
    world.change("b", |new| new["metadata"]["labels"] = json!({ "l": "last" })).expect("a change");
    let refused = world.store.check_known("secrets", then).expect_err("too old");
    assert_eq!((refused.code, refused.reason), (410, "Expired"));
    assert_eq!(
        world.store.check_known("baremetalhosts.metal3.io", then),
        Ok(()),
        "each resource has its own window"
    );

    let now = world.store.revision();
    world.store.forget_history();
    assert!(world.store.check_known("secrets", now - 1).is_err());
    assert_eq!(world.store.check_known("secrets", now), Ok(()));
}
