//! Ironic: its API, conductor, drivers, boot server and deploy agent.
//!
//! [`Ironic`] is the program; [`Database`] is what survives its crashes until the world loses it; [`settings`] are its
//! `ironic.conf`; [`fault`] is what can be broken about it; [`agent`] is the program that its machines boot. It meets
//! operators, BMCs, image servers and machines over the network alone.

pub mod agent;
mod agent_client;
mod api;
mod boot_server;
mod conductor;
pub mod database;
mod driver;
mod failure;
pub mod fault;
mod hardware;
mod images;
mod node;
mod python;
mod server;
pub mod settings;
pub mod state;
mod view;

pub use database::Database;
pub use fault::{Fault, Faults};
pub use server::{API_PORT, Ironic};
pub use settings::Settings;
