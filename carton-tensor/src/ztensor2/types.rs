//! The spelling of element types in the format: a storage type (`dtype`), and a logical type (`type`) if the elements mean something else
//! (spec/ztensor2.md §3).

use crate::files::ElementType;

/// The storage types.
const STORAGE: [(&str, ElementType); 12] = [
    ("f64", ElementType::Float64),
    ("f32", ElementType::Float32),
    ("f16", ElementType::Float16),
    ("bf16", ElementType::BFloat16),
    ("i64", ElementType::Int64),
    ("i32", ElementType::Int32),
    ("i16", ElementType::Int16),
    ("i8", ElementType::Int8),
    ("u64", ElementType::Uint64),
    ("u32", ElementType::Uint32),
    ("u16", ElementType::Uint16),
    ("u8", ElementType::Uint8),
];

/// The logical types, each with the storage type that it must be over.
const LOGICAL: [(&str, ElementType, ElementType); 9] = [
    ("bool", ElementType::Bool, ElementType::Uint8),
    ("f8_e4m3fn", ElementType::Float8E4m3Fn, ElementType::Uint8),
    ("f8_e5m2", ElementType::Float8E5m2, ElementType::Uint8),
    ("f8_e4m3fnuz", ElementType::Float8E4m3Fnuz, ElementType::Uint8),
    ("f8_e5m2fnuz", ElementType::Float8E5m2Fnuz, ElementType::Uint8),
    ("f8_e8m0", ElementType::Float8E8m0Fnu, ElementType::Uint8),
    ("f4_e2m1", ElementType::Float4E2m1, ElementType::Uint8),
    ("complex64", ElementType::Complex64, ElementType::Float32),
    ("complex128", ElementType::Complex128, ElementType::Float64),
];

/// Parses `dtype`.
pub(super) fn storage_type(name: &str) -> Option<ElementType> {
    STORAGE.iter().find(|(spelled, _)| *spelled == name).map(|(_, dtype)| *dtype)
}

/// Parses `type`: what the elements are, and the storage type that they must be over. `None` for a type that is not known.
pub(super) fn logical_type(name: &str) -> Option<(ElementType, ElementType)> {
    LOGICAL.iter().find(|(spelled, ..)| *spelled == name).map(|(_, dtype, storage)| (*dtype, *storage))
}

/// Returns `dtype` and `type` of an element type; `None` if the format lacks the type.
pub(super) fn spelling(dtype: ElementType) -> Option<(&'static str, Option<&'static str>)> {
    let of_storage = |dtype| STORAGE.iter().find(|(_, storage)| *storage == dtype).map(|(spelled, _)| *spelled);
    match LOGICAL.iter().find(|(_, logical, _)| *logical == dtype) {
        Some((spelled, _, storage)) => Some((of_storage(*storage)?, Some(*spelled))),
        None => Some((of_storage(dtype)?, None)),
    }
}

/// Returns the bytes of `count` elements. The last byte of an odd number of 4-bit elements has one. `None` if 64 bits cannot count them.
pub(super) fn n_bytes(dtype: ElementType, count: u64) -> Option<u64> {
    match dtype {
        ElementType::Float4E2m1 => Some(count.div_ceil(2)),
        _ => count.checked_mul(dtype.bits() as u64 / 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_is_read_as_it_is_spelt() {
        for dtype in ElementType::ALL {
            let Some((storage, logical)) = spelling(dtype) else {
                assert!(matches!(dtype, ElementType::Float6E2m3Fn | ElementType::Float6E3m2Fn), "{dtype}");
                continue;
            };
            let storage = storage_type(storage);
            assert!(storage.is_some());
            match logical {
                Some(logical) => assert_eq!(logical_type(logical), storage.map(|storage| (dtype, storage))),
                None => assert_eq!(storage, Some(dtype)),
            }
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(n_bytes(ElementType::Float4E2m1, 5), Some(3));
        assert_eq!(n_bytes(ElementType::Complex128, 2), Some(32));
        assert_eq!(n_bytes(ElementType::Float64, u64::MAX / 8 + 1), None);
        assert_eq!(n_bytes(ElementType::Bool, u64::MAX), Some(u64::MAX));
    }
}
