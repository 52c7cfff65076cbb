//! The metal3 BareMetalHost controller.

pub mod bmh;
pub mod cluster;
pub mod options;
pub mod provisioner;
pub mod queue;
pub mod regression;
mod words;

pub use words::UnknownWord;
