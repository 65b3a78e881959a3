//! Hands `rten` a model in a form that it takes, in place wherever the file has it already.
//!
//! The engine wants external data in files named `….data` or `….onnx_data` beside the model, with offset and length
//! given and the offset aligned; convolutions that state the shape of their kernel, and pooling that states its strides.
//! The ONNX format asks for none of that: other models are rewritten in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::Storage;
use rten::ModelOptions;
use rten_onnx::onnx::{
    AttributeProto, AttributeType, DataLocation, GraphProto, ModelProto, StringStringEntryProto, TensorProto,
};

use crate::element_type::ElementType;
use crate::model_file::{CONVOLUTIONS, ExternalTensor, POOLINGS};
use crate::model_source::ModelSource;

/// Bytes of the model and options that hold its external data.
///
/// # Errors
/// A model whose references cannot be rewritten.
pub(super) fn prepare(source: &ModelSource) -> Result<(&'static [u8], ModelOptions), RunnerError> {
    let mut options = ModelOptions::with_all_ops();
    let bytes = keep_forever(Arc::clone(&source.bytes));
    if !source.file.has_implied_windows && source.file.external.iter().all(|tensor| is_taken_as_it_is(tensor, source)) {
        for (location, data) in &source.external {
            options.external_data_static(location, keep_forever(Arc::clone(data)));
        }
        return Ok((bytes, options));
    }
    let mut model = ModelProto::parse_buf(bytes).map_err(|error| RunnerError::from_error(&error))?;
    let files =
        source.external.iter().map(|(location, data)| (location.as_str(), keep_forever(Arc::clone(data)))).collect();
    if let Some(graph) = &mut model.graph {
        state_windows(graph);
    }
    let mut rewriter = Rewriter { files, names: BTreeMap::new(), copies: 0, options: &mut options };
    if let Some(graph) = &mut model.graph {
        rewriter.graph(graph)?;
    }
    let rewritten = model.write_buf().map_err(|error| RunnerError::from_error(&error))?;
    Ok((rewritten.leak(), options))
}

/// Keeps a mapping until the process ends. A runner process holds one model and ends with it; the engine has no
/// other way to read data in place.
fn keep_forever(storage: Arc<dyn Storage>) -> &'static [u8] {
    let storage: &'static Arc<dyn Storage> = Box::leak(Box::new(storage));
    storage.bytes()
}

fn is_taken_as_it_is(tensor: &ExternalTensor, source: &ModelSource) -> bool {
    let extension = tensor.location.rsplit_once('.').map_or("", |(_, extension)| extension);
    let (Some(offset), Some(_), Some(data)) = (tensor.offset, tensor.length, source.external.get(&tensor.location))
    else {
        return false;
    };
    let address = (data.bytes().as_ptr().addr() as u64).saturating_add(offset);
    !tensor.location.contains('/')
        && (extension.starts_with("data") || extension.starts_with("onnx_data"))
        && is_aligned(address, tensor.element.size())
}

/// Whether elements of `size` bytes may be read in place at `address`.
fn is_aligned(address: u64, size: Option<u64>) -> bool {
    size.is_none_or(|size| address.is_multiple_of(size))
}

/// Gives convolutions the attribute `kernel_shape` where it can be read off their weights, and pooling its `strides`.
fn state_windows(graph: &mut GraphProto) {
    let shapes: BTreeMap<&str, &[i64]> =
        graph.initializer.iter().filter_map(|tensor| Some((tensor.name.as_deref()?, tensor.dims.get(2..)?))).collect();
    for node in &mut graph.node {
        let operator = node.op_type.as_deref().unwrap_or_default();
        let stated = |name: &str| node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name));
        let implied = if CONVOLUTIONS.contains(&operator) && stated("kernel_shape").is_none() {
            let shape = node.input.get(1).and_then(|weights| shapes.get(weights.as_str()));
            shape.map(|shape| ("kernel_shape", shape.to_vec()))
        } else if POOLINGS.contains(&operator) && stated("strides").is_none() {
            stated("kernel_shape").map(|kernel| ("strides", vec![1; kernel.ints.len()]))
        } else {
            None
        };
        if let Some((name, ints)) = implied {
            node.attribute.push(AttributeProto {
                name: Some(name.to_owned()),
                ints,
                r#type: Some(AttributeType::INTS),
                ..AttributeProto::default()
            });
        }
    }
}

struct Rewriter<'a> {
    files: BTreeMap<&'a str, &'static [u8]>,
    /// The name that each whole file has been given.
    names: BTreeMap<String, String>,
    copies: usize,
    options: &'a mut ModelOptions,
}

impl Rewriter<'_> {
    fn graph(&mut self, graph: &mut GraphProto) -> Result<(), RunnerError> {
        for tensor in &mut graph.initializer {
            self.tensor(tensor)?;
        }
        for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
            self.attribute(attribute)?;
        }
        Ok(())
    }

    fn attribute(&mut self, attribute: &mut AttributeProto) -> Result<(), RunnerError> {
        if let Some(tensor) = &mut attribute.t {
            self.tensor(tensor)?;
        }
        match &mut attribute.g {
            Some(graph) => self.graph(graph),
            None => Ok(()),
        }
    }

    fn tensor(&mut self, tensor: &mut TensorProto) -> Result<(), RunnerError> {
        if tensor.data_location != Some(DataLocation::EXTERNAL) {
            return Ok(());
        }
        let name = tensor.name.clone().unwrap_or_default();
        let invalid = || RunnerError::new(format!("the external data of tensor `{name}` cannot be read"));
        let entry = |key: &str| {
            tensor
                .external_data
                .iter()
                .rfind(|entry| entry.key.as_deref() == Some(key))
                .and_then(|entry| entry.value.clone())
        };
        let location = entry("location").ok_or_else(invalid)?;
        let file = *self.files.get(location.as_str()).ok_or_else(invalid)?;
        let offset: usize = entry("offset").map_or(Ok(0), |text| text.parse()).map_err(|_| invalid())?;
        let rest = file.get(offset..).ok_or_else(invalid)?;
        let data = match entry("length") {
            None => rest,
            Some(text) => text.parse().ok().and_then(|length: usize| rest.get(..length)).ok_or_else(invalid)?,
        };
        let size = ElementType(tensor.data_type.map_or(0, |element| i64::from(element.0))).size();
        let (new_location, new_offset) = if is_aligned(data.as_ptr().addr() as u64, size) {
            (self.whole_file(&location, file), offset)
        } else {
            self.copies += 1;
            let copy = format!("copy-{}.data", self.copies);
            self.options.external_data(&copy, data.to_vec());
            (copy, 0)
        };
        let pair = |key: &str, value: String| StringStringEntryProto { key: Some(key.to_owned()), value: Some(value) };
        tensor.external_data = vec![
            pair("location", new_location),
            pair("offset", new_offset.to_string()),
            pair("length", data.len().to_string()),
        ];
        Ok(())
    }

    /// The name under which the engine finds the whole of a file.
    fn whole_file(&mut self, location: &str, file: &'static [u8]) -> String {
        if let Some(name) = self.names.get(location) {
            return name.clone();
        }
        let name = format!("file-{}.data", self.names.len());
        self.options.external_data_static(&name, file);
        self.names.insert(location.to_owned(), name.clone());
        name
    }
}
