//! What all files made of others have in common: which tensors are written, in which form, and what is lost of them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Format, Object, Version};

use crate::error::TensorFilesError;
use crate::layout::TensorLayout;
use crate::metadata::Metadata;
use crate::sink::{Piece, PlannedKind};
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::text::{count, shown_name, shown_names};
use crate::write_options::{OutputFormat, WriteOptions};

/// Returns the tensors to write. Lists of tensors in a carton are left out, because their elements have names of their own.
pub(crate) fn expanded<'a>(source: &'a TensorSource, warnings: &mut Vec<String>) -> Vec<&'a TensorInfo> {
    let is_list = |listed: &&TensorInfo| listed.format == TensorLayout::Nested;
    let lists: Vec<&str> = source.tensors().iter().filter(is_list).map(|listed| listed.name.as_str()).collect();
    // A single list is refused later, with a hint.
    if lists.is_empty() || source.tensors().len() == 1 {
        return source.tensors().iter().collect();
    }
    warnings.push(format!("tensors are written, and lists of them are not: `{}`", lists.join("`, `")));
    source.tensors().iter().filter(|listed| !is_list(listed)).collect()
}

/// Refuses to overwrite the source.
pub(crate) fn check_output(source: &TensorSource, output: &Path) -> Result<(), TensorFilesError> {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let existing = identity(output);
    if existing.is_some() && source.paths().iter().any(|file| identity(file) == existing) {
        return Err(TensorFilesError::OutputIsSource { path: output.to_path_buf() });
    }
    Ok(())
}

/// Returns how a tensor will be stored in a file of this format.
pub(crate) fn kind(listed: &TensorInfo, format: OutputFormat, dequantize: bool) -> PlannedKind {
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
        (TensorLayout::QuantizedGroup | TensorLayout::Ggml, _) if dequantize => {
            PlannedKind::Numbers(ElementType::Float32, shape())
        }
        (TensorLayout::SparseCsr | TensorLayout::SparseCoo, Some(dtype)) if format != OutputFormat::Ztensor => {
            PlannedKind::Numbers(dtype, shape())
        }
        (TensorLayout::Ggml, _) => PlannedKind::Blocks(listed.dtype.clone().unwrap_or_default()),
        (TensorLayout::Dense, _) => {
            object(format!("elements of the type `{}`", listed.dtype.as_deref().unwrap_or_default()))
        }
        (other, _) => object(format!("of the format `{}`", other.name())),
    }
}

/// Reads a tensor as it will be written.
pub(crate) fn piece<'a>(
    source: &'a TensorSource,
    listed: &TensorInfo,
    format: OutputFormat,
    dequantize: bool,
    warnings: &mut Vec<String>,
) -> Result<Piece<'a>, TensorFilesError> {
    let Some(reader) = source.as_ztensor() else {
        // The numbers of blocks take several times the bytes of the file.
        return Ok(match source.entry(&listed.name)?.filter(|_| listed.format == TensorLayout::Ggml) {
            Some(entry) => Piece::Computed(entry),
            None => Piece::Value(source.read(&listed.name)?),
        });
    };
    let object = reader.object(&listed.name)?;
    let becomes_dense = dequantize && object.format() == Format::QuantizedGroup;
    if format == OutputFormat::Ztensor && !becomes_dense {
        return Ok(Piece::Object(reader, object));
    }
    warn_of_lost(&object, warnings)?;
    Ok(Piece::Value(source.read(&listed.name)?))
}

/// Warns about attributes and components that are lost because only the tensor of an object is written.
pub(crate) fn warn_of_lost(object: &Object<'_>, warnings: &mut Vec<String>) -> Result<(), TensorFilesError> {
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
pub(crate) fn warn_of_version(options: &WriteOptions, listed: &[&TensorInfo], warnings: &mut Vec<String>) {
    use ElementType::{Complex64, Complex128, Float8E4m3Fn, Float8E5m2};
    let is_unread = |dtype| matches!(dtype, Float8E4m3Fn | Float8E5m2 | Complex64 | Complex128);
    let found = listed.iter().find_map(|listed| Some((listed, listed.element_type.filter(|dtype| is_unread(*dtype))?)));
    if let (Some(Version::V1_1), Some((listed, dtype))) = (options.version, found) {
        warnings.push(format!(
            "version 1.1 of the format has {dtype}, but its libraries read no file that has it: `{}` and any other such tensor can be left \
             out",
            shown_name(&listed.name)
        ));
    }
}

/// Returns the metadata of the source, as far as the new format can hold it.
pub(crate) fn metadata(
    source: &TensorSource,
    format: OutputFormat,
    warnings: &mut Vec<String>,
) -> Result<Metadata, TensorFilesError> {
    let mut metadata = source.metadata()?;
    let all = metadata.len();
    let long = source.long_arrays();
    if !long.is_empty() {
        let names = shown_names(long.iter().map(|(key, _)| key.as_str()));
        warnings.push(format!("not written, because they are long: the arrays {names} of the metadata"));
    }
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
