//! The metal3 BareMetalHost controller.

pub mod bmh;
pub mod options;
pub mod queue;
mod words;

pub use words::UnknownWord;
