//! Tensors that quantization libraries store packed, several tensors for one: recognized, and made dense (spec/packed.md).
//!
//! Recognition is pure: names, element types, shapes, and the model's configuration in; descriptions out. Only tensors that describe others, of some
//! hundred bytes, are read for it. Numbers are equal to the last bit to those that the library of the scheme computes on a CPU. A few MB of the
//! parts are in memory at a time, whatever the size of the tensor.
//!
//! - `config`, `tensors`: what is known before elements are read.
//! - `part`, `numbers`: how parts are read, and how numbers are passed on.
//! - `grid`, `tiles`, `columns`: the computations that schemes have in common.
//! - `gptq`, `bitsandbytes`, `compressed`, `scaled`, `blocks`: the schemes.

mod bitsandbytes;
mod blocks;
mod columns;
mod compressed;
mod config;
mod gptq;
mod grid;
mod numbers;
mod part;
mod scaled;
mod tensors;
#[cfg(test)]
mod tests;
mod tiles;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use self::columns::is_scale;
pub use self::config::QuantizationConfig;
use self::numbers::Pieces;
use self::tensors::Tensors;
use super::schemes::{ByName, Described, Family, groups};
use crate::any_file::{Entry, TensorFile, TensorFileError};
use crate::element_count;
use crate::files::{ElementType, RawTensor};

/// The numbers of floats of 4 bits (OCP MX).
const FP4: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The reason that a packed tensor cannot be made dense.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackedError {
    /// One of its parts cannot be read.
    #[error(transparent)]
    File(#[from] TensorFileError),
    /// Its scheme is not dequantized, or its parts do not fit each other.
    #[error("tensor `{name}` is not dequantized: {reason}")]
    Refused {
        /// The tensor, escaped.
        name: String,
        /// Why not.
        reason: String,
    },
}

impl PackedError {
    fn refused(name: &str, reason: impl Into<String>) -> Self {
        Self::Refused { name: name.escape_debug().to_string(), reason: reason.into() }
    }
}

/// Several tensors of a file that stand for one.
#[derive(Clone, Debug)]
pub struct Packed {
    base: String,
    parts: Vec<String>,
    family: Family,
    logical: Result<Logical, String>,
}

/// The dense tensor that packed ones stand for.
#[derive(Clone, Debug)]
pub struct Logical {
    name: String,
    scheme: String,
    dtype: ElementType,
    shape: Vec<usize>,
    layout: Layout,
}

/// How the numbers are computed.
#[derive(Clone, Debug)]
enum Layout {
    Tiles(Box<tiles::Tiles>),
    Columns(columns::Columns),
    Blocks(blocks::Blocks),
}

/// Scales of keys and values in the cache of a model, which its dense weights need as well.
const OF_CACHE: [&str; 3] = ["q_scale", "k_scale", "v_scale"];

/// Finds the packed tensors among these, in the order of their names. `config` is what the model's configuration says of quantization, if there is one; `values`
/// returns the bytes of a tensor that describes others, if it can be read.
///
/// ```
/// use carton_tensor::files::ElementType;
/// use carton_tensor::weights::{Described, QuantizationConfig, packed};
/// let tensors = [
///     Described { name: "q.qweight", dtype: Some(ElementType::Int32), shape: &[16, 64] },
///     Described { name: "q.qzeros", dtype: Some(ElementType::Int32), shape: &[1, 8] },
///     Described { name: "q.scales", dtype: Some(ElementType::Float16), shape: &[1, 64] },
///     Described { name: "q.g_idx", dtype: Some(ElementType::Int32), shape: &[128] },
/// ];
/// let config = QuantizationConfig::of_json(br#"{"quantization_config": {"quant_method": "gptq", "bits": 4}}"#)?;
/// let found = packed(tensors, Some(&config), &|_| None);
/// let weight = found[0].logical()?;
/// assert_eq!((weight.name(), weight.scheme(), weight.shape()), ("q.weight", "GPTQ 4 bit", &[64, 128][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn packed<'a>(
    tensors: impl IntoIterator<Item = Described<'a>>,
    config: Option<&QuantizationConfig>,
    values: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Vec<Packed> {
    let by_name: ByName<'a> = tensors.into_iter().map(|tensor| (tensor.name, tensor)).collect();
    let tensors = Tensors { by_name: &by_name, config, values };
    let mut found = Vec::new();
    for (base, group) in groups(&by_name) {
        let logical = match group.family {
            Family::GptqOrAwq => gptq::describe(base, &tensors),
            Family::Bitsandbytes => bitsandbytes::describe(base, &tensors),
            Family::CompressedTensors => compressed::describe(base, &tensors),
            Family::Blocks => blocks::describe(base, &tensors),
            Family::Small => match scaled::describe(base, &tensors) {
                Some(logical) => logical,
                None => continue,
            },
            Family::Marlin => Err("the layout of Marlin is not dequantized".to_owned()),
            family => Err(format!("{} is not dequantized", family.name())),
        };
        let is_of_cache = |part: &&&str| OF_CACHE.contains(&part.rsplit('.').next().unwrap_or_default());
        let parts = group.parts.iter().filter(|part| !is_of_cache(part));
        let parts: Vec<String> = std::iter::once(&base).chain(parts).map(|part| (*part).to_owned()).collect();
        let taken = |logical: &Logical| by_name.contains_key(logical.name.as_str()) && !parts.contains(&logical.name);
        let logical = logical.and_then(|logical| {
            let n_bytes = element_count(&logical.shape).and_then(|n_elements| logical.dtype.n_bytes(n_elements));
            if n_bytes.is_none_or(|n_bytes| isize::try_from(n_bytes).is_err()) {
                return Err(format!("its shape {:?} is too large", logical.shape));
            }
            match taken(&logical) {
                true => Err(format!("there is another tensor `{}`", logical.name.escape_debug())),
                false => Ok(logical),
            }
        });
        found.push(Packed { base: base.to_owned(), parts, family: group.family, logical });
    }
    refuse_duplicates(&mut found);
    found
}

/// Refuses packed tensors that would get one name, and those that share a part. A part is shared if it has scales of its own, and is the scale of another:
/// the dense tensor of that one would be computed from numbers that are packed.
fn refuse_duplicates(found: &mut [Packed]) {
    let mut names = BTreeMap::<String, usize>::new();
    let mut parts = BTreeMap::<String, usize>::new();
    for part in found.iter().flat_map(|packed| &packed.parts) {
        *parts.entry(part.clone()).or_default() += 1;
    }
    for logical in found.iter().filter_map(|packed| packed.logical.as_ref().ok()) {
        *names.entry(logical.name.clone()).or_default() += 1;
    }
    for packed in found {
        let name = packed.logical.as_ref().ok().map(|logical| logical.name.clone());
        if let Some(name) = name.filter(|name| names.get(name).is_some_and(|count| *count > 1)) {
            packed.logical = Err(format!("several tensors would be called `{}`", name.escape_debug()));
        }
        let is_shared = |part: &&String| parts.get(*part).is_some_and(|count| *count > 1);
        if let Some(part) = packed.parts.iter().find(is_shared).filter(|_| packed.logical.is_ok()) {
            packed.logical = Err(format!("its part `{}` is a part of another packed tensor, too", part.escape_debug()));
        }
    }
}

/// Finds the packed tensors of a file; see [`packed`]. Reads only tensors that describe others.
pub fn packed_of(file: &TensorFile, config: Option<&QuantizationConfig>) -> Vec<Packed> {
    /// The bytes of a tensor that describes others: those of libraries have some hundred.
    const MOST: u64 = 1 << 14;
    let values = |name: &str| {
        let entry = file.entry(name).ok().filter(|entry| entry.n_bytes().is_some_and(|n_bytes| n_bytes <= MOST))?;
        Some(entry.read().ok()?.bytes().to_vec())
    };
    let described: Vec<Entry<'_>> = file.entries().collect();
    packed(described.iter().map(Described::of), config, &values)
}

/// Whether a file has tensors that are parts of packed ones by their names and element types.
#[must_use]
pub fn has_packed(file: &TensorFile) -> bool {
    let entries: Vec<Entry<'_>> = file.entries().collect();
    let by_name: ByName<'_> = entries.iter().map(|entry| (entry.name(), Described::of(entry))).collect();
    !groups(&by_name).is_empty()
}

impl<'a> Described<'a> {
    /// Describes a tensor of a file.
    #[must_use]
    pub fn of(entry: &Entry<'a>) -> Self {
        Self { name: entry.name(), dtype: entry.dtype(), shape: entry.shape() }
    }
}

impl Packed {
    /// The tensor that has the packed numbers.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// All tensors that the dense one replaces, with the base.
    #[must_use]
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// The scheme, as far as it is known: `GPTQ 4 bit`, or a family of schemes.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.logical.as_ref().map_or(self.family.name(), |logical| &logical.scheme)
    }

    /// The dense tensor.
    ///
    /// # Errors
    /// [`PackedError::Refused`].
    pub fn logical(&self) -> Result<&Logical, PackedError> {
        self.logical.as_ref().map_err(|reason| PackedError::refused(&self.base, reason.as_str()))
    }

    /// Returns the same packed tensor, which is not made dense for this reason.
    #[must_use]
    pub fn refused(self, reason: &str) -> Self {
        Self { logical: Err(reason.to_owned()), ..self }
    }

    /// Why it cannot be made dense, if it cannot.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.logical.as_ref().err().map(String::as_str)
    }
}

