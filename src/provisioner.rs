//! Ironic, as the operator's decisions see it: what a node looks like, and what can be asked of it.
//!
//! All of it is data. [`crate::observe`] fills the views in, [`crate::decide`] makes the requests, and the REST client
//! in [`crate::ironic`] carries them out.

mod node;
mod patch;
mod request;

pub use node::{Node, Port, ProvisionState, Validation};
pub use patch::{Op, Patch, PatchOp};
pub use request::{
    Answer, ConfigDrive, DriverInfo, NewNode, PowerTarget, ProvisionTarget, Reaction, Request, SetPower,
};
