//! Turns named tensors into the files of `tensor_data`.

use std::collections::BTreeMap;

use carton_tensor::{DataType, NumericTensor, StringTensor, Tensor};

use super::index::n_bytes;
use super::{FOLDER, INDEX, MAX_INDEX_LENGTH, MAX_STRINGS_LENGTH, TensorDataError};
use crate::archive::Content;

/// The files that hold `tensors`, with their paths in the carton.
///
/// There is always an `index.toml`, even for no tensors at all, and every entry has `inner`: the first implementation of the
/// format cannot open a carton without them.
///
/// # Errors
/// [`TensorDataError::Invalid`] for a tensor without a name, [`TensorDataError::TooLarge`] for more strings than could be
/// read back.
pub fn entries(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<(String, Content)>, TensorDataError> {
    let mut files = Files::default();
    for (name, tensor) in tensors {
        if name.is_empty() {
            return Err(TensorDataError::invalid("name", "a name", "an empty string"));
        }
        match tensor {
            Tensor::Nested(nested) => {
                let mut names = Vec::new();
                for (position, element) in nested.elements().iter().enumerate() {
                    let inner = files.unused_name(&format!("{name}[{position}]"), tensors);
                    files.plain(&inner, element)?;
                    names.push(inner);
                }
                files.index_entry(name, "nested", None, &names);
            }
            plain => files.plain(name, plain)?,
        }
    }
    let index = if files.index.is_empty() { "tensor = []\n".to_owned() } else { files.index };
    check_length("`tensor_data/index.toml`", &index, MAX_INDEX_LENGTH)?;
    files.entries.push((format!("{FOLDER}{INDEX}"), Content::Bytes(index.into_bytes())));
    Ok(files.entries)
}

#[derive(Default)]
struct Files {
    entries: Vec<(String, Content)>,
    index: String,
    /// Names given to the tensors inside nested ones.
    generated: std::collections::HashSet<String>,
}

impl Files {
    /// `wanted`, or something like it that no other tensor is called.
    fn unused_name(&mut self, wanted: &str, tensors: &BTreeMap<String, Tensor>) -> String {
        let mut name = wanted.to_owned();
        while tensors.contains_key(&name) || !self.generated.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Adds a tensor that is not nested.
    fn plain(&mut self, name: &str, tensor: &Tensor) -> Result<(), TensorDataError> {
        let (dtype, extension, shape, bytes) = match tensor {
            Tensor::Numeric(tensor) => (tensor.dtype(), "bin", tensor.shape(), numbers(name, tensor)?),
            Tensor::String(tensor) => (DataType::String, "toml", tensor.shape(), strings(name, tensor)?),
            _ => return Err(TensorDataError::invalid(name, "a tensor of numbers or strings", "another kind")),
        };
        // Nested tensors have no file, so files are counted rather than tensors.
        let file = format!("tensor_{}.{extension}", self.entries.len());
        self.entries.push((format!("{FOLDER}{file}"), Content::Bytes(bytes)));
        self.index_entry(name, dtype.name(), Some((shape, &file)), &[]);
        Ok(())
    }

    fn index_entry(&mut self, name: &str, dtype: &str, data: Option<(&[usize], &str)>, inner: &[String]) {
        use std::fmt::Write as _;
        let string = |text: &str| toml::Value::String(text.to_owned());
        let separator = if self.index.is_empty() { "" } else { "\n" };
        let inner = toml::Value::Array(inner.iter().map(|name| string(name)).collect());
        let mut text = format!("{separator}[[tensor]]\nname = {}\ndtype = {}\n", string(name), string(dtype));
        // Writing to a string does not fail.
        if let Some((shape, file)) = data {
            let _ = writeln!(text, "shape = {shape:?}\nfile = {}", string(file));
        }
        let _ = writeln!(text, "inner = {inner}");
        self.index.push_str(&text);
    }
}

fn numbers(name: &str, tensor: &NumericTensor) -> Result<Vec<u8>, TensorDataError> {
    let bytes = tensor.bytes();
    // Storage that shrank since the tensor was made shows as missing bytes.
    if Some(bytes.len()) != n_bytes(tensor.dtype(), tensor.shape()) {
        return Err(TensorDataError::invalid(name, "the bytes that dtype and shape ask for", bytes.len()));
    }
    Ok(bytes.to_vec())
}

fn strings(name: &str, tensor: &StringTensor) -> Result<Vec<u8>, TensorDataError> {
    let mut text = String::from("data = [");
    for (position, element) in tensor.elements().iter().enumerate() {
        if position > 0 {
            text.push_str(", ");
        }
        text.push_str(&toml::Value::String(element.clone()).to_string());
    }
    text.push_str("]\n");
    check_length(&format!("string tensor `{name}`, written as TOML,"), &text, MAX_STRINGS_LENGTH)?;
    Ok(text.into_bytes())
}

/// What could not be read back is not written.
fn check_length(what: &str, text: &str, limit: u64) -> Result<(), TensorDataError> {
    let found = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if found > limit {
        return Err(TensorDataError::TooLarge { what: what.to_owned(), limit, found });
    }
    Ok(())
}
