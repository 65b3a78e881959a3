//! Tensor files: safetensors, zTensor, PyTorch's, GGUF, ONNX, `.npy` and `.npz`, and sharded checkpoints, at any place and in cartons.

use std::collections::BTreeMap;
use std::path::PathBuf;

use carton_core::{ErrorKind, StringTensor};
use carton_tensor::checkpoint::FollowLinks;
use carton_tensor::context::{CancelToken, Context};
use carton_tensor::difference::DifferenceOptions;
use carton_tensor::files::{ElementType, RawTensor, SharedBytes, Slice};
use carton_tensor::gguf::QuantizedType;
use carton_tensor::weights::{FloatType, Granularity};
use carton_tensor::ztensor::{DigestAlgorithm, Version};
use carton_tensor_files::{
    AdapterOptions, ConvertOptions, DiffOptions, GroupHandling, MergeOptions, MethodKind, OpenTensors, QuantizeOptions,
    RenameError, RoundedType, Rounding, TensorFilesError, TensorInfo, TensorLocation, TensorSource, Value,
    Verification, VerifyOptions, WriteOptions, ZtensorVersion, convert, description, diff, merge, merge_adapters, open,
    open_path, quantize, save, validate, verify, with_scales,
};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::{self, Raise};
use crate::package::config;
use crate::paths::GivenPath;
use crate::reports::Progress;
use crate::runtime::wait;
use crate::{memory, tensors};

impl Raise for TensorFilesError {
    fn raise(&self, py: Python<'_>) -> PyErr {
        match self.carton() {
            Some(error) => errors::of_error(py, error),
            // Python programs expect an `OSError` for a file that is missing too.
            None if self.is_io() => errors::of_kind_with_hint(py, ErrorKind::Machine, self, self.hint().as_deref()),
            None => errors::of_kind_with_hint(py, self.kind(), self, self.hint().as_deref()),
        }
    }
}

/// Open tensors, which are views of the mapped file where that is on this machine. `carton.tensors` documents it.
#[pyclass(frozen, module = "carton.tensors", name = "_TensorFile")]
pub(crate) struct TensorFile(TensorSource);

impl TensorFile {
    fn info(&self, name: &str) -> PyResult<&TensorInfo> {
        self.0.get(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

#[pymethods]
impl TensorFile {
    #[new]
    #[pyo3(signature = (place, *, follow_links=None, offline=None))]
    fn new(py: Python<'_>, place: GivenPath, follow_links: Option<bool>, offline: Option<bool>) -> PyResult<Self> {
        let (location, links) = (TensorLocation::from(place.0), links(follow_links));
        if let TensorLocation::File(path, only) = &location {
            let opened = py.detach(|| open_path(path, only.as_deref(), true, links));
            return opened.map(Self).map_err(|error| error.raise(py));
        }
        let opening = open(location).config(config(py, offline)?).mapped(true).follow_links(links);
        wait(py, None, opening.into_future()).map(Self)
    }

    /// The format of the file; of a carton's own tensors `carton`.
    #[getter]
    fn format(&self) -> &'static str {
        self.0.file().map_or("carton", |file| file.format().name())
    }

    fn names(&self) -> Vec<&str> {
        self.0.tensors().iter().map(|info| info.name.as_str()).collect()
    }

    fn metadata(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let pairs = self.0.metadata().map_err(|error| error.raise(py))?;
        Ok(pairs.into_iter().filter_map(|(key, value)| Some((key, value.as_text()?.to_owned()))).collect())
    }

    /// The dtype's name, the shape and the layout of a tensor; the dtype is `None` where it is not a number.
    fn describe(&self, name: &str) -> PyResult<(Option<&str>, Vec<usize>, &str)> {
        let info = self.info(name)?;
        let dtype = info.element_type.map(ElementType::name);
        Ok((dtype, info.shape.clone().unwrap_or_default(), info.format.name()))
    }

    /// The dtype's name, the shape, and the bytes of a tensor as an array of `uint8`; or, of strings and lists, their value.
    fn read<'py>(&self, py: Python<'py>, name: &str) -> PyResult<(Option<String>, Vec<usize>, Bound<'py, PyAny>)> {
        self.info(name)?;
        match py.detach(|| self.0.read(name)).map_err(|error| error.raise(py))? {
            Value::Numbers(tensor) => {
                let array = memory::bytes_array(py, tensor.bytes())?;
                Ok((Some(tensor.dtype().to_string()), tensor.shape().to_vec(), array))
            }
            Value::Strings(tensor) => Ok((None, tensor.shape().to_vec(), tensors::value(py, tensor.into())?)),
            Value::Nested(tensor) => Ok((None, Vec::new(), tensors::value(py, tensor.into())?)),
        }
    }

    /// The dtype's name, the shape, and the bytes of a part of a tensor, in NumPy's notation, as an array of `uint8`.
    fn read_slice<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        text: &str,
    ) -> PyResult<(String, Vec<usize>, Bound<'py, PyAny>)> {
        let shape = self.info(name)?.shape.clone().unwrap_or_default();
        let slice = Slice::parse(text, &shape).map_err(|error| PyIndexError::new_err(error.to_string()))?;
        let part = py.detach(|| self.0.read_slice(name, &slice)).map_err(|error| error.raise(py))?;
        let array = memory::bytes_array(py, part.bytes())?;
        Ok((part.dtype().to_string(), part.shape().to_vec(), array))
    }
}

