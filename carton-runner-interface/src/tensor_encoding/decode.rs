//! Tensors from their wire form. Their sender is not trusted.

#[cfg(feature = "host")]
use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use carton_tensor::{
    AlignedBytes, BytesTensor, DataType, NestedTensor, NumericTensor, Storage, StringTensor, Tensor, element_count,
};

use super::strings::{read_bytes, read_strings};
use crate::message::{Data, Kind, Side, WireTensor};
use crate::protocol_error::ProtocolError;
#[cfg(feature = "host")]
use crate::shared_memory::peer::PeerBuffer;
use crate::shared_memory::{SharedMemory, THRESHOLD};
use carton_tensor::Tensors;

/// Checks tensors that the peer sent and makes them usable, in place where possible. Strings and bytes are copied, and by hosts booleans: those that
/// lie in shared memory may have `text_cap` bytes in all, because a peer pays nothing for memory that it never wrote to.
pub(crate) fn decode(
    memory: &SharedMemory,
    wire: Vec<WireTensor>,
    body: AlignedBytes,
    text_cap: u64,
) -> Result<Tensors, ProtocolError> {
    let body_length = body.as_slice().len();
    let decoder = Decoder { memory, body_length, body: Arc::new(body), text_cap, text_left: Cell::new(text_cap) };
    let mut tensors = Tensors::new();
    for mut tensor in wire {
        let name = std::mem::take(&mut tensor.name);
        let decoded = decoder.tensor(tensor, false).map_err(|problem| problem.of(&name))?;
        if tensors.insert(name.clone(), decoded).is_some() {
            return Err(ProtocolError::Tensor { name, problem: "it is there twice".to_owned() });
        }
    }
    Ok(tensors)
}

struct Decoder<'a> {
    memory: &'a SharedMemory,
    body: Arc<AlignedBytes>,
    body_length: usize,
    text_cap: u64,
    /// The bytes of elements that may still be copied out of shared memory.
    text_left: Cell<u64>,
}

struct Problem(String);

impl Problem {
    fn of(self, name: &str) -> ProtocolError {
        ProtocolError::Tensor { name: name.to_owned(), problem: self.0 }
    }
}

impl<T: ToString> From<T> for Problem {
    fn from(problem: T) -> Self {
        Self(problem.to_string())
    }
}

/// The bytes of a tensor, checked to lie where the tensor says.
struct Block {
    storage: Arc<dyn Storage>,
    start: usize,
    length: usize,
    /// Whether the peer cannot change them.
    private: bool,
}

impl Block {
    fn bytes(&self) -> &[u8] {
        self.storage.bytes().get(self.start..self.start + self.length).unwrap_or_default()
    }
}

impl Decoder<'_> {
    fn tensor(&self, wire: WireTensor, inside_nested: bool) -> Result<Tensor, Problem> {
        let dtype = match wire.dtype {
            Kind::Plain(dtype) => dtype,
            Kind::Nested if inside_nested => return Err("a nested tensor inside a nested one".into()),
            Kind::Nested => {
                let elements: Result<Vec<_>, Problem> = wire
                    .inner
                    .into_iter()
                    .enumerate()
                    .map(|(index, inner)| {
                        self.tensor(inner, true).map_err(|Problem(text)| format!("element {index}: {text}").into())
                    })
                    .collect();
                return Ok(NestedTensor::new(elements?)?.into());
            }
        };
        let too_large = || format!("shape {:?} of {dtype} elements is too large", wire.shape);
        let shape: Result<Vec<usize>, _> = wire.shape.iter().map(|&dimension| usize::try_from(dimension)).collect();
        let shape = shape.map_err(|_| too_large())?;
        let count = element_count(&shape).ok_or_else(too_large)?;
        let data = wire.data.ok_or("it has no data")?;
        let block = |length: u64| -> Result<Block, Problem> {
            let found = match data {
                Data::Inline { length, .. } | Data::Shared { length, .. } => length,
            };
            if found == length {
                self.block(data)
            } else {
                Err(format!("shape {shape:?} of {dtype} needs {length} bytes, found {found}").into())
            }
        };
        let Some(size) = dtype.size() else {
            let block = self.block(data)?;
            let copy: Vec<u8>;
            let private = if block.private {
                block.bytes()
            } else {
                self.copy_of_shared(dtype, block.length)?;
                // The peer could change an element between its check and its use: both happen on this copy.
                copy = block.bytes().into();
                &copy
            };
            return Ok(match dtype {
                DataType::Bytes => BytesTensor::new(read_bytes(count, private)?, shape)?.into(),
                _ => StringTensor::new(read_strings(count, private)?, shape)?.into(),
            });
        };
        let n_bytes = count.checked_mul(size).ok_or_else(too_large)?;
        let block = block(n_bytes as u64)?;
        let is_bool = |bytes: &[u8]| match bytes.iter().position(|&byte| byte > 1) {
            Some(position) => Err(format!("element {position} is neither 0 nor 1, the values of bool")),
            None => Ok(()),
        };
        if dtype == DataType::Bool && !block.private && self.memory.side == Side::Host {
            // A runner could change a boolean between its check and its use, and libraries rely on its value. A host is trusted.
            self.copy_of_shared(dtype, block.length)?;
            let copy = NumericTensor::copy_from_bytes(dtype, shape, block.bytes())?;
            is_bool(copy.bytes())?;
            return Ok(copy.into());
        }
        if dtype == DataType::Bool {
            is_bool(block.bytes())?;
        }
        let alignment = dtype.alignment().unwrap_or(1);
        let aligned = block.bytes().as_ptr().addr().is_multiple_of(alignment);
        if block.private && (!aligned || (n_bytes < THRESHOLD && self.body_length > 4 * THRESHOLD)) {
            // A small tensor must not keep a large frame in memory.
            return Ok(NumericTensor::copy_from_bytes(dtype, shape, block.bytes())?.into());
        }
        if !aligned {
            return Err(format!("its data is not aligned to {alignment} bytes").into());
        }
        Ok(NumericTensor::with_offset(dtype, shape, block.storage, block.start)?.into())
    }

    /// Counts bytes of shared memory that are to be copied.
    fn copy_of_shared(&self, dtype: DataType, n_bytes: usize) -> Result<(), Problem> {
        let left = self.text_left.get().checked_sub(n_bytes as u64).ok_or_else(|| {
            format!("its {dtype} elements have {n_bytes} bytes, expected at most {} in one message", self.text_cap)
        })?;
        self.text_left.set(left);
        Ok(())
    }

    fn block(&self, data: Data) -> Result<Block, Problem> {
        match data {
            Data::Inline { offset, length } => {
                let end = offset.checked_add(length).filter(|&end| end <= self.body_length as u64);
                let (Some(_), Ok(start), Ok(length)) = (end, usize::try_from(offset), usize::try_from(length)) else {
                    let found = self.body_length;
                    return Err(
                        format!("{length} bytes at {offset} do not lie inside the {found} bytes of the frame").into()
                    );
                };
                Ok(Block { storage: Arc::clone(&self.body) as _, start, length, private: true })
            }
            Data::Shared { .. } if !self.memory.is_in_use() => {
                Err("it lies in shared memory, which was not agreed on".into())
            }
            Data::Shared { owner, region, offset, length } if owner == self.memory.side => {
                let found = self.memory.lent.find(region, offset, length);
                let (storage, start) = found.ok_or_else(|| {
                    format!("{length} bytes at offset {offset} of region {region} do not lie inside a lent buffer")
                })?;
                // `find` checked that the length fits.
                Ok(Block { storage, start, length: usize::try_from(length)?, private: false })
            }
            Data::Shared { region, offset, length, .. } => {
                let buffer = self.memory.peer.borrow(region, offset, length)?;
                Ok(Block { storage: Arc::new(buffer), start: 0, length: usize::try_from(length)?, private: false })
            }
        }
    }
}

