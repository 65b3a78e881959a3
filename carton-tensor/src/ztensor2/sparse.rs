//! Reads sparse objects as dense tensors (spec/ztensor2.md §5.2, §5.3). What they share with versions 1.1 and 1.2 is checked by `ztensor`.

use super::ZTensor2Error;
use super::error::malformed;
use super::layout_rules;
use super::manifest::{Object, Part};
use super::reader::Reader;
use crate::files::RawTensor;
use crate::ztensor::{Coo, Csr, Name, ZTensorError};

fn failed(error: ZTensorError) -> ZTensor2Error {
    match error {
        ZTensorError::Io(error) => error.into(),
        error => ZTensor2Error::Sparse(Box::new(error)),
    }
}

/// Reads a part that a layout has as a tensor of one dimension. Its size was checked.
fn flat(reader: &Reader, object: &Object<'_>, name: &str) -> Result<RawTensor, ZTensor2Error> {
    let missing = || malformed("5", object.at(), format!("object {} has no part `{name}`", Name::new(object.name())));
    flat_part(reader, &object.part(name).ok_or_else(missing)?)
}

fn flat_part(reader: &Reader, part: &Part<'_>) -> Result<RawTensor, ZTensor2Error> {
    let dtype = part.element_type().unwrap_or(part.dtype());
    let count = part.decoded_length() / (dtype.bits() as u64 / 8).max(1);
    let memory = |_| ZTensor2Error::Memory { at: part.place(), n_bytes: part.decoded_length() };
    reader.tensor(part, vec![usize::try_from(count).map_err(memory)?])
}

/// Reads a matrix in compressed sparse row format.
pub(super) fn csr(reader: &Reader, object: &Object<'_>, max_dense: u64) -> Result<RawTensor, ZTensor2Error> {
    csr_parts(reader, object)?.to_dense_within(max_dense).map_err(failed)
}

/// Reads the parts of a matrix, and checks all their elements.
pub(super) fn csr_parts(reader: &Reader, object: &Object<'_>) -> Result<Csr, ZTensor2Error> {
    let [values, indices, indptr] = ["values", "indices", "indptr"].map(|name| flat(reader, object, name));
    let matrix = Csr::checked(object.name(), object.shape(), values?, &indices?, &indptr?).map_err(failed)?;
    for (row, ends) in matrix.indptr().windows(2).enumerate() {
        let &[start, end] = ends else { continue };
        let columns = matrix.indices().get(start as usize..end as usize).unwrap_or_default();
        if let Some(after) = columns.windows(2).position(|pair| pair.first() >= pair.get(1)) {
            let problem = format!(
                "object {} has columns that do not rise in row {row}, after value {}",
                Name::new(object.name()),
                start as usize + after
            );
            return Err(malformed("5.2", object.at(), problem));
        }
    }
    Ok(matrix)
}

/// Reads a tensor of coordinates.
pub(super) fn coo(reader: &Reader, object: &Object<'_>, max_dense: u64) -> Result<RawTensor, ZTensor2Error> {
    coo_parts(reader, object)?.to_dense_within(max_dense).map_err(failed)
}

/// Reads the parts of a tensor of coordinates, and checks all their elements.
pub(super) fn coo_parts(reader: &Reader, object: &Object<'_>) -> Result<Coo, ZTensor2Error> {
    let (values, coords) = layout_rules::check_coo(object)?;
    let (values, coords) = (flat_part(reader, &values)?, flat_part(reader, &coords)?);
    let n_values = values.n_elements();
    let tensor = Coo::checked(object.name(), object.shape(), values, &coords).map_err(failed)?;
    let memory = |_| ZTensor2Error::Memory {
        at: format!("the places of {}", Name::new(object.name())),
        n_bytes: n_values as u64 * 8,
    };
    let mut places = Vec::new();
    places.try_reserve_exact(n_values).map_err(memory)?;
    // Coordinates are below the dimensions, whose product fits in 64 bits.
    places.extend((0..n_values).map(|value| {
        object.shape().iter().enumerate().fold(0_u64, |place, (dimension, &size)| {
            let index = tensor.coords().get(dimension * n_values + value).copied().unwrap_or_default();
            place.saturating_mul(size as u64).saturating_add(index)
        })
    }));
    places.sort_unstable();
    if places.windows(2).any(|pair| pair.first() == pair.get(1)) {
        let problem = format!("object {} has two values at one place", Name::new(object.name()));
        return Err(malformed("5.3", object.at(), problem));
    }
    Ok(tensor)
}
