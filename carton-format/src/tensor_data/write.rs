//! Turns named tensors into the files of `tensor_data`.

use std::collections::BTreeMap;

use carton_tensor::{DataType, NumericTensor, StringTensor, Tensor};

use super::sizes::n_bytes;
use super::tensor_file::TensorFile;
use super::{FOLDER, INDEX, MAX_INDEX_LENGTH, MAX_STRINGS_LENGTH, TensorDataError, TensorFormat};
use crate::archive::Content;

/// Makes the files that hold `tensors`, with their paths in the carton. `format` says how numeric tensors are stored.
///
/// `index.toml` is written even if there are no tensors, and every entry has `inner`: the first implementation of the format
/// cannot open a carton without them.
///
/// # Errors
/// [`TensorDataError::Invalid`] for a tensor without a name, [`TensorDataError::TooLarge`] for more strings than can be read
/// back, [`TensorDataError::File`] for tensors that a file of this format cannot hold.
pub fn entries(
    tensors: &BTreeMap<String, Tensor>,
    format: TensorFormat,
) -> Result<Vec<(String, Content)>, TensorDataError> {
    // The files have the dtypes of version 1. `carried` shares the memory of tensors that have them.
    let carriers = tensors.iter().map(|(name, tensor)| {
        let carrier = carton_tensor::carried(tensor);
        carrier.map(|carrier| (name, carrier)).map_err(|source| TensorDataError::Element {
            name: name.clone(),
            dtype: tensor.dtype().unwrap_or(DataType::Float32).carrier(),
            source: Box::new(source),
        })
    });
    let carriers = carriers.collect::<Result<BTreeMap<_, _>, _>>()?;
    let mut files = Files { shared: format.file_format().map(TensorFile::new), ..Files::default() };
    for (name, tensor) in &carriers {
        if name.is_empty() {
            return Err(TensorDataError::invalid("name", "a name", "an empty string"));
        }
        let element = tensors.get(*name).and_then(Tensor::dtype).and_then(DataType::element);
        match tensor {
            Tensor::Nested(nested) => {
                let mut names = Vec::new();
                for (position, inner_tensor) in nested.elements().iter().enumerate() {
                    let inner = files.unused_name(&format!("{name}[{position}]"), tensors);
                    files.plain(&inner, inner_tensor, element)?;
                    names.push(inner);
                }
                files.index_entry(name, ("nested", None), None, &names);
            }
            plain => files.plain(name, plain, element)?,
        }
    }
    let index = if files.index.is_empty() { "tensor = []\n".to_owned() } else { files.index };
    check_length("`tensor_data/index.toml`", &index, MAX_INDEX_LENGTH)?;
    files.entries.push((format!("{FOLDER}{INDEX}"), Content::Bytes(index.into_bytes())));
    if let Some(shared) = files.shared.filter(|shared| !shared.is_empty()) {
        files.entries.push((format!("{FOLDER}{}", shared.name()), shared.content()?));
    }
    Ok(files.entries)
}

#[derive(Default)]
struct Files<'a> {
    entries: Vec<(String, Content)>,
    index: String,
    /// The file for all numeric tensors, if they share one.
    shared: Option<TensorFile<'a>>,
    /// The names that were generated for the elements of nested tensors.
    generated: std::collections::HashSet<String>,
}

impl<'a> Files<'a> {
    /// Returns `wanted`, with underscores appended until no other tensor has the name.
    fn unused_name(&mut self, wanted: &str, tensors: &BTreeMap<String, Tensor>) -> String {
        let mut name = wanted.to_owned();
        while tensors.contains_key(&name) || !self.generated.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Adds a tensor that is not nested, with what its elements are where its dtype does not say it.
    fn plain(&mut self, name: &str, tensor: &'a Tensor, element: Option<&'static str>) -> Result<(), TensorDataError> {
        if let (Tensor::Numeric(tensor), Some(shared)) = (tensor, &mut self.shared) {
            check_bytes(name, tensor)?;
            let name_in_file = shared.add(name, tensor);
            let (file, format) = (shared.name(), shared.format().name());
            let member = Data { shape: tensor.shape(), file: &file, member: Some((format, &name_in_file)) };
            self.index_entry(name, (tensor.dtype().name(), element), Some(member), &[]);
            return Ok(());
        }
        let (dtype, extension, shape, bytes) = match tensor {
            Tensor::Numeric(tensor) => (tensor.dtype(), "bin", tensor.shape(), numbers(name, tensor)?),
            Tensor::String(tensor) => (DataType::String, "toml", tensor.shape(), strings(name, tensor)?),
            _ => return Err(TensorDataError::invalid(name, "a tensor of numbers or strings", "another kind")),
        };
        // The number counts files, not tensors, because nested tensors have no file.
        let file = format!("tensor_{}.{extension}", self.entries.len());
        self.entries.push((format!("{FOLDER}{file}"), Content::Bytes(bytes)));
        self.index_entry(name, (dtype.name(), element), Some(Data { shape, file: &file, member: None }), &[]);
        Ok(())
    }

    fn index_entry(
        &mut self,
        name: &str,
        (dtype, element): (&str, Option<&str>),
        data: Option<Data<'_>>,
        inner: &[String],
    ) {
        use std::fmt::Write as _;
        let string = |text: &str| toml::Value::String(text.to_owned());
        let separator = if self.index.is_empty() { "" } else { "\n" };
        let inner = toml::Value::Array(inner.iter().map(|name| string(name)).collect());
        let mut text = format!("{separator}[[tensor]]\nname = {}\ndtype = {}\n", string(name), string(dtype));
        // Writing to a string does not fail.
        if let Some(element) = element {
            let _ = writeln!(text, "element = {}", string(element));
        }
        if let Some(Data { shape, file, member }) = data {
            let _ = writeln!(text, "shape = {shape:?}\nfile = {}", string(file));
            if let Some((format, name_in_file)) = member {
                let _ = writeln!(text, "file_format = {}\nname_in_file = {}", string(format), string(name_in_file));
            }
        }
        let _ = writeln!(text, "inner = {inner}");
        self.index.push_str(&text);
    }
}

/// The part of an index entry that nested tensors do not have.
struct Data<'a> {
    shape: &'a [usize],
    file: &'a str,
    /// For a file that holds many tensors, its format and the name of the tensor in it.
    member: Option<(&'static str, &'a str)>,
}

fn numbers(name: &str, tensor: &NumericTensor) -> Result<Vec<u8>, TensorDataError> {
    check_bytes(name, tensor)?;
    Ok(tensor.bytes().to_vec())
}

fn check_bytes(name: &str, tensor: &NumericTensor) -> Result<(), TensorDataError> {
    let found = tensor.bytes().len();
    // If the storage shrank after the tensor was made, bytes are missing.
    if Some(found) != n_bytes(tensor.dtype(), tensor.shape()) {
        return Err(TensorDataError::invalid(name, "the bytes that dtype and shape ask for", found));
    }
    Ok(())
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

/// Refuses a file that would be too large to be read back.
fn check_length(what: &str, text: &str, limit: u64) -> Result<(), TensorDataError> {
    let found = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if found > limit {
        return Err(TensorDataError::TooLarge { what: what.to_owned(), limit, found });
    }
    Ok(())
}
