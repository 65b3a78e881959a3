//! Files and cartons from servers: an ordinary nginx, and a server that misbehaves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cache;
mod credentials;
mod links;
mod metadata;
mod model_files;
mod network;
mod setting;
mod tensor_files;
