//! Tensors to their wire form and back (spec/runner-protocol.md, "Tensors").
//!
//! Sending takes two steps, so that waiting for room in a full pool is the caller's business, blocking or not:
//! [`pool_needs`] tells which buffers are wanted, [`encode`] fills them. Receiving ([`decode`]) trusts nothing: every
//! range, shape and string is checked, strings on a private copy.

use std::any::Any;
use std::sync::Arc;

use carton_tensor::{
    AlignedBytes, DataType, NestedTensor, NumericTensor, Storage, StringTensor, Tensor, element_count,
};

use crate::message::{Data, Kind, Side, WireTensor};
use crate::model::Tensors;
use crate::protocol_error::ProtocolError;
use crate::shared_memory::lending::Lend;
use crate::shared_memory::peer::PeerBuffer;
use crate::shared_memory::pool::{PoolBuffer, Region};
use crate::shared_memory::{SharedMemory, THRESHOLD};

/// Where inline tensors start in the bytes of a frame: at multiples of this.
const INLINE_ALIGNMENT: usize = 64;
/// A part of a larger buffer that is smaller than this is copied into the frame: that is cheaper than lending it.
const SMALL_PART: usize = 4 << 10;

/// Why tensors cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodeError {
    #[error("tensor `{name}` is of a kind that the runner protocol has no form for")]
    UnsupportedKind { name: String },
    #[error("the sizes of the tensors changed while they were being sent")]
    BuffersDoNotFit,
}

/// Tensors ready to be sent.
#[derive(Default)]
pub(crate) struct Encoded {
    pub(crate) tensors: Vec<WireTensor>,
    pub(crate) body: Vec<u8>,
    /// Buffers of this side that the message names.
    pub(crate) lends: Vec<Lend>,
    /// Their regions, which the peer must have been told of.
    pub(crate) regions: Vec<Arc<Region>>,
}

/// How one block of bytes travels.
enum Place {
    /// It lies in the pool already.
    Own { region: Arc<Region>, offset: u64 },
    /// It lies in the peer's memory already.
    Peer { region: u64, offset: u64 },
    /// It is copied into a new buffer of the pool.
    Pool,
    /// It is copied into the frame.
    Inline,
}

fn place_of_numeric(memory: &SharedMemory, tensor: &NumericTensor) -> Place {
    let n_bytes = tensor.bytes().len();
    let (storage, start) = tensor.storage();
    let storage: &dyn Any = storage.as_ref();
    let fits = |offset: u64| tensor.dtype().size().is_some_and(|size| offset.is_multiple_of(size as u64));
    if memory.is_in_use() && n_bytes >= SMALL_PART {
        if let Some(buffer) = storage.downcast_ref::<PoolBuffer>()
            && memory.pool.owns(buffer)
            && fits((buffer.offset() + start) as u64)
        {
            return Place::Own { region: Arc::clone(buffer.region()), offset: (buffer.offset() + start) as u64 };
        }
        if let Some(buffer) = storage.downcast_ref::<PeerBuffer>()
            && memory.peer.owns(buffer)
            && fits(buffer.offset() + start as u64)
        {
            return Place::Peer { region: buffer.region(), offset: buffer.offset() + start as u64 };
        }
    }
    place_of_bytes(memory, n_bytes)
}

fn place_of_bytes(memory: &SharedMemory, n_bytes: usize) -> Place {
    if memory.is_in_use() && n_bytes >= THRESHOLD { Place::Pool } else { Place::Inline }
}

/// The bytes that strings take on the wire.
fn strings_length(tensor: &StringTensor) -> usize {
    let text: usize = tensor.elements().iter().map(String::len).sum();
    (tensor.elements().len() + 1) * 8 + text
}

