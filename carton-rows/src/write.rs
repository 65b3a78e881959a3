//! Maps a whole table, and writes the results.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tokio::runtime::Handle;

use crate::error::RowsError;
use crate::format::{RowFormat, RowWriter};
use crate::map::MappedRows;

/// Interval at which a wait for a call checks whether the caller ended the work.
const PATIENCE: Duration = Duration::from_millis(50);

/// The number of results that wait to be written.
const RESULTS_IN_FLIGHT: usize = 2;

/// The progress of mapping a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapProgress {
    /// The number of rows whose results are known.
    pub rows: u64,
    /// The number of results, one for each call.
    pub calls: u64,
}

/// Maps all rows, and writes the results to `output`, which is returned. Reading, calls and writing go on at the same time. Blocks the
/// thread, which must not be one of the runtime's own; `runtime` is that in which the model was loaded.
///
/// `on_progress` is called after each call, and while a call takes long; it ends the work by [`ControlFlow::Break`].
///
/// # Errors
/// As [`MappedRows::next_of`]; the output cannot be written; [`RowsError::UnknownOutputs`].
pub fn write_mapped<E, W>(
    mut mapped: MappedRows,
    rows: &mut (impl Iterator<Item = Result<RecordBatch, E>> + ?Sized),
    output: W,
    format: RowFormat,
    runtime: &Handle,
    mut on_progress: impl FnMut(MapProgress) -> ControlFlow<()>,
) -> Result<(W, MapProgress), RowsError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
    W: Write + Send,
{
    thread::scope(|scope| {
        let (sender, results) = sync_channel(RESULTS_IN_FLIGHT);
        let declared = mapped.schema().cloned();
        let writing = thread::Builder::new()
            .name("carton-rows".to_owned())
            .spawn_scoped(scope, move || write(&results, declared, output, format))
            .map_err(RowsError::Thread)?;
        let progress = map(&mut mapped, rows, &sender, runtime, &mut on_progress);
        if progress.is_ok() {
            // Fails if the writer has ended with an error, which is returned below.
            let _ = sender.send(None);
        }
        drop(sender);
        let written = writing.join().map_err(|_| RowsError::Thread(io::Error::other("the writer panicked")))?;
        match (progress, written) {
            (Ok(progress), Ok(output)) => Ok((output, progress)),
            (Err(RowsError::Interrupted), Err(error)) | (Ok(_), Err(error)) => Err(error),
            (Err(error), _) => Err(error),
        }
    })
}

fn map<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    mapped: &mut MappedRows,
    rows: &mut (impl Iterator<Item = Result<RecordBatch, E>> + ?Sized),
    results: &SyncSender<Option<RecordBatch>>,
    runtime: &Handle,
    on_progress: &mut impl FnMut(MapProgress) -> ControlFlow<()>,
) -> Result<MapProgress, RowsError> {
    let mut progress = MapProgress::default();
    // Calls are spawned as tasks of the runtime.
    let _entered = runtime.enter();
    loop {
        // Outside of `block_on`: a source of rows that uses a model waits for the same runtime.
        mapped.fill(rows)?;
        let next = runtime.block_on(async {
            let mut next = std::pin::pin!(mapped.next());
            loop {
                match tokio::time::timeout(PATIENCE, &mut next).await {
                    Ok(next) => return Ok(next),
                    Err(_) if on_progress(progress).is_break() => return Err(RowsError::Interrupted),
                    Err(_) => {}
                }
            }
        })?;
        let Some(batch) = next.transpose()? else { return Ok(progress) };
        progress.rows += batch.num_rows() as u64;
        progress.calls += 1;
        if on_progress(progress).is_break() {
            return Err(RowsError::Interrupted);
        }
        if results.send(Some(batch)).is_err() {
            // The writer failed, and its error is the reason.
            return Err(RowsError::Interrupted);
        }
    }
}

/// Writes results until the message `None`, which says that the last result was sent. If the channel closes without it, the work has
/// failed: the output then lacks its end, so that readers do not take it for complete.
fn write<W: Write + Send>(
    results: &Receiver<Option<RecordBatch>>,
    declared: Option<SchemaRef>,
    output: W,
    format: RowFormat,
) -> Result<W, RowsError> {
    let next = || results.recv().map_err(|_| RowsError::Interrupted);
    let mut batch = next()?;
    let schema = batch.as_ref().map(RecordBatch::schema).or(declared).ok_or(RowsError::UnknownOutputs)?;
    let mut writer = RowWriter::new(output, &schema, format)?;
    while let Some(rows) = batch {
        writer.write(&rows)?;
        batch = next()?;
    }
    writer.finish()
}
