//! The web server beside the conductor: boot discs, kernels, ramdisks and network boot scripts, for BMCs and machines.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use bytes::Bytes;
use wire::Host;

use crate::settings::Settings;

/// The port on which it is served.
pub(crate) const PORT: u16 = 6180;

/// The agent's kernel and ramdisk, where metal3's downloader puts them beside Ironic. The machines of this project
/// know a kernel that starts the agent by its first line.
const AGENT: [(&str, &[u8]); 2] = [
    ("images/ironic-python-agent.kernel", b"bmsim ramdisk image 1\n"),
    ("images/ironic-python-agent.initramfs", b"bmsim initial ramdisk 1\n"),
];

/// What is published now. Clones share it.
#[derive(Clone)]
pub(crate) struct BootServer {
    base: Arc<str>,
    files: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl BootServer {
    pub(crate) fn new(host: &Host, settings: &Settings) -> Self {
        let base = match &settings.deploy.http_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{}:{PORT}", host.name()),
        };
        let agent = AGENT.map(|(path, bytes)| (path.to_owned(), Bytes::from_static(bytes)));
        Self { base: base.into(), files: Arc::new(Mutex::new(BTreeMap::from(agent))) }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a file under a path without a leading slash; returns its URL.
    pub(crate) fn publish(&self, path: &str, bytes: Bytes) -> String {
        self.files().insert(path.to_owned(), bytes);
        format!("{}/{path}", self.base)
    }

    /// Takes a file back.
    pub(crate) fn withdraw(&self, path: &str) {
        self.files().remove(path);
    }

    /// Answers GET and HEAD with what is published.
    pub(crate) fn router(&self) -> Router {
        Router::new().route("/{*path}", get(file)).with_state(self.clone())
    }
}

async fn file(State(server): State<BootServer>, Path(path): Path<String>) -> Response {
    match server.files().get(&path) {
        Some(bytes) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
