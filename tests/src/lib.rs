//! What the end-to-end tests share: a place with its own configuration, installed test runners, a census of what this process
//! holds, and servers, a real one and one that misbehaves.

pub mod census;
pub mod nginx;
pub mod place;
pub mod server;
