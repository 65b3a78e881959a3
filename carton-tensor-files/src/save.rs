//! Writes tensors of the caller to a file.

use std::path::Path;

use carton_tensor::context::ProgressEvent;

use crate::convert::Written;
use crate::error::TensorFilesError;
use crate::planned::{Planned, PlannedKind};
use crate::sink::{Piece, Sink};
use crate::source::Value;
use crate::text::shown_name;
use crate::write_options::{OutputFormat, WriteOptions};
use crate::written_metadata::WrittenMetadata;

/// Writes named tensors, and metadata, to the file at `output`, in the format that its extension names. The file appears under its name when it
/// is complete.
///
/// # Errors
/// The format cannot hold a tensor, or the metadata; the file cannot be written. Nothing is left behind then.
pub fn save(
    tensors: Vec<(String, Value)>,
    metadata: &[(String, String)],
    output: &Path,
    options: &WriteOptions,
) -> Result<Written, TensorFilesError> {
    let format = options.format(output)?;
    if !metadata.is_empty() && matches!(format, OutputFormat::Npz | OutputFormat::Npy) {
        return Err(TensorFilesError::NoMetadata { format: format.name() });
    }
    let kind = |value: &Value| match value {
        Value::Numbers(tensor) => PlannedKind::Numbers(tensor.dtype(), tensor.shape().to_vec()),
        Value::Strings(_) => PlannedKind::Strings,
        Value::Nested(_) => PlannedKind::Nested,
    };
    let total = tensors.iter().map(|(_, value)| n_bytes(value)).sum();
    let planned: Vec<Planned> =
        tensors.iter().map(|(name, value)| Planned { name: name.clone(), kind: kind(value) }).collect();
    let metadata = WrittenMetadata::of_texts(metadata, format);
    let mut sink = Sink::create(output, options, &planned, &metadata)?;
    let mut values: Vec<Option<Value>> = tensors.into_iter().map(|(_, value)| Some(value)).collect();
    let mut done = 0;
    for position in sink.order() {
        options.context.advance(&ProgressEvent::new("saving", done, Some(total), "bytes"))?;
        let value = values.get_mut(position).and_then(Option::take);
        let (Some(planned), Some(value)) = (planned.get(position), value) else { continue };
        done += n_bytes(&value);
        let piece = match value {
            Value::Numbers(tensor) => Piece::from(tensor),
            Value::Strings(strings) => Piece::Strings(strings),
            Value::Nested(_) => return Err(TensorFilesError::UnknownKind { name: shown_name(&planned.name) }),
        };
        sink.write(planned, &piece)?;
    }
    options.context.check()?;
    let (path, size) = (output.to_path_buf(), sink.finish()?);
    Ok(Written { path, shards: Vec::new(), tensors: planned.len(), size, warnings: Vec::new() })
}

fn n_bytes(value: &Value) -> u64 {
    match value {
        Value::Numbers(tensor) => tensor.bytes().len() as u64,
        Value::Strings(_) | Value::Nested(_) => 0,
    }
}
