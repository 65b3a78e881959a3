//! Converts arbitrary bytes to the inputs of parsers.

pub mod file;
pub mod names;
pub mod peer;
pub mod pieces;
