//! HTTP on a [`Host`]: one serve loop for all servers, one client for all clients.
//!
//! HTTP/1.1 only, which is what BMCs, Ironic, image servers and, when asked plainly, Kubernetes clients speak.

mod client;
mod fate;
mod serve;

pub use client::{Client, Connector, Error, Link, Pieces, Timeouts};
pub use fate::Fate;
pub use serve::{Peer, serve, serve_on};

use crate::Host;

/// Lets hyper spawn its background tasks on a host, so that they die with it.
#[derive(Clone, Debug)]
pub struct Executor(pub Host);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        // Dropping the handle lets the task go on.
        drop(self.0.spawn(task));
    }
}
