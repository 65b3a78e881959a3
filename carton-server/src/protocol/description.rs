//! What the protocol says of a model: its metadata, and Triton's configuration, which load generators ask for.

use carton_core::metadata::{Metadata, TensorSpec};
use serde::Serialize;

use super::datatype;

/// The metadata of a model.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ModelMetadata {
    pub(crate) name: String,
    pub(crate) versions: Vec<String>,
    pub(crate) platform: String,
    pub(crate) inputs: Vec<TensorMetadata>,
    pub(crate) outputs: Vec<TensorMetadata>,
}

/// An input or output. A size that is not fixed is -1, and so is a number of dimensions that is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TensorMetadata {
    pub(crate) name: String,
    pub(crate) datatype: &'static str,
    pub(crate) shape: Vec<i64>,
}

/// Triton's configuration of a model, as far as cartons have it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ModelConfig {
    pub(crate) name: String,
    pub(crate) platform: String,
    pub(crate) backend: String,
    /// 0 for a model without batching. With batching, `dims` do not have the first dimension.
    pub(crate) max_batch_size: usize,
    pub(crate) input: Vec<TensorConfig>,
    pub(crate) output: Vec<TensorConfig>,
}

/// An input or output in Triton's configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TensorConfig {
    pub(crate) name: String,
    pub(crate) data_type: String,
    pub(crate) dims: Vec<i64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) optional: bool,
}

impl ModelMetadata {
    pub(crate) fn new(name: &str, versions: Vec<String>, metadata: &Metadata) -> Self {
        let describe = |specs: &[TensorSpec]| specs.iter().map(TensorMetadata::new).collect();
        Self {
            name: name.to_owned(),
            versions,
            platform: platform(metadata),
            inputs: describe(metadata.inputs()),
            outputs: describe(metadata.outputs()),
        }
    }
}

impl TensorMetadata {
    fn new(spec: &TensorSpec) -> Self {
        let (name, datatype) = (spec.name.clone(), datatype::name(spec.dtype));
        Self { name, datatype, shape: datatype::sizes(spec.dtype, &spec.shape) }
    }
}

impl ModelConfig {
    pub(crate) fn new(name: &str, max_batch_size: usize, metadata: &Metadata) -> Self {
        let n_left_out = usize::from(max_batch_size > 0);
        let describe = |specs: &[TensorSpec]| {
            let describe = |spec: &TensorSpec| TensorConfig {
                name: spec.name.clone(),
                data_type: datatype::config_name(spec.dtype),
                dims: datatype::sizes(spec.dtype, &spec.shape).into_iter().skip(n_left_out).collect(),
                optional: spec.is_optional(),
            };
            specs.iter().map(describe).collect()
        };
        Self {
            name: name.to_owned(),
            platform: platform(metadata),
            backend: metadata.runner().runner_name.clone(),
            max_batch_size,
            input: describe(metadata.inputs()),
            output: describe(metadata.outputs()),
        }
    }
}

/// The runner, as the protocol names platforms: `carton_onnx`.
fn platform(metadata: &Metadata) -> String {
    format!("carton_{}", metadata.runner().runner_name)
}
