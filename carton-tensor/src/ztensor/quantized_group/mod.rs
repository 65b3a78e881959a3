//! Reads and writes weights that are quantized in groups, like those of GPTQ (spec/ztensor.md §5.4).

mod error;
mod pack;

pub use error::QuantizedGroupError;

use super::attributes::Attribute;
use super::manifest::{Format, Object};
use super::place::FilePart;
use super::{Attributes, Reader, ZTensorError};
use crate::DataType;
use crate::files::{ElementType, RawTensor};

/// A `quantized_group` object whose attributes match its components.
#[derive(Clone, Debug)]
pub struct QuantizedGroup {
    name: String,
    rows: usize,
    columns: usize,
    bits: u32,
    group_size: usize,
    n_groups: usize,
    packed_weight: RawTensor,
    scales: RawTensor,
    zeros: RawTensor,
    zeros_are: Zeros,
    /// The group of each row, if the file states it.
    groups: Option<Vec<usize>>,
}

/// The storage of zero points.
#[derive(Clone, Copy, Debug)]
enum Zeros {
    /// Each zero point is a number.
    Numbers,
    /// Packed along the columns. This number must be added to each stored value, modulo the range of its bits.
    Packed(u32),
}

/// The bits of a word into which weights are packed.
const WORD: u32 = 32;

impl QuantizedGroup {
    /// Whether the attributes of an object name a packing that spec/ztensor.md §5.4 defines. Objects of other packings are kept, but
    /// cannot be decoded.
    #[must_use]
    pub fn has_known_packing(attributes: &Attributes) -> bool {
        weights_per_word(attributes).is_some()
    }

    /// Makes a group of an object. Checks attributes and components against the shape.
    fn new(reader: &Reader, object: &Object<'_>) -> Result<Self, ZTensorError> {
        let attributes = object.attributes()?;
        let (bits, per_word) = packing(&attributes, object)?;
        let [rows, columns] = shape(object.shape(), per_word, || object.place())?;
        let group_size = group_size(&attributes, object, rows)?;
        let n_groups = rows.div_ceil(group_size);
        let component = |role| reader.elements(object, role);
        let [packed_weight, scales, zeros] = ["packed_weight", "scales", "zeros"].map(component);
        let (packed_weight, scales, zeros) = (packed_weight?, scales?, zeros?);
        let at = |role| FilePart::component(object.name(), role);

        check_type(&packed_weight, is_word, "int32 or uint32", at("packed_weight"))?;
        check_size(&packed_weight, rows / per_word, columns, at("packed_weight"))?;
        check_type(&scales, ElementType::is_float, "floats", at("scales"))?;
        check_size(&scales, n_groups, columns, at("scales"))?;
        let zeros_are = zeros_kind(&zeros, [n_groups, columns, per_word], &attributes, at("zeros"))?;
        let groups = match object.component("g_idx") {
            Some(_) => Some(row_groups(&component("g_idx")?, rows, n_groups, &at("g_idx"))?),
            None => None,
        };
        let name = object.name().to_owned();
        Ok(Self { name, rows, columns, bits, group_size, n_groups, packed_weight, scales, zeros, zeros_are, groups })
    }

    /// The rows and columns of the weight.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// The number of bits of a weight.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The number of rows in a group.
    #[must_use]
    pub fn group_size(&self) -> usize {
        self.group_size
    }

    /// The factors for the weights: floats, one for each group and column.
    #[must_use]
    pub fn scales(&self) -> &RawTensor {
        &self.scales
    }

    /// The number of groups.
    #[must_use]
    pub fn n_groups(&self) -> usize {
        self.n_groups
    }

