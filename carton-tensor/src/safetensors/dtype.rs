//! The names of element types in safetensors files (spec/safetensors.md §4.1).

use crate::files::ElementType;

/// Every dtype of the format, in the order in which tensors are written: the widest first, and dtypes of equal width in the order of
/// the `safetensors` library (spec/safetensors.md §6.1).
const DTYPES: [(ElementType, &str); 22] = [
    (ElementType::Uint64, "U64"),
    (ElementType::Int64, "I64"),
    (ElementType::Float64, "F64"),
    (ElementType::Complex64, "C64"),
    (ElementType::Float32, "F32"),
    (ElementType::Uint32, "U32"),
    (ElementType::Int32, "I32"),
    (ElementType::BFloat16, "BF16"),
    (ElementType::Float16, "F16"),
    (ElementType::Uint16, "U16"),
    (ElementType::Int16, "I16"),
    (ElementType::Float8E5m2Fnuz, "F8_E5M2FNUZ"),
    (ElementType::Float8E4m3Fnuz, "F8_E4M3FNUZ"),
    (ElementType::Float8E8m0Fnu, "F8_E8M0"),
    (ElementType::Float8E4m3Fn, "F8_E4M3"),
    (ElementType::Float8E5m2, "F8_E5M2"),
    (ElementType::Int8, "I8"),
    (ElementType::Uint8, "U8"),
    (ElementType::Float6E3m2Fn, "F6_E3M2"),
    (ElementType::Float6E2m3Fn, "F6_E2M3"),
    (ElementType::Float4E2m1, "F4"),
    (ElementType::Bool, "BOOL"),
];

/// Returns the element type with this name in the format: `F32`, `BF16` and so on.
///
/// ```
/// use carton_tensor::{files::ElementType, safetensors};
/// assert_eq!(safetensors::parse_dtype("BF16"), Some(ElementType::BFloat16));
/// assert_eq!(safetensors::parse_dtype("bfloat16"), None);
/// ```
#[must_use]
pub fn parse_dtype(name: &str) -> Option<ElementType> {
    DTYPES.iter().find(|(_, known)| *known == name).map(|&(dtype, _)| dtype)
}

/// Returns the name of an element type in the format; `None` for a type that the format lacks.
#[must_use]
pub fn dtype_name(dtype: ElementType) -> Option<&'static str> {
    name_and_rank(dtype).map(|(name, _)| name)
}

/// Returns the name of an element type in the format and its rank in the order of writing; `None` for a type that the format lacks.
pub(super) fn name_and_rank(dtype: ElementType) -> Option<(&'static str, usize)> {
    DTYPES.iter().position(|&(known, _)| known == dtype).map(|rank| (DTYPES[rank].1, rank))
}
