//! Compares two tensors of files, piece by piece: on all cores where both files have the elements as they are, otherwise one after the other.

use super::cosine::Products;
use super::elements::{Found, PART, common_type, compare_part, products_of_same};
use super::report::{Compared, ElementsDifference};
use super::types::{dtype_name, element_type, unknown_type};
use super::{Advance, DifferenceOptions, compare_tensors, not_exact};
use crate::any_file::{Entry, TensorFileError, of_another_length, visit_in_step};
use crate::context::Cancelled;
use crate::files::ElementType;
use crate::parallel::{available_threads, par_map};
use crate::{element_count, npy};

/// Compares two tensors of files that have the same shape. Their elements are read in pieces; strings, arrays in Fortran order, and
/// sparse and quantized objects are read whole. Digests are verified if a file was asked to
/// ([`TensorFile::checking`](crate::any_file::TensorFile::checking)).
///
/// Tensors whose files state the same SHA-256 of the same kind of bytes are taken as the same without being read, unless
/// [`read_all`](method@DifferenceOptions::read_all) is set.
///
/// # Errors
/// A tensor cannot be read, or is damaged; those of `advance`.
pub fn compare_entries<E: From<TensorFileError> + From<Cancelled> + Send>(
    a: &Entry<'_>,
    b: &Entry<'_>,
    options: &DifferenceOptions,
    advance: &Advance<'_>,
) -> Result<Compared, E> {
    if let Some(reason) = unreadable(a).or_else(|| unreadable(b)) {
        return Ok(Compared::No(reason));
    }
    let (Some(from_a), Some(from_b)) = (element_type(a), element_type(b)) else {
        return compare_strings(a, b, options);
    };
    let names = || not_exact(&dtype_name(a).unwrap_or_default(), &dtype_name(b).unwrap_or_default());
    if unknown_type(a) != unknown_type(b) {
        return Ok(Compared::No(names()));
    }
    let Some(dtype) = common_type(from_a, from_b) else { return Ok(Compared::No(names())) };
    if !options.read_all && state_the_same(a, b)? {
        advance(a.stored_bytes().saturating_add(b.stored_bytes()))?;
        return Ok(Compared::Same { by_digest: true });
    }
    let part = |start: usize, a: &[u8], b: &[u8]| {
        compare_part(dtype, (from_a, a), (from_b, b), start as u64, options.tolerance)
    };
    let n_elements = element_count(a.shape()).ok_or_else(|| of_another_length(a))?;
    let plain = |entry: &Entry<'_>| entry.location().filter(|_| !entry.is_verified()).is_some();
    let mut found = Found::default();
    if plain(a) && plain(b) {
        let n_threads = options.n_threads.unwrap_or_else(available_threads);
        let piece = |number: usize| (number * PART, PART.min(n_elements - number * PART));
        let n_pieces = n_elements.div_ceil(PART);
        let parts = par_map(n_pieces, n_threads, Default::default, |buffers: &mut (Vec<u8>, Vec<u8>), number| {
            let (start, length) = piece(number);
            read_piece(a, from_a, start, length, &mut buffers.0)?;
            read_piece(b, from_b, start, length, &mut buffers.1)?;
            advance((buffers.0.len() + buffers.1.len()) as u64)?;
            Ok::<_, E>(part(start, &buffers.0, &buffers.1))
        })?;
        let differs = parts.iter().any(|part| part.not_close.n_differing > 0);
        // Parts that both tensors have are read again, if they are needed.
        let of_same = par_map(n_pieces, n_threads, Vec::new, |buffer, number| {
            let is_known = parts.get(number).is_none_or(|part| part.products.is_some());
            if is_known || !differs {
                return Ok(Products::default());
            }
            let (start, length) = piece(number);
            read_piece(a, from_a, start, length, buffer)?;
            // They were counted before.
            advance(0)?;
            Ok::<_, E>(products_of_same(dtype, (from_a, buffer)))
        })?;
        parts.into_iter().zip(of_same).for_each(|(part, of_same)| found.add(part, || of_same));
    } else {
        let mut start = 0;
        visit_in_step::<E>(&[a.clone(), b.clone()], PART, |pieces| {
            let [bytes_a, bytes_b] = *pieces else { return Err(of_another_length(b).into()) };
            let (n_a, n_b) = (bytes_a.len() * 8 / from_a.bits(), bytes_b.len() * 8 / from_b.bits());
            if n_a != n_b || n_a > n_elements - start {
                return Err(of_another_length(b).into());
            }
            advance((bytes_a.len() + bytes_b.len()) as u64)?;
            found.add(part(start, bytes_a, bytes_b), || products_of_same(dtype, (from_a, bytes_a)));
            start += n_a;
            Ok(())
        })?;
        if start != n_elements {
            return Err(of_another_length(a).into());
        }
    }
    Ok(Compared::of(ElementsDifference::new(found, a.shape())))
}

/// Why the elements of a tensor cannot be read, if they are neither numbers nor strings.
fn unreadable(entry: &Entry<'_>) -> Option<String> {
    let is_other = entry.as_ztensor().is_some()
        || entry.as_ztensor2().is_some()
        || entry.ggml_blocks().is_some()
        || entry.unsupported().is_some();
    let is_strings = !is_other && entry.dtype().is_none();
    entry.not_numbers().filter(|_| !is_strings).map(|what| format!("it is {what}"))
}

/// Compares arrays of which at least one has strings.
fn compare_strings<E: From<TensorFileError>>(
    a: &Entry<'_>,
    b: &Entry<'_>,
    options: &DifferenceOptions,
) -> Result<Compared, E> {
    let strings = |entry: &Entry<'_>| match entry.read_array()? {
        npy::Array::Strings(strings) => Ok(Some(strings.into())),
        npy::Array::Numbers(_) => Ok::<_, TensorFileError>(None),
    };
    if element_type(a).is_some() || element_type(b).is_some() {
        return Ok(Compared::No("strings and numbers are not compared".to_owned()));
    }
    match (strings(a)?, strings(b)?) {
        (Some(a), Some(b)) => Ok(compare_tensors(&a, &b, options)),
        _ => Ok(Compared::No("strings and numbers are not compared".to_owned())),
    }
}

/// Whether both files state the same SHA-256 of bytes that are stored in the same way.
fn state_the_same(a: &Entry<'_>, b: &Entry<'_>) -> Result<bool, TensorFileError> {
    if a.dtype() != b.dtype() || a.layout() != b.layout() || a.encoding() != b.encoding() {
        return Ok(false);
    }
    let (Some(in_a), Some(in_b)) = (a.expected_digest()?, b.expected_digest()?) else { return Ok(false) };
    Ok(in_a.sha256().is_some() && in_a.sha256() == in_b.sha256() && a.stored_bytes() == b.stored_bytes())
}

/// Reads elements that the file has as they are.
fn read_piece(
    entry: &Entry<'_>,
    dtype: ElementType,
    start: usize,
    length: usize,
    buffer: &mut Vec<u8>,
) -> Result<(), TensorFileError> {
    let failed = |source| TensorFileError::Io { place: entry.place().to_owned(), source };
    let Some((file, range)) = entry.location() else { return Err(of_another_length(entry)) };
    // Pieces begin at multiples of 8 elements, which are whole bytes.
    let offset = range.start + (start / 8 * dtype.bits()) as u64;
    let n_bytes = (length * dtype.bits()).div_ceil(8);
    if offset.saturating_add(n_bytes as u64) > range.end {
        return Err(of_another_length(entry));
    }
    buffer.resize(n_bytes, 0);
    file.read_into(offset, buffer).map_err(failed)
}
