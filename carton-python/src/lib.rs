//! The extension module `carton._carton`: `carton_core` as Python objects.
//!
//! This crate translates, and decides nothing about cartons. `python/carton` has the parts that are simpler in Python: the exceptions,
//! conversions of other libraries' arrays, the packing of live objects, and what a notebook shows.
//!
//! **No thread of the runtime takes the interpreter's lock.** Results, progress and log records wait in queues until a thread of Python
//! fetches them. An interpreter that exits kills threads that wait for its lock, and then the whole process aborts (see `runtime::Inside`).
//! Where another library calls this module, `runtime::attached` takes the lock on the thread of that library.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `errors`, `paths`, `python_call`, `reports`: errors as exceptions; paths of any type; calls of Python code that may take long;
//!   progress and log records.
//! - `runtime`: the threads that operations run on, and how a Python thread waits for them.
//! - `row_source`, `memory`, `dlpack`, `tensors`, `arrow`: the tables that `rows` maps; what arrays show; tensors that libraries exchange
//!   where NumPy has no arrays; arrays of tensors and tensors of arrays; the same for Arrow.
//! - `bridge`, `calls`, `closing`, `results`, `specs`: awaits operations in `asyncio`; calls of models; tells work that its object was
//!   closed; reports as instances of classes; declared tensors.
//! - `package`, `stream`, `model`, `sandbox`, `load`, `pack`, `registry`, `rows`, `signing`, `tensor_files`, `upkeep`: the functions and
//!   classes.

mod arrow;
mod bridge;
mod calls;
mod closing;
mod dlpack;
mod errors;
mod load;
mod memory;
mod model;
mod pack;
mod package;
mod paths;
mod python_call;
mod registry;
mod reports;
mod results;
mod row_source;
mod rows;
mod runtime;
mod sandbox;
mod signing;
mod specs;
mod stream;
mod tensor_files;
mod tensors;
mod upkeep;

use std::process::ExitCode;

use carton_core::runner::{self, EmbeddedRunner};
use pyo3::prelude::*;

use crate::paths::GivenPath;

/// The runners in the program that comes with this module. They run there, so nothing calls these functions.
static RUNNERS: &[EmbeddedRunner] =
    &[carton_runner_onnx::RUNNER.run_by(|| ExitCode::FAILURE), carton_noop_runner::RUNNER.run_by(|| ExitCode::FAILURE)];

/// Tells where the program `carton` is, whose runners models can then use.
#[pyfunction]
fn use_program(path: GivenPath) {
    runner::runners_of(path.0, RUNNERS);
}

/// The module.
#[pymodule]
fn _carton(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(runtime::before_exit, module)?)?;
    module.add_function(wrap_pyfunction!(use_program, module)?)?;
    module.add_function(wrap_pyfunction!(load::load, module)?)?;
    module.add_function(wrap_pyfunction!(load::load_async, module)?)?;
    module.add_function(wrap_pyfunction!(package::open, module)?)?;
    module.add_function(wrap_pyfunction!(package::diff, module)?)?;
    module.add_function(wrap_pyfunction!(pack::pack, module)?)?;
    module.add_function(wrap_pyfunction!(pack::recognize, module)?)?;
    module.add_function(wrap_pyfunction!(pack::eject, module)?)?;
    module.add_function(wrap_pyfunction!(pack::shrink, module)?)?;
    module.add_function(wrap_pyfunction!(pack::resolve, module)?)?;
    module.add_function(wrap_pyfunction!(signing::generate_key, module)?)?;
    module.add_function(wrap_pyfunction!(signing::sign, module)?)?;
    module.add_function(wrap_pyfunction!(registry::push, module)?)?;
    module.add_function(wrap_pyfunction!(registry::pull, module)?)?;
    module.add_function(wrap_pyfunction!(registry::tag, module)?)?;
    module.add_function(wrap_pyfunction!(registry::tags, module)?)?;
    module.add_function(wrap_pyfunction!(upkeep::runners, module)?)?;
    module.add_function(wrap_pyfunction!(upkeep::install_runner, module)?)?;
    module.add_function(wrap_pyfunction!(upkeep::cache_list, module)?)?;
    module.add_function(wrap_pyfunction!(upkeep::cache_prune, module)?)?;
    module.add_function(wrap_pyfunction!(upkeep::cache_remove, module)?)?;
    module.add_function(wrap_pyfunction!(specs::cast_inputs, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_numbers, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_strings, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_struct, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::from_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::from_dlpack, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::to_dlpack, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_files::tensor_convert, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_files::tensor_diff, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_files::tensor_merge, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_files::tensor_merge_adapters, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_files::tensor_quantize, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_files::tensor_save, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_files::tensor_validate, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_files::tensor_verify, module)?)?;
    module.add_function(wrap_pyfunction!(reports::take_log, module)?)?;
    module.add_function(wrap_pyfunction!(reports::start_log, module)?)?;
    module.add_class::<arrow::ArrowArray>()?;
    module.add_class::<bridge::Bridge>()?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<model::Sealed>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<package::Package>()?;
    module.add_class::<rows::MappedRows>()?;
    module.add_class::<specs::TensorSpec>()?;
    module.add_class::<tensor_files::TensorFile>()?;
    Ok(())
}
