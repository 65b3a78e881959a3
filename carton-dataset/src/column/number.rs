//! Converts numbers to the requested element type, by the rule of [`convert_numbers`] (spec/dataset.md §4.2).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::DataType;
use bytemuck::Pod;
use carton_tensor::files::ElementType;
use carton_tensor::{
    BoolByte, CastProblem, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz, LostNumber, Number,
    convert_numbers,
};
use half::{bf16, f16};

use super::fault::Fault;
use super::rounding;
use crate::error::ColumnProblem;
use crate::options::Rounding;

/// Returns the element type that represents an Arrow type exactly; `None` for types that are not numbers.
pub(super) fn natural(data_type: &DataType) -> Option<ElementType> {
    Some(match data_type {
        DataType::Boolean => ElementType::Bool,
        DataType::UInt8 => ElementType::Uint8,
        DataType::Int8 => ElementType::Int8,
        DataType::UInt16 => ElementType::Uint16,
        DataType::Int16 => ElementType::Int16,
        DataType::UInt32 => ElementType::Uint32,
        DataType::Int32 => ElementType::Int32,
        DataType::UInt64 => ElementType::Uint64,
        DataType::Int64 => ElementType::Int64,
        DataType::Float16 => ElementType::Float16,
        DataType::Float32 => ElementType::Float32,
        DataType::Float64 => ElementType::Float64,
        _ => return None,
    })
}

/// Checks that numbers of an Arrow type can be converted to this element type at all.
pub(super) fn check(from: &DataType, to: ElementType) -> Result<(), ColumnProblem> {
    use ElementType as E;
    let is_number = matches!(
        to,
        E::Uint8
            | E::Int8
            | E::Uint16
            | E::Int16
            | E::Uint32
            | E::Int32
            | E::Uint64
            | E::Int64
            | E::Float16
            | E::BFloat16
            | E::Float32
            | E::Float64
            | E::Float8E4m3Fn
            | E::Float8E5m2
            | E::Float8E4m3Fnuz
            | E::Float8E5m2Fnuz
    );
    if is_number || to == E::Bool && !from.is_floating() {
        Ok(())
    } else {
        Err(ColumnProblem::Conversion { from: from.to_string(), to })
    }
}

/// Converts the elements of an array without missing values. Elements that already have the right type are not copied.
pub(super) fn to_bytes(array: &ArrayRef, to: ElementType, rounding: Rounding) -> Result<Buffer, Fault> {
    macro_rules! integers {
        ($arrow:ty) => {{
            let values = array.as_primitive::<$arrow>().values();
            if natural(array.data_type()) == Some(to) { Ok(values.inner().clone()) } else { convert(values, to) }
        }};
    }
    macro_rules! floats {
        ($arrow:ty) => {{
            let values = array.as_primitive::<$arrow>().values();
            match (rounding, to) {
                _ if natural(array.data_type()) == Some(to) => Ok(values.inner().clone()),
                (Rounding::Truncate, ElementType::Float16) => truncated(values, rounding::truncated_f16),
                (Rounding::Truncate, ElementType::BFloat16) => truncated(values, rounding::truncated_bf16),
                _ => convert(values, to),
            }
        }};
    }
    match array.data_type() {
        DataType::UInt8 => integers!(UInt8Type),
        DataType::Int8 => integers!(Int8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::Float16 => floats!(Float16Type),
        DataType::Float32 => floats!(Float32Type),
        DataType::Float64 => floats!(Float64Type),
        DataType::Boolean => {
            let values: Vec<u8> = array.as_boolean().values().iter().map(u8::from).collect();
            if matches!(to, ElementType::Bool | ElementType::Uint8) {
                Ok(Buffer::from_vec(values))
            } else {
                convert(&values, to)
            }
        }
        other => Err(Fault { row: 0, problem: ColumnProblem::Unsupported(other.clone()) }),
    }
}

fn convert<N: Number>(values: &[N], to: ElementType) -> Result<Buffer, Fault> {
    match to {
        ElementType::Bool => converted::<N, BoolByte, u8>(values),
        ElementType::Uint8 => converted::<N, u8, u8>(values),
        ElementType::Int8 => converted::<N, i8, i8>(values),
        ElementType::Uint16 => converted::<N, u16, u16>(values),
        ElementType::Int16 => converted::<N, i16, i16>(values),
        ElementType::Uint32 => converted::<N, u32, u32>(values),
        ElementType::Int32 => converted::<N, i32, i32>(values),
        ElementType::Uint64 => converted::<N, u64, u64>(values),
        ElementType::Int64 => converted::<N, i64, i64>(values),
        ElementType::Float16 => converted::<N, f16, u16>(values),
        ElementType::BFloat16 => converted::<N, bf16, u16>(values),
        ElementType::Float32 => converted::<N, f32, f32>(values),
        ElementType::Float64 => converted::<N, f64, f64>(values),
        ElementType::Float8E4m3Fn => converted::<N, Float8E4m3Fn, u8>(values),
        ElementType::Float8E5m2 => converted::<N, Float8E5m2, u8>(values),
        ElementType::Float8E4m3Fnuz => converted::<N, Float8E4m3Fnuz, u8>(values),
        ElementType::Float8E5m2Fnuz => converted::<N, Float8E5m2Fnuz, u8>(values),
        _ => Err(Fault { row: 0, problem: ColumnProblem::Conversion { from: N::NAME.to_owned(), to } }),
    }
}

/// Converts to numbers of the type `To`, whose bits a buffer holds as `Bits`.
fn converted<N: Number, To: Number, Bits: ArrowNativeType + Pod>(values: &[N]) -> Result<Buffer, Fault> {
    let mut converted = vec![To::zeroed(); values.len()];
    convert_numbers(values, &mut converted)?;
    Ok(Buffer::from_vec(bytemuck::cast_vec::<To, Bits>(converted)))
}

/// Converts to floats of 16 bits by `truncate`. As everywhere, a finite number does not become infinite.
fn truncated<N: Number + Into<f64>, To: Number>(values: &[N], truncate: fn(f32) -> To) -> Result<Buffer, Fault> {
    let mut truncated = Vec::with_capacity(values.len());
    for (position, value) in values.iter().enumerate() {
        let short = truncate((*value).into() as f32);
        if short.is_infinite() && !value.is_infinite() {
            let (value, problem) = (format!("{value:?}"), CastProblem::OutOfRange);
            return Err(LostNumber { position, value, to: To::NAME, problem }.into());
        }
        truncated.push(short);
    }
    Ok(Buffer::from_vec(bytemuck::cast_vec::<To, u16>(truncated)))
}