/// Copies tensors that lie in memory of a peer into memory of this process.
#[cfg(feature = "host")]
pub(crate) fn copy_out(tensors: Tensors) -> Result<Tensors, carton_tensor::TensorError> {
    fn copy(tensor: Tensor) -> Result<Tensor, carton_tensor::TensorError> {
        Ok(match tensor {
            Tensor::Numeric(numeric) if <dyn Any>::is::<PeerBuffer>(numeric.storage().0.as_ref()) => {
                let (dtype, shape) = (numeric.dtype(), numeric.shape().to_vec());
                // The runner chose the size. If there is not enough memory, the call fails and the process goes on.
                let mut words: Vec<u64> = Vec::new();
                let n_words = numeric.bytes().len().div_ceil(8);
                if words.try_reserve_exact(n_words).is_err() {
                    return Err(carton_tensor::TensorError::TooLarge { dtype, shape });
                }
                let (whole, rest) = numeric.bytes().as_chunks::<8>();
                words.extend(whole.iter().map(|bytes| u64::from_ne_bytes(*bytes)));
                if !rest.is_empty() {
                    let mut last = [0; 8];
                    last[..rest.len()].copy_from_slice(rest);
                    words.push(u64::from_ne_bytes(last));
                }
                NumericTensor::with_offset(dtype, shape, Arc::new(words), 0)?.into()
            }
            Tensor::Nested(nested) => {
                let elements: Result<Vec<_>, _> = nested.elements().iter().cloned().map(copy).collect();
                NestedTensor::new(elements?)?.into()
            }
            other => other,
        })
    }
    tensors.into_iter().map(|(name, tensor)| Ok((name, copy(tensor)?))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Weak;

    use proptest::prelude::*;

    use super::*;
    use crate::shared_memory::NoListener;
    use crate::tensor_encoding::encode;

    fn frames_only() -> SharedMemory {
        SharedMemory::new(Side::Host, 0, 0, Weak::<NoListener>::new())
    }

    proptest! {
        #[test]
        fn any_tensor_is_decoded_or_refused(
            shape in prop::collection::vec(prop_oneof![0..4_u64, any::<u64>()], 0..4),
            dtype in prop::sample::select(DataType::ALL.to_vec()),
            offset in prop_oneof![0..100_u64, any::<u64>()],
            length in prop_oneof![0..100_u64, any::<u64>()],
            body in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let data = Some(Data::Inline { offset, length });
            let wire = WireTensor { name: "x".to_owned(), dtype: Kind::Plain(dtype), shape, data, inner: Vec::new() };
            let memory = frames_only();
            if let Ok(tensors) = decode(&memory, vec![wire.clone()], AlignedBytes::copy_of(&body), u64::MAX) {
                let encoded = encode(&memory, tensors, Vec::new()).unwrap();
                prop_assert_eq!(&encoded.tensors[0].shape, &wire.shape);
                prop_assert_eq!(encoded.body.len() as u64, length);
            }
        }
    }
}
