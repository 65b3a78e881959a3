//! The Open Inference Protocol, version 2 (spec/serving.md §2): JSON and bytes in, requests out, and back. Pure: it knows neither HTTP nor
//! gRPC, and no loaded model.

pub(crate) mod binary;
pub(crate) mod bytes_elements;
pub(crate) mod datatype;
pub(crate) mod description;
pub(crate) mod few;
mod json_data;
pub(crate) mod lists;
pub(crate) mod parameter;
pub(crate) mod request;
pub(crate) mod response;
