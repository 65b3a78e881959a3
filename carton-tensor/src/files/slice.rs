//! Parts of tensors in NumPy's notation: `0:3,:,-1`. Pure.

use std::ops::Range;

use super::{ElementType, RawTensor, SharedBytes};
use crate::element_count;

/// A text that describes no part of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the slice `{slice}`: {reason}")]
pub struct SliceError {
    /// The text.
    pub slice: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A part of a tensor: some indices of each dimension.
///
/// ```
/// use carton_tensor::files::Slice;
/// let slice = Slice::parse("0:2, :, -1", &[4, 3, 5])?;
/// assert_eq!(slice.shape(), [2, 3]);
/// # Ok::<(), carton_tensor::files::SliceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    text: String,
    /// The dimensions of the tensor, and what is taken of each.
    taken: Vec<(usize, Taken)>,
    /// Whether it is for the elements of a tensor in C order, whatever the shape.
    is_flat: bool,
}

/// The part of one dimension that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    first: usize,
    count: usize,
    step: usize,
    /// Whether it is a single index, which removes the dimension.
    is_index: bool,
}

impl Slice {
    /// Parses the notation for a tensor of this shape. Steps are positive; dimensions that are left out are taken whole; `...` and new dimensions are not
    /// supported.
    ///
    /// # Errors
    /// Another form; an index that the tensor lacks; more parts than dimensions.
    pub fn parse(text: &str, shape: &[usize]) -> Result<Self, SliceError> {
        let refused = |reason: String| SliceError { slice: text.to_owned(), reason };
        let parts: Vec<&str> = if text.trim().is_empty() { Vec::new() } else { text.split(',').collect() };
        if parts.len() > shape.len() {
            return Err(refused(format!("it has {} parts, and the tensor {} dimensions", parts.len(), shape.len())));
        }
        let mut taken = Vec::with_capacity(shape.len());
        for (dimension, &length) in shape.iter().enumerate() {
            let of_dimension = match parts.get(dimension) {
                Some(part) => parse(part.trim(), length).map_err(refused)?,
                None => Taken { first: 0, count: length, step: 1, is_index: false },
            };
            taken.push((length, of_dimension));
        }
        Ok(Self { text: text.to_owned(), taken, is_flat: false })
    }

    /// Takes the first `count` elements of a tensor of this shape, in C order, as a vector.
    #[must_use]
    pub fn first(count: usize, shape: &[usize]) -> Self {
        let length = element_count(shape).unwrap_or_default();
        let taken = Taken { first: 0, count: count.min(length), step: 1, is_index: false };
        Self { text: format!(":{count}"), taken: vec![(length, taken)], is_flat: true }
    }

