//! Quantizes a tensor in pieces, so that its size does not matter: one pass over its numbers finds the scales, another makes the integers
//! (spec/weights.md §2.2).

use super::WeightsError;
use super::kernels::Level;
use super::options::LoadOptions;
use super::pieces::{PIECE_ELEMENTS, piece_size};
use super::quantization_error::QuantizationError;
use super::quantize::{ChannelMaximum, Elements, QuantizeOptions, find, is_cut_at_bytes, n_scales, scales_of, write};
use super::scales::{Channels, Scales};
use crate::any_file::{ElementOrder, Entry, TensorFileError};
use crate::element_count;
use crate::files::{ElementType, RawTensor, SharedBytes};
use crate::parallel::par_map;

/// The pieces that are in memory at once.
const AT_ONCE: usize = 32;

/// A tensor whose scales are known, and whose integers are made when they are visited.
///
/// ```
/// use carton_tensor::any_file::TensorFile;
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::safetensors::{self, Metadata};
/// use carton_tensor::weights::{LoadOptions, QuantizeOptions, Quantizer, WeightsError};
/// let numbers: Vec<u8> = [-2.0_f32, -1.0, 0.5, 1.5].into_iter().flat_map(f32::to_le_bytes).collect();
/// let tensor = RawTensor::new(ElementType::Float32, vec![4], numbers.into())?;
/// let mut bytes = Vec::new();
/// safetensors::write([("a", &tensor)], &Metadata::default(), &mut bytes)?;
///
/// let file = TensorFile::new(bytes, "example")?;
/// let quantizer = Quantizer::of_entry(file.entry("a")?, &QuantizeOptions::default(), &LoadOptions::default())?;
/// assert_eq!(quantizer.scales()?.of_tensor(), Some(63.5));
/// let mut integers = Vec::new();
/// quantizer.visit(|piece| Ok::<_, WeightsError>(integers.extend_from_slice(piece)))?;
/// assert_eq!(bytemuck::cast_slice::<_, i8>(&integers), [-127, -64, 32, 95]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Quantizer<'a> {
    source: Source<'a>,
    dtype: ElementType,
    shape: Vec<usize>,
    channels: Option<Channels>,
    options: QuantizeOptions,
    load: LoadOptions,
    found: Vec<ChannelMaximum>,
}

/// Where the numbers are.
enum Source<'a> {
    Entry(Entry<'a>),
    Memory(SharedBytes),
}

impl<'a> Quantizer<'a> {
    /// Finds the scales of a tensor of a file, which is read once for that. Of `load`, this uses the number of threads and the context.
    ///
    /// # Errors
    /// [`WeightsError::Complex`]; [`WeightsError::File`] if the tensor cannot be read, or is none of numbers; [`WeightsError::Interrupted`].
    pub fn of_entry(entry: Entry<'a>, options: &QuantizeOptions, load: &LoadOptions) -> Result<Self, WeightsError> {
        let dtype = entry.dtype().unwrap_or(ElementType::Float32);
        let channels = Channels::of(entry.shape(), options.granularity);
        // A file that holds the elements in another way than one after another decodes the tensor as a whole, and only once.
        if entry.is_decoded_whole() || !is_cut_at_bytes(dtype, channels) {
            return Self::of_tensor(&entry.read()?, options, load);
        }
        let shape = entry.shape().to_vec();
        Self::new(Source::Entry(entry), dtype, shape, options, load)
    }

    /// Finds the scales of a tensor in memory.
    ///
    /// # Errors
    /// [`WeightsError::Complex`], [`WeightsError::Memory`], [`WeightsError::Interrupted`].
    pub fn of_tensor(tensor: &RawTensor, options: &QuantizeOptions, load: &LoadOptions) -> Result<Self, WeightsError> {
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        if is_cut_at_bytes(dtype, Channels::of(&shape, options.granularity)) {
            return Self::new(Source::Memory(tensor.bytes().clone()), dtype, shape, options, load);
        }
        // Float32 holds every number of a type smaller than a byte.
        let wide = tensor.to_f32().ok_or(WeightsError::Complex { dtype })?;
        Self::new(Source::Memory(wide.into()), ElementType::Float32, shape, options, load)
    }

