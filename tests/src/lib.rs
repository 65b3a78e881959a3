//! What the end-to-end tests share: the suite that every runner passes, a place with its own configuration, installed test runners, a census of what this process
//! holds, servers (a real one and one that misbehaves), and files that stand for weights.

pub mod behaviour;
pub mod census;
pub mod nginx;
pub mod place;
pub mod python_runner;
pub mod server;
pub mod weights;
