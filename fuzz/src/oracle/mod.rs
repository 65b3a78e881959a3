//! What holds for any bytes, a module for each parser. Each `check` panics where something does not hold.

pub mod archive;
pub mod config;
pub mod content_encoding;
pub mod dataset_manifest;
pub mod description;
pub mod host;
pub mod http_head;
pub mod links;
pub mod manifest;
pub mod message;
pub mod metadata;
pub mod npy;
pub mod rows;
pub mod runner;
pub mod runner_archive;
pub mod runner_descriptor;
pub mod runner_index;
pub mod safetensors;
pub mod safetensors_index;
pub mod tensor_data;
pub mod tensor_index;
pub mod ztensor;

mod same;
