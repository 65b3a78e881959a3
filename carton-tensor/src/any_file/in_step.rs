//! Reads several tensors in step: a piece of each at a time.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::entry::{ElementOrder, Entry};
use super::error::TensorFileError;

/// Why a thread that reads a tensor ended early.
enum Ended {
    Failed(TensorFileError),
    /// The caller has stopped, and takes no more pieces.
    Unwanted,
}

impl From<TensorFileError> for Ended {
    fn from(error: TensorFileError) -> Self {
        Self::Failed(error)
    }
}

/// Passes pieces of all tensors to `visit`, in their order: `n_elements` of each, as [`Entry::visit`] cuts them in C order. The tensors should
/// have the same shape. The last one is read by the calling thread, and each other by a thread of its own, which is at most two pieces ahead.
///
/// # Errors
/// A tensor cannot be read, or has fewer pieces than another; the system refuses a thread; those of `visit`. `visit` compares the lengths of the pieces, which depend on the
/// types of the elements.
pub fn visit_in_step<E: From<TensorFileError>>(
    entries: &[Entry<'_>],
    n_elements: usize,
    mut visit: impl FnMut(&[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    let Some((last, others)) = entries.split_last() else { return Ok(()) };
    thread::scope(|scope| {
        let (mut readers, mut receivers) = (Vec::new(), Vec::new());
        for entry in others {
            let (sender, receiver): (SyncSender<Vec<u8>>, Receiver<Vec<u8>>) = sync_channel(1);
            receivers.push((entry, receiver));
            let reader = thread::Builder::new().spawn_scoped(scope, move || {
                let send = |piece: &[u8]| sender.send(piece.to_vec()).map_err(|_| Ended::Unwanted);
                entry.visit(ElementOrder::C, n_elements, send)
            });
            // The threads that run already end when they find that the caller takes no more pieces.
            let failed = |source| TensorFileError::Io { place: entry.place().to_owned(), source };
            readers.push(reader.map_err(failed)?);
        }
        let mut visited = last.visit(ElementOrder::C, n_elements, |of_last| {
            let mut pieces = Vec::with_capacity(receivers.len());
            for (entry, receiver) in &receivers {
                // The thread has ended: either it failed, which is reported below, or its tensor is shorter.
                pieces.push(receiver.recv().map_err(|_| E::from(of_another_length(entry)))?);
            }
            let all: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).chain([of_last]).collect();
            visit(&all)
        });
        // Threads that wait for their pieces to be taken end.
        drop(receivers);
        let mut failure = None;
        for reader in readers {
            match reader.join() {
                Ok(Err(Ended::Failed(error))) => failure = failure.or(Some(error)),
                Ok(Err(Ended::Unwanted)) if visited.is_ok() => visited = Err(of_another_length(last).into()),
                Ok(_) => {}
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        failure.map_or(visited, |error| Err(error.into()))
    })
}

/// The error of a tensor that has fewer or more elements than its shape says.
#[must_use]
pub fn of_another_length(entry: &Entry<'_>) -> TensorFileError {
    let problem = format!("`{}` has another number of elements than its shape says", entry.name().escape_debug());
    TensorFileError::Io { place: entry.place().to_owned(), source: io::Error::new(io::ErrorKind::InvalidData, problem) }
}