    /// The dimensions of the part.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.taken.iter().filter(|(_, taken)| !taken.is_index).map(|(_, taken)| taken.count).collect()
    }

    /// Checks that it was made for a tensor of this shape, or, by [`first`](Self::first), of as many elements.
    ///
    /// # Errors
    /// It was made for another one.
    pub fn check_shape(&self, shape: &[usize]) -> Result<(), SliceError> {
        let expected: Vec<usize> = self.taken.iter().map(|(length, _)| *length).collect();
        let fits = match expected.as_slice() {
            [count] if self.is_flat => element_count(shape) == Some(*count),
            lengths => lengths == shape,
        };
        let of = match expected.as_slice() {
            [count] if self.is_flat => format!("{count} elements"),
            lengths => format!("the shape {lengths:?}"),
        };
        let reason = || format!("it is for a tensor of {of}, and this one has the shape {shape:?}");
        if fits { Ok(()) } else { Err(SliceError { slice: self.text.clone(), reason: reason() }) }
    }

    /// Checks that each run of elements of this type is a whole number of bytes, as those of types of less than a byte need not be.
    ///
    /// # Errors
    /// A run is not.
    pub fn check(&self, dtype: ElementType) -> Result<(), SliceError> {
        let is_whole = |position: usize| (position % 8 * dtype.bits()).is_multiple_of(8);
        if dtype.bits().is_multiple_of(8) || self.runs().all(|run| is_whole(run.start) && is_whole(run.end)) {
            return Ok(());
        }
        let reason = format!("some of these numbers of {dtype} begin or end within a byte");
        Err(SliceError { slice: self.text.clone(), reason })
    }

    /// The runs of elements that follow one another in C order, from the first to the last: positions in the tensor.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let is_empty = self.taken.iter().any(|(length, taken)| *length == 0 || taken.count == 0);
        let is_whole = |(length, taken): &(usize, Taken)| taken.count == *length && taken.step == 1;
        // Dimensions behind the last one that is not whole are one block.
        let n_outer = self.taken.iter().rposition(|taken| !is_whole(taken)).map_or(0, |last| last + 1);
        let block: usize =
            if is_empty { 0 } else { self.taken.iter().skip(n_outer).map(|(length, _)| *length).product() };
        let mut stride = block;
        let mut outer: Vec<(usize, Taken)> = Vec::with_capacity(n_outer);
        for (length, taken) in self.taken.iter().take(n_outer).rev() {
            outer.push((stride, *taken));
            stride = stride.saturating_mul(*length);
        }
        outer.reverse();
        // The indices of the last of the others follow one another, if there is no step.
        let (run, first) = match outer.last() {
            Some((stride, taken)) if taken.step == 1 => (stride * taken.count, stride * taken.first),
            _ => (block, 0),
        };
        if outer.last().is_some_and(|(_, taken)| taken.step == 1) {
            outer.pop();
        }
        let n_runs = if is_empty { 0 } else { outer.iter().map(|(_, taken)| taken.count).product() };
        (0..n_runs).map(move |number: usize| {
            let (mut rest, mut start) = (number, first);
            for (stride, taken) in outer.iter().rev() {
                start += (taken.first + rest % taken.count * taken.step) * stride;
                rest /= taken.count;
            }
            start..start + run
        })
    }
}

impl RawTensor {
    /// Copies a part of the tensor.
    ///
    /// # Errors
    /// It was made for another shape ([`Slice::check_shape`]); elements of less than a byte do not end between bytes ([`Slice::check`]).
    pub fn slice(&self, slice: &Slice) -> Result<Self, SliceError> {
        slice.check_shape(self.shape())?;
        slice.check(self.dtype())?;
        let refused = |reason: String| SliceError { slice: slice.text.clone(), reason };
        let mut bytes = Vec::new();
        for run in slice.runs() {
            let place = byte_range(self.dtype(), &run);
            bytes
                .extend_from_slice(self.bytes().get(place).ok_or_else(|| refused("the tensor is smaller".to_owned()))?);
        }
        Self::new(self.dtype(), slice.shape(), SharedBytes::from(bytes)).map_err(|error| refused(error.to_string()))
    }
}

/// The bytes of elements that begin and end between bytes.
pub(crate) fn byte_range(dtype: ElementType, run: &Range<usize>) -> Range<usize> {
    let bytes = |position: usize| position / 8 * dtype.bits() + position % 8 * dtype.bits() / 8;
    bytes(run.start)..bytes(run.end)
}