impl Logical {
    /// The name of the dense tensor.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scheme: `GPTQ 4 bit`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The element type: that of the numbers that the library of the scheme computes.
    #[must_use]
    pub fn dtype(&self) -> ElementType {
        self.dtype
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Passes the numbers to `visit`, in C order, in pieces of `n_elements`, but for the last. `file` is the one in which the tensor was found. A few MB
    /// are in memory at a time; of parts that the file has compressed, all.
    ///
    /// # Errors
    /// [`PackedError`], and those of `visit`. What `visit` got is only what the tensor has if no error follows.
    pub fn visit<E: From<PackedError>>(
        &self,
        file: &TensorFile,
        n_elements: usize,
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut failure = None;
        let mut pass = |piece: &[u8]| match visit(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        let mut pieces = Pieces::new(self.dtype, n_elements, &mut pass);
        let visited = match &self.layout {
            Layout::Tiles(tiles) => tiles.visit(file, &mut pieces),
            Layout::Columns(columns) => columns.visit(file, &mut pieces),
            Layout::Blocks(blocks) => blocks.visit(file, &mut pieces),
        };
        if visited.is_ok() {
            pieces.finish();
        }
        failure.map_or(Ok(()), Err)?;
        Ok(visited?)
    }

    /// Returns the dense tensor.
    ///
    /// # Errors
    /// [`PackedError`].
    pub fn dequantize(&self, file: &TensorFile) -> Result<RawTensor, PackedError> {
        let mut bytes = Vec::new();
        self.visit(file, numbers::AT_ONCE, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, PackedError>(())
        })?;
        RawTensor::new(self.dtype, self.shape.clone(), bytes.into())
            .map_err(|error| PackedError::refused(&self.name, error.to_string()))
    }
}
