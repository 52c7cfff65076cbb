//! The event-driven simulator: one virtual clock, real sockets' behaviour, cost by events and not by time.
//!
//! A world runs on a thread of its own, on one paused tokio runtime. When every task is idle, the loop of [`run()`] takes
//! what the hosts' kernels (turmoil-net) want to send, gives each packet its fate and its moment, and lets time jump
//! to the next moment at which anything happens. Same seed, same bytes of trace.
//!
//! ```
//! let answer = engine::simulate(wire::Seed(1), |net| async move {
//!     let (server, client) = (net.host("server"), net.host("client"));
//!     let listener = server.listen(80).await.unwrap();
//!     let greeting = client.spawn({
//!         let client = client.clone();
//!         async move { client.connect("server", 80).await.map(|stream| stream.peer().port()) }
//!     });
//!     listener.accept().await.unwrap();
//!     greeting.await.unwrap().unwrap()
//! });
//! assert_eq!(answer, 80);
//! ```

mod fabric;
mod flow;
mod gateway;
mod host;
mod interpose;
mod logs;
mod network;
mod record;
mod rule;
mod run;
mod scope;
mod socket;

pub use network::Network;
pub use record::{Fate, Record, Segment, Tracing, What};
pub use rule::{Effect, Rule, RuleId};
pub use run::{Config, Failure, Outcome, Pace, Stats, run, simulate};
