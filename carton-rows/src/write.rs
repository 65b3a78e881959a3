//! Maps a whole table, and writes the results.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use carton_tensor::context::{Context, ProgressEvent};
use tokio::runtime::Handle;

use crate::error::RowsError;
use crate::format::{RowFormat, RowWriter};
use crate::map::MappedRows;

/// Interval at which a wait for a call checks whether the caller cancelled the work.
const PATIENCE: Duration = Duration::from_millis(50);

/// The number of results that wait to be written.
const RESULTS_IN_FLIGHT: usize = 2;

/// What was mapped of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapCounts {
    /// The number of rows, which all have results.
    pub rows: u64,
    /// The number of results, one for each call.
    pub calls: u64,
}

/// Maps all rows, and writes the results to `output`, which is returned. Reading, calls and writing go on at the same time. Blocks the
/// thread, which must not be one of the runtime's own; `runtime` is that in which the model was loaded.
///
/// Reports the number of rows whose results are known to `context`, as the stage `running`: after each call, while a call takes long,
/// and once the output is complete, then with the total. All reports come from the calling thread.
///
/// # Errors
/// As [`MappedRows::next_of`]; the output cannot be written; [`RowsError::UnknownOutputs`]; [`RowsError::Interrupted`] once `context`
/// is cancelled.
pub fn write_mapped<E, W>(
    mut mapped: MappedRows,
    rows: &mut (impl Iterator<Item = Result<RecordBatch, E>> + ?Sized),
    output: W,
    format: RowFormat,
    runtime: &Handle,
    context: &Context,
) -> Result<(W, MapCounts), RowsError>
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
        let mapped = map(&mut mapped, rows, &sender, runtime, context);
        if mapped.is_ok() {
            // Fails if the writer has ended with an error, which is returned below.
            let _ = sender.send(None);
        }
        drop(sender);
        let written = writing.join().map_err(|_| RowsError::Thread(io::Error::other("the writer panicked")))?;
        match (mapped, written) {
            (Ok(counts), Ok(output)) => {
                context.advance(&event(counts, Some(counts.rows)))?;
                Ok((output, counts))
            }
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
    context: &Context,
) -> Result<MapCounts, RowsError> {
    let mut counts = MapCounts::default();
    // Calls are spawned as tasks of the runtime.
    let _entered = runtime.enter();
    loop {
        // Outside of `block_on`: a source of rows that uses a model waits for the same runtime.
        mapped.fill(rows)?;
        let next = runtime.block_on(async {
            let mut next = std::pin::pin!(mapped.next());
            loop {
                match tokio::time::timeout(PATIENCE, &mut next).await {
                    Ok(next) => return Ok::<_, RowsError>(next),
                    Err(_) => context.advance(&event(counts, None))?,
                }
            }
        })?;
        let Some(batch) = next.transpose()? else { return Ok(counts) };
        counts.rows += batch.num_rows() as u64;
        counts.calls += 1;
        context.advance(&event(counts, None))?;
        if results.send(Some(batch)).is_err() {
            // The writer failed, and its error is the reason.
            return Err(RowsError::Interrupted);
        }
    }
}

fn event(counts: MapCounts, total: Option<u64>) -> ProgressEvent {
    ProgressEvent::new("running", counts.rows, total, "rows")
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