/// How a file is written: `zstd`, `digest`, `version`, `sparse_below`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Storing {
    zstd: Option<i32>,
    digest: Option<String>,
    version: Option<String>,
    sparse_below: Option<f64>,
}

impl Storing {
    fn options(self, py: Python<'_>) -> PyResult<WriteOptions> {
        let refused = |name: &str, found: &str, expected: &str| {
            Err(errors::invalid(py, &format!("{name} is `{found}`, expected {expected}")))
        };
        let mut options = WriteOptions::default();
        options.zstd = match self.zstd {
            Some(level) if !(1..=22).contains(&level) => return refused("zstd", &level.to_string(), "1 to 22"),
            level => level,
        };
        options.digest = match self.digest.as_deref() {
            None => None,
            Some("sha256") => Some(DigestAlgorithm::Sha256),
            Some("crc32c") => Some(DigestAlgorithm::Crc32c),
            Some(other) => return refused("digest", other, "`sha256` or `crc32c`"),
        };
        options.version = match self.version.as_deref() {
            None => None,
            Some("1.1") => Some(ZtensorVersion::V1(Version::V1_1)),
            Some("1.2") => Some(ZtensorVersion::V1(Version::V1_2)),
            Some("2") => Some(ZtensorVersion::V2),
            Some(other) => return refused("version", other, "`1.1`, `1.2` or `2`"),
        };
        options.sparse_below = match self.sparse_below {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                return refused("sparse_below", &share.to_string(), "a number from 0 to 1");
            }
            share => share,
        };
        Ok(options)
    }
}

/// Where tensors come from: a place, the patterns of their names, and the largest size that a sparse one may have as a dense one.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Origin {
    place: GivenPath,
    only: Vec<String>,
    max_dense: Option<u64>,
    digests: bool,
    follow_links: Option<bool>,
    offline: Option<bool>,
}

impl Origin {
    /// Opens the place, once it is awaited.
    fn opening(&self, py: Python<'_>, cancel_token: &CancelToken) -> PyResult<OpenTensors> {
        let opening = open(TensorLocation::from(self.place.0.clone())).config(config(py, self.offline)?);
        Ok(opening.follow_links(links(self.follow_links)).cancel_token(cancel_token.clone()))
    }
}

/// Which links to the files of a checkpoint are followed.
fn links(follow_links: Option<bool>) -> FollowLinks {
    match follow_links {
        None => FollowLinks::default(),
        Some(true) => FollowLinks::All,
        Some(false) => FollowLinks::Inside,
    }
}

/// Opens the origin, does `work` on a thread of the runtime, and returns its result as JSON.
fn on_source<T: Serialize + Send + 'static>(
    py: Python<'_>,
    origin: Origin,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&TensorSource, Context) -> Result<T, TensorFilesError> + Send + 'static,
) -> PyResult<String> {
    let cancel_token = CancelToken::default();
    let opening = origin.opening(py, &cancel_token)?;
    let Origin { only, max_dense, digests, .. } = origin;
    working(py, progress, cancel_token, async move { opening.await }, move |source, context| {
        let mut source = source.with_max_dense(max_dense).verifying(digests);
        source.keep_matching(&only)?;
        work(&source, context)
    })
}

