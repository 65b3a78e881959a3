//! Requests to servers that answer in every way.

#![allow(clippy::unwrap_used)]

mod answers;
mod credentials;
mod private;
mod secrets;
mod server;