    fn new(
        source: Source<'a>,
        dtype: ElementType,
        shape: Vec<usize>,
        options: &QuantizeOptions,
        load: &LoadOptions,
    ) -> Result<Self, WeightsError> {
        let channels = Channels::of(&shape, options.granularity);
        let found = vec![ChannelMaximum::NONE; n_scales(channels)];
        let mut all = Self { source, dtype, shape, channels, options: *options, load: load.clone(), found };
        let (mut merged, level) = (std::mem::take(&mut all.found), Level::best());
        all.in_order(
            |elements| Ok((elements.first_channel(), find(level, elements)?)),
            |(first, found)| {
                for (merged, found) in merged.iter_mut().skip(first).zip(found) {
                    *merged = merged.merge(found);
                }
                Ok::<_, WeightsError>(())
            },
        )?;
        all.found = merged;
        Ok(all)
    }

    /// The dimensions of the tensor.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The factors by which the numbers are multiplied before they are rounded.
    ///
    /// # Errors
    /// [`WeightsError::Complex`].
    pub fn scales(&self) -> Result<Scales, WeightsError> {
        scales_of(self.dtype, self.channels, &self.found)
    }

    /// The number of NaNs and infinities, which become 0.
    #[must_use]
    pub fn n_non_finite(&self) -> u64 {
        self.found.iter().map(|found| found.n_other).sum()
    }

    /// Passes the integers, bytes of type `int8` in C order, to `visit`, in pieces. Returns the error of the quantization, if it is measured. A tensor
    /// of a file is read once more for that; the integers may only be used if no error follows.
    ///
    /// # Errors
    /// As [`of_entry`](Self::of_entry), and those of `visit`.
    pub fn visit<E: From<WeightsError> + From<TensorFileError>>(
        &self,
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Option<QuantizationError>, E> {
        let (mut error, level) = (QuantizationError::default(), Level::best());
        self.in_order(
            |elements| {
                let mut integers = vec![0; elements.count()];
                let error = write(level, elements, &self.found, &self.options, &mut integers)?;
                Ok((integers, error))
            },
            |(integers, of_piece): (Vec<u8>, QuantizationError)| {
                error = error.merge(of_piece);
                visit(&integers)
            },
        )?;
        Ok(self.options.measure.then_some(error))
    }

    fn elements<'b>(&self, start: usize, bytes: &'b [u8]) -> Elements<'b> {
        Elements { dtype: self.dtype, channels: self.channels, start, bytes }
    }

    /// Calls `work` for each piece of the tensor, on all threads where the pieces can be read in any order, and `each` with the results, in the order of
    /// the pieces.
    fn in_order<R: Send, E: From<WeightsError> + From<TensorFileError>>(
        &self,
        work: impl Fn(Elements<'_>) -> Result<R, WeightsError> + Sync,
        mut each: impl FnMut(R) -> Result<(), E>,
    ) -> Result<(), E> {
        let location = match &self.source {
            Source::Entry(entry) if entry.is_verified() => None,
            Source::Entry(entry) => entry.location(),
            Source::Memory(_) => None,
        };
        if let (Source::Entry(entry), None) = (&self.source, &location) {
            let mut start = 0;
            return entry.visit(ElementOrder::C, PIECE_ELEMENTS, |bytes| {
                self.load.context.check().map_err(WeightsError::from)?;
                let of_piece = work(self.elements(start, bytes))?;
                start += bytes.len() * 8 / self.dtype.bits();
                each(of_piece)
            });
        }
        let n_elements = element_count(&self.shape).unwrap_or_default();
        let n_pieces = n_elements.div_ceil(PIECE_ELEMENTS);
        for first in (0..n_pieces).step_by(AT_ONCE) {
            self.load.context.check().map_err(WeightsError::from)?;
            let batch = par_map(AT_ONCE.min(n_pieces - first), self.load.threads(), Vec::new, |buffer, piece| {
                let start = (first + piece) * PIECE_ELEMENTS;
                let n_bytes = (PIECE_ELEMENTS.min(n_elements - start) * self.dtype.bits()).div_ceil(8);
                let offset = (first + piece) * piece_size(self.dtype);
                let bytes = match (&self.source, &location) {
                    (Source::Memory(bytes), _) => bytes.get(offset..offset + n_bytes).unwrap_or_default(),
                    (Source::Entry(entry), Some((file, range))) => {
                        buffer.resize(n_bytes, 0);
                        let read = file.read_into(range.start + offset as u64, buffer);
                        read.map_err(|source| TensorFileError::Io { place: entry.place().to_owned(), source })?;
                        buffer.as_slice()
                    }
                    (Source::Entry(_), None) => &[],
                };
                work(self.elements(start, bytes))
            })?;
            batch.into_iter().try_for_each(&mut each)?;
        }
        Ok(())
    }
}
