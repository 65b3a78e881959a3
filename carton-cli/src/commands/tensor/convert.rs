//! `carton tensor convert`: writes tensors to a file of another format, one at a time.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use carton_tensor::context::ProgressEvent;
use carton_tensor::files::ElementType;
use carton_tensor::weights::SCALE_SUFFIX;
use carton_tensor::ztensor::{Format, Object};
use serde::Serialize;

use super::Context;
use super::groups::Groups;
use crate::args::{SinkArgs, TensorConvertArgs, VersionChoice};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::WorkContext;
use crate::tensor_files::{
    Listed, Metadata, OutputFormat, Piece, Planned, PlannedKind, Sink, Source, TensorFileError, TensorLayout,
    shown_name,
};
use crate::text::{byte_size, count, one_line};

/// The output of `--json`.
#[derive(Serialize)]
pub(super) struct Written {
    pub(super) path: PathBuf,
    pub(super) tensors: usize,
    pub(super) size: u64,
    /// What was lost or left out in the new file, one sentence each.
    pub(super) warnings: Vec<String>,
}

pub(super) async fn run(arguments: TensorConvertArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let source = super::open_some(arguments.source, arguments.only, arguments.dense, context).await?.verifying(true);
    let groups = match (arguments.dequantize, arguments.quantized_groups) {
        (true, _) => GroupHandling::Numbers,
        (_, true) => GroupHandling::Made,
        _ => GroupHandling::Kept,
    };
    let (sink, progress) = (arguments.sink, output.progress().clone());
    let written =
        interrupt::blocking(move |token| Ok(convert(&source, &sink, groups, &progress.context(token))?)).await?;
    report(&written, output)
}

/// What happens to quantized groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupHandling {
    /// They stay quantized groups.
    Kept,
    /// The numbers that they represent are written.
    Numbers,
    /// Groups are made of integers and their scales.
    Made,
}

/// Prints what was written.
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
    group_handling: GroupHandling,
    context: &WorkContext,
) -> Result<Written, TensorFileError> {
    check_output(source, &arguments.output)?;
    let format = OutputFormat::of(&arguments.output)?;
    if group_handling == GroupHandling::Made {
        format.expect_ztensor("--quantized-groups", &arguments.output)?;
    }
    let dequantize = group_handling == GroupHandling::Numbers;
    let mut warnings = source.not_written();
    let mut listed = expanded(source, &mut warnings);
    let groups = match group_handling {
        GroupHandling::Made => Groups::find(source, &listed, &mut warnings)?,
        _ => Groups::default(),
    };
    listed.retain(|listed| !groups.is_scale(&listed.name));
    let planned = |listed: &&Listed| {
        let kind = if groups.contains(&listed.name) { PlannedKind::Group } else { kind(listed, format, dequantize) };
        Planned { name: listed.name.clone(), kind }
    };
    let planned: Vec<Planned> = listed.iter().map(planned).collect();
    let metadata = metadata(source, format, &mut warnings)?;
    warn_of_version(arguments, &listed, &mut warnings);
    let mut sink = Sink::create(arguments, &planned, &metadata, context.cancel_token())?;
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
    Ok(Written { path: arguments.output.clone(), tensors: planned.len(), size: sink.finish()?, warnings })
}

/// Returns the tensors to write. Lists of tensors in a carton are left out, because their elements have names of their own.
pub(super) fn expanded<'a>(source: &'a Source, warnings: &mut Vec<String>) -> Vec<&'a Listed> {
    let is_list = |listed: &&Listed| listed.format == TensorLayout::Nested;
    let lists: Vec<&str> = source.listed().iter().filter(is_list).map(|listed| listed.name.as_str()).collect();
    // A single list is refused later, with a hint.
    if lists.is_empty() || source.listed().len() == 1 {
        return source.listed().iter().collect();
    }
    warnings.push(format!("tensors are written, and lists of them are not: `{}`", lists.join("`, `")));
    source.listed().iter().filter(|listed| !is_list(listed)).collect()
}

