//! Writes tensors into several files of limited size, with an index beside them (spec/safetensors.md §7.6).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::index::{is_file_name, to_json};
use super::{HeaderError, Layout, Metadata, SafetensorsError, Writer, n_bytes};
use crate::files::{ElementType, PendingFile, SharedBytes};

/// Writes tensors into files in `folder` with at most `max_bytes` of data each. A larger tensor gets a file of its own. Returns the
/// path by which to open the result: the index `PREFIX.safetensors.index.json`, or `PREFIX.safetensors` if one file is enough.
///
/// `tensors` are names, element types and shapes. `read` returns the bytes of the tensor at a position. It is called when the bytes are
/// needed, in the order of the files rather than that of `tensors`, so that at most one tensor is in memory. Each file has `metadata`.
/// Each file gets its name once it is complete, the index last, and replaces an existing file of that name.
///
/// # Errors
/// [`SafetensorsError::Unwritable`]; [`SafetensorsError::Unexpected`] if `read` returns the wrong number of bytes for a tensor, or if
/// `prefix` is not a file name; [`SafetensorsError::Io`], also if `read` fails.
pub fn write_sharded<N: AsRef<str>, S: AsRef<[usize]>>(
    folder: &Path,
    prefix: &str,
    tensors: &[(N, ElementType, S)],
    metadata: &Metadata,
    max_bytes: u64,
    mut read: impl FnMut(usize) -> io::Result<SharedBytes>,
) -> Result<PathBuf, SafetensorsError> {
    if !is_file_name(prefix) {
        let problem = format!("the name `{}`, which is not a file name", prefix.escape_debug());
        return Err(SafetensorsError::Unexpected { problem });
    }
    // Checks all rules before writing a file, including those between the files.
    let whole = Layout::new(tensors.iter().map(|(name, dtype, shape)| (name, *dtype, shape)), metadata)?;
    let total_size = whole.file_length() - whole.header().data_start();
    drop(whole);
    let shards = split(tensors, max_bytes)?;
    let n_shards = shards.len();
    let mut weight_map = BTreeMap::new();
    let mut files = Vec::with_capacity(n_shards);
    for number in 1..=n_shards {
        files.push(match n_shards {
            1 => format!("{prefix}.safetensors"),
            _ => format!("{prefix}-{number:05}-of-{n_shards:05}.safetensors"),
        });
    }
    for (range, file) in shards.into_iter().zip(&files) {
        let shard = tensors.get(range.clone()).unwrap_or_default();
        let layout = Layout::new(shard.iter().map(|(name, dtype, shape)| (name, *dtype, shape)), metadata)?;
        let order = layout.order().to_vec();
        let path = folder.join(file);
        let place = path.display().to_string();
        let io = |source| SafetensorsError::Io { place: place.clone(), source };
        replace(&path, &place, |output| {
            let mut writer = Writer::new(output, layout)?;
            for position in order {
                let Some((name, ..)) = shard.get(position) else { continue };
                writer.write(name.as_ref(), &read(range.start + position).map_err(io)?)?;
            }
            writer.finish()?;
            Ok(())
        })?;
        weight_map.extend(shard.iter().map(|(name, ..)| (name.as_ref(), file.as_str())));
    }
    if let [file] = files.as_slice() {
        return Ok(folder.join(file));
    }
    let path = folder.join(format!("{prefix}.safetensors.index.json"));
    let place = path.display().to_string();
    let io = |source| SafetensorsError::Io { place: place.clone(), source };
    let json = to_json(&weight_map, total_size).map_err(|error| io(error.into()))?;
    replace(&path, &place, |output| output.write_all(json.as_bytes()).map_err(io))?;
    Ok(path)
}

/// Divides the tensors, in their order, into ranges for one file each, with as many tensors as fit. Returns at least one range, even
/// without tensors.
fn split<N: AsRef<str>, S: AsRef<[usize]>>(
    tensors: &[(N, ElementType, S)],
    max_bytes: u64,
) -> Result<Vec<Range<usize>>, HeaderError> {
    let mut shards = Vec::new();
    let (mut start, mut filled) = (0, 0_u64);
    for (position, (name, dtype, shape)) in tensors.iter().enumerate() {
        let n_bytes = n_bytes(*dtype, shape.as_ref(), || name.as_ref().to_owned())?;
        if position > start && filled.saturating_add(n_bytes) > max_bytes {
            shards.push(start..position);
            (start, filled) = (position, 0);
        }
        filled = filled.saturating_add(n_bytes);
    }
    shards.push(start..tensors.len());
    Ok(shards)
}

/// Writes a file that gets its name only when it is complete.
fn replace(
    path: &Path,
    place: &str,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<(), SafetensorsError>,
) -> Result<(), SafetensorsError> {
    let io = |source| SafetensorsError::Io { place: place.to_owned(), source };
    let file = PendingFile::new(path).map_err(io)?;
    let mut output = BufWriter::with_capacity(1 << 20, file.file());
    write(&mut output)?;
    output.flush().map_err(io)?;
    drop(output);
    file.publish().map_err(io)
}
