//! Makes quantized groups from integers and scales, and writes them (spec/ztensor.md §5.4).

use std::io::Write;

use super::{QuantizedGroup, QuantizedGroupError, WORD, Zeros, check_size, check_type, shape};
use crate::files::{ElementType, RawTensor, SharedBytes};
use crate::ztensor::place::FilePart;
use crate::ztensor::{Attributes, StoreAs, Writer, ZTensorError};

/// The bits that a weight may have.
const BITS: [u32; 3] = [2, 4, 8];

impl QuantizedGroup {
    /// Whether integers of this shape can form a group. The shape must be a matrix whose rows fill words of 8-bit weights.
    #[must_use]
    pub fn fits(shape: &[usize]) -> bool {
        matches!(shape, &[rows, _] if rows > 0 && rows.is_multiple_of((WORD / 8) as usize))
    }

    /// Returns the fewest bits that hold every integer of an `int8` matrix, among those for which the rows fill words. Returns `None`
    /// for a tensor that no group can hold: one with another dtype, or a shape that does not [fit](Self::fits).
    #[must_use]
    pub fn fewest_bits(integers: &RawTensor) -> Option<u32> {
        if integers.dtype() != ElementType::Int8 || !Self::fits(integers.shape()) {
            return None;
        }
        let rows = integers.shape().first().copied().unwrap_or_default();
        let fits = |bits: u32| signed(integers).all(|integer| biased(integer, bits).is_some());
        BITS.into_iter().find(|&bits| rows.is_multiple_of((WORD / bits) as usize) && fits(bits))
    }

    /// Makes the group that represents `scales[g, n] · integers[k, n]`, where row `k` is in group `g = k / group_size`. Without a
    /// `group_size`, all rows are one group.
    ///
    /// `integers` are `int8` of the shape *[K, N]*. Each integer must fit into `bits` (2, 4 or 8) including its sign. `scales` are
    /// floats, one for each group and column. The zero points of the group are `float32`, all 2^(`bits` - 1).
    ///
    /// ```
    /// use carton_tensor::files::{ElementType, RawTensor};
    /// use carton_tensor::ztensor::{QuantizedGroup, Reader, StoreAs, Writer};
    /// let integers = RawTensor::new(ElementType::Int8, vec![4, 1], vec![-128_i8, 127, 0, 1].into())?;
    /// let scales = RawTensor::new(ElementType::Float32, vec![1, 1], vec![0.5_f32].into())?;
    /// let group = QuantizedGroup::from_integers(&integers, 8, None, scales)?;
    /// let mut writer = Writer::new(Vec::new())?;
    /// writer.quantized_group("w", &group, StoreAs::RAW)?;
    /// let group = Reader::new(writer.finish()?.into())?.quantized_group("w")?;
    /// assert_eq!(group.dequantize()?.to_f32(), Some(vec![-64.0, 63.5, 0.0, 0.5]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The rules of section 5.4; [`Integer`](QuantizedGroupError::Integer), [`Memory`](ZTensorError::Memory).
    pub fn from_integers(
        integers: &RawTensor,
        bits: u32,
        group_size: Option<usize>,
        scales: RawTensor,
    ) -> Result<Self, ZTensorError> {
        let at = || FilePart::object("");
        let attribute = |attribute, expected, found| {
            Err(QuantizedGroupError::Attribute { at: at(), attribute, expected, found }.into())
        };
        if !BITS.contains(&bits) {
            return attribute("bits", "2, 4 or 8", bits.to_string());
        }
        if group_size == Some(0) {
            return attribute("group_size", "-1, or a number of rows", "0".to_owned());
        }
        check_type(integers, |dtype| dtype == ElementType::Int8, "int8", at())?;
        let per_word = (WORD / bits) as usize;
        let [rows, columns] = shape(integers.shape(), per_word, at)?;
        let group_size = group_size.unwrap_or(rows);
        let n_groups = rows.div_ceil(group_size);
        check_type(&scales, ElementType::is_float, "floats", FilePart::component("", "scales"))?;
        check_size(&scales, n_groups, columns, FilePart::component("", "scales"))?;
        // There are as many zero points as scales, whose number was just checked.
        let zero = (1_u32 << (bits - 1)) as f32;
        let zeros = tensor(ElementType::Float32, vec![zero; scales.n_elements()])?;
        let packed_weight = tensor(ElementType::Int32, packed(integers, bits, columns)?)?;
        Ok(Self {
            name: String::new(),
            rows,
            columns,
            bits,
            group_size,
            n_groups,
            packed_weight,
            scales,
            zeros,
            zeros_are: Zeros::Numbers,
            groups: None,
        })
    }

