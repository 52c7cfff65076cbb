//! The loop against a small API, on a simulated network.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex},
};

use serde_json::json;
use wire::Seed;

use super::*;
use crate::{
    cluster::{
        fixture::{Api, bare_metal_host, secret_of},
        plain_client,
    },
    options::Options,
};

/// When a reconcile began or ended, and of which host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Moment {
    at: Instant,
    host: String,
    begins: bool,
}

/// What the reconciles of a test do and what has become of them.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<Moment>>>);

impl Diary {
    fn write(&self, at: Instant, host: &str, begins: bool) {
        self.0.lock().expect("no test panicked").push(Moment { at, host: host.to_owned(), begins });
    }

    fn all(&self) -> Vec<Moment> {
        self.0.lock().expect("no test panicked").clone()
    }

    /// The hosts whose reconciles began since the last call.
    fn take(&self) -> Vec<String> {
        let moments = std::mem::take(&mut *self.0.lock().expect("no test panicked"));
        moments.into_iter().filter(|moment| moment.begins).map(|moment| moment.host).collect()
    }
}

/// The seconds from each beginning to the next.
fn waits(moments: &[Moment]) -> Vec<Duration> {
    let begun: Vec<Instant> = moments.iter().filter(|moment| moment.begins).map(|moment| moment.at).collect();
    begun.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// What another client makes of an object.
type Write = fn(&mut Value);

/// Runs a test beside a controller with three workers, whose reconciles take `length` and end as `outcome` says of the
/// host and the number of reconciles before.
fn beside<T, F>(
    seed: u64,
    length: Duration,
    outcome: fn(&Key, usize) -> io::Result<Next>,
    test: impl FnOnce(Api, Diary, Host) -> F + Send + 'static,
) -> T
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    engine::simulate(Seed(seed), move |net| async move {
        let api = Api::start(&net.host("kube"));
        let host = net.host("operator");
        let options = Options::new(
            "http://kube:80".parse().expect("a URL"),
            "http://ironic:6385/v1/".parse().expect("a URL"),
        );
        let cluster = Cluster::new(plain_client(&host, &options.kube), &host, &options);
        let diary = Diary::default();
        let (writing, clock) = (diary.clone(), host.clone());
        let reconcile = move |key: Key| {
            let (diary, host) = (writing.clone(), clock.clone());
            async move {
                let before =
                    diary.all().iter().filter(|moment| moment.begins && moment.host == key.name).count();
                diary.write(host.now(), &key.name, true);
                host.sleep(length).await;
                diary.write(host.now(), &key.name, false);
                outcome(&key, before)
            }
        };
        let running = host.clone();
        drop(host.spawn(async move { control(&running, &cluster, 3, reconcile).await }));
        test(api, diary, host).await
    })
}

fn done(_: &Key, _: usize) -> io::Result<Next> {
    Ok(Next::Done)
}

const MOMENT: Duration = Duration::from_millis(100);

#[test]
fn what_counts_as_a_change_of_a_host() {
    beside(1, Duration::ZERO, done, async |api, diary, host| {
        for name in ["host-0", "host-1"] {
            api.put("baremetalhosts", name, bare_metal_host());
        }
        host.sleep(MOMENT).await;
        assert_eq!(diary.take(), ["host-0", "host-1"]);
        // what is written                                                    runs
        let changes: [(Write, bool); 7] = [
            (|host| host["status"]["errorCount"] = json!(1), false),
            (|host| host["metadata"]["labels"] = json!({"a": "b"}), false),
            (|host| host["metadata"]["generation"] = json!(2), true),
            (|host| host["metadata"]["annotations"] = json!({"a": "b"}), true),
            (|host| host["metadata"]["annotations"] = json!({"a": "c"}), true),
            (|host| host["metadata"]["finalizers"] = json!(["f"]), true),
            (|host| host["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"), true),
        ];
        for (number, (change, runs)) in changes.into_iter().enumerate() {
            api.change("baremetalhosts", "host-1", change);
            host.sleep(MOMENT).await;
            assert_eq!(diary.take().len(), usize::from(runs), "change {number}");
        }
        api.remove("baremetalhosts", "host-1");
        host.sleep(MOMENT).await;
        assert_eq!(diary.take(), ["host-1"]);
    });
}

#[test]
fn any_change_of_a_secret_runs_its_owners() {
    beside(1, Duration::ZERO, done, async |api, diary, host| {
        api.put("secrets", "s", secret_of("host-0"));
        host.sleep(MOMENT).await;
        assert_eq!(diary.take(), ["host-0"]);
        api.change("secrets", "s", |secret| secret["metadata"]["labels"]["a"] = json!("b"));
        host.sleep(MOMENT).await;
        assert_eq!(diary.take(), ["host-0"]);
        api.put("secrets", "s", secret_of("host-1"));
        host.sleep(MOMENT).await;
        assert_eq!(diary.take(), ["host-0", "host-1"], "the old owner and the new one");
        api.remove("secrets", "s");
        host.sleep(MOMENT).await;
        assert_eq!(diary.take(), ["host-1"]);
    });
}

