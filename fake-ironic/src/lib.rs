//! Ironic: its API, conductor, drivers, boot server and deploy agent.
//!
//! [`Ironic`](server::Ironic) is the program; [`Database`](database::Database) is what survives its crashes until the
//! world loses it; [`Settings`](settings::Settings) are its `ironic.conf`. It meets operators, BMCs, image servers and
//! machines over the network alone.

pub mod agent;
mod agent_client;
mod boot_server;
mod driver;
mod images;
pub mod settings;
