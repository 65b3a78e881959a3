//! Describes and reads the tensors of a file of any format.

use std::ops::{ControlFlow, Range};

use super::{Array, ExpectedDigest, Inner, TensorFile, TensorFileError, VerifyingReader};
use crate::checkpoint::Shard;
use crate::files::{ElementType, FileBytes, RawTensor, Visit, visit_range};
use crate::gguf;
use crate::safetensors::{self, SafetensorsError, TensorInfo};
use crate::torch::TorchError;
use crate::ztensor::{Attributes, Checks, Component, Encoding, Format, Object, QuantizedGroup};
use crate::ztensor2::{self, Layout};
use crate::{Tensor, npy, onnx, torch, ztensor};

/// A tensor of a [`TensorFile`], as the file describes it. Its data is read only on request.
#[derive(Clone)]
pub struct Entry<'a> {
    file: &'a TensorFile,
    source: Source<'a>,
}

/// The order in which [`Entry::visit`] passes elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementOrder {
    /// C order, which is that of [`Entry::read`]. A NumPy array in Fortran order is read whole for it.
    #[default]
    C,
    /// The order of the file.
    File,
}

/// How messages describe an array of strings.
const STRINGS: &str = "an array of strings";

#[derive(Clone)]
enum Source<'a> {
    Safetensors(&'a safetensors::Reader, TensorInfo<'a>),
    ZTensor(&'a ztensor::Reader, Object<'a>),
    ZTensor2(&'a ztensor2::Reader, ztensor2::Object<'a>),
    Torch(&'a torch::Reader, &'a torch::TensorInfo),
    Array(&'a Array),
    Gguf(&'a gguf::Reader, &'a gguf::TensorInfo),
    Onnx(&'a onnx::Reader, &'a onnx::TensorInfo),
}

impl TensorFile {
    /// Returns the tensors in the order of the file. The only array of an `.npy` file is called `data`.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let (mut shards, mut torch) = (Vec::new(), Vec::new());
        let (mut ztensor, mut ztensor2, mut gguf, mut onnx) = (None, None, None, None);
        let mut arrays = [].as_slice();
        match &self.inner {
            Inner::Safetensors(reader) => shards.push(reader),
            Inner::Sharded(sharded) => sharded.shards().for_each(|(_, shard)| match shard {
                Shard::Safetensors(reader) => shards.push(reader),
                Shard::Torch(reader) => torch.push(reader),
            }),
            Inner::ZTensor(reader) => ztensor = Some(reader),
            Inner::ZTensor2(reader) => ztensor2 = Some(reader),
            Inner::Torch(reader) => torch.push(reader),
            Inner::Npy(array) => arrays = std::slice::from_ref(array),
            Inner::Npz(_, list) => arrays = list.as_slice(),
            Inner::Gguf(split) => gguf = Some(split.parts()),
            Inner::Onnx(reader) => onnx = Some(reader),
        }
        // At most one of these is not empty.
        let shards = shards.into_iter().flat_map(of_shard);
        let ztensor =
            ztensor.into_iter().flat_map(|reader| reader.objects().map(move |object| Source::ZTensor(reader, object)));
        let ztensor2 = ztensor2
            .into_iter()
            .flat_map(|reader| reader.objects().map(move |object| Source::ZTensor2(reader, object)));
        let gguf = gguf
            .into_iter()
            .flatten()
            .flat_map(|reader| reader.header().tensors().iter().map(move |tensor| Source::Gguf(reader, tensor)));
        let torch = torch
            .into_iter()
            .flat_map(|reader| reader.tensors().iter().map(move |tensor| Source::Torch(reader, tensor)));
        let onnx =
            onnx.into_iter().flat_map(|reader| reader.tensors().iter().map(move |tensor| Source::Onnx(reader, tensor)));
        let arrays = arrays.iter().map(Source::Array);
        let sources = shards.chain(ztensor).chain(ztensor2).chain(torch).chain(arrays).chain(gguf).chain(onnx);
        sources.map(|source| Entry { file: self, source })
    }

    /// Returns the tensor of this name, without its data.
    ///
    /// # Errors
    /// [`TensorFileError::NoSuchTensor`].
    pub fn entry(&self, name: &str) -> Result<Entry<'_>, TensorFileError> {
        let source = match &self.inner {
            Inner::Safetensors(reader) => reader.get(name).map(|tensor| Source::Safetensors(reader, tensor)),
            Inner::Sharded(sharded) => sharded.shard_of(name).and_then(|shard| match shard {
                Shard::Safetensors(reader) => reader.get(name).map(|tensor| Source::Safetensors(reader, tensor)),
                Shard::Torch(reader) => reader.get(name).map(|tensor| Source::Torch(reader, tensor)),
            }),
            Inner::ZTensor(reader) => reader.manifest().object(name).map(|object| Source::ZTensor(reader, object)),
            Inner::ZTensor2(reader) => reader.manifest().object(name).map(|object| Source::ZTensor2(reader, object)),
            Inner::Torch(reader) => reader.get(name).map(|tensor| Source::Torch(reader, tensor)),
            Inner::Npy(array) => Some(array).filter(|array| array.name == name).map(Source::Array),
            Inner::Npz(_, arrays) => arrays.iter().find(|array| array.name == name).map(Source::Array),
            Inner::Gguf(split) => split.get(name).map(|(reader, tensor)| Source::Gguf(reader, tensor)),
            Inner::Onnx(reader) => reader.get(name).map(|tensor| Source::Onnx(reader, tensor)),
        };
        source.map(|source| Entry { file: self, source }).ok_or_else(|| TensorFileError::NoSuchTensor {
            place: self.place().to_owned(),
            name: name.escape_debug().to_string(),
        })
    }

    /// Reads the tensor of this name; see [`Entry::read`].
    ///
    /// # Errors
    /// [`TensorFileError::NoSuchTensor`], and those of [`Entry::read`].
    pub fn read(&self, name: &str) -> Result<RawTensor, TensorFileError> {
        self.entry(name)?.read()
    }
}

