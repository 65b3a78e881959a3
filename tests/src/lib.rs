//! Shared by the end-to-end tests: the suite that every runner passes, a temporary place with its own configuration, installed test
//! runners, a census of this process's resources, servers (a real one and one that misbehaves), and files that stand for weights.

pub mod behaviour;
pub mod census;
pub mod nginx;
pub mod place;
pub mod python_runner;
pub mod server;
pub mod weights;
