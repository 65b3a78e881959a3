//! What is known of tensors without reading them.

use std::sync::PoisonError;

use carton_core::tensor_data::Entry;
use carton_tensor::files::ElementType;
use carton_tensor::npy::{self, ArrayInfo};
use carton_tensor::safetensors::TensorInfo;
use carton_tensor::ztensor::{Encoding, Object};
use carton_tensor::{DataType, element_count};
use serde::Serialize;

use super::error::TensorFileError;
use super::source::Opened;

/// A tensor of a file.
///
/// As JSON, the names are those of the fields here; what is not known is `null`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    /// The name of the element type; `string`, `nested`, or `null` for an object of several components.
    pub(crate) dtype: Option<String>,
    /// `null` for a nested tensor.
    pub(crate) shape: Option<Vec<usize>>,
    /// The bytes of its elements.
    pub(crate) bytes: Option<u64>,
    /// The bytes that it takes in the file.
    pub(crate) stored: Option<u64>,
    /// `dense`, the format of another object of a zTensor file, or `nested`.
    pub(crate) format: String,
    /// How its bytes are stored: `raw`, `zstd`, or `zip` in an archive that may compress them.
    pub(crate) encoding: Option<&'static str>,
    /// The algorithms of its digests.
    pub(crate) digest: Option<String>,
    #[serde(skip)]
    pub(crate) element_type: Option<ElementType>,
}

/// The tensors of a file, in its order.
pub(super) fn list(opened: &Opened) -> Result<Vec<Listed>, TensorFileError> {
    Ok(match opened {
        Opened::Safetensors(reader) => reader.header().iter().map(|tensor| of_safetensors(&tensor)).collect(),
        Opened::Sharded(sharded) => {
            let shards = sharded.shards();
            shards.flat_map(|(_, shard)| shard.header().iter()).map(|tensor| of_safetensors(&tensor)).collect()
        }
        Opened::Ztensor(reader) => reader.objects().map(|object| of_object(&object)).collect(),
        Opened::Npy(path) => {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            vec![of_array(&name, &npy::array_info(path)?, "raw")]
        }
        Opened::Npz(npz) => {
            let mut npz = npz.lock().unwrap_or_else(PoisonError::into_inner);
            let names = npz.names().to_vec();
            let mut listed = Vec::with_capacity(names.len());
            for name in names {
                listed.push(of_array(&name, &npz.array_info(&name)?, "zip"));
            }
            listed
        }
        Opened::Carton(package) => package.tensors().iter().map(|(name, entry)| of_entry(name, entry)).collect(),
    })
}

fn of_safetensors(tensor: &TensorInfo<'_>) -> Listed {
    let bytes = tensor.range.end - tensor.range.start;
    Listed {
        bytes: Some(bytes),
        stored: Some(bytes),
        encoding: Some("raw"),
        element_type: Some(tensor.dtype),
        ..described(tensor.name, tensor.dtype.name(), tensor.shape)
    }
}

fn of_object(object: &Object<'_>) -> Listed {
    let element_type = object.element_type();
    let dtype = match object.component("data").and_then(|data| data.unknown_type()) {
        Some(unknown) => Some(unknown.to_owned()),
        None => element_type.map(|dtype| dtype.name().to_owned()),
    };
    let mut algorithms: Vec<&str> =
        object.components().filter_map(|component| component.digest_text()?.split(':').next()).collect();
    algorithms.dedup();
    let is_zstd = object.components().any(|component| component.encoding() == Encoding::Zstd);
    Listed {
        dtype,
        // What compressed components claim is not compared with anything yet.
        bytes: object.components().try_fold(0_u64, |sum, component| Some(sum.saturating_add(component.length()?))),
        stored: Some(
            object.components().map(|component| component.stored()).map(|bytes| bytes.end - bytes.start).sum(),
        ),
        format: object.format().name().to_owned(),
        encoding: Some(if is_zstd { Encoding::Zstd.name() } else { Encoding::Raw.name() }),
        digest: (!algorithms.is_empty()).then(|| algorithms.join(", ")),
        element_type,
        ..described(object.name(), "", object.shape())
    }
}

fn of_array(name: &str, info: &ArrayInfo, encoding: &'static str) -> Listed {
    Listed {
        bytes: Some(info.n_bytes),
        stored: (encoding == "raw").then_some(info.n_bytes),
        encoding: Some(encoding),
        element_type: info.dtype,
        ..described(name, info.dtype.map_or(DataType::String.name(), ElementType::name), &info.shape)
    }
}

fn of_entry(name: &str, entry: &Entry) -> Listed {
    match entry {
        Entry::Plain { dtype, shape, .. } | Entry::Member { dtype, shape, .. } => {
            let element_type = ElementType::from_data_type(*dtype);
            let bytes = element_type.and_then(|dtype| dtype.n_bytes(element_count(shape)?));
            let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
            Listed { bytes, element_type, ..described(name, dtype.name(), shape) }
        }
        _ => Listed { shape: None, format: "nested".to_owned(), ..described(name, "nested", &[]) },
    }
}

fn described(name: &str, dtype: &str, shape: &[usize]) -> Listed {
    Listed {
        name: name.to_owned(),
        dtype: Some(dtype.to_owned()),
        shape: Some(shape.to_vec()),
        bytes: None,
        stored: None,
        format: "dense".to_owned(),
        encoding: None,
        digest: None,
        element_type: None,
    }
}