#[test]
fn outcomes_decide_when_a_host_is_looked_at_again() {
    let outcome = |_: &Key, before: usize| match before {
        0 | 2 => Ok(Next::After(Duration::from_secs(60))),
        1 | 3 => Err(io::Error::other("it fails")),
        4..12 => Ok(Next::Again),
        12 => Ok(Next::After(Duration::from_secs(1))),
        13 => Ok(Next::Again),
        _ => Ok(Next::Done),
    };
    beside(1, Duration::ZERO, outcome, async |api, diary, host| {
        api.put("baremetalhosts", "host-0", bare_metal_host());
        host.sleep(Duration::from_secs(3600)).await;
        // A delay forgets the failures before it; neither an error nor an immediate look does.
        let millis = |millis| Duration::from_millis(millis);
        let expected: Vec<Duration> = [60_000, 5, 60_000, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 1000, 5]
            .into_iter()
            .map(millis)
            .collect();
        let waited = waits(&diary.all());
        assert_eq!(waited.len(), expected.len(), "{waited:?}");
        for (waited, expected) in waited.into_iter().zip(expected) {
            // The clock's grain is a millisecond.
            assert!(waited >= expected && waited < expected + millis(3), "{waited:?} {expected:?}");
        }
    });
}

#[test]
fn three_hosts_are_worked_on_at_once_and_none_twice_at_once() {
    beside(1, Duration::from_secs(1), done, async |api, diary, host| {
        for number in 0..7 {
            api.put("baremetalhosts", &format!("host-{number}"), bare_metal_host());
        }
        for generation in 2..20 {
            host.sleep(Duration::from_millis(300)).await;
            api.change("baremetalhosts", "host-3", |host| host["metadata"]["generation"] = json!(generation));
        }
        host.sleep(Duration::from_secs(10)).await;
        let (mut working, mut most) = (BTreeSet::new(), 0);
        for Moment { at, host, begins } in diary.all() {
            match begins {
                true => assert!(working.insert(host), "twice at {at:?}"),
                false => assert!(working.remove(&host)),
            }
            most = most.max(working.len());
        }
        assert_eq!((most, working.len()), (3, 0));
        let runs = diary.take().iter().filter(|host| *host == "host-3").count();
        assert!((3..=8).contains(&runs), "changes while it was worked on were put together: {runs}");
    });
}

#[test]
fn what_happened_while_nobody_watched_is_made_up_for() {
    beside(1, Duration::ZERO, done, async |api, diary, host| {
        for name in ["kept", "changed", "removed"] {
            api.put("baremetalhosts", name, bare_metal_host());
        }
        host.sleep(MOMENT).await;
        diary.take();

        // The watch ends, and goes on from where it was.
        api.end_watches(false);
        api.change("baremetalhosts", "changed", |host| host["metadata"]["generation"] = json!(2));
        host.sleep(MOMENT).await;
        assert_eq!(diary.take(), ["changed"]);

        // The watch ends, and where it was is forgotten.
        api.end_watches(true);
        api.change("baremetalhosts", "changed", |host| host["metadata"]["generation"] = json!(3));
        api.put("baremetalhosts", "new", bare_metal_host());
        api.remove("baremetalhosts", "removed");
        let began = host.now();
        while diary.all().is_empty() {
            host.sleep(MOMENT).await;
        }
        let wait = host.now() - began;
        assert!(wait > Duration::from_millis(800) && wait < Duration::from_millis(1800), "{wait:?}");
        assert_eq!(diary.take(), ["changed", "new", "removed"]);
    });
}

#[test]
fn secrets_are_looked_at_again_every_ten_hours() {
    beside(1, Duration::ZERO, done, async |api, diary, host| {
        api.put("secrets", "s", secret_of("host-0"));
        host.sleep(Duration::from_secs(8 * 3600)).await;
        assert_eq!(diary.take().len(), 1);
        host.sleep(Duration::from_secs(4 * 3600)).await;
        assert_eq!(diary.take().len(), 1);
    });
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let outcome = |_: &Key, before: usize| match before {
        ..20 => Err(io::Error::other("it fails")),
        _ => Ok(Next::Done),
    };
    let run = |seed| {
        beside(seed, Duration::from_millis(3), outcome, async |api, diary, host| {
            for number in 0..7 {
                api.put("baremetalhosts", &format!("host-{number}"), bare_metal_host());
                api.put("secrets", &format!("secret-{number}"), secret_of(&format!("host-{number}")));
            }
            for _ in 0..10 {
                host.sleep(Duration::from_secs(60)).await;
                api.end_watches(true);
                api.change("baremetalhosts", "host-3", |host| {
                    host["metadata"]["annotations"] = json!({"at": "x"})
                });
            }
            diary.all()
        })
    };
    let first = run(1);
    assert!(first.len() > 200);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

/// A task that panics takes neither the loop nor its host's turn with it. In the simulator a panic fails the world, so
/// this is about what the loop makes of a task that left no outcome.
#[test]
fn a_task_without_an_outcome_counts_as_an_error() {
    engine::simulate(Seed(1), |net| async move {
        let host = net.host("operator");
        let (mut queue, key) = (Queue::new(), Key::new("metal3", "host-0"));
        settle::<io::Error>(&host, &mut queue, &key, None);
        assert_eq!(queue.next_due(), Some(host.now() + Duration::from_millis(5)));
    });
}
