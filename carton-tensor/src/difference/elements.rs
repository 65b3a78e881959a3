//! Compares the bytes of elements, also of two types of which a third holds all numbers. Pure.

use std::borrow::Cow;

use super::cosine::Products;
use crate::allclose::NotClose;
use crate::files::ElementType;
use crate::{DataType, Tolerance};

/// The type in which elements of `a` and `b` are compared: one that holds all numbers of both. `None` if there is none: a `float64` does not
/// hold every `int64`, nor an `int64` every `uint64`; complex numbers are compared with complex numbers only.
pub(super) fn common_type(a: ElementType, b: ElementType) -> Option<DataType> {
    let is_complex = |dtype| matches!(dtype, ElementType::Complex64 | ElementType::Complex128);
    let is_signed =
        |dtype| matches!(dtype, ElementType::Int8 | ElementType::Int16 | ElementType::Int32 | ElementType::Int64);
    if a == b {
        // Floats of fewer than eight bits, and powers of two, are exact as `float32`.
        return Some(a.data_type().unwrap_or(DataType::Float32));
    }
    match (is_complex(a), is_complex(b)) {
        (true, true) => return Some(DataType::Complex128),
        (false, false) => {}
        _ => return None,
    }
    if a.is_float() || b.is_float() {
        let fits = |dtype: ElementType| dtype.is_float() || dtype.bits() <= 32;
        return (fits(a) && fits(b)).then_some(DataType::Float64);
    }
    match (a == ElementType::Uint64 || b == ElementType::Uint64, is_signed(a) || is_signed(b)) {
        (false, _) => Some(DataType::Int64),
        (true, false) => Some(DataType::Uint64),
        (true, true) => None,
    }
}

/// What is found in two tensors.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) not_close: NotClose,
    pub(super) products: Products,
}

/// What is found in a part of two tensors.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) not_close: NotClose,
    /// `None` where both parts have the same bytes: they are needed only if another part differs, and take several times as long as the comparison.
    pub(super) products: Option<Products>,
}

/// Elements in a part; a multiple of 8, so that parts of types of less than a byte have as many. The products of a tensor are sums over its parts,
/// so this is the same however a tensor is read.
pub(super) const PART: usize = 1 << 17;

/// Compares the elements of two tensors of the same shape. `None` if no type holds all numbers of both.
pub(super) fn compare_bytes(
    (from_a, a): (ElementType, &[u8]),
    (from_b, b): (ElementType, &[u8]),
    tolerance: Tolerance,
) -> Option<Found> {
    let dtype = common_type(from_a, from_b)?;
    let mut found = Found::default();
    let parts = a.chunks(from_a.piece_bytes(PART)).zip(b.chunks(from_b.piece_bytes(PART)));
    for (number, (a, b)) in parts.enumerate() {
        found.add(compare_part(dtype, (from_a, a), (from_b, b), (number * PART) as u64, tolerance), || {
            products_of_same(dtype, (from_a, a))
        });
    }
    Some(found)
}

impl Found {
    /// Adds what is found in the next part. `of_same` are the products of a part that both tensors have.
    pub(super) fn add(&mut self, next: Part, of_same: impl FnOnce() -> Products) {
        self.not_close.merge(next.not_close);
        self.products.add(next.products.unwrap_or_else(of_same));
    }
}

/// Compares as many elements of both tensors, from the position `start` on, as numbers of `dtype`.
pub(super) fn compare_part(
    dtype: DataType,
    (from_a, a): (ElementType, &[u8]),
    (from_b, b): (ElementType, &[u8]),
    start: u64,
    tolerance: Tolerance,
) -> Part {
    if from_a == from_b && a == b {
        // The same bytes are the same elements, because NaN equals NaN.
        let n_elements = (a.len() * 8 / from_a.bits()) as u64;
        return Part { not_close: NotClose { n_elements, ..NotClose::default() }, products: None };
    }
    let (a, b) = (widened(from_a, dtype, a), widened(from_b, dtype, b));
    let products = Some(Products::of(dtype, &a, &b));
    Part { not_close: NotClose::of(dtype, &b, &a, start, tolerance), products }
}

/// The products of a part that both tensors have.
pub(super) fn products_of_same(dtype: DataType, (from, bytes): (ElementType, &[u8])) -> Products {
    let wide = widened(from, dtype, bytes);
    Products::of(dtype, &wide, &wide)
}

/// Returns the elements in a type that holds all of their numbers.
fn widened(from: ElementType, to: DataType, bytes: &[u8]) -> Cow<'_, [u8]> {
    if from.data_type() == Some(to) {
        return Cow::Borrowed(bytes);
    }
    let doubles = |from: ElementType| from.to_f64(bytes).unwrap_or_default();
    Cow::Owned(match to {
        DataType::Float32 => from.to_f32(bytes).unwrap_or_default().into_iter().flat_map(f32::to_le_bytes).collect(),
        // The parts of complex numbers follow one another.
        DataType::Complex128 => doubles(ElementType::Float32).into_iter().flat_map(f64::to_le_bytes).collect(),
        // Only integers of at most 32 bits come here, which a `f64` holds.
        #[allow(clippy::cast_possible_truncation)]
        DataType::Int64 => doubles(from).into_iter().flat_map(|number| (number as i64).to_le_bytes()).collect(),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        DataType::Uint64 => doubles(from).into_iter().flat_map(|number| (number as u64).to_le_bytes()).collect(),
        _ => doubles(from).into_iter().flat_map(f64::to_le_bytes).collect(),
    })
}
