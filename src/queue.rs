//! What to reconcile, and when.
//!
//! Holds no clock and starts no task: callers pass the time in and take due keys out. Behaves as the work queue under
//! controller-runtime does (`client-go/util/workqueue`), because the operator's field bugs live in these rules:
//!
//! - A key is worked on once at a time. Added meanwhile, it is marked and runs again afterwards.
//! - A delayed add waits its time; of two delayed adds of one key the earlier counts. A plain add runs the key at once
//!   and leaves the delayed add in place, so that the key runs once more when that falls due.
//! - A rate-limited add waits longer each time until the key is forgotten, and never less than the bucket shared by all
//!   keys demands.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use wire::Instant;

/// The first wait of a key that failed (controller-runtime's default limiter).
const FIRST_WAIT: Duration = Duration::from_millis(5);

/// The longest wait of a key that fails again and again (controller-runtime's default limiter).
const LONGEST_WAIT: Duration = Duration::from_secs(1000);

/// One queue. `K` names what is reconciled.
#[derive(Debug)]
pub struct Queue<K> {
    /// Keys whose turn has come, in order.
    ready: VecDeque<K>,
    /// Keys that are to run: those in `ready`, and those that were added while being worked on.
    dirty: BTreeSet<K>,
    /// Keys that are being worked on.
    processing: BTreeSet<K>,
    /// When each delayed key falls due, and its place among those due at the same moment.
    waiting: BTreeMap<K, (Instant, u64)>,
    /// The same, in the order of falling due.
    due: BTreeMap<(Instant, u64), K>,
    /// How many rate-limited adds each key has had since it was last forgotten.
    failures: BTreeMap<K, u32>,
    bucket: Bucket,
    places: u64,
}

impl<K: Ord + Clone> Default for Queue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue. Its shared bucket gives ten rate-limited adds a second, a hundred at first.
    pub fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: BTreeSet::new(),
            processing: BTreeSet::new(),
            waiting: BTreeMap::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
            bucket: Bucket::new(Duration::from_millis(100), 100),
            places: 0,
        }
    }

    /// Runs `key` as soon as a worker is free, whatever delay of it is pending.
    pub fn add(&mut self, key: K) {
        if self.dirty.insert(key.clone()) && !self.processing.contains(&key) {
            self.ready.push_back(key);
        }
    }

    /// Runs `key` at `at`, unless an earlier delayed add of it is pending.
    pub fn add_after(&mut self, key: K, at: Instant) {
        if let Some(&(due, place)) = self.waiting.get(&key) {
            if due <= at {
                return;
            }
            self.due.remove(&(due, place));
        }
        self.places += 1;
        self.waiting.insert(key.clone(), (at, self.places));
        self.due.insert((at, self.places), key);
    }

    /// Runs `key` after the wait that its failures so far, and everybody's, have earned it.
    pub fn add_rate_limited(&mut self, key: K, now: Instant) {
        let failures = self.failures.entry(key.clone()).or_default();
        let own = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(*failures)).min(LONGEST_WAIT);
        *failures = failures.saturating_add(1);
        let wait = own.max(self.bucket.reserve(now));
        self.add_after(key, now + wait);
    }

    /// Lets the next rate-limited add of `key` start again from the shortest wait. A pending add stays pending.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Takes the next key to work on; [`done`](Self::done) must follow.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        self.promote(now);
        let key = self.ready.pop_front()?;
        self.dirty.remove(&key);
        self.processing.insert(key.clone());
        Some(key)
    }

    /// The work on `key` has ended. If it was added meanwhile, its turn comes again.
    pub fn done(&mut self, key: &K) {
        if self.processing.remove(key) && self.dirty.contains(key) {
            self.ready.push_back(key.clone());
        }
    }

    /// Lines up the delayed keys that are due. Called at each of the moments that [`next_due`](Self::next_due) names,
    /// it keeps their order true even while no worker is free.
    pub fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            self.waiting.remove(&key);
            self.add(key);
        }
    }

    /// When the next delayed key falls due. Keys that are ready already are not counted.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(&(at, _), _)| at)
    }
}

