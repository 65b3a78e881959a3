//! Passes a model to `rten` in a form that it accepts: in place if the file has that form already.
//!
//! The engine requires external data in files named `….data` or `….onnx_data` beside the model, with a stated offset and
//! length and an aligned offset; the ONNX format does not. Models that the engine would refuse for that reason, or
//! would compute wrongly (`repair`), are rewritten in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use carton_runner_protocol::runner::RunnerError;
use carton_tensor::Storage;
use rten::ModelOptions;
use rten_onnx::onnx::{AttributeProto, DataLocation, GraphProto, ModelProto, StringStringEntryProto, TensorProto};

use super::repair;
use crate::element_type::ElementType;
use crate::model_file::ExternalTensor;
use crate::model_source::ModelSource;

/// Data smaller than this stays in the rewritten graph.
const INLINE: usize = 1024;

/// A model to be loaded with [`options`](Self::options).
pub(super) struct Prepared {
    pub(super) bytes: Bytes,
    /// The options for loading, which hold the model's external data.
    pub(super) options: ModelOptions,
}

/// The bytes of the `.onnx` file for the engine.
pub(super) enum Bytes {
    /// The bytes of the model's own file.
    InPlace(&'static [u8]),
    /// An equivalent file in the form that the engine accepts.
    Rewritten(Vec<u8>),
}

/// Converts a model into the form that the engine accepts.
///
/// # Errors
/// References of the model to external data cannot be rewritten.
pub(super) fn prepare(source: &ModelSource) -> Result<Prepared, RunnerError> {
    let mut options = ModelOptions::with_all_ops();
    let bytes = keep_forever(Arc::clone(&source.bytes));
    let is_taken = source.file.external.iter().all(|tensor| is_taken_as_it_is(tensor, source));
    if is_taken && !repair::is_needed(&source.file) {
        for (location, data) in &source.external {
            options.external_data_static(location, keep_forever(Arc::clone(data)));
        }
        return Ok(Prepared { bytes: Bytes::InPlace(bytes), options });
    }
    let mut model = ModelProto::parse_buf(bytes).map_err(|error| RunnerError::from_error(&error))?;
    let files =
        source.external.iter().map(|(location, data)| (location.as_str(), keep_forever(Arc::clone(data)))).collect();
    let mut rewriter = Rewriter { files, names: BTreeMap::new(), buffers: 0, options: &mut options };
    if let Some(graph) = &mut model.graph {
        repair::repair(graph);
        rewriter.graph(graph)?;
    }
    let rewritten = model.write_buf().map_err(|error| RunnerError::from_error(&error))?;
    Ok(Prepared { bytes: Bytes::Rewritten(rewritten), options })
}

/// Keeps a mapping until the process ends, because the engine has no other way to read data in place. A runner process
/// holds one model and ends with it.
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

struct Rewriter<'a> {
    files: BTreeMap<&'a str, &'static [u8]>,
    /// The name that was assigned to each whole file.
    names: BTreeMap<String, String>,
    /// The number of buffers that were passed to the engine.
    buffers: usize,
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
            self.move_out(tensor);
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
            (self.buffer(data.to_vec()), 0)
        };
        refer(tensor, new_location, new_offset, data.len());
        Ok(())
    }

    /// Moves large data out of the graph, so that it is not copied when the graph is written and read again.
    fn move_out(&mut self, tensor: &mut TensorProto) {
        if tensor.raw_data.as_ref().is_some_and(|data| data.borrow().len() >= INLINE)
            && let Some(data) = tensor.raw_data.take()
        {
            let data = data.into_inner();
            let length = data.len();
            let location = self.buffer(data);
            tensor.data_location = Some(DataLocation::EXTERNAL);
            refer(tensor, location, 0, length);
        }
    }

    /// Passes a buffer to the engine and returns the name under which the engine finds it.
    fn buffer(&mut self, data: Vec<u8>) -> String {
        self.buffers += 1;
        let name = format!("buffer-{}.data", self.buffers);
        self.options.external_data(&name, data);
        name
    }

    /// Returns the name under which the engine finds a whole file.
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

/// Sets the location, offset and length of an external tensor's data.
fn refer(tensor: &mut TensorProto, location: String, offset: usize, length: usize) {
    let pair = |key: &str, value: String| StringStringEntryProto { key: Some(key.to_owned()), value: Some(value) };
    tensor.external_data =
        vec![pair("location", location), pair("offset", offset.to_string()), pair("length", length.to_string())];
}
