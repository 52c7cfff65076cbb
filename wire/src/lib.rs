//! The one seam to the world: network, clock, spawning, chance, and the journal of what happened.
//!
//! Code that runs in a world is handed a [`Host`] and asks it for everything that is not a pure function. There are
//! two makers of hosts: [`real`] (tokio's sockets, the system's time and entropy) and the simulator's engine.
//! Nothing here knows about BMCs, Ironic or Kubernetes.

mod chance;
mod host;
pub mod http;
mod journal;
pub mod real;
mod stream;

pub use chance::{Dice, Seed};
pub use host::{Backend, Clock, Host, Instant, Scope, Task, within};
pub use journal::{Entry, Journal, Silent};
pub use stream::{Io, Listen, Listener, ResetSwitch, Stream, Udp, UdpSocket};

/// A boxed future that may move between threads, as [`Backend`] needs them.
pub type BoxFuture<'a, T> = futures::future::BoxFuture<'a, T>;
