//! Tensors to their wire form.

use std::any::Any;
use std::sync::Arc;

use carton_tensor::{DataType, NumericTensor, Storage, Tensor, VariableElement, VariableTensor};

use super::strings::{block_length, write_block};
use crate::message::{Data, Kind, Side, WireTensor};
use crate::shared_memory::lending::Lend;
use crate::shared_memory::peer::PeerBuffer;
use crate::shared_memory::pool::{PoolBuffer, Region};
use crate::shared_memory::{SharedMemory, THRESHOLD};
use carton_tensor::Tensors;

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
    /// The regions of these buffers. The peer must know them before it reads the message.
    pub(crate) regions: Vec<Arc<Region>>,
    /// The tensors that lie in memory of the peer. They stay alive until the message that names them is sent.
    pub(crate) borrowed: Vec<Tensor>,
}

/// How one block of bytes travels.
enum BlockPlace {
    /// It lies in the pool already.
    Own { region: Arc<Region>, offset: u64 },
    /// It lies in the peer's memory already.
    Peer { region: u64, offset: u64 },
    /// It is copied into a new buffer of the pool.
    Pool,
    /// It is copied into the frame.
    Inline,
}

fn place_of_numeric(memory: &SharedMemory, tensor: &NumericTensor) -> BlockPlace {
    let n_bytes = tensor.bytes().len();
    let (storage, start) = tensor.storage();
    let storage: &dyn Any = storage.as_ref();
    let fits =
        |offset: u64| tensor.dtype().alignment().is_some_and(|alignment| offset.is_multiple_of(alignment as u64));
    if memory.is_in_use() && n_bytes >= SMALL_PART {
        if let Some(buffer) = storage.downcast_ref::<PoolBuffer>()
            && memory.pool.owns(buffer)
            && fits((buffer.offset() + start) as u64)
        {
            return BlockPlace::Own { region: Arc::clone(buffer.region()), offset: (buffer.offset() + start) as u64 };
        }
        if let Some(buffer) = storage.downcast_ref::<PeerBuffer>()
            && memory.peer.owns(buffer)
            && fits(buffer.offset() + start as u64)
        {
            return BlockPlace::Peer { region: buffer.region(), offset: buffer.offset() + start as u64 };
        }
    }
    place_of_bytes(memory, n_bytes)
}

fn place_of_bytes(memory: &SharedMemory, n_bytes: usize) -> BlockPlace {
    if memory.is_in_use() && n_bytes >= THRESHOLD { BlockPlace::Pool } else { BlockPlace::Inline }
}

/// What sending tensors takes, before anything is copied.
#[derive(Default)]
pub(crate) struct Plan<'a> {
    /// The sizes of the pool buffers that [`encode`] needs, in the order in which it fills them.
    pub(crate) buffers: Vec<usize>,
    /// The bytes that travel in the frame, without padding.
    pub(crate) inline_bytes: u64,
    /// The tensor that has most of them, and how many it has.
    pub(crate) largest_inline: Option<(&'a str, u64)>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(memory: &SharedMemory, tensors: &'a Tensors) -> Self {
        let mut plan = Self::default();
        for (name, tensor) in tensors {
            let before = plan.inline_bytes;
            plan.add(memory, tensor);
            let n_bytes = plan.inline_bytes - before;
            if plan.largest_inline.is_none_or(|(_, largest)| n_bytes >= largest) {
                plan.largest_inline = Some((name, n_bytes));
            }
        }
        plan
    }

    fn add(&mut self, memory: &SharedMemory, tensor: &Tensor) {
        let (n_bytes, place) = match tensor {
            Tensor::Numeric(numeric) => (numeric.bytes().len(), place_of_numeric(memory, numeric)),
            Tensor::String(strings) => {
                let n_bytes = block_length(strings);
                (n_bytes, place_of_bytes(memory, n_bytes))
            }
            Tensor::Bytes(bytes) => {
                let n_bytes = block_length(bytes);
                (n_bytes, place_of_bytes(memory, n_bytes))
            }
            Tensor::Nested(nested) => return nested.elements().iter().for_each(|inner| self.add(memory, inner)),
            // `encode` refuses it.
            _ => return,
        };
        match place {
            BlockPlace::Pool => self.buffers.push(n_bytes),
            BlockPlace::Inline => self.inline_bytes += n_bytes as u64,
            BlockPlace::Own { .. } | BlockPlace::Peer { .. } => {}
        }
    }
}

