//! The names that the Open Inference Protocol has for element types. Tensors of types that it lacks are there as their carriers.

use std::collections::BTreeMap;

use carton_core::{DataType, Dimension, SymbolicShape};

use crate::failure::{Failure, quoted};

/// The dtypes of the inputs that a model declares, by name.
pub(crate) type InputTypes = BTreeMap<String, DataType>;

/// The protocol's name of a dtype, or of its carrier.
pub(crate) fn name(dtype: DataType) -> &'static str {
    // A page's form and the server name dtypes alike.
    carton_card::datatype_name(dtype).unwrap_or("UNKNOWN")
}

/// Whether the protocol has the dtype.
pub(crate) fn is_known(dtype: DataType) -> bool {
    dtype == dtype.carrier()
        || matches!(dtype, DataType::Bool | DataType::Float16 | DataType::BFloat16 | DataType::Bytes)
}

/// The sizes of a tensor of this dtype and shape in the protocol. A size that is not fixed is -1, and so is a number of dimensions that is not.
pub(crate) fn sizes(dtype: DataType, shape: &SymbolicShape) -> Vec<i64> {
    let SymbolicShape::Dimensions(dimensions) = shape else { return vec![-1] };
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => i64::try_from(*size).unwrap_or(-1),
        _ => -1,
    };
    // Complex numbers are pairs.
    let pair = dtype.is_complex().then_some(2);
    dimensions.iter().map(size).chain(pair).collect()
}

/// The dtype of a name of the protocol. `BYTES` are strings, and bytes for an input that is declared as bytes.
///
/// # Errors
/// The name is unknown, or names a type that the protocol does not have.
pub(crate) fn parse(input: &str, datatype: &str) -> Result<DataType, Failure> {
    let found = DataType::ALL.into_iter().find(|dtype| name(*dtype) == datatype);
    found.ok_or_else(|| {
        let upper = datatype.to_ascii_uppercase();
        let reason = match upper.as_str() {
            _ if upper.starts_with("FP8") || upper.starts_with("FLOAT8") => "the protocol has no floats of 8 bits; send FP32, with their values",
            _ if upper.starts_with("COMPLEX") => {
                "the protocol has no complex numbers; send FP32 or FP64 with a last dimension of 2, the real and the imaginary part"
            }
            "STRING" | "TYPE_STRING" => "texts are BYTES",
            _ => "expected one of BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, BYTES",
        };
        Failure::invalid(format!("input {} has the datatype {}: {reason}", quoted(input), quoted(datatype)))
    })
}

/// The name in Triton's model configuration.
pub(crate) fn config_name(dtype: DataType) -> String {
    match dtype {
        DataType::String | DataType::Bytes => "TYPE_STRING".to_owned(),
        other => format!("TYPE_{}", name(other)),
    }
}
