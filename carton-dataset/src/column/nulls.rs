//! Missing numbers as NaN, where the caller wants that (spec/rows.md §3).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use carton_tensor::files::ElementType;
use std::sync::Arc;

use super::fault::Fault;
use super::number;
use crate::options::Rounding;

/// The bytes of the NaN of an element type, and that of NumPy and `ml_dtypes`; `None` for types without one.
pub(super) fn nan_of(dtype: ElementType) -> Option<Vec<u8>> {
    Some(match dtype {
        ElementType::Float16 => half::f16::NAN.to_le_bytes().to_vec(),
        ElementType::BFloat16 => half::bf16::NAN.to_le_bytes().to_vec(),
        ElementType::Float32 => f32::NAN.to_le_bytes().to_vec(),
        ElementType::Float64 => f64::NAN.to_le_bytes().to_vec(),
        ElementType::Float8E4m3Fn => vec![0x7f],
        ElementType::Float8E5m2 => vec![0x7e],
        ElementType::Float8E4m3Fnuz | ElementType::Float8E5m2Fnuz => vec![0x80],
        _ => return None,
    })
}

/// Converts the numbers of an array, and makes NaN of those that are missing. There are none unless the element type has NaN.
pub(super) fn to_bytes(array: &ArrayRef, to: ElementType, rounding: Rounding) -> Result<Buffer, Fault> {
    let (Some(nulls), Some(nan)) = (array.nulls().filter(|nulls| nulls.null_count() > 0), nan_of(to)) else {
        return number::to_bytes(array, to, rounding);
    };
    // What lies in the place of a missing number is any number, which the element type may lack.
    let bytes = number::to_bytes(&zeros_for_nulls(array), to, rounding)?;
    let mut bytes = bytes.as_slice().to_vec();
    for (element, is_valid) in bytes.chunks_exact_mut(nan.len()).zip(nulls.iter()) {
        if !is_valid {
            element.copy_from_slice(&nan);
        }
    }
    Ok(Buffer::from_vec(bytes))
}

/// The numbers with zeros in place of those that are missing. Other arrays stay.
fn zeros_for_nulls(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::UInt8 => zeroed::<UInt8Type>(array),
        DataType::Int8 => zeroed::<Int8Type>(array),
        DataType::UInt16 => zeroed::<UInt16Type>(array),
        DataType::Int16 => zeroed::<Int16Type>(array),
        DataType::UInt32 => zeroed::<UInt32Type>(array),
        DataType::Int32 => zeroed::<Int32Type>(array),
        DataType::UInt64 => zeroed::<UInt64Type>(array),
        DataType::Int64 => zeroed::<Int64Type>(array),
        DataType::Float16 => zeroed::<Float16Type>(array),
        DataType::Float32 => zeroed::<Float32Type>(array),
        DataType::Float64 => zeroed::<Float64Type>(array),
        DataType::Boolean => {
            let values = array.as_boolean().iter().map(|value| Some(value.unwrap_or(false)));
            Arc::new(values.collect::<BooleanArray>())
        }
        _ => array.clone(),
    }
}

fn zeroed<T: ArrowPrimitiveType>(array: &ArrayRef) -> ArrayRef {
    let values = array.as_primitive::<T>().iter().map(Option::unwrap_or_default);
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}
