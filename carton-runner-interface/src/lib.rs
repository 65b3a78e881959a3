//! The protocol between Carton and its runners (spec/runner-protocol.md).

pub mod runner;