/// Refuses to overwrite the source.
pub(super) fn check_output(source: &Source, output: &Path) -> Result<(), TensorFileError> {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let existing = identity(output);
    if existing.is_some() && source.paths().iter().any(|file| identity(file) == existing) {
        return Err(TensorFileError::OutputIsSource { path: output.to_path_buf() });
    }
    Ok(())
}

/// Returns how a tensor will be stored in a file of this format.
pub(super) fn kind(listed: &Listed, format: OutputFormat, dequantize: bool) -> PlannedKind {
    let shape = || listed.shape.clone().unwrap_or_default();
    if let Some(reason) = &listed.unusable {
        return PlannedKind::Unusable(reason.clone());
    }
    let object = |what: String| PlannedKind::Object { what, not_in_1_1: listed.not_in_1_1.clone() };
    match (&listed.format, listed.element_type) {
        (TensorLayout::Nested, _) => PlannedKind::Nested,
        // Another component may have a type that the version lacks.
        (TensorLayout::Dense, Some(_)) if format == OutputFormat::Ztensor && listed.not_in_1_1.is_some() => {
            object("of the format `dense`".to_owned())
        }
        (TensorLayout::Dense, Some(dtype)) if listed.dtype.as_deref() == Some(dtype.name()) => {
            PlannedKind::Numbers(dtype, shape())
        }
        (TensorLayout::Dense, None) => PlannedKind::Strings,
        (TensorLayout::QuantizedGroup, _) if dequantize => PlannedKind::Numbers(ElementType::Float32, shape()),
        (TensorLayout::SparseCsr | TensorLayout::SparseCoo, Some(dtype)) if format != OutputFormat::Ztensor => {
            PlannedKind::Numbers(dtype, shape())
        }
        (TensorLayout::Dense, _) => {
            object(format!("elements of the type `{}`", listed.dtype.as_deref().unwrap_or_default()))
        }
        (other, _) => object(format!("of the format `{}`", other.name())),
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

/// Warns about attributes and components that are lost because only the tensor of an object is written.
pub(super) fn warn_of_lost(object: &Object<'_>, warnings: &mut Vec<String>) -> Result<(), TensorFileError> {
    let name = object.name();
    if !object.attributes()?.is_empty() && object.format() != Format::QuantizedGroup {
        warnings.push(format!("the attributes of `{name}` are not written"));
    }
    // The other components of a group are used to compute its numbers, and unknown formats are refused elsewhere.
    let needed = object.format().required_components();
    let further = object.components().map(|component| component.role()).filter(|role| !needed.contains(role));
    let further: Vec<&str> = further.collect();
    if !further.is_empty() && object.format() != Format::QuantizedGroup {
        warnings.push(format!("not written of `{name}`, beside its numbers: `{}`", further.join("`, `")));
    }
    Ok(())
}

/// Warns about types that version 1.1 of zTensor has, but no released library reads (spec/ztensor.md §3.1): these libraries read nothing
/// of a file with such a type.
pub(super) fn warn_of_version(arguments: &SinkArgs, listed: &[&Listed], warnings: &mut Vec<String>) {
    use ElementType::{Complex64, Complex128, Float8E4m3Fn, Float8E5m2};
    let is_unread = |dtype| matches!(dtype, Float8E4m3Fn | Float8E5m2 | Complex64 | Complex128);
    let found = listed.iter().find_map(|listed| Some((listed, listed.element_type.filter(|dtype| is_unread(*dtype))?)));
    if let (Some(VersionChoice::V1_1), Some((listed, dtype))) = (arguments.version, found) {
        warnings.push(format!(
            "version 1.1 of the format has {dtype}, but its libraries read no file that has it: `{}` and any other such tensor can be left \
             out with --only",
            shown_name(&listed.name)
        ));
    }
}

/// Returns the metadata of the source, as far as the new format can hold it.
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
