//! A loaded TorchScript module: the arguments of its forward, the memory that forward may write to, and calls.

use std::ptr::{NonNull, null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use carton_runner_interface::runner::RunnerError;
use carton_tensor::Storage;

use super::results::Results;
use super::shim::{self, bytes_of, slice_of};
use super::value::{Shared, Value, owner};
use super::value_type::ValueType;

/// An argument of forward, without `self`.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The name in forward's signature.
    pub name: String,
    /// The type as TorchScript writes it.
    pub type_name: String,
    /// The type.
    pub value_type: ValueType,
    /// Whether the argument may be left out, because it has a default or may be `None`.
    pub may_be_missing: bool,
}

/// The device that a model runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The CPU.
    Cpu,
    /// The GPU with this index among those that CUDA shows.
    Cuda(i32),
}

/// The memory that forward may write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// Memory of its inputs, in the same call or, because it keeps them, in a later one.
    pub writes_inputs: bool,
    /// Attributes of its module, so that two calls must not run at once.
    pub changes_module: bool,
}

impl Effects {
    /// The effects to assume for a module that could not be analysed.
    pub const ALL: Self = Self { writes_inputs: true, changes_module: true };
}

/// A loaded module with a method forward.
pub struct Module {
    module: NonNull<shim::Module>,
    device: Device,
    effects: Effects,
    analysis_error: Option<RunnerError>,
    /// Held by each call if forward may change the module, until the call's results are dropped: they may be the module's
    /// attributes.
    alone: Mutex<()>,
}

// SAFETY: libtorch's modules belong to no thread; `carton_run` sets up the state that a thread needs.
unsafe impl Send for Module {}
// SAFETY: as above, and libtorch can run one module in several threads at once as long as forward does not change it. If
// `effects` says that it may, `run` runs one call at a time.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the archive in `bytes`, which libtorch copies once, into the tensors, and finds the effects of forward by libtorch's
    /// alias analysis.
    ///
    /// # Errors
    /// libtorch refuses the archive.
    pub fn load(bytes: Arc<dyn Storage>, device: Device) -> Result<Self, RunnerError> {
        let bytes = Arc::new(bytes);
        let cuda = match device {
            Device::Cpu => -1,
            Device::Cuda(index) => index,
        };
        let mut module = null_mut();
        let archive = bytes.bytes();
        // SAFETY: the owner keeps the bytes for as long as the shim retains it; `module` may be written to.
        let status =
            unsafe { shim::carton_load(archive.as_ptr(), archive.len(), owner(&bytes), cuda, &raw mut module) };
        status.check()?;
        let module = NonNull::new(module).ok_or_else(|| RunnerError::new("libtorch loaded nothing"))?;
        let mut loaded = Self { module, device, effects: Effects::ALL, analysis_error: None, alone: Mutex::new(()) };
        match loaded.analyse() {
            Ok(effects) => loaded.effects = effects,
            Err(error) => loaded.analysis_error = Some(error),
        }
        Ok(loaded)
    }

    /// The arguments of forward without `self`.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut arguments = null();
        // SAFETY: the module is alive, and so are its arguments while we copy them.
        let arguments = unsafe {
            let n_arguments = shim::carton_arguments(self.module.as_ptr(), &raw mut arguments);
            slice_of(arguments, n_arguments)
        };
        // SAFETY: as above.
        let text = |text| String::from_utf8_lossy(unsafe { bytes_of(text) }).into_owned();
        let argument = |argument: &shim::Argument| {
            let value_type = ValueType::from_json(&text(argument.structure));
            Argument {
                name: text(argument.name),
                type_name: text(argument.type_name),
                may_be_missing: argument.has_default || matches!(value_type, ValueType::Optional(_)),
                value_type,
            }
        };
        arguments.iter().map(argument).collect()
    }

    /// The memory that forward may write to; everything if the analysis failed.
    pub fn effects(&self) -> Effects {
        self.effects
    }

    /// The error of the analysis of forward, if it failed.
    pub fn analysis_error(&self) -> Option<&RunnerError> {
        self.analysis_error.as_ref()
    }

    /// Whether each call copies its inputs because it may write to them. On a GPU they are always copies.
    pub fn copies_inputs(&self) -> bool {
        self.device == Device::Cpu && self.effects.writes_inputs
    }

    fn analyse(&self) -> Result<Effects, RunnerError> {
        let mut effects = Effects::ALL;
        let Effects { writes_inputs, changes_module } = &mut effects;
        // SAFETY: the module is alive; both flags may be written to.
        unsafe { shim::carton_effects(self.module.as_ptr(), writes_inputs, changes_module) }.check()?;
        Ok(effects)
    }

    /// Runs forward on its arguments in order, each a value of the argument's type. If forward may change its module, waits until the
    /// results of all earlier calls are dropped.
    ///
    /// # Errors
    /// libtorch or the model reports an error.
    pub fn run(&self, values: &[Value]) -> Result<Results<'_>, RunnerError> {
        let mut shared = Shared::default();
        let values = shared.list(values);
        let copy = self.copies_inputs();
        let alone = self.effects.changes_module.then(|| self.alone.lock().unwrap_or_else(PoisonError::into_inner));
        let mut results = null_mut();
        // SAFETY: the module is alive, and everything that the values point to lives until the call is over; libtorch retains what
        // it keeps longer through its owner. Nothing writes to the values: if forward may, it gets copies. `results` may be written to.
        let status =
            unsafe { shim::carton_run(self.module.as_ptr(), values.as_ptr(), values.len(), copy, &raw mut results) };
        status.check()?;
        let results = NonNull::new(results).ok_or_else(|| RunnerError::new("libtorch returned nothing"))?;
        Ok(Results::new(results, alone))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: we own the module, and it is not used after this.
        unsafe { shim::carton_module_free(self.module.as_ptr()) }
    }
}
