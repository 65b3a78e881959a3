//! What the end-to-end tests share: a place with its own configuration, installed test runners, and a census of what this
//! process holds.

pub mod census;
pub mod place;