    /// Computes the weight as `float32`: `scales · (q - zeros)`.
    ///
    /// # Errors
    /// [`Memory`](ZTensorError::Memory), [`TooLarge`](ZTensorError::TooLarge).
    pub fn dequantize(&self) -> Result<RawTensor, ZTensorError> {
        let at = || FilePart::object(&self.name);
        let too_large = || ZTensorError::TooLarge { at: at() };
        let (per_word, mask) = ((WORD / self.bits) as usize, (1_u32 << self.bits) - 1);
        let (scales, zeros) = (self.scales.to_f32().ok_or_else(too_large)?, self.zero_points(per_word, mask)?);
        let n_bytes =
            self.rows.checked_mul(self.columns).and_then(|count| count.checked_mul(4)).ok_or_else(too_large)?;
        let memory = || ZTensorError::Memory { at: at(), n_bytes: n_bytes as u64 };
        let mut weight = crate::AlignedBytes::try_zeroed(n_bytes).ok_or_else(memory)?;
        // A matrix without columns or without rows has no elements, and `chunks_exact` requires columns.
        if n_bytes > 0 {
            let elements: &mut [f32] = bytemuck::try_cast_slice_mut(weight.as_mut_slice()).map_err(|_| too_large())?;
            let words = self.packed_weight.bytes();
            for (row, out) in elements.chunks_exact_mut(self.columns).enumerate() {
                let group = match &self.groups {
                    Some(groups) => groups.get(row).copied().unwrap_or_default(),
                    None => row / self.group_size,
                };
                let shift = self.bits * (row % per_word) as u32;
                let words = words.chunks_exact(4 * self.columns).nth(row / per_word).unwrap_or_default();
                let [scales, zeros] =
                    [&scales, &zeros].map(|all| all.chunks_exact(self.columns).nth(group).unwrap_or_default());
                let columns = out.iter_mut().zip(words.chunks_exact(4)).zip(scales).zip(zeros);
                for (((out, word), scale), zero) in columns {
                    let word = word.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                    *out = scale * ((word >> shift & mask) as f32 - zero);
                }
            }
        }
        let tensor = RawTensor::new(ElementType::Float32, vec![self.rows, self.columns], weight.into());
        tensor.map_err(|source| ZTensorError::Tensor { at: at(), source })
    }

    /// Returns the zero point of each group and column.
    fn zero_points(&self, per_word: usize, mask: u32) -> Result<Vec<f32>, ZTensorError> {
        match self.zeros_are {
            Zeros::Numbers => {
                self.zeros.to_f32().ok_or_else(|| ZTensorError::TooLarge { at: FilePart::object(&self.name) })
            }
            Zeros::Packed(less) => {
                let words = self.zeros.bytes().chunks_exact(4);
                let words = words.map(|bytes| bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)));
                let shifts = (0..per_word as u32).map(|position| position * self.bits);
                Ok(words
                    .flat_map(|word| {
                        shifts.clone().map(move |shift| ((word >> shift).wrapping_add(less) & mask) as f32)
                    })
                    .collect())
            }
        }
    }
}

fn is_word(dtype: ElementType) -> bool {
    matches!(dtype, ElementType::Int32 | ElementType::Uint32)
}

fn wrong_attribute(
    attributes: &Attributes,
    object: &Object<'_>,
    attribute: &'static str,
    expected: &'static str,
) -> ZTensorError {
    let found = match attributes.get(attribute) {
        None => "not there".to_owned(),
        Some(Attribute::Integer(integer)) => integer.to_string(),
        Some(Attribute::Text(text)) => super::Name::new(text).to_string(),
        Some(_) => "of another type".to_owned(),
    };
    QuantizedGroupError::Attribute { at: FilePart::object(object.name()), attribute, expected, found }.into()
}

/// Returns the bits of a weight and the number of weights in a word.
fn packing(attributes: &Attributes, object: &Object<'_>) -> Result<(u32, usize), ZTensorError> {
    let bits = match attributes.get("bits").and_then(Attribute::as_integer) {
        Some(2) => 2,
        Some(4) => 4,
        Some(8) => 8,
        _ => return Err(wrong_attribute(attributes, object, "bits", "2, 4 or 8")),
    };
    let (expected, per_word) = match bits {
        2 => ("`16_per_i32` for 2 bits", 16),
        4 => ("`8_per_i32` for 4 bits", 8),
        _ => ("`4_per_i32` for 8 bits", 4),
    };
    if weights_per_word(attributes) == Some(per_word) {
        return Ok((bits, per_word));
    }
    Err(wrong_attribute(attributes, object, "packing", expected))
}

