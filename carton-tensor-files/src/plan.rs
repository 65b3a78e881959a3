//! What all files made of others have in common: in which form tensors are written, and what is lost of them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use carton_tensor::element_count;
use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Format, Version};

use crate::blocks::Blocks;
use crate::error::TensorFilesError;
use crate::layout::TensorLayout;
use crate::numbers::{EntryNumbers, Numbers, PackedNumbers};
use crate::planned::{Planned, PlannedKind};
use crate::rounded::{Rounded, Rounding};
use crate::sink::Piece;
use crate::source::{TensorSource, Value};
use crate::tensor_info::TensorInfo;
use crate::text::shown_name;
use crate::write_options::{OutputFormat, WriteOptions, ZtensorVersion};

/// A tensor that is to be written, and where it comes from.
pub(crate) struct Job<'a> {
    pub(crate) planned: Planned,
    pub(crate) source: &'a TensorSource,
    pub(crate) listed: &'a TensorInfo,
    /// Whether the numbers of quantized tensors are written.
    pub(crate) dequantize: bool,
    /// How its numbers are rounded, if they are.
    pub(crate) rounding: Option<Rounding>,
}

impl Job<'_> {
    /// The bytes that are written, as far as they are known.
    pub(crate) fn n_bytes(&self) -> u64 {
        match &self.planned.kind {
            PlannedKind::Numbers(dtype, shape) => {
                element_count(shape).and_then(|count| dtype.n_bytes(count)).map_or(0, |n_bytes| n_bytes as u64)
            }
            PlannedKind::Blocks(of, shape) => {
                let (elements, bytes) = of.block();
                element_count(shape).map_or(0, |count| (count / elements).saturating_mul(bytes) as u64)
            }
            _ => self.listed.bytes.unwrap_or(0),
        }
    }
}

/// Refuses to overwrite a source.
pub(crate) fn check_output(sources: &[&TensorSource], output: &Path) -> Result<(), TensorFilesError> {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let existing = identity(output);
    let is_source = |file: &PathBuf| identity(file) == existing;
    if existing.is_some() && sources.iter().any(|source| source.paths().iter().any(is_source)) {
        return Err(TensorFilesError::OutputIsSource { path: output.to_path_buf() });
    }
    Ok(())
}

/// Returns how a tensor will be stored in a file of this format.
pub(crate) fn kind(listed: &TensorInfo, format: OutputFormat, dequantize: bool) -> PlannedKind {
    let shape = || listed.shape.clone().unwrap_or_default();
    // Blocks are copied whether or not they can be dequantized.
    if let (Some(of), OutputFormat::Gguf, false) = (listed.blocks, format, dequantize) {
        return PlannedKind::Blocks(of, shape());
    }
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
        (TensorLayout::QuantizedGroup | TensorLayout::Ggml, _) if dequantize => {
            PlannedKind::Numbers(ElementType::Float32, shape())
        }
        (TensorLayout::SparseCsr | TensorLayout::SparseCoo, Some(dtype))
            if format != OutputFormat::Ztensor || !listed.is_object =>
        {
            PlannedKind::Numbers(dtype, shape())
        }
        (TensorLayout::Ggml, _) if let Some(of) = listed.blocks => PlannedKind::Blocks(of, shape()),
        (TensorLayout::Dense, _) => {
            object(format!("elements of the type `{}`", listed.dtype.as_deref().unwrap_or_default()))
        }
        (other, _) => object(format!("of the format `{}`", other.name())),
    }
}

