//! The numbers that int8 tensors were multiplied with, and which tensor of a file holds them (spec/weights.md §2.2, §2.3).

use std::ops::Range;

use super::WeightsError;
use crate::element_count;
use crate::files::{ElementType, RawTensor};

/// What the name of a tensor's scales ends in, in files of quantized tensors (spec/weights.md §2.3).
pub const SCALE_SUFFIX: &str = ".scale";

/// How many scales a tensor gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// One.
    #[default]
    Tensor,
    /// One for each channel: for each index of axis 0 of a tensor that has two dimensions or more, and elements. Others get one.
    Channel,
}

/// What the numbers of a tensor were multiplied with.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// All of them with this.
    Tensor(f64),
    /// Those of each index of axis 0 with one of these.
    Channels(Vec<f64>),
}

impl Scales {
    /// All of them; one if the tensor has one.
    #[must_use]
    pub fn as_slice(&self) -> &[f64] {
        match self {
            Self::Tensor(scale) => std::slice::from_ref(scale),
            Self::Channels(scales) => scales,
        }
    }

    /// The scale, if there is one for the whole tensor.
    #[must_use]
    pub fn of_tensor(&self) -> Option<f64> {
        match self {
            Self::Tensor(scale) => Some(*scale),
            Self::Channels(_) => None,
        }
    }

    /// As files hold them: `float64`, without dimensions for one scale, else with one dimension.
    ///
    /// # Errors
    /// [`WeightsError::Memory`].
    pub fn to_tensor(&self) -> Result<RawTensor, WeightsError> {
        let shape = Self::shape(matches!(self, Self::Channels(_)).then_some(self.as_slice().len()));
        let bytes: Vec<u8> = self.as_slice().iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let n_bytes = bytes.len() as u64;
        RawTensor::new(ElementType::Float64, shape, bytes.into()).map_err(|_| WeightsError::Memory { n_bytes })
    }

    /// The shape of the tensor that holds the scales of so many channels.
    fn shape(n_channels: Option<usize>) -> Vec<usize> {
        n_channels.into_iter().collect()
    }
}

impl Granularity {
    /// The shape of the tensor that [`Scales::to_tensor`] makes for a tensor of this shape.
    #[must_use]
    pub fn scale_shape(self, shape: &[usize]) -> Vec<usize> {
        let channels = Channels::of(shape, self);
        Scales::shape(channels.is_some().then(|| shape.first().copied().unwrap_or_default()))
    }
}

/// Why a tensor that has the name of scales holds none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoScales {
    /// It has no floats.
    Dtype(ElementType),
    /// It is neither one number nor a row of one for each index of axis 0.
    Shape,
}

/// Whether a tensor of this dtype and shape can hold the scales of an int8 tensor of shape `of`, and for how many of them: one number, in
/// any shape, or a row of one for each index of axis 0.
pub(super) fn scales_of(of: &[usize], dtype: ElementType, shape: &[usize]) -> Result<Granularity, NoScales> {
    if !dtype.is_float() {
        return Err(NoScales::Dtype(dtype));
    }
    if element_count(shape) == Some(1) {
        return Ok(Granularity::Tensor);
    }
    match (Channels::of(of, Granularity::Channel), shape) {
        (Some(channels), &[length]) if length == channels.count => Ok(Granularity::Channel),
        _ => Err(NoScales::Shape),
    }
}

/// Whether a tensor of this name, dtype and shape holds the scales of the int8 tensor whose name it has before `.scale`
/// (spec/weights.md §2.3). `find` gives dtype and shape of a tensor.
pub fn is_scale_tensor<'a>(
    name: &str,
    dtype: Option<ElementType>,
    shape: &[usize],
    find: impl FnOnce(&str) -> Option<(Option<ElementType>, &'a [usize])>,
) -> bool {
    let of = name.strip_suffix(SCALE_SUFFIX).and_then(find);
    match (of, dtype) {
        (Some((Some(ElementType::Int8), of)), Some(dtype)) => scales_of(of, dtype, shape).is_ok(),
        _ => false,
    }
}

/// The channels of a tensor, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channels {
    /// How many there are.
    pub(super) count: usize,
    /// The elements of each, at least one.
    pub(super) length: usize,
}

impl Channels {
    /// Those that have scales of their own; `None` if there is one scale for the tensor.
    pub(super) fn of(shape: &[usize], granularity: Granularity) -> Option<Self> {
        let (&count, rest) = shape.split_first()?;
        let length = element_count(rest)?;
        // Without elements there is nothing to scale, and `count` may be any number.
        let has_own = granularity == Granularity::Channel && !rest.is_empty() && count > 0 && length > 0;
        has_own.then_some(Self { count, length })
    }

    /// The parts of channels that `n_elements` from `start` on consist of: the channel, and where its elements are among these.
    pub(super) fn parts(self, start: usize, n_elements: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        let end = start.saturating_add(n_elements);
        (start / self.length..end.div_ceil(self.length)).map(move |channel| {
            let first = channel.saturating_mul(self.length).max(start);
            let last = (channel + 1).saturating_mul(self.length).min(end);
            (channel, first - start..last - start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_fit_one_number_or_one_for_each_index_of_axis_0() {
        use ElementType::{Float16, Float64, Int32};
        let check = |of: &[usize], dtype, shape: &[usize], expected| {
            assert_eq!(scales_of(of, dtype, shape), expected, "{of:?} {shape:?}");
        };
        check(&[4, 2], Float64, &[], Ok(Granularity::Tensor));
        check(&[4, 2], Float16, &[1, 1], Ok(Granularity::Tensor));
        check(&[4, 2], Float64, &[4], Ok(Granularity::Channel));
        check(&[4, 2, 3], Float64, &[4], Ok(Granularity::Channel));
        check(&[4, 2], Float64, &[2], Err(NoScales::Shape));
        check(&[4, 2], Float64, &[4, 1], Err(NoScales::Shape));
        check(&[4], Float64, &[4], Err(NoScales::Shape));
        check(&[4, 0], Float64, &[4], Err(NoScales::Shape));
        check(&[4, 2], Int32, &[4], Err(NoScales::Dtype(Int32)));
        assert_eq!(Granularity::Channel.scale_shape(&[4, 2]), [4]);
        assert_eq!(Granularity::Channel.scale_shape(&[4]), [0; 0]);
        assert_eq!(Granularity::Channel.scale_shape(&[usize::MAX, 0]), [0; 0]);
        assert_eq!(Granularity::Tensor.scale_shape(&[4, 2]), [0; 0]);
    }

    #[test]
    fn pieces_are_cut_where_channels_end() {
        let channels = Channels { count: 4, length: 3 };
        let parts = |start, n_elements| channels.parts(start, n_elements).collect::<Vec<_>>();
        assert_eq!(parts(0, 6), [(0, 0..3), (1, 3..6)]);
        assert_eq!(parts(2, 6), [(0, 0..1), (1, 1..4), (2, 4..6)]);
        assert_eq!(parts(10, 1), [(3, 0..1)]);
        assert_eq!(parts(6, 0), []);
    }
}