fn parse(part: &str, length: usize) -> Result<Taken, String> {
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("`{text}` is no integer"));
    // Negative numbers count from the end, as in NumPy.
    let resolve = |number: i64| {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        if number < 0 { number.saturating_add(length) } else { number }
    };
    let mut fields = part.split(':');
    let (first, second, third) = (fields.next().unwrap_or_default(), fields.next(), fields.next());
    if fields.next().is_some() {
        return Err(format!("`{part}` has more than three numbers"));
    }
    let Some(end) = second else {
        let index = usize::try_from(resolve(number(first)?)).ok().filter(|index| *index < length);
        let index = index.ok_or_else(|| format!("there is no index {first} in a dimension of {length}"))?;
        return Ok(Taken { first: index, count: 1, step: 1, is_index: true });
    };
    let bound = |text: &str, default: usize| -> Result<usize, String> {
        if text.trim().is_empty() {
            return Ok(default);
        }
        Ok(usize::try_from(resolve(number(text)?).max(0)).unwrap_or(usize::MAX).min(length))
    };
    let (first, end) = (bound(first, 0)?, bound(end, length)?);
    let step = match third.map(str::trim) {
        None | Some("") => 1,
        Some(step) => usize::try_from(number(step)?).ok().filter(|step| *step > 0).ok_or("a step must be 1 or more")?,
    };
    Ok(Taken { first, count: end.saturating_sub(first).div_ceil(step), step, is_index: false })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Slices an array of shape [2, 3, 4] that counts from 0. The expected values are NumPy's.
    #[test]
    fn parts_as_numpy_has_them() {
        let tensor = RawTensor::new(ElementType::Uint8, vec![2, 3, 4], (0..24).collect::<Vec<u8>>().into()).unwrap();
        let check = |text: &str, shape: &[usize], expected: &[u8]| {
            let part = tensor.slice(&Slice::parse(text, tensor.shape()).unwrap()).unwrap();
            assert_eq!((part.shape(), &**part.bytes()), (shape, expected), "{text}");
        };
        check("", &[2, 3, 4], &(0..24).collect::<Vec<u8>>());
        check("1", &[3, 4], &(12..24).collect::<Vec<u8>>());
        check("1,2,3", &[], &[23]);
        check("-1,-1,-1", &[], &[23]);
        check(":,0", &[2, 4], &[0, 1, 2, 3, 12, 13, 14, 15]);
        check(":, 1:, ::2", &[2, 2, 2], &[4, 6, 8, 10, 16, 18, 20, 22]);
        check("0,:-1,-2:", &[2, 2], &[2, 3, 6, 7]);
        check(":,:,1:9:3", &[2, 3, 1], &[1, 5, 9, 13, 17, 21]);
        check("1:1", &[0, 3, 4], &[]);
        check("5:,9:1", &[0, 0, 4], &[]);
        let check = |text: &str, reason: &str| {
            let error = Slice::parse(text, tensor.shape()).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        };
        check("2", "no index 2 in a dimension of 2");
        check("-3", "no index -3");
        check("0,0,0,0", "4 parts, and the tensor 3 dimensions");
        check("a", "`a` is no integer");
        check("::0", "a step must be 1 or more");
        check("::-1", "a step must be 1 or more");
        check("1:2:3:4", "more than three");
        let first = |count| tensor.slice(&Slice::first(count, tensor.shape())).unwrap();
        assert_eq!(&**first(3).bytes(), [0, 1, 2]);
        assert_eq!(first(100).shape(), [24]);
    }

    #[test]
    fn a_part_is_of_a_tensor_of_its_shape() {
        let tensor = RawTensor::new(ElementType::Uint8, vec![2, 3], (0..6).collect::<Vec<u8>>().into()).unwrap();
        let check = |slice: Slice, expected: &str| assert_eq!(tensor.slice(&slice).unwrap_err().reason, expected);
        let of_shape = |shape: &[usize]| Slice::parse("1", shape).unwrap();
        check(of_shape(&[3, 2]), "it is for a tensor of the shape [3, 2], and this one has the shape [2, 3]");
        check(of_shape(&[6]), "it is for a tensor of the shape [6], and this one has the shape [2, 3]");
        check(of_shape(&[2, 2]), "it is for a tensor of the shape [2, 2], and this one has the shape [2, 3]");
        check(Slice::first(1, &[5]), "it is for a tensor of 5 elements, and this one has the shape [2, 3]");
        assert_eq!(tensor.slice(&Slice::first(2, &[3, 2])).unwrap().bytes()[..], [0, 1]);
    }

    /// Four numbers of 4 bits in each row: two bytes.
    #[test]
    fn numbers_of_less_than_a_byte_are_taken_by_whole_bytes() {
        let tensor =
            RawTensor::new(ElementType::Float4E2m1, vec![2, 4], vec![0x10_u8, 0x32, 0x54, 0x76].into()).unwrap();
        let check = |text: &str, expected: Result<&[u8], &str>| {
            let part = tensor.slice(&Slice::parse(text, tensor.shape()).unwrap());
            let found = part.as_ref().map(|part| &**part.bytes()).map_err(|error| error.reason.as_str());
            assert_eq!(found, expected, "{text}");
        };
        let within = Err("some of these numbers of float4_e2m1fn begin or end within a byte");
        check("1", Ok(&[0x54, 0x76]));
        check(":,2:", Ok(&[0x32, 0x76]));
        check(":,:2", Ok(&[0x10, 0x54]));
        check("0,1:3", within);
        check(":,0", within);
        check(":,::2", within);
    }
}