/// Waits for `opening`, does `work` with what it gives on a thread of the runtime, and returns its result as JSON. A signal cancels both by the
/// token.
fn working<S: Send + 'static, T: Serialize + Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    cancel_token: CancelToken,
    opening: impl Future<Output = Result<S, TensorFilesError>> + Send,
    work: impl FnOnce(S, Context) -> Result<T, TensorFilesError> + Send + 'static,
) -> PyResult<String> {
    let progress = Progress::new(progress);
    let guard = cancel_token.guard();
    let mut context = Context::new(cancel_token, None);
    if let Some(progress) = &progress {
        context = context.with_progress(progress.listener_of_text());
    }
    let result = wait(py, progress.as_ref(), async move {
        let _guard = guard;
        let opened = opening.await?;
        let ended = |error: tokio::task::JoinError| TensorFilesError::Thread(error.to_string());
        tokio::task::spawn_blocking(move || work(opened, context)).await.map_err(ended)?
    })?;
    serde_json::to_string(&result).map_err(|error| errors::invalid(py, &error.to_string()))
}

/// What a conversion changes: `groups`, `only`, `exclude`, `rename`, `dtype`, `saturate`, `shard_size`, `metadata`, `keep_metadata`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Converting {
    groups: String,
    only: Vec<String>,
    exclude: Vec<String>,
    rename: Vec<String>,
    dtype: Option<String>,
    saturate: bool,
    shard_size: Option<u64>,
    metadata: Vec<(String, String)>,
    keep_metadata: bool,
}

impl Converting {
    fn options(self, py: Python<'_>) -> PyResult<ConvertOptions> {
        let refused = |name: &str, found: &str, expected: &str| {
            errors::invalid(py, &format!("{name} is `{found}`, expected {expected}"))
        };
        let mut options = ConvertOptions::default();
        options.groups = match self.groups.as_str() {
            "kept" => GroupHandling::Kept,
            "numbers" => GroupHandling::Numbers,
            "made" => GroupHandling::Made,
            other => return Err(refused("groups", other, "`kept`, `numbers` or `made`")),
        };
        options.selection.only = self.only;
        options.selection.exclude = self.exclude;
        for rename in &self.rename {
            let rename = rename.parse().map_err(|error: RenameError| errors::invalid(py, &error.to_string()))?;
            options.selection.rename.push(rename);
        }
        let to = rounded_type(py, self.dtype.as_deref())?;
        options.rounding = to.map(|to| Rounding { to, saturate: self.saturate });
        options.shard_size = self.shard_size;
        options.metadata.set = self.metadata;
        options.metadata.leave_out = !self.keep_metadata;
        Ok(options)
    }
}

/// Writes tensors of places to a file. `carton.tensors.convert` documents it.
#[pyfunction]
#[pyo3(signature = (origins, output, storing, converting, *, progress=None))]
pub(crate) fn tensor_convert(
    py: Python<'_>,
    origins: Vec<Origin>,
    output: GivenPath,
    storing: Storing,
    converting: Converting,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut options = converting.options(py)?;
    options.write = storing.options(py)?;
    on_sources(py, origins, progress, move |sources, context| {
        options.write = options.write.context(context);
        convert(&sources.iter().collect::<Vec<_>>(), &output.0, &options)
    })
}

/// How models are merged: `method`, `weights`, `normalize`, `t`, `lambda`, and the dtype that is written.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Merging {
    method: String,
    weights: Vec<f64>,
    normalize: Option<bool>,
    t: Option<f64>,
    lambda: Option<f64>,
    dtype: Option<String>,
}

/// What floats are rounded to: a type of floats, or one of blocks.
fn rounded_type(py: Python<'_>, dtype: Option<&str>) -> PyResult<Option<RoundedType>> {
    match dtype {
        Some("q8_0" | "Q8_0") => Ok(Some(RoundedType::Blocks(QuantizedType::Q8_0))),
        Some("q4_0" | "Q4_0") => Ok(Some(RoundedType::Blocks(QuantizedType::Q4_0))),
        other => Ok(float_type(py, other)?.map(RoundedType::from)),
    }
}

fn float_type(py: Python<'_>, dtype: Option<&str>) -> PyResult<Option<FloatType>> {
    Ok(match dtype {
        None => None,
        Some("bfloat16" | "bf16") => Some(FloatType::BFloat16),
        Some("float16" | "f16") => Some(FloatType::Float16),
        Some("float32" | "f32") => Some(FloatType::Float32),
        Some("float8_e4m3fn" | "f8_e4m3fn") => Some(FloatType::Float8E4m3Fn),
        Some(other) => {
            let text = format!("dtype is `{other}`, expected `bfloat16`, `float16`, `float32` or `float8_e4m3fn`");
            return Err(errors::invalid(py, &text));
        }
    })
}

