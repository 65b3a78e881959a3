//! The rules that each layout has for the parts of an object (spec/ztensor2.md §5).

use super::ZTensor2Error;
use super::error::malformed;
use super::layout::Layout;
use super::manifest::{Object, Part};
use super::types;
use crate::files::ElementType;
use crate::ztensor::Name;

/// Checks the rules for the parts of an object that follow from the manifest. Those of `zt.sparse_coo/1` are only checked when it is read,
/// because the library of the format opens files that break them.
pub(super) fn check(object: &Object<'_>) -> Result<(), ZTensor2Error> {
    match object.layout() {
        Layout::Dense => dense(object),
        Layout::SparseCsr => csr(object),
        Layout::SparseCoo | Layout::Other(_) => Ok(()),
    }
}

fn dense(object: &Object<'_>) -> Result<(), ZTensor2Error> {
    let Some(data) = object.part("data").filter(|_| object.parts().len() == 1) else {
        let problem = format!("object {} is dense, expected one part, `data`", Name::new(object.name()));
        return Err(malformed("5.1", object.at(), problem));
    };
    let count = object.shape().iter().fold(1_u64, |count, &size| count.saturating_mul(size as u64));
    check_size(&data, count, "5.1")
}

fn csr(object: &Object<'_>) -> Result<(), ZTensor2Error> {
    let wrong = |problem: &str| {
        malformed(
            "5.2",
            object.at(),
            format!("object {} is {}: {problem}", Name::new(object.name()), object.layout().name()),
        )
    };
    let &[rows, _] = object.shape() else {
        return Err(wrong(&format!("{} dimensions, expected 2", object.shape().len())));
    };
    let [values, indices, indptr] = ["values", "indices", "indptr"].map(|name| object.part(name));
    let (Some(values), Some(indices), Some(indptr), 3) = (values, indices, indptr, object.parts().len()) else {
        return Err(wrong("expected the parts `values`, `indices` and `indptr`, and no other"));
    };
    let n_values = index_count(&indices, "5.2")?;
    if indptr.dtype() != indices.dtype() || indptr.logical().is_some() {
        return Err(malformed("5.2", indptr.at(), format!("{} has another type than `indices`", indptr.place())));
    }
    check_size(&indptr, (rows as u64).saturating_add(1), "5.2")?;
    check_size(&values, n_values, "5.2")
}

/// Checks the parts of a sparse tensor of coordinates.
pub(super) fn check_coo<'m>(object: &Object<'m>) -> Result<(Part<'m>, Part<'m>), ZTensor2Error> {
    let wrong = |problem: &str| {
        malformed(
            "5.3",
            object.at(),
            format!("object {} is {}: {problem}", Name::new(object.name()), object.layout().name()),
        )
    };
    let (Some(values), Some(coords), 2) = (object.part("values"), object.part("coords"), object.parts().len()) else {
        return Err(wrong("expected the parts `values` and `coords`, and no other"));
    };
    let n_coords = index_count(&coords, "5.3")?;
    let n_dimensions = object.shape().len() as u64;
    if n_dimensions == 0 || !n_coords.is_multiple_of(n_dimensions) {
        return Err(wrong(&format!("{n_coords} coordinates in {n_dimensions} dimensions, expected a multiple")));
    }
    check_size(&values, n_coords / n_dimensions, "5.3")?;
    Ok((values, coords))
}

/// Returns the number of indices in a part.
fn index_count(part: &Part<'_>, section: &'static str) -> Result<u64, ZTensor2Error> {
    let size = match (part.dtype(), part.logical()) {
        (ElementType::Uint32, None) => 4,
        (ElementType::Uint64, None) => 8,
        _ => {
            let problem = format!("{} has indices that are not plain `u32` or `u64`", part.place());
            return Err(malformed(section, part.at(), problem));
        }
    };
    if !part.decoded_length().is_multiple_of(size) {
        let problem = format!("{} has {} bytes, expected a multiple of {size}", part.place(), part.decoded_length());
        return Err(malformed(section, part.at(), problem));
    }
    Ok(part.decoded_length() / size)
}

/// Checks the size of a part with this many elements. The size of a logical type that is not known is not known either.
fn check_size(part: &Part<'_>, count: u64, section: &'static str) -> Result<(), ZTensor2Error> {
    let Some(dtype) = part.element_type() else { return Ok(()) };
    match types::n_bytes(dtype, count) {
        Some(expected) if expected == part.decoded_length() => Ok(()),
        expected => {
            let found = part.decoded_length();
            let expected =
                expected.map_or_else(|| "more than 64 bits can count".to_owned(), |n_bytes| n_bytes.to_string());
            let problem =
                format!("{} has {found} bytes, expected {expected} for {count} elements of {dtype}", part.place());
            Err(malformed(section, part.at(), problem))
        }
    }
}
