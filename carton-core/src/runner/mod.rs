//! Runners (spec/runner-descriptor.md): finds the existing ones, selects one that fits a model, installs and packages them, and
//! starts and supervises their processes.
//!
//! This module never opens a carton. The protocol that runners speak is in `carton-runner-interface`.

mod available;
mod choose;
pub(crate) mod descriptor;
mod embedded;
mod fetch;
mod folder;
#[cfg(fuzzing)]
pub mod fuzzing;
mod index;
mod install;
pub(crate) mod launch;
mod launcher;
mod library;
mod needs;
mod package;
mod release_date;
mod remove;
mod select;
pub(crate) mod session;
mod unpack;
mod wheel;
mod workspace;

pub(crate) use available::AvailableError;
pub use available::{AvailableRunners, BrokenRunner};
pub use carton_network::place::{Place, PlaceError};
pub use carton_runner_interface::runner::{EmbeddedRunner, ModelFilesMode};
pub(crate) use choose::{RunnerSources, choose};
pub use descriptor::{Descriptor, ExecutablePaths, INTERFACE_VERSION};
pub use embedded::{RUNNER_ARGUMENT, runner_main, runners_of};
pub use index::{BrokenEntry, IndexEntry, MAX_INDEX_BYTES, MAX_INDEX_ENTRIES, Part, RunnerIndex};
pub(crate) use install::InstallError;
pub use install::{Assembled, Installed, Installer, RunnerFile};
pub use launch::{LaunchPolicy, end_all};
pub(crate) use launch::{launch_setters, places_of_program};
pub(crate) use launcher::launcher;
pub use library::{FoundLibrary, LibraryNeed, LibraryWheel};
pub use needs::{PrepareNeeds, SandboxNeeds};
pub use package::{OfferedRunner, Packaged, add_to_index, archive_name, package};
pub use release_date::{RELEASE_DATE, ReleaseDate, ReleaseDateError};
pub use remove::remove;
pub use select::{NoRunner, Rejection, Requirement, Searched, reject, select};
pub(crate) use session::Crash;
pub use wheel::WheelFile;
pub use workspace::Workspace;

use descriptor::DescriptorError;
use index::RunnerIndexError;

/// The target triple that this library was built for.
pub const PLATFORM: &str = env!("CARTON_TARGET");

/// The target triples that the compiler of this library knows.
pub(crate) fn known_platforms() -> impl Iterator<Item = &'static str> {
    include_str!(concat!(env!("OUT_DIR"), "/target_triples")).lines()
}
