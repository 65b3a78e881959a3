//! The outputs of a call, which are read by name and type.

use std::borrow::Cow;
use std::collections::btree_map;

use carton_format::error_kind::ErrorKind;
use carton_runner_interface::Tensors;
use carton_tensor::{DataType, Element, Tensor, TensorError};

use crate::error::{Error, Failure};

/// The outputs of a call: tensors by name.
///
/// ```
/// use carton_core::{NumericTensor, Outputs, Tensor};
///
/// let tensor = Tensor::from_vec(vec![0.25_f32, 0.75], vec![1, 2])?;
/// let outputs: Outputs = [("probabilities".to_owned(), tensor)].into_iter().collect();
/// let probabilities = outputs.get::<f32>("probabilities")?;
/// assert_eq!((probabilities.shape(), probabilities.at(&[0, 1])), (&[1, 2][..], Some(0.75)));
/// assert_eq!(probabilities.iter().sum::<f32>(), 1.0);
/// let error = outputs.get::<f64>("probabilities").map(drop).unwrap_err();
/// assert_eq!(error.to_string(), "the output `probabilities` is float32, and float64 was asked for");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is read as a map, too: `for (name, tensor) in &outputs`, [`into_tensors`](Self::into_tensors).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs(Tensors);

impl Outputs {
    /// The numbers of an output.
    ///
    /// # Errors
    /// The model returned no such output, or one of another type.
    pub fn get<T: Element>(&self, name: &str) -> Result<Values<'_, T>, Error> {
        let tensor = self.tensor(name)?;
        let of_type = |found: &str| {
            let (name, expected, found) = (name.to_owned(), T::DTYPE.name(), found.to_owned());
            OutputError::Type { name, expected, found }
        };
        let Some(numbers) = tensor.as_numeric() else {
            return Err(of_type(tensor.dtype().map_or("nested", DataType::name)).into());
        };
        let elements = match numbers.as_slice() {
            Ok(elements) => Cow::Borrowed(elements),
            Err(TensorError::Misaligned { .. }) => {
                Cow::Owned(numbers.to_vec().map_err(|_| of_type(numbers.dtype().name()))?)
            }
            Err(_) => return Err(of_type(numbers.dtype().name()).into()),
        };
        Ok(Values { shape: numbers.shape(), elements })
    }

    /// The strings of an output, in row-major order, and their shape.
    ///
    /// # Errors
    /// The model returned no such output, or one of another type.
    pub fn strings(&self, name: &str) -> Result<(&[usize], &[String]), Error> {
        let tensor = self.tensor(name)?;
        match tensor.as_string() {
            Some(strings) => Ok((strings.shape(), strings.elements())),
            None => {
                let found = tensor.dtype().map_or("nested", DataType::name).to_owned();
                Err(OutputError::Type { name: name.to_owned(), expected: "string", found }.into())
            }
        }
    }

    /// An output of any type.
    ///
    /// # Errors
    /// The model returned no such output.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, Error> {
        let missing = || OutputError::Missing { name: name.to_owned(), returned: self.0.keys().cloned().collect() };
        self.0.get(name).ok_or_else(|| missing().into())
    }

    /// The names of the outputs, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The outputs with their names, sorted by name.
    pub fn iter(&self) -> btree_map::Iter<'_, String, Tensor> {
        self.0.iter()
    }

    /// The number of outputs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the model returned no output.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tensors by name.
    #[must_use]
    pub fn as_tensors(&self) -> &Tensors {
        &self.0
    }

    /// The tensors by name.
    #[must_use]
    pub fn into_tensors(self) -> Tensors {
        self.0
    }
}

impl From<Tensors> for Outputs {
    fn from(tensors: Tensors) -> Self {
        Self(tensors)
    }
}

impl From<Outputs> for Tensors {
    fn from(outputs: Outputs) -> Self {
        outputs.0
    }
}

impl FromIterator<(String, Tensor)> for Outputs {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(tensors: I) -> Self {
        Self(tensors.into_iter().collect())
    }
}

impl IntoIterator for Outputs {
    type Item = (String, Tensor);
    type IntoIter = btree_map::IntoIter<String, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Outputs {
    type Item = (&'a String, &'a Tensor);
    type IntoIter = btree_map::Iter<'a, String, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// The numbers of an output, in row-major order, and their shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Values<'a, T: Element> {
    shape: &'a [usize],
    elements: Cow<'a, [T]>,
}

impl<T: Element> Values<'_, T> {
    /// The sizes of the dimensions. Empty for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.shape
    }

    /// All numbers, in row-major order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.elements
    }

    /// The numbers one after another, in row-major order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> {
        self.elements.iter().copied()
    }

    /// The number at these indices, one for each dimension; `None` where the tensor has none.
    #[must_use]
    pub fn at(&self, indices: &[usize]) -> Option<T> {
        if indices.len() != self.shape.len() || indices.iter().zip(self.shape).any(|(index, size)| index >= size) {
            return None;
        }
        let position = indices.iter().zip(self.shape).fold(0, |position, (index, size)| position * size + index);
        self.elements.get(position).copied()
    }
}

/// Why an output cannot be read.
#[derive(Debug, thiserror::Error)]
enum OutputError {
    /// The model returned no such output.
    #[error("the model returned no output `{}`, {}", name.escape_debug(), listed(returned))]
    Missing { name: String, returned: Vec<String> },
    /// It has another type.
    #[error("the output `{}` is {found}, and {expected} was asked for", name.escape_debug())]
    Type { name: String, expected: &'static str, found: String },
}

impl Failure for OutputError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", name.escape_debug())).collect();
    match names.len() {
        0 => "but none".to_owned(),
        count if count > SHOWN => format!("but {} and {} more", shown.join(", "), count - SHOWN),
        _ => format!("but {}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn outputs_are_read_by_name_and_type() {
        let numbers = Tensor::from_vec(vec![1_i64, 2, 3, 4, 5, 6], vec![2, 3]).unwrap();
        let words = Tensor::from_strings(vec!["a", "b"], vec![2]).unwrap();
        let outputs = Outputs::from(Tensors::from([("n".to_owned(), numbers), ("w".to_owned(), words)]));
        let values = outputs.get::<i64>("n").unwrap();
        assert_eq!((values.shape(), values.as_slice()), (&[2, 3][..], &[1, 2, 3, 4, 5, 6][..]));
        let at = |indices: &[usize]| values.at(indices);
        assert_eq!((at(&[1, 0]), at(&[1, 3]), at(&[2, 0]), at(&[1]), at(&[])), (Some(4), None, None, None, None));
        assert_eq!(outputs.strings("w").unwrap().1, ["a", "b"]);
        let check = |error: Error, expected: &str| {
            assert_eq!((error.to_string().as_str(), error.kind()), (expected, ErrorKind::InvalidInput));
        };
        check(outputs.get::<f32>("n").unwrap_err(), "the output `n` is int64, and float32 was asked for");
        check(outputs.get::<f32>("w").unwrap_err(), "the output `w` is string, and float32 was asked for");
        check(outputs.strings("n").unwrap_err(), "the output `n` is int64, and string was asked for");
        check(outputs.get::<f32>("x").unwrap_err(), "the model returned no output `x`, but `n`, `w`");
        check(Outputs::default().tensor("x").unwrap_err(), "the model returned no output `x`, but none");
    }

    #[test]
    fn a_scalar_has_one_number() {
        let outputs: Outputs = [("s".to_owned(), Tensor::scalar(2.5_f64))].into_iter().collect();
        assert_eq!(outputs.get::<f64>("s").unwrap().at(&[]), Some(2.5));
    }
}
