//! Inputs of a shorter type than the model declares. Pure.
//!
//! A tensor whose every value the declared type has is cast to it: FP32 for a float64 input, INT8 for an int16 or a float32 one. FP32
//! for a float8 input is its carrier: the check of each call converts it, value by value.

use std::collections::BTreeMap;

use carton_core::tensor::cast;
use carton_core::{DataType, Tensor, Tensors};

/// The type that a tensor is cast to for an input that is declared with another; `None` if it stays.
fn target(found: DataType, declared: DataType) -> Option<DataType> {
    let carrier = declared.carrier();
    if found == declared || found == carrier {
        None
    } else if declared.holds(found) {
        Some(declared)
    } else if carrier.holds(found) && declared != DataType::Bool {
        Some(carrier)
    } else {
        None
    }
}

/// The bytes that casting the inputs will take.
pub(crate) fn n_bytes(declared: &BTreeMap<String, DataType>, inputs: &Tensors) -> usize {
    let size = |(tensor, target): (&Tensor, DataType)| {
        let count =
            tensor.as_numeric().map_or(0, |numbers| numbers.bytes().len() / numbers.dtype().size().unwrap_or(1));
        count.saturating_mul(target.size().unwrap_or(0))
    };
    inputs
        .iter()
        .filter_map(|(name, tensor)| Some((tensor, target(tensor.dtype()?, *declared.get(name)?)?)))
        .map(size)
        .fold(0, usize::saturating_add)
}

/// Casts the inputs whose every value the declared type has.
///
/// # Errors
/// There is no memory for one.
pub(crate) fn widen(declared: &BTreeMap<String, DataType>, inputs: &mut Tensors) -> Result<(), String> {
    for (name, tensor) in inputs {
        if let Some(target) =
            declared.get(name).zip(tensor.dtype()).and_then(|(declared, found)| target(found, *declared))
        {
            *tensor = cast(tensor, target).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_loses_nothing() {
        let check = |found, declared, expected| assert_eq!(target(found, declared), expected, "{found} for {declared}");
        check(DataType::Float32, DataType::Float64, Some(DataType::Float64));
        check(DataType::Float16, DataType::Float32, Some(DataType::Float32));
        check(DataType::Int8, DataType::Int16, Some(DataType::Int16));
        check(DataType::Uint8, DataType::Int16, Some(DataType::Int16));
        check(DataType::Int16, DataType::Float32, Some(DataType::Float32));
        // By the carrier, which the check of the call makes the declared type, if each value is one of it.
        check(DataType::BFloat16, DataType::Float16, Some(DataType::Float32));
        check(DataType::Float32, DataType::Float16, None);
        check(DataType::Float16, DataType::Complex64, Some(DataType::Float32));
        check(DataType::Uint8, DataType::Bool, None);
        check(DataType::Int32, DataType::Float32, None);
        check(DataType::Int64, DataType::Float64, None);
        check(DataType::Float64, DataType::Float32, None);
        check(DataType::Int8, DataType::Uint8, None);
        check(DataType::Bool, DataType::Uint8, None);
        check(DataType::String, DataType::Bytes, None);
        check(DataType::Float32, DataType::String, None);
    }
}
