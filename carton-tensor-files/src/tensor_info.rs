//! What is known of tensors without reading their elements.

use std::path::Path;

use carton_core::tensor::TensorEntry;
use carton_tensor::any_file::{Entry, TensorFile, TensorFileFormat};
use carton_tensor::files::ElementType;
use carton_tensor::gguf::GgmlType;
use carton_tensor::ztensor::Version;
use carton_tensor::{DataType, element_count};
use serde::Serialize;

use crate::layout::TensorLayout;
use crate::text::shown_name;

/// A tensor of a file or carton.
///
/// In JSON, the fields have these names; unknown values are `null`.
#[derive(Clone, Debug, Serialize)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// The name of the element type, or of the quantized type of ggml; `string`, `nested`, or `null` for an object of several components.
    pub dtype: Option<String>,
    /// `null` for a nested tensor.
    pub shape: Option<Vec<usize>>,
    /// The size of its elements in bytes.
    pub bytes: Option<u64>,
    /// The size in the file in bytes.
    pub stored: Option<u64>,
    /// `dense`, the format of another object of a zTensor file, `ggml` for blocks of GGUF, or `nested`.
    pub format: TensorLayout,
    /// How its bytes are stored: `raw`, `zstd`, or `zip` in an archive that may compress them.
    pub encoding: Option<&'static str>,
    /// The algorithms of its digests.
    pub digest: Option<String>,
    /// Why it cannot be read, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// The type of its elements, if it is one that files of tensors have.
    #[serde(skip)]
    pub element_type: Option<ElementType>,
    /// The type of its blocks of ggml, if it has such.
    #[serde(skip)]
    pub(crate) blocks: Option<GgmlType>,
    /// Whether it is an object of a zTensor file, which another such file can have as it is.
    #[serde(skip)]
    pub(crate) is_object: bool,
    /// Describes the elements of a component that version 1.1 of zTensor cannot represent, if there is one.
    #[serde(skip)]
    pub(crate) not_in_1_1: Option<String>,
}

/// Describes a tensor of a file.
pub(crate) fn of_file(file: &TensorFile, path: &Path, entry: &Entry<'_>) -> TensorInfo {
    let of_2 = entry.as_ztensor2();
    let parts = || of_2.into_iter().flat_map(|object| object.parts());
    let components = || entry.as_ztensor().into_iter().flat_map(|object| object.components());
    let blocks = entry.ggml_blocks();
    let unsupported = entry.unsupported().is_some();
    let unusable = entry.unsupported().map(str::to_owned);
    let undone = blocks.filter(|of| !of.is_dequantized());
    let unusable = unusable.or_else(|| of_2.and_then(|object| object.unreadable()).map(|what| format!("it is {what}")));
    let unusable = unusable.or_else(|| undone.map(|of| format!("its blocks of {of} are not dequantized")));
    // An unknown type is shown by its own name, whatever its storage type is.
    let unknown = components().find(|component| component.role() == "data").and_then(|data| data.unknown_type());
    let unknown = unknown.or_else(|| of_2.and_then(|object| object.values()).and_then(|values| values.unknown_type()));
    let dtype = match entry.dtype() {
        _ if unsupported => None,
        None if blocks.is_some() => blocks.map(GgmlType::name),
        None if entry.is_strings() => Some(DataType::String.name()),
        dtype => unknown.or(dtype.map(ElementType::name)),
    };
    let mut algorithms: Vec<&str> =
        components().filter_map(|component| component.digest_text()?.split(':').next()).collect();
    algorithms.extend(parts().filter_map(|part| part.digest_text()?.split(':').next()));
    algorithms.dedup();
    let not_in_1_1 = components().find_map(|component| match component.unknown_type() {
        Some(unknown) => Some(format!("elements of the type `{}`", shown_name(unknown))),
        None => Some(component.element_type())
            .filter(|dtype| !Version::V1_1.has(*dtype))
            .map(|dtype| format!("numbers of {dtype}")),
    });
    let of_2_and_not_in_1_1 = of_2.and(entry.dtype()).filter(|dtype| !Version::V1_1.has(*dtype));
    let not_in_1_1 = not_in_1_1.or_else(|| of_2_and_not_in_1_1.map(|dtype| format!("numbers of {dtype}")));
    let is_zip = file.format() == TensorFileFormat::Npz;
    TensorInfo {
        name: match file.format() {
            TensorFileFormat::Npy => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            _ => entry.name().to_owned(),
        },
        dtype: dtype.map(str::to_owned),
        shape: (!unsupported).then(|| entry.shape().to_vec()),
        // The size that compressed components claim has not been verified yet.
        bytes: entry.n_bytes().filter(|_| !unsupported),
        stored: (!is_zip).then(|| entry.stored_bytes()),
        format: match entry.as_ztensor() {
            Some(object) => object.format().into(),
            None if of_2.is_some() => of_2.map_or(TensorLayout::Dense, |object| object.layout().into()),
            None if blocks.is_some() => TensorLayout::Ggml,
            None if entry.as_onnx().is_some_and(|tensor| tensor.is_sparse()) => TensorLayout::SparseCoo,
            None => TensorLayout::Dense,
        },
        encoding: Some(if is_zip { "zip" } else { entry.encoding() }),
        digest: (!algorithms.is_empty()).then(|| algorithms.join(", ")),
        unusable,
        element_type: entry.dtype(),
        blocks,
        is_object: entry.as_ztensor().is_some(),
        not_in_1_1,
    }
}

/// Describes a dense tensor of numbers.
pub(crate) fn dense_info(name: &str, dtype: ElementType, shape: &[usize]) -> TensorInfo {
    let bytes = element_count(shape).and_then(|n_elements| dtype.n_bytes(n_elements));
    TensorInfo {
        name: name.to_owned(),
        dtype: Some(dtype.name().to_owned()),
        shape: Some(shape.to_vec()),
        bytes: bytes.map(|bytes| bytes as u64),
        stored: None,
        format: TensorLayout::Dense,
        encoding: None,
        digest: None,
        unusable: None,
        element_type: Some(dtype),
        blocks: None,
        is_object: false,
        not_in_1_1: None,
    }
}

/// Describes a tensor of a carton.
pub(crate) fn of_carton(name: &str, entry: &TensorEntry) -> TensorInfo {
    let nothing = TensorInfo {
        name: name.to_owned(),
        dtype: None,
        shape: None,
        bytes: None,
        stored: None,
        format: TensorLayout::Dense,
        encoding: None,
        digest: None,
        unusable: None,
        element_type: None,
        blocks: None,
        is_object: false,
        not_in_1_1: None,
    };
    match entry {
        TensorEntry::Plain { dtype, shape, .. } | TensorEntry::Member { dtype, shape, .. } => {
            let element_type = ElementType::from_data_type(*dtype);
            let bytes = element_type.and_then(|dtype| dtype.n_bytes(element_count(shape)?));
            let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
            TensorInfo {
                dtype: Some(dtype.name().to_owned()),
                shape: Some(shape.clone()),
                bytes,
                element_type,
                ..nothing
            }
        }
        _ => TensorInfo { dtype: Some("nested".to_owned()), format: TensorLayout::Nested, ..nothing },
    }
}
