//! Shared by the end-to-end tests: the suite that every runner passes, a temporary place with its own configuration, installed test
//! runners, a census of this process's resources, and files that stand for weights. The servers, a real one and one that misbehaves, are in
//! a separate crate that the unit tests of `carton-core` use too.

pub mod behaviour;
pub mod census;
pub mod place;
pub mod python_runner;
pub mod weights;