impl<'a> Entry<'a> {
    /// The name of the tensor.
    #[must_use]
    pub fn name(&self) -> &'a str {
        match &self.source {
            Source::Safetensors(_, tensor) => tensor.name,
            Source::ZTensor(_, object) => object.name(),
            Source::ZTensor2(_, object) => object.name(),
            Source::Torch(_, tensor) => tensor.name(),
            Source::Array(array) => &array.name,
            Source::Gguf(_, tensor) => &tensor.name,
            Source::Onnx(_, tensor) => tensor.name(),
        }
    }

    /// The file that has the tensor: for a sharded checkpoint, the shard.
    pub(crate) fn place(&self) -> &'a str {
        match &self.source {
            Source::Safetensors(reader, _) => reader.place(),
            Source::Torch(reader, _) => reader.place(),
            Source::Gguf(reader, _) => reader.place(),
            Source::Onnx(reader, _) => reader.place(),
            Source::ZTensor(..) | Source::ZTensor2(..) | Source::Array(_) => self.file.place(),
        }
    }

    /// Returns an error of the zTensor file that has the tensor.
    pub(crate) fn ztensor_error(&self, source: ztensor::ZTensorError) -> TensorFileError {
        self.file.ztensor_error(source)
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        match &self.source {
            Source::Safetensors(_, tensor) => tensor.shape,
            Source::ZTensor(_, object) => object.shape(),
            Source::ZTensor2(_, object) => object.shape(),
            Source::Torch(_, tensor) => tensor.shape(),
            Source::Array(array) => &array.info.shape,
            Source::Gguf(_, tensor) => &tensor.shape,
            Source::Onnx(_, tensor) => tensor.shape(),
        }
    }

    /// The element type of the tensor that [`read`](Self::read) returns. `None` for strings, and for zTensor objects and blocks
    /// of GGUF that it does not read.
    #[must_use]
    pub fn dtype(&self) -> Option<ElementType> {
        match &self.source {
            Source::Safetensors(_, tensor) => Some(tensor.dtype),
            Source::ZTensor(_, object) => object.element_type(),
            Source::ZTensor2(_, object) => object.element_type(),
            Source::Torch(_, tensor) => Some(tensor.dtype()),
            Source::Array(array) => array.info.dtype,
            Source::Gguf(_, tensor) => tensor.ggml_type.element_type(),
            Source::Onnx(_, tensor) => tensor.dtype(),
        }
    }

    /// The layout of the object: `dense`, the name of another zTensor format, or that of a quantized type of GGUF.
    #[must_use]
    pub fn layout(&self) -> &'a str {
        match &self.source {
            Source::ZTensor(_, object) => object.format().name(),
            Source::ZTensor2(_, object) => object.layout().name(),
            Source::Gguf(_, tensor) if tensor.ggml_type.is_quantized() => tensor.ggml_type.name(),
            Source::Onnx(_, tensor) if tensor.is_sparse() => Format::SparseCoo.name(),
            Source::Safetensors(..) | Source::Torch(..) | Source::Array(_) | Source::Gguf(..) | Source::Onnx(..) => {
                "dense"
            }
        }
    }

    /// Describes an entry that is not a tensor of numbers: strings, a NumPy array of an unsupported type, or a zTensor object of an
    /// unknown format. [`read`](Self::read) fails for such an entry. `None` for a tensor of numbers.
    #[must_use]
    pub fn not_numbers(&self) -> Option<String> {
        match &self.source {
            Source::ZTensor(_, object) => match object.format() {
                Format::Other(name) => Some(format!("of the format `{}`", name.escape_debug())),
                Format::Dense | Format::SparseCsr | Format::SparseCoo | Format::QuantizedGroup => None,
            },
            Source::ZTensor2(_, object) => object.unreadable(),
            Source::Array(Array { unsupported: Some(problem), .. }) => {
                Some(format!("an array of an unsupported type: {problem}"))
            }
            Source::Array(array) if array.info.dtype.is_none() => Some(STRINGS.to_owned()),
            Source::Gguf(_, tensor) if tensor.ggml_type.is_quantized() && !tensor.ggml_type.is_dequantized() => {
                Some(format!("of blocks of {}, which are not dequantized", tensor.ggml_type))
            }
            Source::Onnx(_, tensor) if tensor.is_strings() => Some(STRINGS.to_owned()),
            Source::Onnx(_, tensor) => tensor.unsupported().map(|problem| format!("not read: {problem}")),
            Source::Safetensors(..) | Source::Torch(..) | Source::Array(_) | Source::Gguf(..) => None,
        }
    }

    /// Returns why a NumPy array or a tensor of ONNX is unsupported, if its type is one that tensors cannot have. Only the name of such a tensor
    /// is known.
    #[must_use]
    pub fn unsupported(&self) -> Option<&'a str> {
        match &self.source {
            Source::Array(array) => array.unsupported.as_deref(),
            Source::Onnx(_, tensor) => tensor.unsupported(),
            Source::Safetensors(..)
            | Source::ZTensor(..)
            | Source::ZTensor2(..)
            | Source::Torch(..)
            | Source::Gguf(..) => None,
        }
    }

    /// Whether the elements are strings, which [`read_array`](Self::read_array) reads.
    #[must_use]
    pub fn is_strings(&self) -> bool {
        match &self.source {
            Source::Array(array) => array.info.dtype.is_none() && array.unsupported.is_none(),
            Source::Onnx(_, tensor) => tensor.is_strings(),
            _ => false,
        }
    }

    /// Returns the tensor as an ONNX model describes it, if the file is one.
    #[must_use]
    pub fn as_onnx(&self) -> Option<&'a onnx::TensorInfo> {
        match &self.source {
            Source::Onnx(_, tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the type of the blocks of a quantized tensor of GGUF, which [`dequantize`](Self::dequantize) turns into `float32`.
    #[must_use]
    pub fn ggml_blocks(&self) -> Option<gguf::GgmlType> {
        match &self.source {
            Source::Gguf(_, tensor) => Some(tensor.ggml_type).filter(|of| of.is_quantized()),
            Source::Safetensors(..)
            | Source::ZTensor(..)
            | Source::ZTensor2(..)
            | Source::Torch(..)
            | Source::Array(_)
            | Source::Onnx(..) => None,
        }
    }

    /// Whether [`dequantize`](Self::dequantize) computes the numbers of the tensor, which are `float32`.
    pub(crate) fn is_quantized(&self) -> bool {
        let is_group = |object: &Object<'_>| object.format() == Format::QuantizedGroup;
        self.ggml_blocks().is_some() || self.as_ztensor().is_some_and(is_group)
    }

    /// Returns the object, if the file is zTensor.
    #[must_use]
    pub fn as_ztensor(&self) -> Option<&Object<'a>> {
        match &self.source {
            Source::ZTensor(_, object) => Some(object),
            _ => None,
        }
    }

    /// Returns the object, if the file is zTensor 2.
    #[must_use]
    pub fn as_ztensor2(&self) -> Option<&ztensor2::Object<'a>> {
        match &self.source {
            Source::ZTensor2(_, object) => Some(object),
            _ => None,
        }
    }

    /// The attributes of an object of zTensor 2; none for other formats.
    ///
    /// # Errors
    /// [`TensorFileError::ZTensor2`] for attributes beyond the limits.
    pub(crate) fn attributes_of_2(&self) -> Result<Attributes, TensorFileError> {
        let attributes = self.as_ztensor2().map(|object| object.attributes()).transpose();
        Ok(attributes.map_err(|source| self.file.ztensor2_error(source))?.unwrap_or_default())
    }

    /// Returns the object and its reader, if the file is zTensor.
    pub(crate) fn in_ztensor(&self) -> Option<(&'a ztensor::Reader, Object<'a>)> {
        match &self.source {
            Source::ZTensor(reader, object) => Some((reader, *object)),
            _ => None,
        }
    }

    /// The number of stored bytes, as far as the file states it. For an array of `.npz`, this is its decompressed size.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        match &self.source {
            Source::Safetensors(_, tensor) => tensor.range.end - tensor.range.start,
            Source::ZTensor(_, object) => object.components().map(|part| part.stored()).map(length).sum(),
            Source::ZTensor2(_, object) => {
                object.parts().map(|part| length(part.stored())).fold(0, u64::saturating_add)
            }
            Source::Torch(_, tensor) => tensor.stored_bytes(),
            Source::Array(array) => array.info.n_bytes,
            Source::Gguf(_, tensor) => length(tensor.range.clone()),
            Source::Onnx(_, tensor) => tensor.stored_bytes(),
        }
    }

    /// The number of bytes of the elements. For a zTensor object, this is the sum over all components after decompression; `None` if
    /// the file does not state the size of one of them.
    #[must_use]
    pub fn n_bytes(&self) -> Option<u64> {
        match &self.source {
            Source::ZTensor(_, object) => {
                object.components().try_fold(0_u64, |sum, part| Some(sum.saturating_add(part.length()?)))
            }
            Source::ZTensor2(_, object) => {
                Some(object.parts().map(|part| part.decoded_length()).fold(0, u64::saturating_add))
            }
            Source::Torch(_, tensor) => Some(tensor.n_bytes()),
            Source::Onnx(_, tensor) if tensor.is_strings() => Some(tensor.stored_bytes()),
            Source::Onnx(_, tensor) => Some(tensor.n_bytes()),
            Source::Safetensors(..) | Source::Array(_) | Source::Gguf(..) => Some(self.stored_bytes()),
        }
    }

    /// The encoding of the stored bytes: `zstd` if any component is compressed with it, otherwise `raw`; `unknown` for one that is not known.
    #[must_use]
    pub fn encoding(&self) -> &'static str {
        if let Source::ZTensor2(_, object) = &self.source {
            let mut encoded = object.parts().filter(|part| part.encoding().is_some());
            return match (object.parts().any(|part| part.unknown_encoding().is_some()), encoded.next()) {
                (true, _) => "unknown",
                (false, Some(_)) => Encoding::Zstd.name(),
                (false, None) => Encoding::Raw.name(),
            };
        }
        let mut encodings = self.as_ztensor().into_iter().flat_map(|object| object.components());
        if encodings.any(|part| part.encoding() == Encoding::Zstd) {
            Encoding::Zstd.name()
        } else {
            Encoding::Raw.name()
        }
    }

    /// The digest of the stored bytes of a dense tensor, as the file spells it; of zTensor 2, the digest of the decoded bytes.
    #[must_use]
    pub fn digest(&self) -> Option<&'a str> {
        if let Source::ZTensor2(_, object) = &self.source {
            return object.values().filter(|_| object.layout() == Layout::Dense)?.digest_text();
        }
        self.data().and_then(|data| data.digest_text())
    }

    /// Returns the single component of a dense object.
    fn data(&self) -> Option<Component<'a>> {
        match &self.source {
            Source::ZTensor(_, object) if object.format() == Format::Dense => object.component("data"),
            _ => None,
        }
    }

    /// Where the file holds exactly the bytes that [`read`](Self::read) returns. `None` if they are compressed, or not contiguous.
    #[must_use]
    pub fn location(&self) -> Option<(&'a FileBytes, Range<u64>)> {
        match &self.source {
            Source::Safetensors(reader, tensor) => Some((reader.bytes(), tensor.range.clone())),
            Source::ZTensor(reader, _) => {
                let data = self.data()?;
                // A component with an unknown logical type is left to the reader, which decides what the type means and how many
                // elements there are.
                let is_plain = data.encoding() == Encoding::Raw && data.unknown_type().is_none();
                is_plain.then(|| (reader.bytes(), data.stored()))
            }
            Source::ZTensor2(reader, object) => {
                let data =
                    object.part("data").filter(|_| object.layout() == Layout::Dense && object.unreadable().is_none());
                reader.location(&data?)
            }
            // An entry that is not where the archive says is found by the reader.
            Source::Torch(reader, tensor) => Some((reader.bytes(), reader.location(tensor).ok().flatten()?)),
            Source::Array(array) => {
                let plain = array.plain.clone().filter(|_| self.file.has_array_views)?;
                Some((&self.file.bytes, plain))
            }
            Source::Gguf(reader, tensor) => {
                tensor.ggml_type.element_type()?;
                Some((reader.bytes(), tensor.range.clone()))
            }
            Source::Onnx(reader, tensor) => reader.location(tensor),
        }
    }

    /// The digest that the bytes at [`location`](Self::location) should have, if the file states one.
    ///
    /// # Errors
    /// [`TensorFileError::ZTensor`] and [`TensorFileError::ZTensor2`] for a digest that cannot be verified.
    pub(crate) fn expected_digest(&self) -> Result<Option<ExpectedDigest>, TensorFileError> {
        if let Source::ZTensor2(_, object) = &self.source {
            let data = object.part("data").filter(|_| object.layout() == Layout::Dense);
            let digest = data.map(|data| data.digest()).transpose();
            let digest = digest.map_err(|source| self.file.ztensor2_error(source))?;
            return Ok(digest.flatten().map(ExpectedDigest::ZTensor2));
        }
        let digest = self.data().map(|data| data.known_digest()).transpose();
        Ok(digest.map_err(|source| self.ztensor_error(source))?.flatten().map(ExpectedDigest::ZTensor))
    }

    /// Reads the tensor. Sparse formats become dense. Digests are verified if the file was asked to ([`TensorFile::checking`]).
    ///
    /// # Errors
    /// The errors of the format. [`TensorFileError::NoTensor`] for strings, for objects of unknown formats, and for a
    /// `quantized_group` and blocks of GGUF, which only [`dequantize`](Self::dequantize) turns into numbers.
    pub fn read(&self) -> Result<RawTensor, TensorFileError> {
        match &self.source {
            Source::Safetensors(reader, tensor) => {
                let bytes = reader.bytes().read(tensor.range.clone());
                let place = || reader.place().to_owned();
                let bytes = bytes.map_err(|source| SafetensorsError::Io { place: place(), source })?;
                let made = RawTensor::new(tensor.dtype, tensor.shape.to_vec(), bytes);
                let failed = |source| SafetensorsError::Tensor { place: place(), name: tensor.name.to_owned(), source };
                Ok(made.map_err(failed)?)
            }
            Source::ZTensor(reader, object) => {
                self.verify_further()?;
                let tensor = match object.format() {
                    Format::Dense => reader.read_object(object),
                    Format::SparseCsr => {
                        reader.csr(object.name()).and_then(|matrix| matrix.to_dense_within(self.file.max_dense))
                    }
                    Format::SparseCoo => {
                        reader.coo(object.name()).and_then(|matrix| matrix.to_dense_within(self.file.max_dense))
                    }
                    other => return Err(self.no_tensor(&format!("of the format `{}`", other.name().escape_debug()))),
                };
                tensor.map_err(|source| self.ztensor_error(source))
            }
            Source::ZTensor2(reader, object) => match object.unreadable() {
                Some(what) => Err(self.no_tensor(&what)),
                None => reader.read(object, self.file.max_dense).map_err(|source| self.file.ztensor2_error(source)),
            },
            Source::Torch(reader, tensor) => Ok(reader.read_within(tensor, self.file.max_dense)?),
            Source::Array(array) => {
                let strings = || self.no_tensor(STRINGS);
                if array.info.dtype.is_none() && array.unsupported.is_none() {
                    return Err(strings());
                }
                if let (Some((bytes, range)), Some(dtype)) = (self.location(), array.info.dtype) {
                    let failed = |source| TensorFileError::Io { place: self.file.place().to_owned(), source };
                    let made = RawTensor::new(dtype, array.info.shape.clone(), bytes.read(range).map_err(failed)?);
                    return made.map_err(|error| self.no_tensor(&error.to_string()));
                }
                match self.file.read_array(&array.name)? {
                    npy::Array::Numbers(tensor) => Ok(tensor),
                    npy::Array::Strings(_) => Err(strings()),
                }
            }
            Source::Gguf(_, tensor) if tensor.ggml_type.is_quantized() => {
                Err(self.no_tensor(&format!("of blocks of {}", tensor.ggml_type)))
            }
            Source::Gguf(reader, tensor) => Ok(reader.read(tensor)?),
            Source::Onnx(_, tensor) if tensor.is_strings() => Err(self.no_tensor(STRINGS)),
            Source::Onnx(reader, tensor) => Ok(reader.read_within(tensor, self.file.max_dense)?),
        }
    }

    /// Reads the tensor like [`read`](Self::read), and a `quantized_group`, or blocks of GGUF, as the `float32` numbers that they represent.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`GgufError::NotDequantized`](gguf::GgufError::NotDequantized).
    pub fn dequantize(&self) -> Result<RawTensor, TensorFileError> {
        if let Source::Gguf(reader, tensor) = &self.source {
            return Ok(reader.read(tensor)?);
        }
        match self.quantized_group() {
            Some(group) => self.dequantized(&group?),
            None => self.read(),
        }
    }

    /// Passes the numbers that [`dequantize`](Self::dequantize) returns to `visit`, in pieces of `n_elements`, and of at least one; of types of
    /// less than a byte, the next multiple of 8; of blocks of GGUF, the next multiple of a block. One piece is in memory at a time, or a few MB of
    /// them; of sparse and quantized objects, and of arrays that are
    /// wanted in another order than that of the file, all. What `visit` got is only what the file has if no error follows. `visit` may read
    /// from the same file.
    ///
    /// ```
    /// use carton_tensor::any_file::{ElementOrder, TensorFile, TensorFileError};
    /// use carton_tensor::files::{ElementType, RawTensor};
    /// use carton_tensor::ztensor::{StoreAs, Writer};
    /// let tensor = RawTensor::new(ElementType::Uint8, vec![10], vec![7_u8; 10].into())?;
    /// let mut writer = Writer::new(Vec::new())?;
    /// writer.add("sevens", &tensor, StoreAs::RAW.zstd(3))?;
    /// let file = TensorFile::new(writer.finish()?, "example")?;
    /// let mut sum = 0;
    /// file.entry("sevens")?.visit(ElementOrder::File, 8, |piece| {
    ///     sum += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    ///     Ok::<_, TensorFileError>(())
    /// })?;
    /// assert_eq!(sum, 70);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`dequantize`](Self::dequantize), and those of `visit`.
    pub fn visit<E: From<TensorFileError>>(
        &self,
        order: ElementOrder,
        n_elements: usize,
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut failure = None;
        let visited = self.visit_pieces(order, n_elements, &mut |piece| match visit(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        });
        failure.map_or(Ok(()), Err)?;
        Ok(visited?)
    }

    /// Whether [`visit`](Self::visit) in C order has the whole tensor in memory.
    pub(crate) fn is_decoded_whole(&self) -> bool {
        match &self.source {
            Source::Safetensors(..) | Source::Torch(..) | Source::Gguf(..) => false,
            Source::ZTensor(..) => self.data().is_none_or(|data| data.unknown_type().is_some()),
            Source::ZTensor2(_, object) => object.layout() != Layout::Dense,
            Source::Array(array) => array.info.dtype.is_none() || !array.info.is_c_order,
            Source::Onnx(_, tensor) => tensor.dtype().is_none() || tensor.is_sparse(),
        }
    }

    pub(super) fn visit_pieces(
        &self,
        order: ElementOrder,
        n_elements: usize,
        visit: Visit<'_>,
    ) -> Result<(), TensorFileError> {
        match &self.source {
            Source::Safetensors(reader, tensor) => {
                let failed = |source| SafetensorsError::Io { place: reader.place().to_owned(), source };
                let n_bytes = tensor.dtype.piece_bytes(n_elements);
                Ok(visit_range(reader.bytes(), tensor.range.clone(), n_bytes, visit).map_err(failed)?)
            }
            Source::Torch(reader, tensor) if reader.location(tensor)?.is_some() => {
                let failed = |source| TorchError::Io { place: reader.place().to_owned(), source };
                let range = reader.location(tensor)?.unwrap_or_default();
                let n_bytes = tensor.dtype().piece_bytes(n_elements);
                Ok(visit_range(reader.bytes(), range, n_bytes, visit).map_err(failed)?)
            }
            Source::Torch(reader, tensor) => {
                Ok(reader.visit(tensor, self.file.max_dense, tensor.dtype().piece_bytes(n_elements), visit)?)
            }
            // The bytes of a type that is not known need not fit the shape, which the reader decides about when it has all of them.
            Source::ZTensor(reader, object) if self.data().is_some_and(|data| data.unknown_type().is_none()) => {
                self.verify_further()?;
                let Some(data) = object.component("data") else { return self.read().map(drop) };
                let visited =
                    reader.visit_component(&data, reader.checks(), data.element_type().piece_bytes(n_elements), visit);
                visited.map_err(|source| self.ztensor_error(source))
            }
            Source::ZTensor2(reader, object) if object.layout() == Layout::Dense && object.unreadable().is_none() => {
                let Some(data) = object.part("data") else { return self.read().map(drop) };
                let n_bytes = data.element_type().unwrap_or(data.dtype()).piece_bytes(n_elements);
                let visited = reader.visit_part(&data, reader.checks(), n_bytes, visit);
                visited.map_err(|source| self.file.ztensor2_error(source))
            }
            Source::Array(array)
                if array.info.dtype.is_some() && (array.info.is_c_order || order == ElementOrder::File) =>
            {
                Ok(self.file.visit_array(&array.name, n_elements, visit)?)
            }
            Source::Gguf(reader, tensor) => Ok(reader.visit(tensor, n_elements, visit)?),
            Source::Onnx(reader, tensor) if tensor.dtype().is_some() && !tensor.is_sparse() => {
                Ok(reader.visit(tensor, n_elements, visit)?)
            }
            Source::ZTensor(..) | Source::ZTensor2(..) | Source::Array(_) | Source::Onnx(..) => {
                let tensor = self.dequantize()?;
                let mut pieces = tensor.bytes().chunks(tensor.dtype().piece_bytes(n_elements));
                let _ = pieces.try_for_each(visit);
                Ok(())
            }
        }
    }

    /// Reads all that the file has of a NumPy array, and checks it, without holding it in memory: sizes, strings, and the checksum that an
    /// archive has. Of a PyTorch checkpoint, compares the checksum of the storage. Of other formats, as [`visit`](Self::visit).
    ///
    /// # Errors
    /// As [`read_array`](Self::read_array).
    pub fn check(&self) -> Result<(), TensorFileError> {
        /// About a megabyte of most types.
        const N_ELEMENTS: usize = 1 << 18;
        match &self.source {
            Source::Array(array) => {
                Ok(self.file.visit_array(&array.name, N_ELEMENTS, &mut |_| ControlFlow::Continue(()))?)
            }
            Source::Torch(reader, tensor) => Ok(reader.check(tensor)?),
            Source::Onnx(reader, tensor) => Ok(reader.check(tensor)?),
            _ => self.visit(ElementOrder::File, N_ELEMENTS, |_| Ok(())),
        }
    }

    /// Reads the `quantized_group` in its packed form, if the entry is one.
    pub(crate) fn quantized_group(&self) -> Option<Result<QuantizedGroup, TensorFileError>> {
        match &self.source {
            Source::ZTensor(reader, object) if object.format() == Format::QuantizedGroup => {
                let group = reader.quantized_group(object.name());
                Some(group.map_err(|source| self.ztensor_error(source)))
            }
            _ => None,
        }
    }

    /// Dequantizes a group that was read from this entry.
    pub(crate) fn dequantized(&self, group: &QuantizedGroup) -> Result<RawTensor, TensorFileError> {
        group.dequantize().map_err(|source| self.ztensor_error(source))
    }

    /// Returns the same tensor with another reader of its zTensor file, which may have more checks enabled.
    pub(crate) fn read_by(self, reader: Option<&'a VerifyingReader>) -> Self {
        match (self.source, reader) {
            (Source::ZTensor(_, object), Some(VerifyingReader::ZTensor(reader))) => {
                Self { source: Source::ZTensor(reader, object), ..self }
            }
            (Source::ZTensor2(_, object), Some(VerifyingReader::ZTensor2(reader))) => {
                Self { source: Source::ZTensor2(reader, object), ..self }
            }
            (source, _) => Self { source, ..self },
        }
    }

    /// Whether any component has a digest that can be compared.
    pub(crate) fn has_digest(&self) -> bool {
        if let Source::ZTensor2(_, object) = &self.source {
            return object.parts().any(|part| is_digested(&part));
        }
        let mut components = self.as_ztensor().into_iter().flat_map(|object| object.components());
        components.any(|component| has_known_digest(&component))
    }

    /// Whether reading the tensor compares digests that it has.
    pub(crate) fn is_verified(&self) -> bool {
        let checks = match &self.source {
            Source::ZTensor(reader, _) => reader.checks(),
            Source::ZTensor2(reader, _) => reader.checks(),
            _ => Checks::default(),
        };
        checks.digests && self.has_digest()
    }

    /// Verifies the digests of all components that have one of a known algorithm, and returns how many it verified. Formats without digests
    /// return 0.
    ///
    /// # Errors
    /// [`TensorFileError::ZTensor`] and [`TensorFileError::ZTensor2`] for bytes that do not match their digest, and for a digest that is
    /// malformed.
    pub fn verify(&self) -> Result<usize, TensorFileError> {
        const PIECE: usize = 1 << 20;
        if let Source::ZTensor2(reader, object) = &self.source {
            let parts: Vec<_> = object.parts().filter(is_digested).collect();
            for part in &parts {
                let verified = reader.visit_part(part, Checks::ALL, PIECE, &mut |_| ControlFlow::Continue(()));
                verified.map_err(|source| self.file.ztensor2_error(source))?;
            }
            return Ok(parts.len());
        }
        self.verify_components(|_| true)
    }

    /// Verifies the digests of the components that reading the tensor leaves out, if the file was asked to verify digests.
    fn verify_further(&self) -> Result<(), TensorFileError> {
        let Source::ZTensor(reader, object) = &self.source else { return Ok(()) };
        if !reader.checks().digests {
            return Ok(());
        }
        let read = object.format().required_components();
        self.verify_components(|role| !read.contains(&role)).map(drop)
    }

    /// Verifies the digests of the components with these roles.
    fn verify_components(&self, has_role: impl Fn(&str) -> bool) -> Result<usize, TensorFileError> {
        let Source::ZTensor(reader, object) = &self.source else { return Ok(0) };
        let mut n_verified = 0;
        for component in object.components().filter(|part| has_role(part.role()) && has_known_digest(part)) {
            reader.verify(&component).map_err(|source| self.ztensor_error(source))?;
            n_verified += 1;
        }
        Ok(n_verified)
    }

    /// Reads the tensor like [`dequantize`](Self::dequantize), or the strings of a NumPy array or an ONNX model.
    ///
    /// # Errors
    /// As [`read`](Self::read), but strings are not an error.
    pub fn read_array(&self) -> Result<npy::Array, TensorFileError> {
        if let Source::Array(array) = &self.source {
            let is_view = self.file.has_array_views && array.plain.is_some() && array.info.dtype.is_some();
            return if is_view {
                self.read().map(npy::Array::Numbers)
            } else {
                Ok(self.file.read_array(&array.name)?)
            };
        }
        if let Source::Onnx(reader, tensor) = &self.source
            && tensor.is_strings()
        {
            return Ok(npy::Array::Strings(reader.read_strings(tensor, self.file.max_dense)?));
        }
        Ok(npy::Array::Numbers(self.dequantize()?))
    }

    /// Reads the tensor as the tensor type of cartons, including NumPy arrays of strings.
    ///
    /// # Errors
    /// As [`read_array`](Self::read_array). [`TensorFileError::NoTensor`] for an element type that a carton cannot hold.
    pub fn read_tensor(&self) -> Result<Tensor, TensorFileError> {
        let tensor = match self.read_array()? {
            npy::Array::Strings(strings) => return Ok(strings.into()),
            npy::Array::Numbers(tensor) => tensor,
        };
        let tensor = tensor
            .to_numeric()
            .map_err(|error| self.no_tensor(&format!("not a tensor that a carton can hold: {error}")))?;
        Ok(tensor.into())
    }

    pub(super) fn no_tensor(&self, found: &str) -> TensorFileError {
        TensorFileError::NoTensor {
            place: self.file.place().to_owned(),
            name: self.name().escape_debug().to_string(),
            found: found.to_owned(),
        }
    }
}

fn of_shard(reader: &safetensors::Reader) -> impl Iterator<Item = Source<'_>> {
    reader.header().iter().map(move |tensor| Source::Safetensors(reader, tensor))
}

fn has_known_digest(component: &Component<'_>) -> bool {
    component.digest_text().is_some() && component.unknown_digest().is_none()
}

fn is_digested(part: &ztensor2::Part<'_>) -> bool {
    part.digest_text().is_some() && part.unknown_digest().is_none()
}

fn length(range: Range<u64>) -> u64 {
    range.end - range.start
}
