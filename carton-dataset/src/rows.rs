//! Counts samples in batch mode, where the first dimension of every tensor of a shard is the number of rows (spec/dataset.md §2.1, §3.4).
//! Pure.

use carton_tensor::files::ElementType;
use carton_tensor::safetensors::Header;

/// How many more samples than bytes a shard may have (§3.4).
const SAMPLES_WITHOUT_BYTES: u64 = 1 << 20;

/// Returns the number of rows of a shard.
///
/// # Errors
/// Returns as text why its tensors have no common number of rows.
pub(crate) fn rows(header: &Header) -> Result<u64, String> {
    let first = header.iter().next().ok_or("it has no tensors")?;
    let Some(&n_rows) = first.shape.first() else {
        return Err(format!("tensor `{}` is a scalar", first.name.escape_debug()));
    };
    check_rows(header, n_rows as u64).map(|()| n_rows as u64)
}

/// Checks that a shard has `samples_count` rows.
///
/// # Errors
/// Returns as text why it has not.
pub(crate) fn check_rows(header: &Header, samples_count: u64) -> Result<(), String> {
    // Samples without bytes cost nothing, so a file could claim any number of them.
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

/// Whether each row of a tensor takes a whole number of bytes.
fn has_whole_rows(dtype: ElementType, shape: &[usize]) -> bool {
    let row = shape.iter().skip(1).try_fold(1_usize, |product, &size| product.checked_mul(size));
    row.is_some_and(|n_elements| dtype.n_bytes(n_elements).is_some())
}
