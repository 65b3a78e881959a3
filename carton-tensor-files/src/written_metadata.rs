//! The metadata of a file that is written.

use std::collections::HashMap;

use carton_tensor::ztensor::Attribute;

use crate::error::TensorFilesError;
use crate::metadata::Metadata;
use crate::source::TensorSource;
use crate::text::{count, shown_name, shown_names};
use crate::write_options::OutputFormat;

/// What becomes of the metadata of the sources.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MetadataOptions {
    /// Leaves out the metadata of the sources.
    pub leave_out: bool,
    /// Texts by their names, in place of those that the sources have under the same name.
    pub set: Vec<(String, String)>,
}

/// Returns the metadata of all sources, and what `options` sets, as far as the format can hold it.
///
/// # Errors
/// Two sources have another value under one name; the format can hold none of what is set.
pub(crate) fn written_metadata(
    sources: &[&TensorSource],
    format: OutputFormat,
    options: &MetadataOptions,
    warnings: &mut Vec<String>,
) -> Result<Metadata, TensorFilesError> {
    if !options.set.is_empty() && matches!(format, OutputFormat::Npz | OutputFormat::Npy) {
        return Err(TensorFilesError::NoMetadata { format: format.name() });
    }
    let mut metadata = Metadata::new();
    if !options.leave_out {
        for source in sources {
            join(&mut metadata, source, options)?;
        }
        lose(&mut metadata, sources, format, warnings);
        // Programs of the hub load a safetensors file for PyTorch only if it says so, or has no metadata.
        let is_torch =
            sources.iter().any(|source| source.file().is_some_and(|file| file.torch_readers().next().is_some()));
        if is_torch && format == OutputFormat::Safetensors && !metadata.iter().any(|(key, _)| key == FORMAT.0) {
            metadata.push((FORMAT.0.to_owned(), Attribute::Text(FORMAT.1.to_owned())));
        }
    }
    for (key, value) in &options.set {
        metadata.retain(|(present, _)| present != key);
        metadata.push((key.clone(), Attribute::Text(value.clone())));
    }
    Ok(metadata)
}

/// The metadata of a safetensors file that PyTorch's tensors are in, as `save_pretrained` of transformers writes it.
const FORMAT: (&str, &str) = ("format", "pt");

/// Adds the metadata of a source, but for the names that are set.
fn join(metadata: &mut Metadata, source: &TensorSource, options: &MetadataOptions) -> Result<(), TensorFilesError> {
    let mut positions: HashMap<String, usize> =
        metadata.iter().enumerate().map(|(position, (key, _))| (key.clone(), position)).collect();
    for (key, value) in source.metadata()? {
        if options.set.iter().any(|(set, _)| *set == key) {
            continue;
        }
        match positions.get(&key).and_then(|position| metadata.get(*position)) {
            Some((_, present)) if *present == value => {}
            Some(_) => {
                return Err(TensorFilesError::OtherMetadata {
                    key: shown_name(&key),
                    place: source.place().to_owned(),
                });
            }
            None => {
                positions.insert(key.clone(), metadata.len());
                metadata.push((key, value));
            }
        }
    }
    Ok(())
}

/// Removes what the format cannot hold, and says so.
fn lose(metadata: &mut Metadata, sources: &[&TensorSource], format: OutputFormat, warnings: &mut Vec<String>) {
    let all = metadata.len();
    let long: Metadata = sources.iter().flat_map(|source| source.long_arrays()).collect();
    if !long.is_empty() {
        let names = shown_names(long.iter().map(|(key, _)| key.as_str()));
        warnings.push(format!("not written, because they are long: the arrays {names} of the metadata"));
    }
    match format {
        OutputFormat::Ztensor | OutputFormat::Ztensor2 => {}
        OutputFormat::Safetensors => metadata.retain(|(_, value)| value.as_text().is_some()),
        OutputFormat::Npz | OutputFormat::Npy => metadata.clear(),
    }
    if metadata.len() < all {
        let lost = count(all - metadata.len(), "attribute");
        warnings.push(format!("not written, because the format cannot hold it: {lost} of the file that is read"));
    }
}
