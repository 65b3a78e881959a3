//! The spelling of element types in the format: a storage type (`dtype`), and a logical type (`type`) if the storage type does not
//! determine the element type (spec/ztensor.md §3).

use super::version::Version;
use crate::files::ElementType;

/// Parses `dtype`: the thirteen storage types, and the four others that version 1.1 also has.
pub(super) fn from_dtype(name: &str) -> Option<ElementType> {
    Some(match name {
        "f32" => ElementType::Float32,
        "f16" => ElementType::Float16,
        "bf16" => ElementType::BFloat16,
        "f64" => ElementType::Float64,
        "i64" => ElementType::Int64,
        "i32" => ElementType::Int32,
        "i16" => ElementType::Int16,
        "i8" => ElementType::Int8,
        "u64" => ElementType::Uint64,
        "u32" => ElementType::Uint32,
        "u16" => ElementType::Uint16,
        "u8" => ElementType::Uint8,
        "bool" => ElementType::Bool,
        "f8_e4m3" => ElementType::Float8E4m3Fn,
        "f8_e5m2" => ElementType::Float8E5m2,
        "complex64" => ElementType::Complex64,
        "complex128" => ElementType::Complex128,
        _ => return None,
    })
}

/// Parses `type`; `None` for an unknown type.
pub(super) fn from_type(name: &str) -> Option<ElementType> {
    Some(match name {
        "f8_e4m3fn" | "f8_e4m3" => ElementType::Float8E4m3Fn,
        "f8_e5m2" => ElementType::Float8E5m2,
        "f8_e4m3fnuz" => ElementType::Float8E4m3Fnuz,
        "f8_e5m2fnuz" => ElementType::Float8E5m2Fnuz,
        "complex64" => ElementType::Complex64,
        "complex128" => ElementType::Complex128,
        "f8_e8m0fnu" => ElementType::Float8E8m0Fnu,
        "f6_e2m3fn" => ElementType::Float6E2m3Fn,
        "f6_e3m2fn" => ElementType::Float6E3m2Fn,
        "f4_e2m1fn" => ElementType::Float4E2m1,
        _ => return None,
    })
}

/// Returns the storage type of an element type.
pub(super) fn storage_type(dtype: ElementType) -> ElementType {
    match dtype {
        ElementType::Complex64 => ElementType::Float32,
        ElementType::Complex128 => ElementType::Float64,
        ElementType::Float8E4m3Fn
        | ElementType::Float8E5m2
        | ElementType::Float8E4m3Fnuz
        | ElementType::Float8E5m2Fnuz
        | ElementType::Float8E8m0Fnu
        | ElementType::Float6E2m3Fn
        | ElementType::Float6E3m2Fn
        | ElementType::Float4E2m1 => ElementType::Uint8,
        _ => dtype,
    }
}

/// Returns `dtype` and `type` of an element type in a version of the format; `None` if the version lacks the type.
pub(super) fn spelling(dtype: ElementType, version: Version) -> Option<(&'static str, Option<&'static str>)> {
    let storage = match storage_type(dtype) {
        ElementType::Float32 => "f32",
        ElementType::Float16 => "f16",
        ElementType::BFloat16 => "bf16",
        ElementType::Float64 => "f64",
        ElementType::Int64 => "i64",
        ElementType::Int32 => "i32",
        ElementType::Int16 => "i16",
        ElementType::Int8 => "i8",
        ElementType::Uint64 => "u64",
        ElementType::Uint32 => "u32",
        ElementType::Uint16 => "u16",
        ElementType::Uint8 => "u8",
        ElementType::Bool => "bool",
        _ => return None,
    };
    let logical = match dtype {
        ElementType::Float8E4m3Fn => ("f8_e4m3fn", Some("f8_e4m3")),
        ElementType::Float8E5m2 => ("f8_e5m2", Some("f8_e5m2")),
        ElementType::Complex64 => ("complex64", Some("complex64")),
        ElementType::Complex128 => ("complex128", Some("complex128")),
        ElementType::Float8E4m3Fnuz => ("f8_e4m3fnuz", None),
        ElementType::Float8E5m2Fnuz => ("f8_e5m2fnuz", None),
        ElementType::Float8E8m0Fnu => ("f8_e8m0fnu", None),
        ElementType::Float6E2m3Fn => ("f6_e2m3fn", None),
        ElementType::Float6E3m2Fn => ("f6_e3m2fn", None),
        ElementType::Float4E2m1 => ("f4_e2m1fn", None),
        _ => return Some((storage, None)),
    };
    match version {
        Version::V1_2 => Some((storage, Some(logical.0))),
        Version::V1_1 => logical.1.map(|name| (name, None)),
    }
}

impl Version {
    /// Whether files of this version can hold elements of this type (spec/ztensor.md §3).
    ///
    /// ```
    /// use carton_tensor::files::ElementType;
    /// use carton_tensor::ztensor::Version;
    /// assert!(Version::V1_1.has(ElementType::Float8E5m2) && !Version::V1_1.has(ElementType::Float8E5m2Fnuz));
    /// ```
    #[must_use]
    pub fn has(self, dtype: ElementType) -> bool {
        spelling(dtype, self).is_some()
    }
}

/// Returns a format and the components that its objects must have, for the formats that the specification defines.
pub(super) fn required_components(format: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match format {
        "dense" => ("dense", &["data"]),
        "sparse_csr" => ("sparse_csr", &["values", "indices", "indptr"]),
        "sparse_coo" => ("sparse_coo", &["values", "coords"]),
        "quantized_group" => ("quantized_group", &["packed_weight", "scales", "zeros"]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_element_type_is_read_as_it_is_spelt() {
        for dtype in ElementType::ALL {
            let (storage, logical) = spelling(dtype, Version::V1_2).unwrap();
            assert_eq!(from_dtype(storage), Some(storage_type(dtype)));
            assert_eq!(logical.map_or(from_dtype(storage), from_type), Some(dtype));
            if let Some((name, logical)) = spelling(dtype, Version::V1_1) {
                assert_eq!((from_dtype(name), logical), (Some(dtype), None));
            }
        }
        let missing = ElementType::ALL.iter().filter(|&&dtype| spelling(dtype, Version::V1_1).is_none()).count();
        assert_eq!(missing, 6);
    }
}
