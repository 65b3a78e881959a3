//! `carton tensor convert`: tensors into a file of another format, one at a time.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Format, Object};
use serde::Serialize;

use super::{Context, checkpoint};
use crate::args::{SinkArgs, TensorConvertArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt::{self, Wanted};
use crate::output::{Output, byte_size, count, one_line};
use crate::progress::ProgressDisplay;
use crate::tensor_files::{Kind, Listed, Metadata, OutputFormat, Piece, Planned, Sink, Source, TensorFileError};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Written {
    pub(super) path: PathBuf,
    pub(super) tensors: usize,
    pub(super) size: u64,
    /// What the new file does not have, one sentence each.
    pub(super) warnings: Vec<String>,
}

pub(super) async fn run(arguments: TensorConvertArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let source = super::open_some(arguments.source, arguments.only, arguments.dense, context).await?.verifying();
    let (sink, dequantize, progress) = (arguments.sink, arguments.dequantize, output.progress().clone());
    let written =
        interrupt::blocking(move |wanted| Ok(convert(&source, &sink, dequantize, &progress, wanted)?)).await?;
    report(&written, output)
}

/// Says what was written.
pub(super) fn report(written: &Written, output: &Output) -> Result<Exit, Failure> {
    output.progress().finish();
    for warning in &written.warnings {
        output.warning(&one_line(warning));
    }
    if output.is_json() {
        output.json(written)?;
    } else {
        let path = written.path.display().to_string();
        let (tensors, size) = (count(written.tensors, "tensor"), byte_size(written.size));
        output.text(&format!("wrote {} ({tensors}, {size})\n", one_line(&path)))?;
    }
    Ok(Exit::Ok)
}

fn convert(
    source: &Source,
    arguments: &SinkArgs,
    dequantize: bool,
    progress: &Arc<ProgressDisplay>,
    wanted: &Wanted,
) -> Result<Written, TensorFileError> {
    check_output(source, &arguments.output)?;
    let format = OutputFormat::of(&arguments.output)?;
    let mut warnings = Vec::new();
    let listed = expanded(source, &mut warnings);
    let planned = |listed: &&Listed| Planned { name: listed.name.clone(), kind: kind(listed, format, dequantize) };
    let planned: Vec<Planned> = listed.iter().map(planned).collect();
    let metadata = metadata(source, format, &mut warnings)?;
    let mut sink = Sink::create(arguments, &planned, &metadata, wanted)?;
    let total = source.total();
    let mut done = 0_u64;
    for position in sink.order() {
        checkpoint(wanted)?;
        progress.update("converting", done, Some(total), true);
        let (Some(listed), Some(planned)) = (listed.get(position), planned.get(position)) else { continue };
        sink.write(&planned.name, piece(source, listed, format, dequantize, &mut warnings)?)?;
        done = done.saturating_add(listed.bytes.unwrap_or(0));
    }
    checkpoint(wanted)?;
    Ok(Written { path: arguments.output.clone(), tensors: planned.len(), size: sink.finish()?, warnings })
}

/// The tensors to be written: of a carton's lists those that are in the list, which have names of their own.
pub(super) fn expanded<'a>(source: &'a Source, warnings: &mut Vec<String>) -> Vec<&'a Listed> {
    let is_list = |listed: &&Listed| listed.format == "nested";
    let lists: Vec<&str> = source.listed().iter().filter(is_list).map(|listed| listed.name.as_str()).collect();
    // Alone it is refused, with what to do instead.
    if lists.is_empty() || source.listed().len() == 1 {
        return source.listed().iter().collect();
    }
    warnings.push(format!("tensors are written, and lists of them are not: `{}`", lists.join("`, `")));
    source.listed().iter().filter(|listed| !is_list(listed)).collect()
}

/// Refuses to replace what is read.
pub(super) fn check_output(source: &Source, output: &Path) -> Result<(), TensorFileError> {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let existing = identity(output);
    if existing.is_some() && source.paths().iter().any(|file| identity(file) == existing) {
        return Err(TensorFileError::OutputIsSource { path: output.to_path_buf() });
    }
    Ok(())
}

/// What a tensor will be in a file of this format.
pub(super) fn kind(listed: &Listed, format: OutputFormat, dequantize: bool) -> Kind {
    let shape = || listed.shape.clone().unwrap_or_default();
    if let Some(reason) = &listed.unusable {
        return Kind::Unusable(reason.clone());
    }
    match (listed.format.as_str(), listed.element_type) {
        ("nested", _) => Kind::Nested,
        ("dense", Some(dtype)) if listed.dtype.as_deref() == Some(dtype.name()) => Kind::Numbers(dtype, shape()),
        ("dense", None) => Kind::Strings,
        ("quantized_group", _) if dequantize => Kind::Numbers(ElementType::Float32, shape()),
        ("sparse_csr" | "sparse_coo", Some(dtype)) if format != OutputFormat::Ztensor => Kind::Numbers(dtype, shape()),
        ("dense", _) => Kind::Object(format!("elements of the type `{}`", listed.dtype.as_deref().unwrap_or_default())),
        (other, _) => Kind::Object(format!("of the format `{other}`")),
    }
}

/// Reads a tensor as it will be written.
pub(super) fn piece<'a>(
    source: &'a Source,
    listed: &Listed,
    format: OutputFormat,
    dequantize: bool,
    warnings: &mut Vec<String>,
) -> Result<Piece<'a>, TensorFileError> {
    let Some(reader) = source.as_ztensor() else { return Ok(Piece::Value(source.read(&listed.name)?)) };
    let object = reader.object(&listed.name)?;
    let becomes_dense = dequantize && object.format() == Format::QuantizedGroup;
    if format == OutputFormat::Ztensor && !becomes_dense {
        return Ok(Piece::Object(reader, object));
    }
    warn_of_lost(&object, warnings)?;
    Ok(Piece::Value(source.read(&listed.name)?))
}

/// Says what an object has beside its tensor, which alone is written.
pub(super) fn warn_of_lost(object: &Object<'_>, warnings: &mut Vec<String>) -> Result<(), TensorFileError> {
    let name = object.name();
    if !object.attributes()?.is_empty() && object.format() != Format::QuantizedGroup {
        warnings.push(format!("the attributes of `{name}` are not written"));
    }
    // The numbers of a group are computed with what else it has, and formats that are not known are refused.
    let needed = object.format().required_components();
    let further = object.components().map(|component| component.role()).filter(|role| !needed.contains(role));
    let further: Vec<&str> = further.collect();
    if !further.is_empty() && object.format() != Format::QuantizedGroup {
        warnings.push(format!("not written of `{name}`, beside its numbers: `{}`", further.join("`, `")));
    }
    Ok(())
}

/// What a file says about itself, as far as the new one can say it.
pub(super) fn metadata(
    source: &Source,
    format: OutputFormat,
    warnings: &mut Vec<String>,
) -> Result<Metadata, TensorFileError> {
    let mut metadata = source.metadata()?;
    let all = metadata.len();
    match format {
        OutputFormat::Ztensor => {}
        OutputFormat::Safetensors => metadata.retain(|(_, value)| value.as_text().is_some()),
        OutputFormat::Npz | OutputFormat::Npy => metadata.clear(),
    }
    if metadata.len() < all {
        let lost = count(all - metadata.len(), "attribute");
        warnings.push(format!("not written, because the format cannot hold it: {lost} of the file that is read"));
    }
    Ok(metadata)
}
