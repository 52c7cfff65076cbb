//! The metal3 BareMetalHost controller: same API, same states, same requests to Ironic as metal3's
//! baremetal-operator, whose `main` of August 2026 is the reference.
//!
//! One reconcile of one host is **[observe] → [decide] → [act]**: an observation holds all that a pass may know, the
//! decision is a pure function of it, and its effects are carried out in order up to the first that fails. When and how
//! often a host is looked at is the business of [controller] and [queue]. [regression] lists the bugs of the past that
//! can be brought back.
//!
//! Not part of it: firmware settings and updates, RAID, servicing, image builders, virtual CDs for data, event
//! subscriptions, host claims, conditions, metrics and webhooks. What a host says about them is kept as it came.

pub mod act;
pub mod bmh;
pub mod cluster;
pub mod controller;
pub mod decide;
pub mod hardware;
pub mod ironic;
pub mod names;
pub mod observe;
pub mod options;
pub mod provisioner;
pub mod queue;
pub mod reconcile;
pub mod regression;
mod run;
mod words;

pub use run::{RunError, run, run_on};
pub use words::UnknownWord;
