//! `bmsim`.