/// Returns the contents of a tensor, as they will be written.
pub(crate) fn piece<'a>(
    job: &Job<'a>,
    format: OutputFormat,
    warnings: &mut Vec<String>,
) -> Result<Piece<'a>, TensorFilesError> {
    let (source, listed) = (job.source, job.listed);
    if job.dequantize
        && let Some((file, logical)) = source.packed_as(&listed.name)
    {
        return Ok(rounded(job, Box::new(PackedNumbers::new(file, logical))));
    }
    if let (PlannedKind::Blocks(..), None) = (&job.planned.kind, job.rounding) {
        let found = source.file().and_then(|file| file.as_gguf()?.get(&listed.name));
        let (reader, tensor) = found.ok_or_else(|| TensorFilesError::UnknownKind { name: shown_name(&listed.name) })?;
        return Ok(Piece::Blocks(Blocks::of_file(reader, tensor)));
    }
    if let Some(reader) = source.as_ztensor() {
        let object = reader.object(&listed.name)?;
        let becomes_dense = job.dequantize && object.format() == Format::QuantizedGroup;
        if format == OutputFormat::Ztensor && !becomes_dense && job.rounding.is_none() {
            return Ok(Piece::Object(reader, object));
        }
    }
    warn_of_lost(source, &listed.name, warnings)?;
    let numbers: Box<dyn Numbers + 'a> = match (source.entry(&listed.name)?, stored_type(listed)) {
        (Some(entry), Some(dtype)) => Box::new(EntryNumbers::new(entry, dtype)),
        _ => match source.read(&listed.name)? {
            Value::Numbers(tensor) => Box::new(tensor),
            Value::Strings(strings) => return Ok(Piece::Strings(strings)),
            Value::Nested(_) => return Err(TensorFilesError::UnknownKind { name: shown_name(&listed.name) }),
        },
    };
    Ok(rounded(job, numbers))
}

/// The numbers, rounded or quantized as the job says.
fn rounded<'a>(job: &Job<'a>, numbers: Box<dyn Numbers + 'a>) -> Piece<'a> {
    let name = &job.listed.name;
    let Some(rounding) = job.rounding else { return Piece::Numbers(numbers) };
    let blocks = rounding.to.blocks(numbers.dtype(), numbers.shape());
    let numbers = match rounding.applies_to(numbers.dtype()) {
        true => Box::new(Rounded::new(name, numbers, rounding)),
        false => numbers,
    };
    match blocks {
        Some(to) => Piece::Blocks(Blocks::quantized(name, numbers, to, rounding.saturate)),
        None => Piece::Numbers(numbers),
    }
}

/// The type of the numbers that reading a tensor of a file gives.
fn stored_type(listed: &TensorInfo) -> Option<ElementType> {
    match listed.format {
        TensorLayout::QuantizedGroup | TensorLayout::Ggml => Some(ElementType::Float32),
        _ => listed.element_type,
    }
}

/// Warns about attributes and components that are lost because only the tensor of an object of a zTensor file is written.
pub(crate) fn warn_of_lost(
    source: &TensorSource,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<(), TensorFilesError> {
    if source.as_ztensor2().is_some() && !source.attributes(name)?.is_empty() {
        warnings.push(format!("the attributes of `{}` are not written", shown_name(name)));
    }
    let Some(reader) = source.as_ztensor() else { return Ok(()) };
    let object = reader.object(name)?;
    if !object.attributes()?.is_empty() && object.format() != Format::QuantizedGroup {
        warnings.push(format!("the attributes of `{}` are not written", shown_name(name)));
    }
    // The other components of a group are used to compute its numbers, and unknown formats are refused elsewhere.
    let needed = object.format().required_components();
    let further = object.components().map(|component| component.role()).filter(|role| !needed.contains(role));
    let further: Vec<&str> = further.collect();
    if !further.is_empty() && object.format() != Format::QuantizedGroup {
        warnings.push(format!("not written of `{}`, beside its numbers: `{}`", shown_name(name), further.join("`, `")));
    }
    Ok(())
}

/// Warns about types that version 1.1 of zTensor has, but no released library reads (spec/ztensor.md §3.1): these libraries read nothing
/// of a file with such a type.
pub(crate) fn warn_of_version(options: &WriteOptions, listed: &[&TensorInfo], warnings: &mut Vec<String>) {
    use ElementType::{Complex64, Complex128, Float8E4m3Fn, Float8E5m2};
    let is_unread = |dtype| matches!(dtype, Float8E4m3Fn | Float8E5m2 | Complex64 | Complex128);
    let found = listed.iter().find_map(|listed| Some((listed, listed.element_type.filter(|dtype| is_unread(*dtype))?)));
    if let (Some(ZtensorVersion::V1(Version::V1_1)), Some((listed, dtype))) = (options.version, found) {
        warnings.push(format!(
            "version 1.1 of the format has {dtype}, but its libraries read no file that has it: `{}` and any other such tensor can be left \
             out",
            shown_name(&listed.name)
        ));
    }
}
