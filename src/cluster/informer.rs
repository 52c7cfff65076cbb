//! Local copies of what the server holds, kept by watching it.
//!
//! An informer lists, then watches, and says what changed. When its watch ends it goes on from where it was; when it
//! is told that this is too long ago it lists again and works out what it has missed. A watch whose server has died
//! without a word is noticed by its own end, after five minutes at most (upstream's client speaks HTTP/2 and notices by
//! its pings, after 45 s).
//!
//! An object that cannot be read, say because a newer operator wrote a word that this one does not know, counts as
//! absent until it can: it must not keep the others from being heard of.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, stream::BoxStream};
use kube::{
    Api,
    core::DeserializeGuard,
    runtime::watcher::{self, watcher},
};
use rand::RngExt as _;
use wire::Dice;

use super::{Key, Object};

/// The objects of one kind, as last heard of. Cheap to clone; all clones are the same copy.
#[derive(Debug)]
pub struct Cache<K>(Arc<Mutex<BTreeMap<Key, Arc<K>>>>);

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Cache<K> {
    /// The object as last heard of.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.lock().get(key).cloned()
    }

    /// All objects, in the order of their keys.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<K>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an informer has heard.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// An object that was not known.
    Added(Arc<K>),
    /// A known object, before and after. After a new list both may be the same.
    Updated {
        /// What was known.
        old: Arc<K>,
        /// What is known now.
        new: Arc<K>,
    },
    /// An object that is gone.
    Deleted(Arc<K>),
}

/// Keeps one [`Cache`]. Does nothing by itself: call [`next`](Self::next) again and again.
pub struct Informer<K> {
    stream: BoxStream<'static, watcher::Result<watcher::Event<DeserializeGuard<K>>>>,
    cache: Cache<K>,
    /// What a list in progress has brought so far.
    listed: Option<BTreeMap<Key, Arc<K>>>,
    /// What is already in the cache and has not yet been told.
    changes: VecDeque<Change<K>>,
    synced: bool,
    backoff: Backoff,
    /// When to try again after a failure.
    retry: Option<tokio::time::Instant>,
}

impl<K: Object> Informer<K> {
    /// An informer of the objects behind `api` that have `label`, if one is given. `dice` spread its retries.
    pub fn new(api: Api<DeserializeGuard<K>>, label: Option<&str>, cache: Cache<K>, dice: Dice) -> Self {
        // As client-go does: any version will do for the first list, because the watch brings what it lacks. kube asks
        // for a version only when it does not ask for pages.
        let config = watcher::Config {
            label_selector: label.map(str::to_owned),
            list_semantic: watcher::ListSemantic::Any,
            page_size: None,
            ..watcher::Config::default()
        };
        Self {
            stream: watcher(api, config).boxed(),
            cache,
            listed: None,
            changes: VecDeque::new(),
            synced: false,
            backoff: Backoff::new(dice),
            retry: None,
        }
    }

    /// Whether the cache has once held everything, and every [`Change`] up to then has been told.
    pub fn synced(&self) -> bool {
        self.synced && self.changes.is_empty()
    }

    /// The cache that is kept.
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// Waits until something changes or the first list is complete (`None`). Nothing is lost if it is cancelled.
    pub async fn next(&mut self) -> Option<Change<K>> {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return Some(change);
            }
            if let Some(retry) = self.retry {
                tokio::time::sleep_until(retry).await;
                self.retry = None;
            }
            match self.stream.next().await {
                Some(Ok(event)) => {
                    if self.hear(event) {
                        return None;
                    }
                }
                Some(Err(error)) => {
                    let now = tokio::time::Instant::now();
                    let wait = self.backoff.wait(now);
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(kind = %K::kind(&()), error, ?wait, "watch");
                    self.retry = Some(now + wait);
                }
                // The watcher's stream has no end; if it had, there would be nothing more to hear.
                None => std::future::pending().await,
            }
        }
    }

    /// Takes one event in, and tells whether it completed the first list.
    fn hear(&mut self, event: watcher::Event<DeserializeGuard<K>>) -> bool {
        match event {
            watcher::Event::Init => self.listed = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => {
                if let Ok(object) = readable(object) {
                    self.listed.get_or_insert_default().insert(Key::of(&object), Arc::new(object));
                }
            }
            watcher::Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                self.replace(listed);
                return !std::mem::replace(&mut self.synced, true);
            }
            watcher::Event::Apply(object) => match readable(object) {
                Ok(object) => {
                    let object = Arc::new(object);
                    let old = self.cache.lock().insert(Key::of(&*object), Arc::clone(&object));
                    self.changes.push_back(match old {
                        Some(old) => Change::Updated { old, new: object },
                        None => Change::Added(object),
                    });
                }
                Err(key) => self.forget(&key),
            },
            watcher::Event::Delete(object) => match readable(object) {
                Ok(object) => {
                    self.cache.lock().remove(&Key::of(&object));
                    self.changes.push_back(Change::Deleted(Arc::new(object)));
                }
                Err(key) => self.forget(&key),
            },
        }
        false
    }

    /// Removes an object of which nothing can be told but that what was known of it is no longer true.
    fn forget(&mut self, key: &Key) {
        let known = self.cache.lock().remove(key);
        self.changes.extend(known.map(Change::Deleted));
    }

    /// Makes a new list the truth. What it lacks was deleted while nobody was watching.
    fn replace(&mut self, listed: BTreeMap<Key, Arc<K>>) {
        let mut known = self.cache.lock();
        let mut gone = std::mem::replace(&mut *known, listed);
        for (key, object) in &*known {
            self.changes.push_back(match gone.remove(key) {
                Some(old) => Change::Updated { old, new: Arc::clone(object) },
                None => Change::Added(Arc::clone(object)),
            });
        }
        self.changes.extend(gone.into_values().map(Change::Deleted));
    }
}

/// The object, or the key of one that cannot be read.
fn readable<K: Object>(object: DeserializeGuard<K>) -> Result<K, Key> {
    let key = Key::of(&object);
    object.0.map_err(|invalid| {
        tracing::error!(kind = %K::kind(&()), %key, error = invalid.error, "read what the server holds");
        key
    })
}

/// How long to wait before the next attempt to watch: the rule of client-go's reflector. kube's own takes its jitter
/// from the thread's generator, which a seed does not repeat.
#[derive(Debug)]
struct Backoff {
    dice: Dice,
    failures: u32,
    last: Option<tokio::time::Instant>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(800);
    const LONGEST: Duration = Duration::from_secs(30);
    /// After this long without a failure the next one is the first again.
    const RESET: Duration = Duration::from_secs(120);

    fn new(dice: Dice) -> Self {
        Self { dice, failures: 0, last: None }
    }

    fn wait(&mut self, now: tokio::time::Instant) -> Duration {
        if self.last.is_some_and(|last| now - last > Self::RESET) {
            self.failures = 0;
        }
        self.last = Some(now);
        let base = Self::FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(Self::LONGEST);
        self.failures = self.failures.saturating_add(1);
        base + base.mul_f64(self.dice.random_range(0.0..1.0))
    }
}