/// Opens all origins, does `work` on a thread of the runtime, and returns its result as JSON.
fn on_sources<T: Serialize + Send + 'static>(
    py: Python<'_>,
    origins: Vec<Origin>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(Vec<TensorSource>, Context) -> Result<T, TensorFilesError> + Send + 'static,
) -> PyResult<String> {
    let cancel_token = CancelToken::default();
    let mut openings = Vec::with_capacity(origins.len());
    for origin in origins {
        openings.push((origin.opening(py, &cancel_token)?, origin.max_dense, origin.digests));
    }
    let all = async move {
        let mut sources = Vec::with_capacity(openings.len());
        for (opening, max_dense, digests) in openings {
            sources.push(opening.await?.with_max_dense(max_dense).verifying(digests));
        }
        Ok(sources)
    };
    working(py, progress, cancel_token, all, work)
}

/// Writes a blend of models. `carton.tensors.merge` documents it.
#[pyfunction]
#[pyo3(signature = (models, base, output, storing, merging, *, progress=None))]
pub(crate) fn tensor_merge(
    py: Python<'_>,
    models: Vec<Origin>,
    base: Option<Origin>,
    output: GivenPath,
    storing: Storing,
    merging: Merging,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut options = MergeOptions::default();
    options.write = storing.options(py)?;
    options.method = match merging.method.as_str() {
        "linear" => MethodKind::Linear,
        "slerp" => MethodKind::Slerp,
        "task-arithmetic" => MethodKind::TaskArithmetic,
        other => {
            let text = format!("method is `{other}`, expected `linear`, `slerp` or `task-arithmetic`");
            return Err(errors::invalid(py, &text));
        }
    };
    options.weights = merging.weights;
    options.normalize = merging.normalize;
    options.t = merging.t;
    options.lambda = merging.lambda;
    options.dtype = float_type(py, merging.dtype.as_deref())?;
    let n_models = models.len();
    let all = models.into_iter().chain(base).collect();
    on_sources(py, all, progress, move |models, context| {
        options.write = options.write.context(context);
        // The base was opened last.
        let (models, base) = models.split_at(n_models.min(models.len()));
        merge(models, base.first(), &output.0, &options)
    })
}

/// What is merged into a model: `adapters`, `scales`, and the dtype that is written.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Adapting {
    adapters: Vec<PathBuf>,
    scales: Vec<f64>,
    dtype: Option<String>,
}

/// Writes a model with adapters merged into it. `carton.tensors.merge_adapters` documents it.
#[pyfunction]
#[pyo3(signature = (model, output, storing, adapting, *, progress=None))]
pub(crate) fn tensor_merge_adapters(
    py: Python<'_>,
    model: Origin,
    output: GivenPath,
    storing: Storing,
    adapting: Adapting,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut options = AdapterOptions::default();
    options.write = storing.options(py)?;
    options.dtype = float_type(py, adapting.dtype.as_deref())?;
    options.links = links(model.follow_links);
    on_sources(py, vec![model], progress, move |models, context| {
        options.write = options.write.context(context);
        merge_adapters(&models, &with_scales(adapting.adapters, &adapting.scales)?, &output.0, &options)
    })
}

/// How tensors are quantized: `per_channel`, `group_size`, `only`, `measure`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Quantizing {
    per_channel: bool,
    group_size: Option<usize>,
    only: Vec<String>,
    measure: bool,
}

/// The report of a quantization, with the number of tensors that were left.
#[derive(Serialize)]
struct Quantized {
    #[serde(flatten)]
    report: carton_tensor_files::QuantizeReport,
    unchanged: usize,
}

/// Writes the float tensors of a place as integers. `carton.tensors.quantize` documents it.
#[pyfunction]
#[pyo3(signature = (origin, output, storing, quantizing, *, progress=None))]
pub(crate) fn tensor_quantize(
    py: Python<'_>,
    origin: Origin,
    output: GivenPath,
    storing: Storing,
    quantizing: Quantizing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    if quantizing.group_size == Some(0) {
        return Err(errors::invalid(py, "group_size is 0, expected at least 1"));
    }
    let mut options = QuantizeOptions::default();
    options.write = storing.options(py)?;
    options.granularity = if quantizing.per_channel { Granularity::Channel } else { Granularity::Tensor };
    options.group_size = quantizing.group_size;
    options.only = quantizing.only;
    options.measure = quantizing.measure;
    on_source(py, origin, progress, move |source, context| {
        options.write = options.write.context(context);
        let report = quantize(source, &output.0, &options)?;
        Ok(Quantized { unchanged: report.unchanged, report })
    })
}

