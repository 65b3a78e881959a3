//! The names that the Open Inference Protocol has for element types.

use carton_core::DataType;

use crate::failure::{Failure, quoted};

/// The protocol's name of a dtype.
pub(crate) fn name(dtype: DataType) -> &'static str {
    // A page's form and the server name dtypes alike.
    carton_card::datatype_name(dtype).unwrap_or("UNKNOWN")
}

/// The dtype of a name of the protocol.
///
/// # Errors
/// The name is unknown, or names a type that cartons do not have.
pub(crate) fn parse(input: &str, datatype: &str) -> Result<DataType, Failure> {
    let found = DataType::ALL.into_iter().find(|dtype| name(*dtype) == datatype);
    found.ok_or_else(|| {
        let reason = match datatype {
            "BOOL" => "booleans are UINT8 0 and 1 here, and only an input with `\"element\": \"bool\"` in the model's metadata takes them",
            "FP16" | "BF16" => "cartons have no such type; send FP32",
            _ => "expected one of UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP32, FP64, BYTES",
        };
        Failure::invalid(format!("input {} has the datatype {}: {reason}", quoted(input), quoted(datatype)))
    })
}

/// The name in Triton's model configuration.
pub(crate) fn config_name(dtype: DataType) -> String {
    match dtype {
        DataType::String => "TYPE_STRING".to_owned(),
        other => format!("TYPE_{}", name(other)),
    }
}
