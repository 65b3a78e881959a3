//! Slices tensors in NumPy's notation: `0:3,:,-1`. Pure.

use carton_tensor::files::{RawTensor, SharedBytes};

use super::SliceError;

/// The part of one dimension that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    first: usize,
    count: usize,
    step: usize,
    /// Whether it is a single index, which removes the dimension.
    is_index: bool,
}

/// Returns the part of `tensor` that `text` describes.
pub(super) fn slice(tensor: &RawTensor, text: &str) -> Result<RawTensor, SliceError> {
    let refused = |reason: String| SliceError { slice: text.to_owned(), reason };
    let shape = tensor.shape();
    let size = match tensor.dtype().bits() {
        bits if bits.is_multiple_of(8) => bits / 8,
        _ => return Err(refused(format!("numbers of {} do not end between bytes", tensor.dtype()))),
    };
    let parts: Vec<&str> = if text.trim().is_empty() { Vec::new() } else { text.split(',').collect() };
    if parts.len() > shape.len() {
        return Err(refused(format!("it has {} parts, and the tensor {} dimensions", parts.len(), shape.len())));
    }
    let mut taken = Vec::with_capacity(shape.len());
    for (dimension, &length) in shape.iter().enumerate() {
        taken.push(match parts.get(dimension) {
            Some(part) => parse(part.trim(), length).map_err(refused)?,
            None => Taken { first: 0, count: length, step: 1, is_index: false },
        });
    }
    let mut bytes = Vec::new();
    // If one dimension is 0, the others may have any size.
    let is_empty = tensor.n_elements() == 0 || taken.iter().any(|taken| taken.count == 0);
    if !is_empty {
        gather(tensor.bytes(), size, shape, &taken, 0, &mut bytes);
    }
    let shape = taken.iter().filter(|taken| !taken.is_index).map(|taken| taken.count).collect();
    RawTensor::new(tensor.dtype(), shape, SharedBytes::from(bytes)).map_err(|error| refused(error.to_string()))
}

/// Returns the first `count` elements in C order, as a vector.
pub(super) fn first(tensor: &RawTensor, count: usize) -> Option<RawTensor> {
    let count = count.min(tensor.n_elements());
    let n_bytes = tensor.dtype().n_bytes(count)?;
    RawTensor::new(tensor.dtype(), vec![count], tensor.bytes().slice(0..n_bytes)?).ok()
}

fn gather(bytes: &[u8], size: usize, shape: &[usize], taken: &[Taken], start: usize, output: &mut Vec<u8>) {
    let (Some((&length, inner_shape)), Some((taken, inner))) = (shape.split_first(), taken.split_first()) else {
        let element = start.checked_mul(size).and_then(|start| bytes.get(start..start.checked_add(size)?));
        output.extend_from_slice(element.unwrap_or_default());
        return;
    };
    // Consecutive indices whose inner dimensions are taken whole form one piece.
    let is_whole = |taken: &Taken, length: usize| taken.count == length && taken.step == 1 && taken.first == 0;
    let stride: usize = inner_shape.iter().product();
    if inner.iter().zip(inner_shape).all(|(taken, &length)| is_whole(taken, length)) && taken.step == 1 {
        let from = (start * length + taken.first) * stride * size;
        output.extend_from_slice(bytes.get(from..from + taken.count * stride * size).unwrap_or_default());
        return;
    }
    for index in 0..taken.count {
        let position = start * length + taken.first + index * taken.step;
        gather(bytes, size, inner_shape, inner, position, output);
    }
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

    use carton_tensor::files::ElementType;

    use super::*;

    /// Slices an array of shape [2, 3, 4] that counts from 0. The expected values are NumPy's.
    #[test]
    fn parts_as_numpy_has_them() {
        let tensor = RawTensor::new(ElementType::Uint8, vec![2, 3, 4], (0..24).collect::<Vec<u8>>().into()).unwrap();
        let check = |text: &str, shape: &[usize], expected: &[u8]| {
            let part = slice(&tensor, text).unwrap();
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
            let error = slice(&tensor, text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        };
        check("2", "no index 2 in a dimension of 2");
        check("-3", "no index -3");
        check("0,0,0,0", "4 parts, and the tensor 3 dimensions");
        check("a", "`a` is no integer");
        check("::0", "a step must be 1 or more");
        check("::-1", "a step must be 1 or more");
        check("1:2:3:4", "more than three");
        assert_eq!(&**first(&tensor, 3).unwrap().bytes(), [0, 1, 2]);
        assert_eq!(first(&tensor, 100).unwrap().shape(), [24]);
    }
}