/// Compares the tensors of a place with a description. `carton.tensors.validate` documents it.
#[pyfunction]
#[pyo3(signature = (origin, model, sizes, *, progress=None))]
pub(crate) fn tensor_validate(
    py: Python<'_>,
    origin: Origin,
    model: &str,
    sizes: BTreeMap<String, usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let description = description(model, &sizes).map_err(|error| error.raise(py))?;
    on_source(py, origin, progress, move |source, context| validate(source, &description, context))
}

/// How tensors are compared: `only`, `rtol`, `atol`, `read_all`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Comparing {
    only: Vec<String>,
    rtol: f64,
    atol: f64,
    read_all: bool,
}

/// Compares the tensors of two places. `carton.tensors.diff` documents it.
#[pyfunction]
#[pyo3(signature = (a, b, comparing, *, progress=None))]
pub(crate) fn tensor_diff(
    py: Python<'_>,
    a: Origin,
    b: Origin,
    comparing: Comparing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut options = DiffOptions::default();
    options.only = comparing.only;
    let tolerance = crate::package::tolerance(py, comparing.rtol, comparing.atol)?;
    options.elements = DifferenceOptions::default().tolerance(tolerance).read_all(comparing.read_all);
    let cancel_token = CancelToken::default();
    let (open_a, open_b) = (a.opening(py, &cancel_token)?, b.opening(py, &cancel_token)?);
    let both = async move { Ok((open_a.await?, open_b.await?)) };
    working(py, progress, cancel_token, both, move |(source_a, source_b), context| {
        let source_a = source_a.with_max_dense(a.max_dense).verifying(a.digests);
        let source_b = source_b.with_max_dense(b.max_dense).verifying(b.digests);
        diff(&source_a, &source_b, &options, &context)
    })
}

/// Checks every rule of a file's format. `carton.tensors.verify` documents it.
#[pyfunction]
#[pyo3(signature = (origin, *, deep, progress=None))]
pub(crate) fn tensor_verify(
    py: Python<'_>,
    origin: Origin,
    deep: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut options = VerifyOptions::default();
    options.deep = deep;
    on_source(py, origin, progress, move |source, context| -> Result<Verification, _> {
        verify(source, &options, &context)
    })
}

/// A tensor of the caller: its dtype and shape, and its bytes; or strings.
#[derive(FromPyObject)]
pub(crate) enum Given<'py> {
    Numbers(String, Vec<usize>, PyReadonlyArray1<'py, u8>),
    Strings(Vec<usize>, Vec<String>),
}

impl Given<'_> {
    fn value(self, py: Python<'_>, name: &str) -> PyResult<Value> {
        let wrong = |error: &dyn std::error::Error| errors::invalid(py, &format!("`{name}`: {error}"));
        match self {
            Self::Numbers(dtype, shape, bytes) => {
                let unknown = || errors::invalid(py, &format!("`{name}` is {dtype}, which tensor files do not have"));
                let dtype = ElementType::ALL.into_iter().find(|known| known.name() == dtype).ok_or_else(unknown)?;
                let bytes = bytes.as_slice().map_err(|error| wrong(&error))?;
                let tensor = RawTensor::new(dtype, shape, SharedBytes::from(bytes.to_vec()));
                Ok(Value::Numbers(tensor.map_err(|error| wrong(&error))?))
            }
            Self::Strings(shape, elements) => {
                Ok(Value::Strings(StringTensor::new(elements, shape).map_err(|error| wrong(&error))?))
            }
        }
    }
}

/// Writes tensors of the caller to a file. `carton.tensors.save` documents it.
#[pyfunction]
#[pyo3(signature = (given, output, storing, metadata, *, progress=None))]
pub(crate) fn tensor_save(
    py: Python<'_>,
    given: Vec<(String, Given<'_>)>,
    output: GivenPath,
    storing: Storing,
    metadata: Vec<(String, String)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options = storing.options(py)?;
    let output: PathBuf = output.0;
    let mut values = Vec::with_capacity(given.len());
    for (name, tensor) in given {
        let value = tensor.value(py, &name)?;
        values.push((name, value));
    }
    working(py, progress, CancelToken::default(), std::future::ready(Ok(values)), move |values, context| {
        save(values, &metadata, &output, &options.context(context))
    })
}
