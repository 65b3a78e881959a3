//! The scales of int8 tensors, and which shapes they have (spec/weights.md §2.2, §2.3).

use std::ops::Range;

use super::WeightsError;
use crate::element_count;
use crate::files::{ElementType, RawTensor};

/// The suffix that the name of the scales adds to the name of their tensor (spec/weights.md §2.3).
pub const SCALE_SUFFIX: &str = ".scale";

/// How many scales a tensor gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// One scale for the whole tensor.
    #[default]
    Tensor,
    /// One scale for each channel, which is an index of axis 0. A tensor with fewer than two dimensions or without elements gets one
    /// scale.
    Channel,
}

/// The factors by which the numbers of a tensor were multiplied.
#[derive(Clone, Debug, PartialEq)]
pub enum Scales {
    /// One factor for all numbers.
    Tensor(f64),
    /// One factor for each index of axis 0.
    Channels(Vec<f64>),
}

impl Scales {
    /// Returns all scales, which is a single one for [`Scales::Tensor`].
    #[must_use]
    pub fn as_slice(&self) -> &[f64] {
        match self {
            Self::Tensor(scale) => std::slice::from_ref(scale),
            Self::Channels(scales) => scales,
        }
    }

    /// Returns the scale of the whole tensor, if there is only one.
    #[must_use]
    pub fn of_tensor(&self) -> Option<f64> {
        match self {
            Self::Tensor(scale) => Some(*scale),
            Self::Channels(_) => None,
        }
    }

    /// Makes the tensor that files hold, of type `float64`. It has no dimensions for a single scale, otherwise one.
    ///
    /// # Errors
    /// [`WeightsError::Memory`].
    pub fn to_tensor(&self) -> Result<RawTensor, WeightsError> {
        let shape = Self::shape(matches!(self, Self::Channels(_)).then_some(self.as_slice().len()));
        let bytes: Vec<u8> = self.as_slice().iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let n_bytes = bytes.len() as u64;
        RawTensor::new(ElementType::Float64, shape, bytes.into()).map_err(|_| WeightsError::Memory { n_bytes })
    }

    /// Returns the shape of the tensor that holds the scales of `n_channels` channels, or a single scale if `None`.
    fn shape(n_channels: Option<usize>) -> Vec<usize> {
        n_channels.into_iter().collect()
    }
}

impl Granularity {
    /// Returns the shape of the tensor that [`Scales::to_tensor`] makes for a tensor of this shape.
    #[must_use]
    pub fn scale_shape(self, shape: &[usize]) -> Vec<usize> {
        let channels = Channels::of(shape, self);
        Scales::shape(channels.is_some().then(|| shape.first().copied().unwrap_or_default()))
    }
}

/// The reason that a tensor with the name of scales does not hold scales.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoScales {
    /// The element type is not a float.
    Dtype(ElementType),
    /// The shape is neither that of a single number nor that of a vector with one number for each index of axis 0.
    Shape,
}

/// Decides whether a tensor of this dtype and shape can hold the scales of an int8 tensor of shape `of`, and for what granularity. It
/// must have one element, in any shape, or be a vector of one number for each index of axis 0.
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

/// The channels of a tensor, which are contiguous and in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channels {
    /// The number of channels.
    pub(super) count: usize,
    /// The elements of each channel, at least one.
    pub(super) length: usize,
}

impl Channels {
    /// Returns the channels that have their own scales; `None` if there is one scale for the tensor.
    pub(super) fn of(shape: &[usize], granularity: Granularity) -> Option<Self> {
        let (&count, rest) = shape.split_first()?;
        let length = element_count(rest)?;
        // A tensor without elements needs no scales, and `count` could be any number.
        let has_own = granularity == Granularity::Channel && !rest.is_empty() && count > 0 && length > 0;
        has_own.then_some(Self { count, length })
    }

    /// Returns the parts of channels in `n_elements` elements from `start` on: the channel, and the positions of its elements relative
    /// to `start`.
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