    /// Returns the attributes that describe the packing.
    fn attributes(&self) -> Result<Attributes, ZTensorError> {
        let too_large = |_| ZTensorError::TooLarge { at: FilePart::object(&self.name) };
        let group_size =
            if self.group_size >= self.rows { -1 } else { i64::try_from(self.group_size).map_err(too_large)? };
        let packing = format!("{}_per_i32", WORD / self.bits);
        let mut attributes = Attributes::from([
            ("bits".to_owned(), i64::from(self.bits).into()),
            ("group_size".to_owned(), group_size.into()),
            ("packing".to_owned(), packing.as_str().into()),
        ]);
        if matches!(self.zeros_are, Zeros::Packed(0)) {
            attributes.insert("checkpoint_format".to_owned(), "gptq_v2".into());
        }
        Ok(attributes)
    }
}

/// Makes a tensor with one dimension.
fn tensor(dtype: ElementType, elements: impl Into<SharedBytes>) -> Result<RawTensor, ZTensorError> {
    let bytes = elements.into();
    let n_elements = bytes.len() / (dtype.bits() / 8);
    let tensor = RawTensor::new(dtype, vec![n_elements], bytes);
    tensor.map_err(|source| ZTensorError::Tensor { at: FilePart::object(""), source })
}

fn signed(integers: &RawTensor) -> impl Iterator<Item = i8> {
    integers.bytes().iter().map(|&byte| byte.cast_signed())
}

/// Adds the bias that makes the least integer of `bits` bits 0. Returns `None` if the integer does not fit into the bits.
fn biased(integer: i8, bits: u32) -> Option<u32> {
    let bias = 1_i32 << (bits - 1);
    u32::try_from(i32::from(integer) + bias).ok().filter(|field| *field < 1 << bits)
}

/// Packs a matrix into words. Each word holds consecutive rows, with the first in the lowest bits.
fn packed(integers: &RawTensor, bits: u32, columns: usize) -> Result<Vec<u32>, ZTensorError> {
    let per_word = (WORD / bits) as usize;
    let n_words = integers.n_elements() / per_word;
    let memory = |()| ZTensorError::Memory { at: FilePart::object(""), n_bytes: n_words as u64 * 4 };
    let mut words: Vec<u32> = bytemuck::allocation::try_zeroed_vec(n_words).map_err(memory)?;
    if columns == 0 {
        return Ok(words);
    }
    for (position, integer) in signed(integers).enumerate() {
        let (row, column) = (position / columns, position % columns);
        let too_wide = || QuantizedGroupError::Integer { at: FilePart::object(""), position, found: integer, bits };
        let field = biased(integer, bits).ok_or_else(too_wide)?;
        if let Some(word) = words.get_mut(row / per_word * columns + column) {
            *word |= field << (bits * (row % per_word) as u32);
        }
    }
    Ok(words)
}

impl<W: Write> Writer<W> {
    /// Writes a `quantized_group` object.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn quantized_group(
        &mut self,
        name: &str,
        group: &QuantizedGroup,
        store_as: StoreAs,
    ) -> Result<(), ZTensorError> {
        let mut parts = vec![
            ("packed_weight", &group.packed_weight, store_as),
            ("scales", &group.scales, store_as),
            ("zeros", &group.zeros, store_as),
        ];
        let group_of_rows = match &group.groups {
            None => None,
            Some(groups) => {
                let indices: Vec<u64> = groups.iter().map(|&group| group as u64).collect();
                Some(tensor(ElementType::Uint64, indices)?)
            }
        };
        parts.extend(group_of_rows.iter().map(|tensor| ("g_idx", tensor, store_as)));
        self.object(name, &group.shape(), "quantized_group", &group.attributes()?, &parts)
    }
}
