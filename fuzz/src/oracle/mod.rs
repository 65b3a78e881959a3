//! Properties that hold for arbitrary bytes, with a module for each parser. Each `check` panics if a property does not hold, and
//! returns whether the parser accepts the bytes.

pub mod archive;
pub mod config;
pub mod content_encoding;
pub mod dataset_manifest;
pub mod description;
pub mod extension_type;
pub mod gguf;
pub mod grpc_request;
pub mod host;
pub mod http_head;
pub mod inference_request;
pub mod links;
pub mod manifest;
pub mod message;
pub mod metadata;
pub mod model_card;
pub mod npy;
pub mod onnx;
pub mod onnx_tensors;
pub mod registry;
pub mod requirements_lock;
pub mod rows;
pub mod runner;
pub mod runner_archive;
pub mod runner_descriptor;
pub mod runner_index;
pub mod safetensors;
pub mod safetensors_index;
pub mod sample_names;
pub mod signature;
pub mod structure;
pub mod tensor_data;
pub mod tensor_file;
pub mod tensor_index;
pub mod torch;
pub mod ztensor;
pub mod ztensor2;

mod same;

/// Returns the check of a target.
pub fn of(target: &str) -> Option<fn(&[u8]) -> bool> {
    Some(match target {
        "archive" => archive::check,
        "arrow" => rows::check,
        "config" => config::check,
        "content_encoding" => content_encoding::check,
        "dataset_manifest" => dataset_manifest::check,
        "description" => description::check,
        "extension_type" => extension_type::check,
        "gguf" => gguf::check,
        "grpc_request" => grpc_request::check,
        "host" => host::check,
        "http_head" => http_head::check,
        "inference_request" => inference_request::check,
        "links" => links::check,
        "manifest" => manifest::check,
        "message" => message::check,
        "metadata" => metadata::check,
        "model_card" => model_card::check,
        "npy" => npy::check,
        "onnx" => onnx::check,
        "onnx_tensors" => onnx_tensors::check,
        "parquet" => rows::check,
        "registry" => registry::check,
        "requirements_lock" => requirements_lock::check,
        "runner" => runner::check,
        "runner_archive" => runner_archive::check,
        "runner_descriptor" => runner_descriptor::check,
        "runner_index" => runner_index::check,
        "safetensors" => safetensors::check,
        "safetensors_index" => safetensors_index::check,
        "sample_names" => sample_names::check,
        "signature" => signature::check,
        "structure" => structure::check,
        "tensor_data" => tensor_data::check,
        "tensor_file" => tensor_file::check,
        "tensor_index" => tensor_index::check,
        "torch" => torch::check,
        "ztensor" => ztensor::check,
        "ztensor2" => ztensor2::check,
        _ => return None,
    })
}
