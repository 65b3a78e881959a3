//! Runners: which there are, which one fits a model, and how its process is started and watched.
//!
//! Nothing here opens a carton.

pub mod descriptor;
mod embedded;
mod install;
pub mod launch;
mod registry;
mod select;
pub(crate) mod session;

pub use descriptor::{Descriptor, DescriptorError, INTERFACE_VERSION, ModelFilesMode};
pub use embedded::{EmbeddedRunner, RUNNER_ARGUMENT, runner_main};
pub use install::{InstallError, install_embedded};
pub use registry::{BrokenRunner, Registry, RegistryError};
pub use select::{NoRunner, Rejection, Requirement, reject, select};
pub use session::Crash;

/// The target triple this library was built for.
pub const PLATFORM: &str = env!("CARTON_TARGET");
