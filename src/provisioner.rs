//! Ironic, as the operator's decisions see it: what a node looks like, and what can be asked of it.
//!
//! All of it is data. [`crate::observe`] fills the views in, [`crate::decide`] makes the requests, and the REST client
//! in [`crate::ironic`] carries them out.

mod node;
mod patch;
mod request;

pub use node::{Node, Port, ProvisionState, Validation};
pub use patch::{Op, Patch, PatchOp};
pub use request::{Answer, ConfigDrive, DriverInfo, NewNode, PowerTarget, ProvisionTarget, Reaction, Request, SetPower};

/// What the Ironic at hand can do. Its API is 1.89 or newer, or it is not ready at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Features {
    /// The minor version of the API that was agreed on, e.g. 109 for 1.109.
    pub microversion: u16,
}

impl Features {
    /// Nodes have `disable_power_off` (1.95).
    pub const fn disable_power_off(self) -> bool {
        self.microversion >= 95
    }

    /// A deployment that waits for its agent can be aborted (1.110).
    pub const fn abort_deploy(self) -> bool {
        self.microversion >= 110
    }
}
