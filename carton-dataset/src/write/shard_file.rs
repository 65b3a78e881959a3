//! Writes one shard from beginning to end. The file gets its name only when it is complete.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;

use carton_tensor::context::Context;
use carton_tensor::safetensors::{Layout, Metadata, SafetensorsError, Writer};

use super::attempt::Attempt;
use super::gathered_schema::{GatheredSchema, Sharing};
use crate::error::DatasetError;
use crate::manifest::Shard;
use crate::options::{Duplicates, KeyValue};
use crate::sample_names::column_list;
use crate::shard_metadata::{COLUMNS_KEY, DUPLICATES_KEY, LAST_WINS, MODE_KEY, SAMPLES_KEY, SEPARATOR_KEY, ShardMode};

/// The number of bytes that are written between two checks whether the work was cancelled.
const PIECE: usize = 8 << 20;
/// Smaller writes are buffered; larger ones go directly to the file.
const BUFFER: usize = 256 << 10;

/// What an attempt has written so far.
#[derive(Debug)]
pub(super) struct Written {
    /// The complete shards, in order.
    pub(super) shards: Vec<Shard>,
    /// The tensors of the shards.
    pub(super) schema: GatheredSchema,
    /// What the shards must have in common.
    sharing: Sharing,
}

impl Written {
    /// Starts with no shards.
    pub(super) fn new(sharing: Sharing) -> Self {
        Self { shards: Vec::new(), schema: GatheredSchema::default(), sharing }
    }

    /// The number of the next shard.
    pub(super) fn next_number(&self) -> Result<u32, DatasetError> {
        u32::try_from(self.shards.len()).map_err(|_| DatasetError::TooManyShards)
    }
}

/// A shard that is being written.
pub(super) struct ShardFile {
    partial: PathBuf,
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
}

impl ShardFile {
    /// Creates the file of the next shard of an attempt, and writes its header.
    pub(super) fn create(attempt: &Attempt, number: u32, layout: Layout) -> Result<Self, DatasetError> {
        let path = attempt.folder().join(attempt.part_name(number).to_string());
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::create_new(&partial).map_err(DatasetError::io("create", &partial))?;
        let output = BufWriter::with_capacity(BUFFER, file);
        let writer = Writer::new(output, layout).map_err(|error| named(&partial, error))?;
        Ok(Self { partial, path, writer })
    }

    /// Writes the next bytes of a tensor, in the order of the layout.
    pub(super) fn write(&mut self, name: &str, bytes: &[u8], context: &Context) -> Result<(), DatasetError> {
        for piece in bytes.chunks(PIECE) {
            self.writer.write(name, piece).map_err(|error| named(&self.partial, error))?;
            if piece.len() == PIECE {
                context.check()?;
            }
        }
        Ok(())
    }

    /// Completes the file, gives it its name, and adds it to the written shards.
    pub(super) fn finish(self, samples: u64, written: &mut Written, context: &Context) -> Result<(), DatasetError> {
        let layout = self.writer.layout();
        let bytes = layout.file_length();
        let shard_path = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let shown = format!("shard `{shard_path}`");
        let gathered = written.schema.add_shard(shown, written.sharing, layout.header());
        gathered.map_err(|problem| DatasetError::Samples { shard: shard_path.clone(), problem })?;
        self.writer.finish().map_err(|error| named(&self.partial, error))?;
        fs::rename(&self.partial, &self.path).map_err(DatasetError::io("write", &self.path))?;
        written.shards.push(Shard { shard_path, samples_count: samples, bytes });
        Ok(context.check()?)
    }
}

/// Makes the metadata of a shard. In key-value mode it includes how tensors are named, and the columns.
pub(super) fn metadata(
    mode: ShardMode,
    samples: u64,
    names: Option<(&KeyValue, &[String])>,
) -> Result<Metadata, DatasetError> {
    let mut pairs = vec![(MODE_KEY, mode.name().to_owned()), (SAMPLES_KEY, samples.to_string())];
    if let Some((options, columns)) = names {
        let columns = column_list(columns).map_err(DatasetError::Options)?;
        pairs.extend([(SEPARATOR_KEY, options.separator.clone()), (COLUMNS_KEY, columns)]);
        if options.duplicates == Duplicates::LastWins {
            pairs.push((DUPLICATES_KEY, LAST_WINS.to_owned()));
        }
    }
    Metadata::new(pairs).map_err(|error| DatasetError::Options(error.to_string()))
}

/// Adds the path of the file to an IO error.
fn named(path: &std::path::Path, error: SafetensorsError) -> DatasetError {
    match error {
        SafetensorsError::Io { source, .. } => DatasetError::io("write", path)(source),
        source => DatasetError::shard(path.display(), source),
    }
}
