//! The metadata of a file that is written.

use std::collections::HashMap;

use carton_tensor::any_file::TensorFileError;
use carton_tensor::gguf::{EncodedValue, GgufError};
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

/// The metadata of a file that is written, in its order.
#[derive(Clone, Debug)]
pub(crate) enum WrittenMetadata {
    /// That of a GGUF file.
    Encoded(Vec<(String, EncodedValue)>),
    /// That of a file of another format.
    Attributes(Metadata),
}

impl WrittenMetadata {
    /// Texts as the metadata of a file of this format.
    pub(crate) fn of_texts(texts: &[(String, String)], format: OutputFormat) -> Self {
        let mut metadata = Self::new(format);
        metadata.set(texts);
        metadata
    }

    fn new(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Gguf => Self::Encoded(Vec::new()),
            _ => Self::Attributes(Metadata::new()),
        }
    }

    /// The attributes, of which a GGUF file has none.
    pub(crate) fn attributes(&self) -> &[(String, Attribute)] {
        match self {
            Self::Attributes(attributes) => attributes,
            Self::Encoded(_) => &[],
        }
    }

    /// The values of a GGUF file.
    pub(crate) fn encoded(&self) -> Vec<(String, EncodedValue)> {
        match self {
            Self::Encoded(values) => values.clone(),
            Self::Attributes(_) => Vec::new(),
        }
    }

    /// Puts texts at the end, in place of what has the same names.
    fn set(&mut self, texts: &[(String, String)]) {
        for (key, text) in texts {
            match self {
                Self::Attributes(attributes) => put(attributes, key, Attribute::Text(text.clone())),
                Self::Encoded(values) => put(values, key, EncodedValue::text(text)),
            }
        }
    }
}

fn put<V>(metadata: &mut Vec<(String, V)>, key: &str, value: V) {
    metadata.retain(|(present, _)| present != key);
    metadata.push((key.to_owned(), value));
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
) -> Result<WrittenMetadata, TensorFilesError> {
    if !options.set.is_empty() && matches!(format, OutputFormat::Npz | OutputFormat::Npy) {
        return Err(TensorFilesError::NoMetadata { format: format.name() });
    }
    let mut written = WrittenMetadata::new(format);
    if !options.leave_out {
        match &mut written {
            WrittenMetadata::Encoded(values) => join_encoded(values, sources, options, warnings)?,
            WrittenMetadata::Attributes(attributes) => join_attributes(attributes, sources, format, options, warnings)?,
        }
    }
    written.set(&options.set);
    Ok(written)
}

/// The metadata of a safetensors file that PyTorch's tensors are in, as `save_pretrained` of transformers writes it.
const FORMAT: (&str, &str) = ("format", "pt");

/// Adds the metadata of the sources, as far as a format other than GGUF can hold it.
fn join_attributes(
    metadata: &mut Metadata,
    sources: &[&TensorSource],
    format: OutputFormat,
    options: &MetadataOptions,
    warnings: &mut Vec<String>,
) -> Result<(), TensorFilesError> {
    for source in sources {
        join(metadata, source, source.metadata()?, options, |present, value| Ok(present == value))?;
    }
    lose(metadata, sources, format, warnings);
    // Programs of the hub load a safetensors file for PyTorch only if it says so, or has no metadata.
    let is_torch = sources.iter().any(|source| source.file().is_some_and(|file| file.torch_readers().next().is_some()));
    if is_torch && format == OutputFormat::Safetensors && !metadata.iter().any(|(key, _)| key == FORMAT.0) {
        metadata.push((FORMAT.0.to_owned(), Attribute::Text(FORMAT.1.to_owned())));
    }
    Ok(())
}

/// The keys that say which of several files of a model one is. Their tensors are written to one file.
const OF_SPLIT: [&str; 3] = ["split.no", "split.count", "split.tensors.count"];

/// Adds the metadata of the sources: all of a GGUF file, and the texts of others.
fn join_encoded(
    metadata: &mut Vec<(String, EncodedValue)>,
    sources: &[&TensorSource],
    options: &MetadataOptions,
    warnings: &mut Vec<String>,
) -> Result<(), TensorFilesError> {
    let mut n_lost = 0;
    for source in sources {
        let split = source.file().and_then(|file| file.as_gguf());
        let pairs: Vec<(String, EncodedValue)> = match split.and_then(|split| Some((split, split.first()?))) {
            Some((split, first)) => {
                let is_split = split.parts().len() > 1;
                let pairs = first.encoded_metadata().filter(|(key, _)| !(is_split && OF_SPLIT.contains(key)));
                pairs.map(|(key, value)| (key.to_owned(), value)).collect()
            }
            None => {
                let all = source.metadata()?;
                let texts =
                    all.iter().filter_map(|(key, value)| Some((key.clone(), EncodedValue::text(value.as_text()?))));
                let texts: Vec<_> = texts.collect();
                n_lost += all.len() - texts.len();
                texts
            }
        };
        let unread = |error| {
            let (place, source) = (source.place().to_owned(), error);
            TensorFilesError::from(TensorFileError::from(GgufError::Io { place, source }))
        };
        join(metadata, source, pairs, options, |present, value| present.is_same(value).map_err(unread))?;
    }
    warn_of_lost(n_lost, warnings);
    Ok(())
}

/// Adds the metadata of a source, but for the names that are set.
fn join<V>(
    metadata: &mut Vec<(String, V)>,
    source: &TensorSource,
    pairs: Vec<(String, V)>,
    options: &MetadataOptions,
    is_same: impl Fn(&V, &V) -> Result<bool, TensorFilesError>,
) -> Result<(), TensorFilesError> {
    let mut positions: HashMap<String, usize> =
        metadata.iter().enumerate().map(|(position, (key, _))| (key.clone(), position)).collect();
    for (key, value) in pairs {
        if options.set.iter().any(|(set, _)| *set == key) {
            continue;
        }
        match positions.get(&key).and_then(|position| metadata.get(*position)) {
            Some((_, present)) if is_same(present, &value)? => {}
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
        OutputFormat::Safetensors | OutputFormat::Gguf => metadata.retain(|(_, value)| value.as_text().is_some()),
        OutputFormat::Npz | OutputFormat::Npy => metadata.clear(),
    }
    warn_of_lost(all - metadata.len(), warnings);
}

fn warn_of_lost(n_lost: usize, warnings: &mut Vec<String>) {
    if n_lost > 0 {
        let lost = count(n_lost, "attribute");
        warnings.push(format!("not written, because the format cannot hold it: {lost} of the file that is read"));
    }
}
