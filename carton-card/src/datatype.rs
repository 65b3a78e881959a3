//! The names of element types.

use carton_core::DataType;

/// The name of a dtype in the Open Inference Protocol, or that of its [carrier](DataType::carrier) where the protocol has none. `None` for a
/// dtype that this version does not know.
#[must_use]
pub fn datatype_name(dtype: DataType) -> Option<&'static str> {
    Some(match dtype {
        DataType::Bool => "BOOL",
        DataType::Float16 => "FP16",
        DataType::BFloat16 => "BF16",
        DataType::String | DataType::Bytes => "BYTES",
        other => match other.carrier() {
            DataType::Float32 => "FP32",
            DataType::Float64 => "FP64",
            DataType::Int8 => "INT8",
            DataType::Int16 => "INT16",
            DataType::Int32 => "INT32",
            DataType::Int64 => "INT64",
            DataType::Uint8 => "UINT8",
            DataType::Uint16 => "UINT16",
            DataType::Uint32 => "UINT32",
            DataType::Uint64 => "UINT64",
            _ => return None,
        },
    })
}
