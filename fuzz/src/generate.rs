//! Bytes as what parsers take.

pub mod file;
pub mod names;
pub mod peer;
pub mod pieces;