/// The sizes of the buffers that [`encode`] needs for `tensors`, in the order it needs them.
pub(crate) fn pool_needs(memory: &SharedMemory, tensors: &Tensors) -> Vec<usize> {
    fn add(memory: &SharedMemory, tensor: &Tensor, needs: &mut Vec<usize>) {
        match tensor {
            Tensor::Numeric(numeric) => {
                if let Place::Pool = place_of_numeric(memory, numeric) {
                    needs.push(numeric.bytes().len());
                }
            }
            Tensor::String(strings) => {
                let n_bytes = strings_length(strings);
                if let Place::Pool = place_of_bytes(memory, n_bytes) {
                    needs.push(n_bytes);
                }
            }
            Tensor::Nested(nested) => nested.elements().iter().for_each(|inner| add(memory, inner, needs)),
            _ => {}
        }
    }
    let mut needs = Vec::new();
    tensors.values().for_each(|tensor| add(memory, tensor, &mut needs));
    needs
}

/// The largest of `tensors` and its bytes, and the bytes of all, where none of them can travel but in the frame.
#[cfg(feature = "host")]
pub(crate) fn inline_sizes<'a>(memory: &SharedMemory, tensors: &'a Tensors) -> Option<(&'a str, u64, u64)> {
    fn n_bytes(tensor: &Tensor) -> u64 {
        match tensor {
            Tensor::Numeric(numeric) => numeric.bytes().len() as u64,
            Tensor::String(strings) => strings_length(strings) as u64,
            Tensor::Nested(nested) => nested.elements().iter().map(n_bytes).sum(),
            _ => 0,
        }
    }
    if memory.is_in_use() {
        return None;
    }
    let sizes = || tensors.iter().map(|(name, tensor)| (name.as_str(), n_bytes(tensor)));
    let (largest, bytes) = sizes().max_by_key(|(_, bytes)| *bytes)?;
    Some((largest, bytes, sizes().map(|(_, bytes)| bytes).sum()))
}

/// Brings `tensors` into their wire form. `buffers` are what [`pool_needs`] asked for.
pub(crate) fn encode(
    memory: &SharedMemory,
    tensors: &Tensors,
    buffers: Vec<PoolBuffer>,
) -> Result<Encoded, EncodeError> {
    let mut encoder = Encoder { memory, buffers: buffers.into_iter(), encoded: Encoded::default() };
    let mut wire = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        wire.push(encoder.tensor(name, tensor)?);
    }
    encoder.encoded.tensors = wire;
    Ok(encoder.encoded)
}

struct Encoder<'a> {
    memory: &'a SharedMemory,
    buffers: std::vec::IntoIter<PoolBuffer>,
    encoded: Encoded,
}

impl Encoder<'_> {
    fn tensor(&mut self, name: &str, tensor: &Tensor) -> Result<WireTensor, EncodeError> {
        let wire = |kind, shape: &[usize], data, inner| WireTensor {
            name: name.to_owned(),
            dtype: kind,
            shape: shape.iter().map(|&dimension| dimension as u64).collect(),
            data,
            inner,
        };
        Ok(match tensor {
            Tensor::Numeric(numeric) => {
                let data = self.numeric(numeric)?;
                wire(Kind::Plain(numeric.dtype()), numeric.shape(), Some(data), Vec::new())
            }
            Tensor::String(strings) => {
                let data = self.strings(strings)?;
                wire(Kind::Plain(DataType::String), strings.shape(), Some(data), Vec::new())
            }
            Tensor::Nested(nested) => {
                let inner: Result<Vec<_>, _> =
                    nested.elements().iter().map(|element| self.tensor("", element)).collect();
                wire(Kind::Nested, &[], None, inner?)
            }
            _ => return Err(EncodeError::UnsupportedKind { name: name.to_owned() }),
        })
    }

    fn numeric(&mut self, tensor: &NumericTensor) -> Result<Data, EncodeError> {
        let length = tensor.bytes().len() as u64;
        Ok(match place_of_numeric(self.memory, tensor) {
            Place::Own { region, offset } => {
                let storage = Arc::clone(tensor.storage().0);
                self.lend(region, offset, length, storage)
            }
            Place::Peer { region, offset } => Data::Shared { owner: other(self.memory.side), region, offset, length },
            Place::Pool => self.pooled(tensor.bytes().len(), |target| target.copy_from_slice(tensor.bytes()))?,
            Place::Inline => self.inline(tensor.bytes().len(), |target| target.copy_from_slice(tensor.bytes())),
        })
    }

    fn strings(&mut self, tensor: &StringTensor) -> Result<Data, EncodeError> {
        let n_bytes = strings_length(tensor);
        let write = |target: &mut [u8]| write_strings(tensor.elements(), target);
        match place_of_bytes(self.memory, n_bytes) {
            Place::Pool => self.pooled(n_bytes, write),
            _ => Ok(self.inline(n_bytes, write)),
        }
    }

    fn pooled(&mut self, n_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<Data, EncodeError> {
        let mut buffer = self.buffers.next().ok_or(EncodeError::BuffersDoNotFit)?;
        let target = buffer.bytes_mut().filter(|target| target.len() == n_bytes);
        write(target.ok_or(EncodeError::BuffersDoNotFit)?);
        let (region, offset) = (Arc::clone(buffer.region()), buffer.offset() as u64);
        Ok(self.lend(region, offset, n_bytes as u64, Arc::new(buffer)))
    }

    fn lend(&mut self, region: Arc<Region>, offset: u64, length: u64, storage: Arc<dyn Storage>) -> Data {
        let number = region.number;
        self.encoded.lends.push(Lend { region: number, offset, storage });
        if !self.encoded.regions.iter().any(|known| known.number == number) {
            self.encoded.regions.push(region);
        }
        Data::Shared { owner: self.memory.side, region: number, offset, length }
    }

    fn inline(&mut self, n_bytes: usize, write: impl FnOnce(&mut [u8])) -> Data {
        let body = &mut self.encoded.body;
        let offset = body.len().next_multiple_of(INLINE_ALIGNMENT);
        body.resize(offset + n_bytes, 0);
        write(&mut body[offset..]);
        Data::Inline { offset: offset as u64, length: n_bytes as u64 }
    }
}

