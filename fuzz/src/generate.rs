//! Bytes as what parsers take.

pub mod file;
pub mod peer;
pub mod pieces;