/// Returns the number of weights in a word according to `packing`; `None` if it is none of the three defined packings.
fn weights_per_word(attributes: &Attributes) -> Option<usize> {
    match attributes.get("packing")?.as_text()? {
        "16_per_i32" => Some(16),
        "8_per_i32" => Some(8),
        "4_per_i32" => Some(4),
        _ => None,
    }
}

/// Returns the dimensions of a matrix whose rows fill words.
fn shape(shape: &[usize], per_word: usize, at: impl Fn() -> Box<FilePart>) -> Result<[usize; 2], ZTensorError> {
    match shape {
        &[rows, columns] if rows > 0 && rows.is_multiple_of(per_word) => Ok([rows, columns]),
        found => Err(QuantizedGroupError::Shape {
            at: at(),
            expected: format!("two dimensions, the first of them a multiple of {per_word} and not 0"),
            found: found.to_vec(),
        }
        .into()),
    }
}

/// Returns the number of rows in a group; -1 in the file means all rows.
fn group_size(attributes: &Attributes, object: &Object<'_>, rows: usize) -> Result<usize, ZTensorError> {
    match attributes.get("group_size").and_then(Attribute::as_integer) {
        Some(-1) => Ok(rows),
        Some(size @ 1..) => usize::try_from(size)
            .map_err(|_| wrong_attribute(attributes, object, "group_size", "-1, or a number of rows")),
        _ => Err(wrong_attribute(attributes, object, "group_size", "-1, or a number of rows")),
    }
}

fn check_type(
    tensor: &RawTensor,
    fits: impl Fn(ElementType) -> bool,
    expected: &'static str,
    at: Box<FilePart>,
) -> Result<(), ZTensorError> {
    let found = tensor.dtype();
    if fits(found) { Ok(()) } else { Err(QuantizedGroupError::Type { at, expected, found }.into()) }
}

fn check_size(tensor: &RawTensor, rows: usize, columns: usize, at: Box<FilePart>) -> Result<(), ZTensorError> {
    let found = tensor.n_elements();
    if rows.checked_mul(columns) == Some(found) {
        return Ok(());
    }
    Err(QuantizedGroupError::Size { at, expected: format!("{rows} times {columns}"), found: found as u64 }.into())
}

/// Determines the storage of zero points from their number.
fn zeros_kind(
    zeros: &RawTensor,
    [n_groups, columns, per_word]: [usize; 3],
    attributes: &Attributes,
    at: Box<FilePart>,
) -> Result<Zeros, ZTensorError> {
    let found = zeros.n_elements();
    if n_groups.checked_mul(columns) == Some(found) {
        let is_number = |dtype: ElementType| dtype.is_float() || dtype.data_type().is_some_and(DataType::is_integer);
        check_type(zeros, is_number, "real numbers", at)?;
        return Ok(Zeros::Numbers);
    }
    if columns.is_multiple_of(per_word) && n_groups.checked_mul(columns / per_word) == Some(found) {
        check_type(zeros, is_word, "int32 or uint32, being packed", at)?;
        let is_v2 = attributes.get("checkpoint_format").and_then(Attribute::as_text) == Some("gptq_v2");
        return Ok(Zeros::Packed(u32::from(!is_v2)));
    }
    let expected = format!("{n_groups} times {columns}, or a {per_word}th of it if they are packed");
    Err(QuantizedGroupError::Size { at, expected, found: found as u64 }.into())
}

/// Reads the group of each row.
fn row_groups(tensor: &RawTensor, rows: usize, n_groups: usize, at: &FilePart) -> Result<Vec<usize>, ZTensorError> {
    let groups = super::sparse::indices(tensor, at, n_groups)?;
    check_size(tensor, rows, 1, Box::new(at.clone()))?;
    Ok(groups.into_iter().map(|group| group as usize).collect())
}

impl Reader {
    /// Reads a `quantized_group` object.
    ///
    /// # Errors
    /// [`NoSuchObject`](ZTensorError::NoSuchObject), [`WrongFormat`](ZTensorError::WrongFormat), the rules of section 5.4,
    /// and those of [`read_component`](Self::read_component).
    pub fn quantized_group(&self, name: &str) -> Result<QuantizedGroup, ZTensorError> {
        let object = self.object(name)?;
        object.expect(Format::QuantizedGroup)?;
        QuantizedGroup::new(self, &object)
    }
}
