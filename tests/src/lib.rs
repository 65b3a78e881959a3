//! What the end-to-end tests share: a place with its own configuration, installed test runners, a census of what this process
//! holds, servers (a real one and one that misbehaves), and files that stand for weights.

pub mod census;
pub mod nginx;
pub mod place;
pub mod server;
pub mod weights;
