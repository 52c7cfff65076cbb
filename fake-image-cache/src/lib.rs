//! The flaky HTTP server that holds OS images and their checksum files.
//!
//! [`Cache`] is the machine: files, faults, and a pure `handle` from request to response. [`ImageCache`] is the handle
//! that a world keeps: it serves a cache on a [`wire::Host`] while the world moves its files and breaks it. An image's
//! bytes follow from its name and size, so that all caches agree on them and checksums are real.

mod cache;
mod content;
mod fault;
mod pattern;
mod precondition;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{Router, body::Body, extract::State};
use serde_json::json;
use wire::Host;

pub use cache::{Cache, FaultId};
pub use fault::{Fault, Method, Selector, StatusCode, UnfitStatus};
pub use pattern::Pattern;

/// A cache that is served, may be broken, and may be moved about in. All clones are the same cache.
#[derive(Clone, Debug, Default)]
pub struct ImageCache(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    cache: Mutex<Cache>,
    /// Where it is served, for the journal.
    host: Mutex<Option<Host>>,
}

impl ImageCache {
    /// A cache without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an image of `size` bytes, and beside it `<name>.sha256sum`, `<name>.sha512sum` and `<name>.md5sum` as
    /// coreutils write them. `name` is the path below the server's root.
    pub fn add_image(&self, name: &str, size: u64) {
        self.cache().add_image(name, size);
    }

    /// Serves the cache on a port for as long as the host lives, in a task of the host. After a crash it may be served
    /// again, on the host's new handle, with its files and faults as they were.
    ///
    /// A port that can't be had is an error in the log; [`ImageCache::run`] returns it.
    pub fn serve(&self, host: &Host, port: u16) {
        let (cache, task_host) = (self.clone(), host.clone());
        drop(host.spawn(async move {
            if let Err(error) = cache.run(&task_host, port).await {
                tracing::error!(host = task_host.name(), port, %error, "serve images");
            }
        }));
    }

    /// Serves the cache on a port for as long as the host lives. Returns only if the port can't be had.
    pub async fn run(&self, host: &Host, port: u16) -> io::Result<()> {
        self.cache().stamp(host.date());
        *self.0.host.lock().unwrap_or_else(PoisonError::into_inner) = Some(host.clone());
        wire::http::serve(host, port, self.router()).await
    }

    /// The cache as a service, for a server that has more to offer.
    pub fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    /// Moves the images that match away, with their checksum files, and other files that match. They are not found
    /// until they are restored. Tells which were there and are not any more.
    pub fn move_away(&self, files: &Pattern) -> Vec<String> {
        let moved = self.cache().move_away(files);
        self.note("moved-away", &moved);
        moved
    }

    /// Puts back what [`ImageCache::move_away`] moved away, as far as it matches. Tells which are there again.
    pub fn restore(&self, files: &Pattern) -> Vec<String> {
        let restored = self.cache().restore(files);
        self.note("restored", &restored);
        restored
    }

    /// Begins a fault. Where two faults meet in a request, the one that was begun last acts.
    pub fn apply(&self, fault: Fault) -> FaultId {
        let (id, moved) = self.cache().apply(fault);
        self.note("moved-away", &moved);
        id
    }

    /// Ends a fault. What it moved away is there again.
    pub fn clear(&self, id: FaultId) {
        let restored = self.cache().clear(id);
        self.note("restored", &restored);
    }

    /// How many requests a fault has changed the answer of, also after its end.
    pub fn touched(&self, id: FaultId) -> u64 {
        self.cache().touched(id)
    }

    fn note(&self, what: &str, files: &[String]) {
        let host = self.0.host.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(host) = host.filter(|_| !files.is_empty()) {
            host.note("files", host.name(), json!({ what: files }));
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.0.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(State(cache): State<ImageCache>, request: http::Request<Body>) -> http::Response<Body> {
    let answer = cache.cache().handle(request.method(), request.uri().path(), request.headers());
    match answer {
        cache::Answer::Response(response) => response.map(Body::from),
        cache::Answer::Never => std::future::pending().await,
    }
}