/// Brings `tensors` into their wire form. `buffers` are those that [`Plan::buffers`] asks for. Tensors that the message does not
/// need are dropped here, which may take a while.
///
/// # Errors
/// [`EncodeError`]. The buffers are back in the pool then, and nothing is lent.
pub(crate) fn encode(
    memory: &SharedMemory,
    tensors: Tensors,
    buffers: Vec<PoolBuffer>,
) -> Result<Encoded, EncodeError> {
    let encoded = Encoded { tensors: Vec::with_capacity(tensors.len()), ..Encoded::default() };
    let mut encoder = Encoder { memory, buffers: buffers.into_iter(), encoded, is_borrowed: false };
    for (name, tensor) in tensors {
        let wire = encoder.tensor(name, &tensor)?;
        encoder.encoded.tensors.push(wire);
        if std::mem::take(&mut encoder.is_borrowed) {
            encoder.encoded.borrowed.push(tensor);
        }
    }
    Ok(encoder.encoded)
}

struct Encoder<'a> {
    memory: &'a SharedMemory,
    buffers: std::vec::IntoIter<PoolBuffer>,
    encoded: Encoded,
    /// Whether any of the present tensor lies in memory of the peer.
    is_borrowed: bool,
}

impl Encoder<'_> {
    fn tensor(&mut self, name: String, tensor: &Tensor) -> Result<WireTensor, EncodeError> {
        let (dtype, shape, data, inner) = match tensor {
            Tensor::Numeric(numeric) => {
                (Kind::Plain(numeric.dtype()), numeric.shape(), Some(self.numeric(numeric)?), Vec::new())
            }
            Tensor::String(strings) => {
                (Kind::Plain(DataType::String), strings.shape(), Some(self.variable(strings)?), Vec::new())
            }
            Tensor::Bytes(bytes) => {
                (Kind::Plain(DataType::Bytes), bytes.shape(), Some(self.variable(bytes)?), Vec::new())
            }
            Tensor::Nested(nested) => {
                let inner: Result<Vec<_>, _> =
                    nested.elements().iter().map(|element| self.tensor(String::new(), element)).collect();
                (Kind::Nested, [].as_slice(), None, inner?)
            }
            _ => return Err(EncodeError::UnsupportedKind { name }),
        };
        let shape = shape.iter().map(|&dimension| dimension as u64).collect();
        Ok(WireTensor { name, dtype, shape, data, inner })
    }

    fn numeric(&mut self, tensor: &NumericTensor) -> Result<Data, EncodeError> {
        let storage: &dyn Any = tensor.storage().0.as_ref();
        self.is_borrowed |= storage.downcast_ref::<PeerBuffer>().is_some_and(|buffer| self.memory.peer.owns(buffer));
        let length = tensor.bytes().len() as u64;
        Ok(match place_of_numeric(self.memory, tensor) {
            BlockPlace::Own { region, offset } => {
                let storage = Arc::clone(tensor.storage().0);
                self.lend(region, offset, length, storage)
            }
            BlockPlace::Peer { region, offset } => {
                Data::Shared { owner: other(self.memory.side), region, offset, length }
            }
            BlockPlace::Pool => self.pooled(tensor.bytes().len(), |target| target.copy_from_slice(tensor.bytes()))?,
            BlockPlace::Inline => self.inline(tensor.bytes().len(), |target| target.copy_from_slice(tensor.bytes())),
        })
    }

    fn variable<T: VariableElement>(&mut self, tensor: &VariableTensor<T>) -> Result<Data, EncodeError> {
        let n_bytes = block_length(tensor);
        let write = |target: &mut [u8]| write_block(tensor.elements(), target);
        match place_of_bytes(self.memory, n_bytes) {
            BlockPlace::Pool => self.pooled(n_bytes, write),
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

fn other(side: Side) -> Side {
    match side {
        Side::Host => Side::Runner,
        Side::Runner => Side::Host,
    }
}