/// The tensors that lie in the peer's memory; the others are dropped here, which may take a while.
pub(crate) fn split_off_borrowed(memory: &SharedMemory, tensors: Tensors) -> Vec<Tensor> {
    fn is_borrowed(memory: &SharedMemory, tensor: &Tensor) -> bool {
        match tensor {
            Tensor::Numeric(numeric) => {
                let storage: &dyn Any = numeric.storage().0.as_ref();
                storage.downcast_ref::<PeerBuffer>().is_some_and(|buffer| memory.peer.owns(buffer))
            }
            Tensor::Nested(nested) => nested.elements().iter().any(|element| is_borrowed(memory, element)),
            _ => false,
        }
    }
    tensors.into_values().filter(|tensor| is_borrowed(memory, tensor)).collect()
}

/// Copies what lies in memory of a peer into memory of our own.
#[cfg(feature = "host")]
pub(crate) fn copy_out(tensors: Tensors) -> Result<Tensors, carton_tensor::TensorError> {
    fn copy(tensor: Tensor) -> Result<Tensor, carton_tensor::TensorError> {
        Ok(match tensor {
            Tensor::Numeric(numeric) if <dyn Any>::is::<PeerBuffer>(numeric.storage().0.as_ref()) => {
                let (dtype, shape) = (numeric.dtype(), numeric.shape().to_vec());
                // The size is the runner's choice: more than there is must not end this process.
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

fn other(side: Side) -> Side {
    match side {
        Side::Host => Side::Runner,
        Side::Runner => Side::Host,
    }
}

/// Writes `n + 1` offsets into the text, and the text.
fn write_strings(elements: &[String], target: &mut [u8]) {
    let (offsets, text) = target.split_at_mut((elements.len() + 1) * 8);
    let mut end = 0;
    let mut ends = offsets.chunks_exact_mut(8);
    if let Some(first) = ends.next() {
        first.copy_from_slice(&0_u64.to_le_bytes());
    }
    for (element, offset) in elements.iter().zip(ends) {
        text[end..end + element.len()].copy_from_slice(element.as_bytes());
        end += element.len();
        offset.copy_from_slice(&(end as u64).to_le_bytes());
    }
}

/// Reads `n` strings from a block that nobody can change any more.
fn read_strings(n: usize, block: &[u8]) -> Result<Vec<String>, String> {
    let offsets_length = n.checked_add(1).and_then(|count| count.checked_mul(8));
    let Some((offsets, text)) = offsets_length.and_then(|length| block.split_at_checked(length)) else {
        return Err(format!("{} bytes cannot hold the offsets of {n} strings", block.len()));
    };
    let mut offsets = offsets.chunks_exact(8).map(|bytes| {
        let mut offset = [0; 8];
        offset.copy_from_slice(bytes);
        u64::from_le_bytes(offset)
    });
    if offsets.next() != Some(0) {
        return Err("the first string does not start at 0".to_owned());
    }
    let mut elements = Vec::with_capacity(n);
    let mut start = 0;
    for (index, end) in offsets.enumerate() {
        let bytes = usize::try_from(end).ok().and_then(|end| text.get(start..end));
        let bytes = bytes.ok_or_else(|| {
            format!("string {index} from {start} to {end} does not lie inside {} bytes of text", text.len())
        })?;
        start += bytes.len();
        let element = std::str::from_utf8(bytes).map_err(|error| format!("string {index} is not UTF-8: {error}"))?;
        elements.push(element.to_owned());
    }
    if start == text.len() {
        Ok(elements)
    } else {
        Err(format!("the last string ends at {start}, the text at {}", text.len()))
    }
}

/// Checks tensors that the peer sent and makes them usable, in place where possible.
pub(crate) fn decode(
    memory: &SharedMemory,
    wire: Vec<WireTensor>,
    body: AlignedBytes,
) -> Result<Tensors, ProtocolError> {
    let decoder = Decoder { memory, body_length: body.as_slice().len(), body: Arc::new(body) };
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

/// Bytes that were found to be where a tensor says they are.
struct Block {
    storage: Arc<dyn Storage>,
    start: usize,
    length: usize,
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
            let elements = if block.private {
                read_strings(count, block.bytes())
            } else {
                // The peer could change a string between its check and its use: both happen on this copy.
                let copy: Vec<u8> = block.bytes().into();
                read_strings(count, &copy)
            };
            return Ok(StringTensor::new(elements?, shape)?.into());
        };
        let n_bytes = count.checked_mul(size).ok_or_else(too_large)?;
        let block = block(n_bytes as u64)?;
        let aligned = block.bytes().as_ptr().addr().is_multiple_of(size);
        if block.private && (!aligned || (n_bytes < THRESHOLD && self.body_length > 4 * THRESHOLD)) {
            // A small tensor must not keep a large frame in memory.
            return Ok(NumericTensor::copy_from_bytes(dtype, shape, block.bytes())?.into());
        }
        if !aligned {
            return Err(format!("its data is not aligned to {size} bytes").into());
        }
        Ok(NumericTensor::with_offset(dtype, shape, block.storage, block.start)?.into())
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Weak;

    use proptest::prelude::*;

    use super::*;
    use crate::shared_memory::NoListener;

    fn frames_only() -> SharedMemory {
        SharedMemory::new(Side::Host, 0, 0, Weak::<NoListener>::new())
    }

    proptest! {
        #[test]
        fn strings_come_back_as_they_were(elements: Vec<String>) {
            let tensor = StringTensor::new(elements.clone(), vec![elements.len()]).unwrap();
            let mut block = vec![0xAA; strings_length(&tensor)];
            write_strings(&elements, &mut block);
            prop_assert_eq!(read_strings(elements.len(), &block), Ok(elements));
        }

        #[test]
        fn any_block_is_read_as_strings_or_refused(n in 0..8_usize, words: Vec<u64>, text: Vec<u8>) {
            let mut block: Vec<u8> = words.iter().flat_map(|word| (word % 20).to_le_bytes()).collect();
            block.extend(text);
            if let Ok(elements) = read_strings(n, &block) {
                prop_assert_eq!(elements.len(), n);
            }
            prop_assert!(read_strings(usize::MAX - n, &block).is_err());
        }

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
            if let Ok(tensors) = decode(&memory, vec![wire.clone()], AlignedBytes::copy_of(&body)) {
                let encoded = encode(&memory, &tensors, Vec::new()).unwrap();
                prop_assert_eq!(&encoded.tensors[0].shape, &wire.shape);
                prop_assert_eq!(encoded.body.len() as u64, length);
            }
        }
    }
}
