//! Packs machine-learning models into one verifiable file and runs them in isolated runners.

pub mod archive;
pub mod cache;
pub mod config;
pub mod contents;
pub mod digest;
pub mod links;
pub mod manifest;
pub mod metadata;
pub mod package;
pub mod runner;
pub mod signature;
pub mod source;
pub mod tensor_data;

pub use runner::runner_main;