/// A token bucket that tells how long to wait instead of making anyone wait (`golang.org/x/time/rate`, `Reserve`).
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The time in which one token flows in.
    interval: Duration,
    /// How much may be taken at once from a full bucket, as the time it takes to fill.
    depth: Duration,
    /// When the bucket will be full again if nothing more is taken.
    full_at: Instant,
}

impl Bucket {
    pub(crate) fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, depth: interval.saturating_mul(burst), full_at: Instant::default() }
    }

    /// Takes a token and returns how long its taker must wait for it.
    pub(crate) fn reserve(&mut self, now: Instant) -> Duration {
        self.full_at = self.full_at.max(now) + self.interval;
        self.full_at.since(now).saturating_sub(self.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant(Duration::from_millis(millis))
    }

    /// What a queue is told, and what it must then hand out.
    enum Step {
        Add(&'static str),
        After(&'static str, u64),
        Limited(&'static str),
        Forget(&'static str),
        Done(&'static str),
        Pop(Option<&'static str>),
        Due(Option<u64>),
    }

    /// Plays steps, each at its millisecond.
    fn check(steps: &[(u64, Step)]) {
        let mut queue = Queue::new();
        for (number, (at, step)) in steps.iter().enumerate() {
            let now = ms(*at);
            match step {
                Add(key) => queue.add(*key),
                After(key, at) => queue.add_after(*key, ms(*at)),
                Limited(key) => queue.add_rate_limited(*key, now),
                Forget(key) => queue.forget(key),
                Done(key) => queue.done(key),
                Pop(expected) => assert_eq!(queue.pop_due(now), *expected, "step {number}"),
                Due(expected) => assert_eq!(queue.next_due(), expected.map(ms), "step {number}"),
            }
        }
    }

    use Step::{Add, After, Done, Due, Forget, Limited, Pop};

    #[test]
    fn keys_run_in_the_order_of_their_adds_and_once_each() {
        check(&[
            (0, Add("b")),
            (0, Add("a")),
            (0, Add("b")),
            (0, Pop(Some("b"))),
            (0, Pop(Some("a"))),
            (0, Pop(None)),
        ]);
    }

    #[test]
    fn a_key_added_while_it_is_worked_on_runs_again_afterwards() {
        check(&[
            (0, Add("a")),
            (0, Pop(Some("a"))),
            (1, Add("a")),
            (1, Add("a")),
            (1, Pop(None)),
            (2, Done("a")),
            (2, Pop(Some("a"))),
            (3, Done("a")),
            (3, Pop(None)),
        ]);
    }

    #[test]
    fn of_two_delays_the_earlier_counts() {
        check(&[
            (0, After("a", 500)),
            (0, After("a", 900)),
            (0, Due(Some(500))),
            (0, After("a", 200)),
            (0, Due(Some(200))),
            (199, Pop(None)),
            (200, Pop(Some("a"))),
            (200, Done("a")),
            (200, Due(None)),
            (900, Pop(None)),
        ]);
    }

    #[test]
    fn delays_that_end_together_keep_the_order_of_their_adds() {
        check(&[
            (0, After("b", 10)),
            (0, After("a", 10)),
            (0, After("c", 5)),
            (10, Pop(Some("c"))),
            (10, Pop(Some("b"))),
            (10, Pop(Some("a"))),
        ]);
    }

    #[test]
    fn a_watch_event_bypasses_a_pending_delay_and_leaves_it_pending() {
        check(&[
            (0, After("a", 60_000)),
            (10, Add("a")),
            (10, Pop(Some("a"))),
            (11, Done("a")),
            (11, Pop(None)),
            (11, Due(Some(60_000))),
            (60_000, Pop(Some("a"))),
        ]);
    }

    #[test]
    fn a_delay_that_ends_while_the_key_is_worked_on_runs_it_again() {
        check(&[
            (0, After("a", 10)),
            (5, Add("a")),
            (5, Pop(Some("a"))),
            (12, Pop(None)),
            (20, Done("a")),
            (20, Pop(Some("a"))),
        ]);
    }

    #[test]
    fn failures_double_the_wait_until_forgotten() {
        check(&[
            (0, Limited("a")),
            (0, Due(Some(5))),
            (5, Pop(Some("a"))),
            (5, Limited("a")),
            (5, Done("a")),
            (5, Due(Some(15))),
            (15, Pop(Some("a"))),
            (15, Limited("a")),
            (15, Done("a")),
            (15, Due(Some(35))),
            (35, Pop(Some("a"))),
            (35, Forget("a")),
            (35, Limited("a")),
            (35, Done("a")),
            (35, Due(Some(40))),
        ]);
    }

    #[test]
    fn no_wait_of_a_failing_key_exceeds_a_thousand_seconds() {
        let mut queue = Queue::new();
        let mut now = Instant::default();
        let mut waits = Vec::new();
        for _ in 0..40 {
            queue.add_rate_limited("a", now);
            let due = queue.next_due().expect("a delayed add is pending");
            waits.push(due - now);
            now = due;
            assert_eq!(queue.pop_due(now), Some("a"));
            queue.done(&"a");
        }
        assert_eq!(waits[17], Duration::from_millis(5 << 17));
        assert_eq!(waits[18..], [LONGEST_WAIT; 22]);
    }

    #[test]
    fn a_crowd_of_failures_shares_ten_a_second_after_the_first_hundred() {
        let mut queue = Queue::new();
        for key in 0..120 {
            queue.add_rate_limited(key, ms(0));
        }
        queue.promote(ms(5));
        assert_eq!(queue.ready.len(), 100);
        assert_eq!(queue.next_due(), Some(ms(100)));
        queue.promote(ms(1000));
        assert_eq!(queue.ready.len(), 110);
        // An empty bucket fills at ten a second: after the last reservation and ten seconds more it is full again.
        let mut bucket = Bucket::new(Duration::from_millis(100), 100);
        assert_eq!((0..100).map(|_| bucket.reserve(ms(0))).max(), Some(Duration::ZERO));
        assert_eq!(bucket.reserve(ms(50)), Duration::from_millis(50));
        assert_eq!(bucket.reserve(ms(60_000)), Duration::ZERO);
    }

    proptest::proptest! {
        /// Whatever happens: a key is never worked on twice at once, and no add is lost.
        #[test]
        fn no_add_is_lost_and_no_key_runs_twice_at_once(
            steps in proptest::collection::vec((0..6_u8, 0..3_u8, 0..50_u64), 0..200)
        ) {
            let mut queue = Queue::new();
            let mut now = 0;
            let mut working = BTreeSet::new();
            let mut owed: BTreeMap<u8, u64> = BTreeMap::new();
            for (step, key, millis) in steps {
                now += millis;
                match step {
                    0 => {
                        queue.add(key);
                        owed.insert(key, 0);
                    }
                    1 | 2 => {
                        queue.add_after(key, ms(now + millis));
                        let due = owed.entry(key).or_insert(u64::MAX);
                        *due = (*due).min(now + millis);
                    }
                    3 | 4 => {
                        while let Some(key) = queue.pop_due(ms(now)) {
                            assert!(working.insert(key), "{key} runs twice at once");
                            if owed.get(&key).is_some_and(|due| *due <= now) {
                                owed.remove(&key);
                            }
                        }
                    }
                    _ => {
                        if working.remove(&key) {
                            queue.done(&key);
                        }
                    }
                }
            }
            for key in working {
                queue.done(&key);
            }
            let mut ran = BTreeSet::new();
            while let Some(key) = queue.pop_due(ms(now + 1000)) {
                ran.insert(key);
                queue.done(&key);
            }
            for key in owed.keys() {
                assert!(ran.contains(key), "{key} was added and never ran");
            }
            assert_eq!(queue.next_due(), None);
        }
    }
}
