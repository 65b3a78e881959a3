//! What a server serves and how, as data: `serve.toml`, or the same made by a program (spec/serving.md §7).
//!
//! `file` reads the file, `folder` finds the cartons of a folder. [`ServeConfig`] becomes a [`ServerBuilder`](crate::ServerBuilder) and
//! [`ModelSpec`](crate::ModelSpec)s; a reload makes the latter again.

mod error;
mod file;
mod folder;
mod models;

pub use error::ConfigError;
pub use file::{ModelConfig, ServeConfig};
