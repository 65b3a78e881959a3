//! The runner's side: a framework behind one synchronous trait.
//!
//! ```no_run
//! use carton_runner_interface::Tensors;
//! use carton_runner_interface::runner::{self, Call, Description, LoadRequest, Runner, RunnerError};
//!
//! struct Echo;
//!
//! impl Runner for Echo {
//!     fn describe() -> Description {
//!         Description { name: "echo".to_owned(), framework_version: "1.0.0".to_owned() }
//!     }
//!     fn load(_: LoadRequest, _: &Call) -> Result<Self, RunnerError> {
//!         Ok(Self)
//!     }
//!     fn infer(&self, inputs: Tensors, _: &Call) -> Result<Tensors, RunnerError> {
//!         Ok(inputs)
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     runner::run::<Echo>()
//! }
//! ```

mod call;
mod device;
mod dispatch;
mod embedded;
mod error;
mod files;
mod model_file;
mod model_options;
mod process;
mod server;
mod state;

use std::any::Any;

use carton_tensor::DataType;

pub use call::{Call, OutputStream};
pub use device::Device;
pub use embedded::{EmbeddedRunner, ModelFilesMode};
pub use error::{RunnerError, RunnerErrorKind};
pub use files::ModelFiles;
pub use model_file::ModelFile;
pub use model_options::{ModelOptions, wrong_option};
pub use process::run;
pub use server::serve;
pub use state::{ServeError, ServeOptions};

pub use crate::model::{DeclaredTensor, Options, PackRequest, PackResponse, Prepared, Statement};
pub use carton_tensor::Tensors;

/// How a runner introduces itself to the host.
#[derive(Clone, Debug)]
pub struct Description {
    /// The runner's name, as `runner_name` of a carton names it.
    pub name: String,
    /// The version of the framework that runs its models.
    pub framework_version: String,
}

/// A framework that loads and runs models.
///
/// Implement this and call [`run`] from `main`. Calls come from several threads at once, at most
/// [`max_concurrency`](Self::max_concurrency) of them.
pub trait Runner: Send + Sync + Sized + 'static {
    /// The dtypes that the runner takes as they are. It gets tensors of other ones as their [carriers](DataType::carrier), and may return
    /// tensors of any dtype.
    const DTYPES: &'static [DataType] = &DataType::V1;

    /// The name and framework version of this runner.
    fn describe() -> Description;

    /// Loads a model. An implementation must warn about unknown options through `call`.
    ///
    /// # Errors
    /// The reason for which the model cannot be loaded, in words that a user can act on.
    fn load(request: LoadRequest, call: &Call) -> Result<Self, RunnerError>;

    /// Makes what a model needs before it can be loaded. Called in a process that does nothing else, after [`load`](Self::load)
    /// failed with [`RunnerErrorKind::Unprepared`] in another one. It may use the network, and must not run anything of the
    /// model. The default needs nothing.
    ///
    /// # Errors
    /// The reason for which the model cannot be loaded on this machine.
    fn prepare(request: LoadRequest, call: &Call) -> Result<Prepared, RunnerError> {
        let _ = (request, call);
        Ok(Prepared::default())
    }

    /// Prepares a model for packing: returns what to put into `model/`, and the signature read from the model.
    /// The default packs the input unchanged.
    ///
    /// # Errors
    /// The reason for which the model cannot be packed.
    fn pack(request: PackRequest, call: &Call) -> Result<PackResponse, RunnerError> {
        for name in request.pack_options.keys() {
            call.warn(&format!("the {} runner has no pack option `{name}`", Self::describe().name));
        }
        Ok(PackResponse { path: request.path, ..PackResponse::default() })
    }

    /// The most calls that may run at once. The host queues further calls.
    fn max_concurrency(&self) -> usize {
        1
    }

    /// Returns what the loaded model states about itself, to [`pack`](Self::pack) what cannot be read from its files. The default is nothing.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    fn state(&self, call: &Call) -> Result<Statement, RunnerError> {
        let _ = call;
        Ok(Statement::default())
    }

    /// Runs the model once.
    ///
    /// # Errors
    /// An error of the model or the framework. The runner goes on.
    fn infer(&self, inputs: Tensors, call: &Call) -> Result<Tensors, RunnerError>;

    /// Runs the model and sends outputs as they are ready. The default sends the outputs of [`infer`](Self::infer) as one item.
    ///
    /// # Errors
    /// As [`infer`](Self::infer); [`OutputStream::send`] fails when the call was cancelled.
    fn infer_stream(&self, inputs: Tensors, call: &Call, outputs: &mut OutputStream<'_>) -> Result<(), RunnerError> {
        outputs.send(self.infer(inputs, call)?)
    }

    /// Prepares inputs once for many calls of [`infer_sealed`](Self::infer_sealed). The default keeps the tensors.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    fn seal(&self, inputs: Tensors, call: &Call) -> Result<Sealed, RunnerError> {
        let _ = call;
        Ok(Box::new(inputs))
    }

    /// Runs the model on inputs that [`seal`](Self::seal) prepared.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    fn infer_sealed(&self, sealed: &Sealed, call: &Call) -> Result<Tensors, RunnerError> {
        let inputs = sealed
            .downcast_ref::<Tensors>()
            .ok_or_else(|| RunnerError::new("this runner seals inputs but does not run sealed ones"))?;
        self.infer(inputs.clone(), call)
    }
}

/// Inputs that [`Runner::seal`] prepared, in a form of the runner's choice.
pub type Sealed = Box<dyn Any + Send + Sync>;

/// A request to load a model, with its files opened for the runner.
pub type LoadRequest = crate::model::LoadRequest<ModelFiles>;
