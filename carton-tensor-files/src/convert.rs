//! Writes tensors to a file of another format, one at a time.

use std::path::{Path, PathBuf};

use carton_tensor::context::ProgressEvent;
use carton_tensor::weights::SCALE_SUFFIX;
use serde::Serialize;

use crate::copy::{check_output, expanded, kind, metadata, piece, warn_of_lost, warn_of_version};
use crate::error::TensorFilesError;
use crate::groups::Groups;
use crate::sink::{Piece, Planned, PlannedKind, Sink};
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::write_options::{OutputFormat, WriteOptions};

/// What was written.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// The number of tensors in it.
    pub tensors: usize,
    /// Its size, in bytes.
    pub size: u64,
    /// What was lost or left out in the new file, one sentence each.
    pub warnings: Vec<String>,
}

/// What happens to quantized groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupHandling {
    /// They stay quantized groups.
    #[default]
    Kept,
    /// The float32 numbers that they represent are written.
    Numbers,
    /// Groups are made of each int8 matrix `NAME` and its scale `NAME.scale`, with the fewest bits that hold its integers; for zTensor files.
    /// The group multiplies by 1 / scale, rounded to float32.
    Made,
}

/// How [`convert`] writes tensors.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// How they are stored.
    pub write: WriteOptions,
    /// What happens to quantized groups.
    pub groups: GroupHandling,
}

/// Writes the tensors of `source` to the file at `output`, in the format that its extension names. Values that a format cannot hold are
/// refused, never rounded. The file appears under its name when it is complete. The digests of a zTensor source are compared.
///
/// # Errors
/// [`TensorFilesError`]; nothing is left behind then.
pub fn convert(source: &TensorSource, output: &Path, options: &ConvertOptions) -> Result<Written, TensorFilesError> {
    let context = &options.write.context;
    check_output(source, output)?;
    let format = OutputFormat::of(output)?;
    if options.groups == GroupHandling::Made {
        format.expect_ztensor("groups", output)?;
    }
    let dequantize = options.groups == GroupHandling::Numbers;
    let mut warnings = source.not_written();
    let mut listed = expanded(source, &mut warnings);
    let groups = match options.groups {
        GroupHandling::Made => Groups::find(source, &listed, &mut warnings)?,
        _ => Groups::default(),
    };
    listed.retain(|listed| !groups.is_scale(&listed.name));
    let planned = |listed: &&TensorInfo| {
        let kind = if groups.contains(&listed.name) { PlannedKind::Group } else { kind(listed, format, dequantize) };
        Planned { name: listed.name.clone(), kind }
    };
    let planned: Vec<Planned> = listed.iter().map(planned).collect();
    let metadata = metadata(source, format, &mut warnings)?;
    warn_of_version(&options.write, &listed, &mut warnings);
    let mut sink = Sink::create(output, &options.write, &planned, &metadata)?;
    let total = source.total();
    let mut done = 0_u64;
    for position in sink.order() {
        context.advance(&ProgressEvent::new("converting", done, Some(total), "bytes"))?;
        let (Some(listed), Some(planned)) = (listed.get(position), planned.get(position)) else { continue };
        let piece = match groups.read(source, &listed.name)? {
            Some(group) => {
                if let Some(reader) = source.as_ztensor() {
                    warn_of_lost(&reader.object(&listed.name)?, &mut warnings)?;
                    warn_of_lost(&reader.object(&format!("{}{SCALE_SUFFIX}", listed.name))?, &mut warnings)?;
                }
                Piece::Group(Box::new(group))
            }
            None => piece(source, listed, format, dequantize, &mut warnings)?,
        };
        sink.write(&planned.name, piece)?;
        done = done.saturating_add(listed.bytes.unwrap_or(0));
    }
    context.check()?;
    Ok(Written { path: output.to_path_buf(), tensors: planned.len(), size: sink.finish()?, warnings })
}
