//! Finds the tensors that become quantized groups: `int8` matrices with their scale beside them (spec/weights.md §2.3, spec/ztensor.md
//! §5.4).

use std::collections::BTreeMap;

use carton_tensor::element_count;
use carton_tensor::files::{ElementType, RawTensor, SharedBytes};
use carton_tensor::weights::SCALE_SUFFIX;
use carton_tensor::ztensor::QuantizedGroup;

use crate::error::TensorFilesError;
use crate::layout::TensorLayout;
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::text::{shown_name, shown_names};

/// The tensors that become groups, each with the factor by which the group multiplies its integers.
#[derive(Default)]
pub(crate) struct Groups<'a> {
    scales: BTreeMap<&'a str, f32>,
}

impl<'a> Groups<'a> {
    /// Finds the groups among the tensors to be written, and reads their scales. Adds a warning for tensors that have a scale but fit no
    /// group.
    pub(crate) fn find(
        source: &TensorSource,
        listed: &[&'a TensorInfo],
        warnings: &mut Vec<String>,
    ) -> Result<Self, TensorFilesError> {
        let by_name: BTreeMap<&str, &TensorInfo> =
            listed.iter().map(|listed| (listed.name.as_str(), *listed)).collect();
        let mut scales = BTreeMap::new();
        let mut left = Vec::new();
        for scale in listed {
            let integers = scale.name.strip_suffix(SCALE_SUFFIX).and_then(|name| by_name.get(name));
            let Some(integers) = integers.filter(|integers| is_dense(integers, |it| it == ElementType::Int8)) else {
                continue;
            };
            if !is_dense(scale, ElementType::is_float) {
                continue;
            }
            let shape = integers.shape.as_deref().unwrap_or_default();
            let is_one = scale.shape.as_deref().and_then(element_count) == Some(1);
            let factor = if is_one && QuantizedGroup::fits(shape) { factor(source, &scale.name)? } else { None };
            match factor {
                Some(factor) => drop(scales.insert(integers.name.as_str(), factor)),
                None => left.push(integers.name.as_str()),
            }
        }
        if !left.is_empty() {
            warnings.push(format!(
                "written as they are, because a quantized group needs a matrix of a multiple of 4 rows, and one scale whose reciprocal is a \
                 float32 other than 0: {}",
                shown_names(left)
            ));
        } else if scales.is_empty() {
            warnings.push("no tensor becomes a quantized group: none of int8 has its scale beside it".to_owned());
        }
        Ok(Self { scales })
    }

    /// Whether a tensor becomes a group.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.scales.contains_key(name)
    }

    /// Whether a tensor is the scale of one that becomes a group, and is written with it.
    pub(crate) fn is_scale(&self, name: &str) -> bool {
        name.strip_suffix(SCALE_SUFFIX).is_some_and(|of| self.contains(of))
    }

    /// Reads a tensor as a group, with the fewest bits that hold its integers.
    pub(crate) fn read(&self, source: &TensorSource, name: &str) -> Result<Option<QuantizedGroup>, TensorFilesError> {
        let Some(&factor) = self.scales.get(name) else { return Ok(None) };
        let unknown = || TensorFilesError::UnknownKind { name: shown_name(name) };
        let integers = source.read(name)?.into_numbers().ok_or_else(unknown)?;
        let (Some(bits), &[_, columns]) = (QuantizedGroup::fewest_bits(&integers), integers.shape()) else {
            return Err(unknown());
        };
        // At most as many as there are integers, which were just read.
        let scales = SharedBytes::from(vec![factor; columns]);
        let scales = RawTensor::new(ElementType::Float32, vec![1, columns], scales).map_err(|_| unknown())?;
        Ok(Some(QuantizedGroup::from_integers(&integers, bits, None, scales)?))
    }
}

/// Whether a tensor is dense, and its dtype is known and accepted by `fits`.
fn is_dense(listed: &TensorInfo, fits: impl Fn(ElementType) -> bool) -> bool {
    listed.format == TensorLayout::Dense
        && listed.element_type.is_some_and(|dtype| fits(dtype) && listed.dtype.as_deref() == Some(dtype.name()))
}

/// Returns the factor for the integers: 1 divided by their scale. `None` if that is not a normal `float32`.
fn factor(source: &TensorSource, scale: &str) -> Result<Option<f32>, TensorFilesError> {
    let Some(tensor) = source.read(scale)?.into_numbers() else { return Ok(None) };
    let scale = match tensor.dtype() {
        ElementType::Float64 => tensor.bytes().first_chunk().map(|bytes| f64::from_le_bytes(*bytes)),
        _ => tensor.to_f32().and_then(|numbers| numbers.first().map(|&scale| f64::from(scale))),
    };
    Ok(scale.map(|scale| (1.0 / scale) as f32).filter(|factor| factor.is_normal()))
}
