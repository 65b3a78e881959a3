//! The work of `carton runner install`, on a thread that may block.

use std::path::PathBuf;
use std::sync::Arc;

use carton_core::runner::{
    Assembled, Descriptor, IndexEntry, Installed, Installer, PLATFORM, Place, Requirement, RunnerIndex, reject,
};
use carton_core::{CancelToken, Config, Error, ErrorKind};
use carton_tensor::context::Cancelled;
use parking_lot::Mutex;

use super::consent::Consent;
use super::installed::Done;
use super::library::{Linked, Request};
use crate::failure::Failure;
use crate::progress::Unit;
use crate::python;

/// An option that does not go with what is installed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Misuse {
    #[error("--sha256 is the hash of an archive, and none is named")]
    NoArchive,
    #[error("{0} applies only to the runner `python`")]
    NoPythonRunner(&'static str),
    #[error("--without-onnxruntime goes with the runner onnx alone")]
    NotOnnx,
    #[error("--torch goes with runners that need libtorch; {0} does not")]
    NoLibrary(String),
}

/// What the work needs of the arguments and the context.
pub(super) struct Job {
    pub(super) index: Option<Place>,
    pub(super) only_index: bool,
    pub(super) python: Option<String>,
    pub(super) torch: Option<PathBuf>,
    pub(super) consent: Consent,
    pub(super) config: Config,
    pub(super) warnings: Arc<Mutex<Vec<String>>>,
}

impl Job {
    /// Installs a runner that was unpacked or copied.
    pub(super) fn assembled(
        &self,
        installer: &Installer<'_>,
        assembled: Assembled,
        source: String,
        cancel_token: &CancelToken,
    ) -> Result<Done, Failure> {
        if assembled.descriptor().library.is_none() {
            if self.torch.is_some() {
                return Err(Failure::usage(Misuse::NoLibrary(assembled.descriptor().to_string())));
            }
            return Ok(Done::new(installer.install(assembled)?, source));
        }
        let any = Requirement::new(&assembled.descriptor().runner_name);
        let found = self.with_request(&any, cancel_token, |request| {
            let choice = request.choose(installer, &[assembled.descriptor()])?;
            choice.map(|choice| request.install(installer, assembled, choice)).transpose()
        })?;
        let (installed, linked) = found.ok_or(Cancelled)?;
        Ok(Done { installed, source, linked: Some(linked) })
    }

    pub(super) fn python(
        &self,
        installer: &Installer<'_>,
        requirement: &Requirement,
        cancel_token: &CancelToken,
    ) -> Result<Done, Failure> {
        let (installed, interpreter) = python::install(installer, self.python.as_deref(), requirement, cancel_token)?;
        Ok(Done::new(installed, interpreter))
    }

    /// Installs a runner by name: from the index, or else from this program. If neither has it, the error is that of the index.
    pub(super) fn named(
        &self,
        installer: &Installer<'_>,
        requirement: &Requirement,
        cancel_token: &CancelToken,
    ) -> Result<Done, Failure> {
        let own = || {
            if is_python(requirement) {
                return self.python(installer, requirement, cancel_token);
            }
            Ok(Done::new(installer.from_program(requirement)?, "this program"))
        };
        let Some(place) = &self.index else {
            return own();
        };
        let error = match installer.index(place) {
            Ok(index) => match self.of_index(installer, &index, place, requirement, cancel_token) {
                Ok(done) => return Ok(done),
                Err(OfIndex::Absent(error)) => {
                    // One of them may be the runner that is asked for.
                    let broken = index.broken().iter();
                    self.warnings.lock().extend(broken.map(|entry| {
                        format!("entry {} of the index {place} cannot be used: {}", entry.position, entry.reason)
                    }));
                    error
                }
                Err(OfIndex::Failed(failure)) => return Err(failure),
            },
            Err(error) => error,
        };
        let absent = error.no_runner().is_some() || (self.config.offline && error.kind() == ErrorKind::Network);
        if absent && !self.only_index {
            match own() {
                Ok(done) => return Ok(done),
                // The index is not expected to have it, so this error says more.
                Err(own) if is_python(requirement) => return Err(own),
                Err(_) => {}
            }
        }
        Err(error.into())
    }

    /// Installs a runner of an index.
    fn of_index(
        &self,
        installer: &Installer<'_>,
        index: &RunnerIndex,
        place: &Place,
        requirement: &Requirement,
        cancel_token: &CancelToken,
    ) -> Result<Done, OfIndex> {
        let chosen = index.select(place, requirement);
        let any = Requirement::new(&requirement.name).compat_version(requirement.compat_version);
        let with_library = |entry: &&IndexEntry| {
            let runner = &entry.descriptor;
            runner.library.is_some() && runner.runner_name == any.name && reject(runner, &any, PLATFORM).is_none()
        };
        let with_library: Vec<&IndexEntry> = index.entries().iter().filter(with_library).collect();
        let is_complete = chosen.as_ref().is_ok_and(|entry| entry.descriptor.library.is_none());
        if (!is_complete || self.torch.is_some())
            && let Some((installed, linked)) =
                self.of_entries(installer, &with_library, requirement, cancel_token).map_err(OfIndex::Failed)?
        {
            return Ok(Done { installed, source: place.to_string(), linked: Some(linked) });
        }
        let entry = chosen.map_err(|none| OfIndex::Absent(none.into()))?;
        if self.torch.is_some() {
            return Err(OfIndex::Failed(Failure::usage(Misuse::NoLibrary(entry.descriptor.to_string()))));
        }
        Ok(Done::new(installer.from_entry(entry).map_err(OfIndex::Absent)?, place.to_string()))
    }

    /// Installs one of the runners that need a library; `None` if the requirement excludes them all.
    fn of_entries(
        &self,
        installer: &Installer<'_>,
        entries: &[&IndexEntry],
        requirement: &Requirement,
        cancel_token: &CancelToken,
    ) -> Result<Option<(Installed, Linked)>, Failure> {
        if entries.is_empty() {
            return Ok(None);
        }
        let descriptors: Vec<&Descriptor> = entries.iter().map(|entry| &entry.descriptor).collect();
        self.with_request(requirement, cancel_token, |request| {
            let Some(choice) = request.choose(installer, &descriptors)? else { return Ok(None) };
            let Some(entry) = entries.get(choice.position) else { return Ok(None) };
            let assembled = installer.assemble_entry(entry)?;
            request.install(installer, assembled, choice).map(Some)
        })
    }

    /// Calls `work` with what installing a runner with a library takes.
    fn with_request<T>(
        &self,
        requirement: &Requirement,
        cancel_token: &CancelToken,
        work: impl FnOnce(&Request<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let request = Request {
            requirement,
            torch: self.torch.clone(),
            consent: self.consent.clone(),
            config: &self.config,
            report: &|stage| self.consent.progress.update(stage, 0, None, Unit::Other),
            warn: &|warning| self.warnings.lock().push(warning.to_owned()),
            cancel_token,
        };
        work(&request)
    }
}

/// Why an index did not give a runner.
enum OfIndex {
    /// The error of the index, which another source of the runner may replace.
    Absent(Error),
    Failed(Failure),
}

/// Whether this is the runner `python`, which is made for an interpreter.
pub(super) fn is_python(requirement: &Requirement) -> bool {
    requirement.name == python::RUNNER_NAME
        && requirement.compat_version.is_none_or(|version| python::COMPAT_VERSIONS.contains(&version))
}
