//! Loaded models, and calls of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carton_core::metadata::TensorSpec as DeclaredSpec;
use carton_core::self_test::{SelfTestReport, SelfTests};
use carton_core::tensor::Tolerance;
use carton_core::{Carton, Dimension, Error, SealedInputs, SymbolicShape, Tensors};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::calls::{CallInputs, duration, limited};
use crate::closing::Closing;
use crate::package::Package;
use crate::results::{self, fields};
use crate::specs::{self, TensorSpec};
use crate::stream::Stream;
use crate::{bridge, errors, memory, runtime, tensors};

/// A model that is loaded in its runner.
#[pyclass(frozen, module = "carton", weakref)]
pub(crate) struct Model {
    /// `None` after it was closed.
    carton: Mutex<Option<Carton>>,
    closing: Arc<Closing>,
}

impl Model {
    pub(crate) fn new(carton: Carton) -> Self {
        Self { carton: Mutex::new(Some(carton)), closing: Arc::default() }
    }

    /// Tells when the model is closed.
    pub(crate) fn closing(&self) -> Arc<Closing> {
        Arc::clone(&self.closing)
    }

    /// The model, for a call.
    pub(crate) fn carton(&self, py: Python<'_>) -> PyResult<Carton> {
        if runtime::is_forked() {
            return Err(errors::forked(py));
        }
        // Without the lock: making an exception runs code of Python.
        let carton = self.carton.lock().clone();
        carton.ok_or_else(|| errors::closed(py, "model"))
    }

    fn call_inputs(
        carton: &Carton,
        positional: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<CallInputs> {
        if positional.len() == 1
            && let Ok(sealed) = positional.get_item(0)?.cast::<Sealed>()
        {
            let py = positional.py();
            if named.is_some_and(|named| !named.is_empty()) {
                return Err(errors::invalid(py, "sealed inputs are all the inputs of a call"));
            }
            return Ok(CallInputs::Sealed(sealed.get().inputs(py)?));
        }
        Ok(CallInputs::Tensors(tensors::inputs(positional, named, Self::declared(carton))?))
    }

    /// The declared inputs in the order in which they are passed, if there are any.
    fn declared(carton: &Carton) -> Option<&[DeclaredSpec]> {
        carton.package().metadata().signature().and_then(|signature| signature.inputs.as_deref())
    }

    /// The shape of an input, with a value for each of its symbols.
    fn shape_of(py: Python<'_>, spec: &DeclaredSpec, symbols: &BTreeMap<String, usize>) -> PyResult<Vec<usize>> {
        let is_known = |name: &str| {
            matches!(&spec.shape, SymbolicShape::Dimensions(dimensions)
                if dimensions.iter().any(|dimension| matches!(dimension, Dimension::Symbol(symbol) if symbol == name)))
        };
        if let Some(unknown) = symbols.keys().find(|name| !is_known(name)) {
            let text = format!("the shape of `{}` is {}: it has no `{unknown}`", spec.name, spec.shape);
            return Err(errors::invalid(py, &text));
        }
        let SymbolicShape::Dimensions(dimensions) = &spec.shape else {
            let text = format!("the shape of `{}` is {}: pass shape=", spec.name, spec.shape);
            return Err(errors::invalid(py, &text));
        };
        let size = |(position, dimension): (usize, &Dimension)| match dimension {
            Dimension::Fixed(size) => usize::try_from(*size).map_err(|_| errors::invalid(py, "the shape is too large")),
            Dimension::Symbol(name) => symbols.get(name).copied().ok_or_else(|| {
                let text = format!("the shape of `{}` is {}: pass a value for `{name}`", spec.name, spec.shape);
                errors::invalid(py, &text)
            }),
            Dimension::Any => {
                let text = format!("dimension {position} of `{}` may have any size: pass shape=", spec.name);
                Err(errors::invalid(py, &text))
            }
        };
        dimensions.iter().enumerate().map(size).collect()
    }
}

async fn infer(carton: Carton, inputs: CallInputs, timeout: Option<Duration>) -> Result<Tensors, Error> {
    let outputs = match inputs {
        CallInputs::Tensors(inputs) => limited(carton.infer(inputs), timeout).await?,
        CallInputs::Sealed(sealed) => limited(carton.infer(sealed.as_ref()), timeout).await?,
    };
    Ok(outputs.into_tensors())
}

fn seconds(py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    let Some(timeout) = timeout else { return Ok(None) };
    let seconds = timeout.extract::<f64>().map_err(|_| {
        PyTypeError::new_err(
            "`timeout` is a number of seconds; pass an input of that name in a dict: infer({\"timeout\": …})",
        )
    })?;
    duration(py, seconds).map(Some)
}

#[pymethods]
impl Model {
    #[pyo3(signature = (*inputs, timeout=None, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        timeout: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.infer(py, inputs, timeout, named)
    }

