//! IPMI 2.0 over LAN (RMCP+): one codec, a client that behaves like `ipmitool -I lanplus`, a server to put in front
//! of a machine.
//!
//! From the wire inwards: a datagram is a [`rmcp::Datagram`]; a session's datagram is a [`packet::Packet`], which
//! [`keys::Keys`] protect; session set-up travels as the messages in [`setup`]; an answered command is a pair of
//! [`message::Message`]s whose data [`command`] gives types. [`server::Server`] is a pure machine from datagrams to
//! datagrams; [`client::Client`] talks over a [`wire::Host`].
//!
//! Section and table numbers are those of the IPMI specification 2.0, revision 1.1.

pub mod cipher;
pub mod client;
pub mod command;
mod completion;
mod credentials;
pub mod keys;
pub mod message;
pub mod packet;
mod privilege;
mod read;
pub mod rmcp;
pub mod server;
pub mod setup;
mod status;

pub use cipher::CipherSuite;
pub use client::{Client, ClientError, Retry};
pub use completion::Completion;
pub use credentials::{Credentials, CredentialsError, Secret};
pub use message::NetFn;
pub use privilege::Privilege;
pub use read::DecodeError;
pub use status::Status;

/// The UDP port of RMCP (13.1.2).
pub const PORT: u16 = 623;

/// The largest datagram that is read; RMCP+ messages on a LAN stay far below (13.6).
pub const LARGEST_DATAGRAM: usize = 1500;
