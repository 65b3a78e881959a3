//! Works with the weights of a model, on all cores: loading, statistics, int8 quantization, and validation against a description
//! (spec/weights.md). Knows files only by [`TensorFile`](crate::any_file::TensorFile), whatever their format.

mod arena;
mod blend;
mod description;
mod error;
mod examine;
mod filter;
mod fused;
mod join;
mod kernels;
mod load;
mod load_quantized;
mod low_rank;
mod options;
mod packed;
mod pieces;
mod quantization_error;
mod quantize;
mod quantize_groups;
mod quantizer;
mod round;
mod scales;
mod schemes;
mod statistics;
mod validate;

pub use blend::{Angle, Blend, BlendError, Compute, MergeMethod};
pub use description::{Description, DescriptionError, ExpectedTensor, Quantization, ValueRange};
pub use error::WeightsError;
pub use examine::{Examined, examine, examine_entry};
pub use filter::Filter;
pub use join::join;
pub use load::{TensorMetadata, Weights, file_size, load, load_file, load_metadata};
pub use load_quantized::{QuantizedWeights, load_quantized};
pub use low_rank::LowRank;
pub use options::{LoadOptions, LoaderStatistics, Placement};
pub use packed::{Logical, Packed, PackedError, QuantizationConfig, has_packed, packed, packed_of};
pub use quantization_error::QuantizationError;
pub use quantize::{QuantizeOptions, QuantizedTensor, quantize, quantize_all};
pub use quantize_groups::{QuantizedMatrix, quantize_groups};
pub use quantizer::Quantizer;
pub use round::{Beyond, FloatType};
pub use scales::{Granularity, SCALE_SUFFIX, Scales};
pub use schemes::{Described, WITHOUT_SCALES, quantized_already};
pub use statistics::{Statistics, stats, stats_of_all, stats_of_entry};
pub use validate::{
    Category, Finding, LayerStructure, Validation, check_numerical_stability, validate, validate_dtype_consistency,
    validate_quantization, validate_tensor, validate_weights, verify_layer_structure,
};
