//! The API over the wire, in a simulated world: verbs, refusals, watches, faults, restarts.

mod faults;
mod user;
mod verbs;
mod watches;