    /// Runs the model once, and returns its outputs: a dict of read-only arrays.
    ///
    /// Inputs are passed by name, in declared order, or as one dict or `Sealed`. Arrays of other libraries, lists and numbers are
    /// converted. Dicts, NamedTuples, dataclasses and tuples that hold arrays become inputs such as `state.0`, which `carton.leaves` names. Arrays of
    /// `alloc`, and large outputs, are passed without a copy. `timeout` is in seconds; a runner that is working when the time is up is killed.
    ///
    /// Outputs have the declared dtypes and shapes; strings are arrays of `str`, bytes arrays of `bytes`, and nested tensors lists of arrays.
    /// `bfloat16` and floats of 8 bits are arrays of `ml_dtypes`; without that package, what only `torch.from_dlpack` and the like read.
    /// `carton.structured` makes tuples and dicts of outputs such as `state.0`, and `carton.arrow` makes Arrow arrays.
    ///
    /// Raises `SignatureError` for inputs that contradict the signature, `ModelError` where the model fails, `RunnerCrashedError` where its
    /// process dies, `TimedOutError` and `BusyError`. After each of these the model can be called again.
    ///
    ///     >>> outputs = model.infer(image=np.zeros((3, 1, 8, 8), np.float32), timeout=10)
    ///     >>> outputs["probabilities"].shape, str(outputs["probabilities"].dtype)
    ///     ((3, 10), 'float32')
    #[pyo3(signature = (*inputs, timeout=None, **named))]
    fn infer<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        timeout: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (carton, timeout) = (self.carton(py)?, seconds(py, timeout)?);
        let inputs = Self::call_inputs(&carton, inputs, named)?;
        tensors::outputs(py, runtime::wait(py, None, infer(carton, inputs, timeout))?)
    }

    /// Does the same as `infer`, for a task of `asyncio`. Cancelling the task cancels the call. Raises what `infer` raises.
    ///
    ///     >>> import asyncio
    ///     >>> async def main():
    ///     ...     images = np.zeros((2, 1, 8, 8), np.float32)
    ///     ...     return await asyncio.gather(*(model.infer_async(image=image[np.newaxis]) for image in images))
    ///     >>> [outputs["probabilities"].shape for outputs in asyncio.run(main())]
    ///     [(1, 10), (1, 10)]
    #[pyo3(signature = (*inputs, timeout=None, **named))]
    fn infer_async<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        timeout: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (carton, timeout) = (self.carton(py)?, seconds(py, timeout)?);
        let inputs = Self::call_inputs(&carton, inputs, named)?;
        bridge::awaitable(py, infer(carton, inputs, timeout), |py, outputs| {
            Ok(tensors::outputs(py, outputs)?.into_any().unbind())
        })
    }

    /// Runs the model once, and returns its outputs as they come, for `for` and `async for`. A model that does not stream gives one item.
    ///
    /// `timeout` is in seconds, from the first item that is asked for to the last. The iteration raises what `infer` raises.
    ///
    ///     >>> with model.stream(image=np.zeros((1, 1, 8, 8), np.float32)) as stream:
    ///     ...     [outputs["probabilities"].shape for outputs in stream]
    ///     [(1, 10)]
    #[pyo3(signature = (*inputs, timeout=None, **named))]
    fn stream<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        timeout: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Stream> {
        let (carton, timeout) = (self.carton(py)?, seconds(py, timeout)?);
        let inputs = Self::call_inputs(&carton, inputs, named)?;
        Ok(Stream::new(carton, inputs, timeout))
    }

    /// Passes inputs to the runner once, for many calls: `model.infer(sealed)`. They are copied, so that later changes do not matter.
    ///
    /// Raises `SignatureError` for inputs that contradict the signature, and `BusyError` where the shared memory has no room. Another model
    /// refuses the sealed inputs by `InvalidInputError`.
    ///
    ///     >>> with model.seal(image=np.zeros((1, 1, 8, 8), np.float32)) as sealed:
    ///     ...     model(sealed)["probabilities"].shape
    ///     (1, 10)
    #[pyo3(signature = (*inputs, **named))]
    fn seal<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Sealed> {
        let carton = self.carton(py)?;
        let inputs = tensors::owned(tensors::inputs(inputs, named, Self::declared(&carton))?);
        let inputs = inputs.map_err(|error| errors::invalid(py, &error.to_string()))?;
        let sealed = runtime::wait(py, None, async move { carton.seal(inputs).await })?;
        Ok(Sealed { inputs: Mutex::new(Some(Arc::new(sealed))) })
    }

    /// Allocates an array in memory that is shared with the runner, so that passing it copies nothing.
    ///
    /// Takes the name of an input and the size of each symbol in its shape, or `shape` and `dtype`. The elements are zeros or old data
    /// until they are written. Do not write to it while a call has it.
    ///
    /// Raises `InvalidInputError` for an input that is not declared and a shape that is not known, and `BusyError` where the shared memory
    /// has no room for it (`pool_bytes` of `carton.load`, in bytes).
    ///
    ///     >>> x = model.alloc("image", batch=32)
    ///     >>> x[...] = 0
    ///     >>> x.shape, model(image=x)["probabilities"].shape
    ///     ((32, 1, 8, 8), (32, 10))
    #[pyo3(signature = (input=None, /, *, shape=None, dtype=None, **symbols))]
    fn alloc<'py>(
        &self,
        py: Python<'py>,
        input: Option<&str>,
        shape: Option<Vec<usize>>,
        dtype: Option<&Bound<'py, PyAny>>,
        symbols: Option<BTreeMap<String, usize>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let carton = self.carton(py)?;
        let declared = carton.package().metadata().inputs();
        let spec = match input {
            Some(name) => Some(declared.iter().find(|spec| spec.name == name).ok_or_else(|| {
                let names: Vec<&str> = declared.iter().map(|spec| spec.name.as_str()).collect();
                errors::invalid(py, &format!("the carton declares no input `{name}`, but: {}", names.join(", ")))
            })?),
            None => None,
        };
        let dtype = match (dtype, spec) {
            (Some(dtype), _) => specs::data_type(dtype)?,
            (None, Some(spec)) => spec.dtype,
            (None, None) => return Err(errors::invalid(py, "pass the name of an input, or shape= and dtype=")),
        };
        let shape = match (shape, spec) {
            (Some(shape), _) => shape,
            (None, Some(spec)) => Self::shape_of(py, spec, &symbols.unwrap_or_default())?,
            (None, None) => return Err(errors::invalid(py, "pass the name of an input, or shape= and dtype=")),
        };
        let tensor = runtime::wait(py, None, carton.alloc_dtype(dtype, &shape))?;
        memory::writable_array(py, tensor)
    }

    /// Runs the model on the rows of a table: a `MappedRows`, which has the rows with its outputs.
    ///
    /// A row is one element of the first dimension of inputs and outputs. `rows` is a path of this machine (Parquet, Arrow), or anything with
    /// an Arrow stream: a table, a record batch or a reader of pyarrow, a DataFrame of polars or pandas. Rows are read and mapped when they
    /// are needed, and keep their order. Memory does not grow with their number. Iterate over the result, pass it to `pyarrow.table` or
    /// `polars.DataFrame`, or call `write`. `map_to` writes a file at once.
    ///
    /// - `inputs`: the column of each input, where it has another name. `constants`: inputs with one value for all rows.
    /// - `outputs`: the new column of each output that is wanted. By default all of them, each under its name.
    /// - `keep`: the columns that are returned too: a list of names, `True` for all, `False` for none. By default all that are not inputs.
    /// - `batch_size`, `batch_bytes`: the most rows and bytes of inputs in a call: 1024 and 16 MiB. `workers`: the number of runners, at
    ///   most 1024.
    /// - `null="nan"`: missing values become NaN where the input is a float. By default they are an error.
    /// - `times`: the unit that dates, timestamps, times of day and durations are counted in: `"s"`, `"ms"`, `"us"` or `"ns"`. Dates and timestamps
    ///   are counted from 1970-01-01 (UTC), times of day from midnight. By default they are an error.
    ///
    /// Raises `SignatureError` for an input without a column, `InvalidInputError` for values that are missing or do not fit, and what
    /// `infer` raises. A call whose runner dies is made once more. An exception of Python code that the rows come from, through a reader of
    /// pyarrow, is raised as it is. Such code must not hold a daemon thread for more than 5 seconds while the interpreter exits: that can
    /// abort the process.
    ///
    ///     >>> import pyarrow
    ///     >>> table = pyarrow.table({"image": [[0.0] * 64] * 3, "id": [1, 2, 3]})
    ///     >>> pyarrow.table(model.map(table)).column_names
    ///     ['id', 'probabilities']
    #[pyo3(signature = (rows, *, inputs=None, outputs=None, keep=None, constants=None, batch_size=None, batch_bytes=None, workers=1,
        null=None, times=None))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
    fn map<'py>(
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        inputs: Option<&Bound<'py, PyAny>>,
        outputs: Option<&Bound<'py, PyAny>>,
        keep: Option<&Bound<'py, PyAny>>,
        constants: Option<&Bound<'py, PyAny>>,
        batch_size: Option<i128>,
        batch_bytes: Option<i128>,
        workers: i128,
        null: Option<&Bound<'py, PyAny>>,
        times: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = fields!(slf.py(), {
            "inputs": inputs,
            "outputs": outputs,
            "keep": keep,
            "constants": constants,
            "batch_size": batch_size,
            "batch_bytes": batch_bytes,
            "workers": workers,
            "null": null,
            "times": times,
        });
        slf.py().import("carton._rows")?.call_method("map_rows", (slf, rows), Some(&options))
    }

    /// Runs the model on the rows of a table, and writes them with its outputs to a file: a `MapReport`.
    ///
    /// `path` is a file (.parquet, .arrow, .arrows) of this machine; it is complete or absent. `progress` is called as `carton.load` calls
    /// it, with the number of rows. The other arguments, and what is raised, are those of `map`.
    ///
    ///     >>> import pyarrow
    ///     >>> table = pyarrow.table({"image": [[0.0] * 64] * 3, "id": [1, 2, 3]})
    ///     >>> model.map_to("digits.parquet", table)
    ///     MapReport(path='digits.parquet', rows=3, calls=1)
    #[pyo3(signature = (path, rows, *, inputs=None, outputs=None, keep=None, constants=None, batch_size=None, batch_bytes=None, workers=1,
        null=None, times=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
    fn map_to<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyAny>,
        rows: &Bound<'py, PyAny>,
        inputs: Option<&Bound<'py, PyAny>>,
        outputs: Option<&Bound<'py, PyAny>>,
        keep: Option<&Bound<'py, PyAny>>,
        constants: Option<&Bound<'py, PyAny>>,
        batch_size: Option<i128>,
        batch_bytes: Option<i128>,
        workers: i128,
        null: Option<&Bound<'py, PyAny>>,
        times: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mapped =
            Self::map(slf, rows, inputs, outputs, keep, constants, batch_size, batch_bytes, workers, null, times)?;
        slf.py().import("carton._rows")?.call_method1("write", (mapped, path, progress))
    }

    /// Runs the self-tests of the carton: a `SelfTestReport`. `rtol` and `atol` are the tolerances of the comparison, as NumPy's `allclose`
    /// has them. `progress` is called as `carton.load` calls it.
    ///
    /// A test that fails is in the report. Raises `BusyError`, `RunnerCrashedError` or `IntegrityError` where a test cannot be run.
    ///
    ///     >>> report = model.self_test(rtol=1e-4)
    ///     >>> report.ok, report.failed, [test.outcome for test in report.tests]
    ///     (True, 0, ['passed', 'passed'])
    #[pyo3(signature = (*, rtol=None, atol=None, progress=None))]
    fn self_test<'py>(
        &self,
        py: Python<'py>,
        rtol: Option<f64>,
        atol: Option<f64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let carton = self.carton(py)?;
        let mut tolerance = Tolerance::default();
        tolerance.rtol = rtol.unwrap_or(tolerance.rtol);
        tolerance.atol = atol.unwrap_or(tolerance.atol);
        let self_test = carton.self_test().tolerance(tolerance);
        let report: SelfTestReport = runtime::wait_with_progress(py, progress, self_test, SelfTests::progress)?;
        results::report(py, "self_test_report", &report)
    }

    /// Asks the runner for an answer. Raises `RunnerCrashedError` or `TimedOutError` if it gives none.
    ///
    ///     >>> model.ping()
    fn ping(&self, py: Python<'_>) -> PyResult<()> {
        let carton = self.carton(py)?;
        runtime::wait(py, None, carton.ping())
    }

    /// The carton: metadata, self-tests, examples, files.
    #[getter]
    fn package(&self, py: Python<'_>) -> PyResult<Package> {
        Ok(Package(self.carton(py)?.package().clone()))
    }

    /// The declared inputs, in order.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<TensorSpec>> {
        Ok(self.carton(py)?.package().metadata().inputs().iter().cloned().map(TensorSpec).collect())
    }

    /// The declared outputs, in order.
    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<TensorSpec>> {
        Ok(self.carton(py)?.package().metadata().outputs().iter().cloned().map(TensorSpec).collect())
    }

    /// Name and version of the runner.
    #[getter]
    fn runner(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.carton(py)?.runner().to_string())
    }

    /// Whether the model was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.carton.lock().is_none()
    }

    /// Ends the runner when the calls that are running have ended. Arrays stay valid. Other calls, and the rows of a `map` that are not
    /// read yet, raise `ClosedError`.
    ///
    ///     >>> other = carton.load("digits.carton")
    ///     >>> other.close()
    ///     >>> other.closed
    ///     True
    fn close(&self, py: Python<'_>) {
        self.closing.close();
        let carton = self.carton.lock().take();
        end(py, carton);
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    /// What a notebook shows: the card of the model.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("carton._card")?.call_method1("card", (slf,))
    }

    fn __repr__(&self) -> String {
        match &*self.carton.lock() {
            Some(carton) => {
                let name = carton.package().metadata().model_name().unwrap_or("unnamed");
                format!("<carton.Model {name:?} on {}>", carton.runner())
            }
            None => "<carton.Model, closed>".to_owned(),
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if runtime::is_forked() {
            // The runner is the parent's.
            std::mem::forget(self.carton.get_mut().take());
        }
    }
}

/// Ends a runner, whose process may take a moment.
pub(crate) fn end<T: Send>(py: Python<'_>, value: T) {
    match runtime::is_forked() {
        true => std::mem::forget(value),
        false => py.detach(|| drop(value)),
    }
}

/// Inputs that the runner keeps.
#[pyclass(frozen, module = "carton")]
pub(crate) struct Sealed {
    inputs: Mutex<Option<Arc<SealedInputs>>>,
}

impl Sealed {
    fn inputs(&self, py: Python<'_>) -> PyResult<Arc<SealedInputs>> {
        let inputs = self.inputs.lock().clone();
        inputs.ok_or_else(|| errors::closed(py, "sealed input"))
    }
}

#[pymethods]
impl Sealed {
    /// Lets the runner free the inputs. A call that is using them goes on; later ones raise `ClosedError`.
    ///
    ///     >>> sealed = model.seal(image=np.zeros((1, 1, 8, 8), np.float32))
    ///     >>> sealed.close()
    fn close(&self, py: Python<'_>) {
        let inputs = self.inputs.lock().take();
        end(py, inputs);
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if runtime::is_forked() {
            std::mem::forget(self.inputs.get_mut().take());
        }
    }
}
