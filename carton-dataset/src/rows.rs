//! Samples that are the rows of a shard: the first dimension of its tensors counts them (spec/dataset.md §2.1). Pure.

use carton_tensor::files::ElementType;
use carton_tensor::safetensors::Header;

/// The samples that a shard may have beyond the number of its bytes.
const SAMPLES_WITHOUT_BYTES: u64 = 1 << 20;

/// How many rows a shard has.
///
/// # Errors
/// Why its tensors have no such number of rows, in words.
pub(crate) fn rows(header: &Header) -> Result<u64, String> {
    let first = header.iter().next().ok_or("it has no tensors")?;
    let Some(&n_rows) = first.shape.first() else {
        return Err(format!("tensor `{}` is a scalar", first.name.escape_debug()));
    };
    check_rows(header, n_rows as u64).map(|()| n_rows as u64)
}

/// Whether a shard has as many rows as it should.
///
/// # Errors
/// Why not, in words.
pub(crate) fn check_rows(header: &Header, samples_count: u64) -> Result<(), String> {
    // A sample without bytes costs nothing, and a file could claim any number of them.
    let n_bytes = header.iter().next_back().map_or(0, |last| last.range.end - header.data_start());
    let most = if header.is_empty() { 0 } else { n_bytes.saturating_add(SAMPLES_WITHOUT_BYTES) };
    if samples_count > most {
        return Err(format!("its tensors have {n_bytes} bytes, too few for {samples_count} samples"));
    }
    for tensor in header.iter() {
        let name = tensor.name.escape_debug();
        let n_rows = tensor.shape.first().map(|&n_rows| n_rows as u64);
        match n_rows {
            Some(n_rows) if n_rows == samples_count => {
                if !has_whole_rows(tensor.dtype, tensor.shape) {
                    return Err(format!("the rows of tensor `{name}`, of {}, do not end between bytes", tensor.dtype));
                }
            }
            Some(n_rows) => return Err(format!("tensor `{name}` has {n_rows} rows, expected {samples_count}")),
            None => return Err(format!("tensor `{name}` is a scalar, expected {samples_count} rows")),
        }
    }
    Ok(())
}

/// Whether the rows of a tensor are whole bytes.
fn has_whole_rows(dtype: ElementType, shape: &[usize]) -> bool {
    let row = shape.iter().skip(1).try_fold(1_usize, |product, &size| product.checked_mul(size));
    row.is_some_and(|n_elements| dtype.n_bytes(n_elements).is_some())
}
