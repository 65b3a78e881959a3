//! Divides tensors into pieces for several threads. The boundaries depend only on the element type, so that results do not depend on
//! the number of threads or on where the bytes are.

use std::ops::Range;

use super::error::WeightsError;
use super::kernels::LARGE_BLOCK;
use crate::any_file::{ElementOrder, Entry};
use crate::files::{ElementType, FileBytes, RawTensor};
use crate::parallel::par_map;

/// Elements in a piece.
pub(super) const PIECE_ELEMENTS: usize = LARGE_BLOCK;

/// Returns the bytes of a piece of this element type.
pub(super) const fn piece_size(dtype: ElementType) -> usize {
    PIECE_ELEMENTS / 8 * dtype.bits()
}

/// A tensor to process.
pub(super) struct Job<'a> {
    pub(super) dtype: ElementType,
    pub(super) data: Data<'a>,
}

/// The source of a tensor's bytes.
#[derive(Clone)]
pub(super) enum Data<'a> {
    Memory(&'a [u8]),
    /// Stored unchanged in this range of a file. The function wraps read errors with the name of the file.
    File(&'a FileBytes, Range<u64>, &'a (dyn Fn(std::io::Error) -> WeightsError + Sync)),
    /// Passed by this function to another one, piece by piece and in order, because they are compressed, hashed or computed.
    Streamed(&'a Stream<'a>),
    /// Returned by this function as a whole, because they are needed twice and cannot be read in pieces.
    Decoded(&'a (dyn Fn() -> Result<RawTensor, WeightsError> + Sync)),
}

/// Passes the bytes of a tensor to the given function in pieces of [`PIECE_ELEMENTS`].
pub(super) type Stream<'a> = dyn Fn(&mut Sink<'_>) -> Result<(), WeightsError> + Sync + 'a;
/// Gets one piece after the other.
pub(super) type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), WeightsError> + 'a;

/// Makes a [`Stream`] of an entry, with the checks that its file was asked for.
pub(super) fn stream(entry: &Entry<'_>, order: ElementOrder, sink: &mut Sink<'_>) -> Result<(), WeightsError> {
    entry.visit(order, PIECE_ELEMENTS, sink)
}

impl Data<'_> {
    /// The number of bytes if they can be read piece by piece; `None` if they are only available as a whole.
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::File(_, range, _) => Some(range.end - range.start),
            Self::Streamed(_) | Self::Decoded(_) => None,
        }
    }

    /// Returns `length` bytes from `offset` on, in place or read into `buffer`.
    pub(super) fn read<'b>(
        &'b self,
        offset: u64,
        length: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], WeightsError> {
        match self {
            Self::Memory(bytes) => {
                // Pieces are parts of these bytes, whose number fits in usize.
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(bytes.get(start..start.saturating_add(length)).unwrap_or_default())
            }
            Self::File(file, range, failed) => {
                buffer.resize(length.max(buffer.len()), 0);
                let buffer = buffer.get_mut(..length).unwrap_or_default();
                file.read_into(range.start.saturating_add(offset), buffer).map_err(failed)?;
                Ok(buffer)
            }
            Self::Streamed(_) | Self::Decoded(_) => Ok(&[]),
        }
    }
}

/// Calls `visit` for each piece with the number of the job, the position of the first element, and the bytes. Returns the results of
/// each job in the order of its pieces.
pub(super) fn for_each_piece<R: Send>(
    jobs: &[Job<'_>],
    n_threads: usize,
    visit: impl Fn(usize, usize, &[u8]) -> Result<R, WeightsError> + Sync,
) -> Result<Vec<Vec<R>>, WeightsError> {
    let pieces = cut(jobs);
    let n_threads = if pieces.len() > 1 { n_threads } else { 1 };
    let results = par_map(pieces.len(), n_threads, Vec::new, |buffer, index| {
        let Piece { job, offset, length } = pieces[index];
        let size = piece_size(jobs[job].dtype);
        match &jobs[job].data {
            Data::Streamed(stream) => {
                let mut results = Vec::new();
                stream(&mut |bytes| {
                    let start = results.len() * PIECE_ELEMENTS;
                    results.push(visit(job, start, bytes)?);
                    Ok(())
                })?;
                Ok(results)
            }
            Data::Decoded(decode) => {
                let tensor = decode()?;
                let pieces = tensor.bytes().chunks(size).enumerate();
                pieces.map(|(piece, bytes)| visit(job, piece * PIECE_ELEMENTS, bytes)).collect::<Result<Vec<R>, _>>()
            }
            data => {
                let start = (offset / size as u64) as usize * PIECE_ELEMENTS;
                Ok(vec![visit(job, start, data.read(offset, length, buffer)?)?])
            }
        }
    })?;
    let mut of_jobs: Vec<Vec<R>> = jobs.iter().map(|_| Vec::new()).collect();
    for (piece, results) in pieces.iter().zip(results) {
        of_jobs[piece.job].extend(results);
    }
    Ok(of_jobs)
}

struct Piece {
    job: usize,
    offset: u64,
    length: usize,
}

/// Divides all jobs into pieces, in order. A tensor without elements has no piece; one that is streamed or decoded is a single piece.
fn cut(jobs: &[Job<'_>]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (job, Job { dtype, data }) in jobs.iter().enumerate() {
        let Some(n_bytes) = data.len() else {
            pieces.push(Piece { job, offset: 0, length: 0 });
            continue;
        };
        let size = piece_size(*dtype) as u64;
        for offset in (0..n_bytes).step_by(piece_size(*dtype)) {
            pieces.push(Piece { job, offset, length: (n_bytes - offset).min(size) as usize });
        }
    }
    pieces
}
