//! Installs runners that need a library of this machine (spec/runner-descriptor.md, "Libraries of the machine"): finds the library, chooses
//! the runner that was built for it, links it, and runs models before the runner gets its name.

mod error;
mod libtorch;
mod proof;
mod wheels;

use std::path::PathBuf;

use carton_core::runner::{Assembled, Descriptor, FoundLibrary, Installed, Installer, LibraryNeed, Requirement};
use carton_core::{CancelToken, Config};

use self::error::LibraryError;
use super::consent::Consent;
use super::package_manager::PackageManager;
use super::uv;
use crate::failure::Failure;
use crate::text::{byte_size, one_line};

/// What the user asked for.
pub(super) struct Request<'a> {
    pub(super) requirement: &'a Requirement,
    /// `--torch`.
    pub(super) torch: Option<PathBuf>,
    pub(super) consent: Consent,
    pub(super) config: &'a Config,
    /// Receives the current stage.
    pub(super) report: &'a (dyn Fn(&str) + Sync),
    /// Receives what the user should know.
    pub(super) warn: &'a (dyn Fn(&str) + Sync),
    pub(super) cancel_token: &'a CancelToken,
}

/// The library that was linked.
#[derive(Debug)]
pub(super) struct Linked {
    pub(super) name: String,
    pub(super) library: FoundLibrary,
    /// Where it is from, in words.
    pub(super) origin: String,
}

/// A library, and the runner for it: its position in the list of those that are offered.
pub(super) struct Choice {
    pub(super) position: usize,
    linked: Linked,
}

impl Request<'_> {
    /// Chooses one of the `offered` runners, which all need a library of this machine, and a library for it. Looks for the library where the
    /// user says, in the active Python environments, in the wheels that the runners pin, and among the system's libraries, in this order.
    /// `None` if the requirement excludes all that are offered.
    pub(super) fn choose(&self, installer: &Installer<'_>, offered: &[&Descriptor]) -> Result<Option<Choice>, Failure> {
        if let Some(unknown) =
            offered.iter().filter_map(|runner| runner.library.as_ref()).find(|need| need.name != libtorch::NAME)
        {
            return Err(LibraryError::Unknown { name: unknown.name.clone() }.into());
        }
        if let Some(path) = &self.torch {
            let library = libtorch::at(path, self.cancel_token)?;
            let position = self.fitting(offered, &library)?;
            return Ok(Some(choice(position, library, path.display().to_string())));
        }
        for (variable, path) in libtorch::active_environments() {
            let found = libtorch::at(&path, self.cancel_token);
            match found.and_then(|library| Ok((self.fitting(offered, &library)?, library))) {
                Ok((position, library)) => {
                    return Ok(Some(choice(position, library, format!("{} ({variable})", path.display()))));
                }
                Err(LibraryError::Interrupted) => return Err(LibraryError::Interrupted.into()),
                // Most environments have no torch.
                Err(LibraryError::NoPackage { .. } | LibraryError::NotThere { .. }) => {}
                Err(error) => (self.warn)(&format!("{variable} is not used: {error}")),
            }
        }
        self.of_wheels_or_system(installer, offered)
    }

    /// Takes the newest runner that meets the requirement and whose library can be had.
    fn of_wheels_or_system(
        &self,
        installer: &Installer<'_>,
        offered: &[&Descriptor],
    ) -> Result<Option<Choice>, Failure> {
        let required = self.requirement.framework_version.as_ref();
        let mut newest: Vec<(usize, &Descriptor)> = offered.iter().copied().enumerate().collect();
        newest.sort_by(|(_, a), (_, b)| {
            let key = |runner: &Descriptor| (runner.framework_version.clone(), runner.runner_release_date.clone());
            key(b).cmp(&key(a))
        });
        let fits = |library: &FoundLibrary| {
            let needs = offered.iter().filter_map(|runner| runner.library.as_ref());
            needs
                .into_iter()
                .any(|need| need.version.matches(&library.version) && need.missing_in(&library.folder).is_none())
        };
        let system = libtorch::of_system(self.cancel_token).filter(fits);
        let mut missing = None;
        for (position, runner) in newest {
            let Some(need) = &runner.library else { continue };
            let is_required = |version| required.is_none_or(|required| required.matches(version));
            if !need.wheels.is_empty() && is_required(&runner.framework_version) {
                let (library, origin) = self.of_wheels(installer, runner, need, system.as_ref())?;
                return Ok(Some(choice(position, library, origin)));
            }
            if let Some(library) = &system
                && need.version.matches(&library.version)
                && is_required(&library.version)
                && need.missing_in(&library.folder).is_none()
            {
                return Ok(Some(choice(position, library.clone(), "the system".to_owned())));
            }
            if is_required(&runner.framework_version) {
                missing.get_or_insert(need);
            }
        }
        match missing {
            Some(need) => Err(LibraryError::NotFound { name: need.name.clone(), version: need.version.clone() }.into()),
            None => Ok(None),
        }
    }

    /// Installs the library of a runner from its wheels, after asking, unless it is there already.
    fn of_wheels(
        &self,
        installer: &Installer<'_>,
        runner: &Descriptor,
        need: &LibraryNeed,
        system: Option<&FoundLibrary>,
    ) -> Result<(FoundLibrary, String), Failure> {
        let data = &self.config.runner_data_dir;
        let Some(first) = need.wheels.first() else {
            return Err(LibraryError::NotFound { name: need.name.clone(), version: need.version.clone() }.into());
        };
        let origin = format!("{} {}", first.name, first.version);
        if let Some(library) = wheels::installed(runner, need, data) {
            return Ok((library, format!("the wheel of {origin}")));
        }
        let mut otherwise = format!(
            "`--yes` agrees; `--torch PATH` takes the {} of a Python environment or of a folder instead, and an active environment that has \
             it is taken without asking",
            need.name
        );
        if let Some(system) = system {
            otherwise.push_str(&format!(
                "; `carton runner install {}@={}` takes that of the system",
                runner.runner_name, system.version
            ));
        }
        let question = format!(
            "Install {} {} from the wheel of {origin} ({}) into {}?",
            need.name,
            runner.framework_version,
            byte_size(need.wheels_size()),
            one_line(&wheels::root(need, data).display().to_string())
        );
        let action =
            format!("installing {} {} ({})", need.name, runner.framework_version, byte_size(need.wheels_size()));
        self.consent.ask(&question, &action, &otherwise, self.cancel_token)?;
        let manager = self.package_manager(installer)?;
        (self.report)(&format!("installing {} {} with {}", need.name, runner.framework_version, manager.name()));
        let library = wheels::install(runner, need, &manager, self.config, self.cancel_token)?;
        Ok((library, format!("the wheel of {origin}, by {}", manager.name())))
    }

    /// Returns `uv` or `pip`. Where neither is there, installs `uv`: the user has agreed to the larger download.
    fn package_manager(&self, installer: &Installer<'_>) -> Result<PackageManager, Failure> {
        let data = &self.config.runner_data_dir;
        if let Some(manager) = PackageManager::all_usable(data, self.cancel_token).into_iter().next() {
            return Ok(manager);
        }
        let uv = uv::bring_in(installer, data, &self.consent, self.cancel_token)?;
        Ok(PackageManager::Uv(uv.path))
    }

    /// Returns the position of the runner that was built for a library.
    fn fitting(&self, offered: &[&Descriptor], library: &FoundLibrary) -> Result<usize, LibraryError> {
        let FoundLibrary { version, folder, .. } = library;
        let name = libtorch::NAME.to_owned();
        if let Some(required) =
            self.requirement.framework_version.as_ref().filter(|required| !required.matches(version))
        {
            let (folder, found) = (folder.clone(), version.clone());
            return Err(LibraryError::NotRequired { name, folder, found, required: required.clone() });
        }
        let needs = || {
            offered
                .iter()
                .enumerate()
                .filter_map(|(position, runner)| Some((position, *runner, runner.library.as_ref()?)))
        };
        let built_for = needs().filter(|(_, _, need)| need.version.matches(version));
        let newest = built_for.max_by_key(|(_, runner, _)| (&runner.framework_version, &runner.runner_release_date));
        let Some((position, _, need)) = newest else {
            let mut offered: Vec<String> = needs().map(|(_, _, need)| need.version.to_string()).collect();
            offered.dedup();
            let (folder, found) = (folder.clone(), version.clone());
            return Err(LibraryError::NotOffered { name, folder, found, offered: offered.join(", ") });
        };
        match need.missing_in(folder) {
            Some(file) => {
                let (folder, version) = (folder.clone(), version.clone());
                Err(LibraryError::Incomplete { name, version, folder, file: file.to_owned() })
            }
            None => Ok(position),
        }
    }

    /// Links the library, runs models, and installs the runner.
    pub(super) fn install(
        &self,
        installer: &Installer<'_>,
        mut assembled: Assembled,
        choice: Choice,
    ) -> Result<(Installed, Linked), Failure> {
        let Choice { linked, .. } = choice;
        assembled.link(&linked.library)?;
        (self.report)(&format!("running models with {} {}", linked.name, linked.library.version));
        proof::prove(&assembled, self.config).map_err(|failure| {
            failure.because_of_it(format!(
                "runner {} does not run models with the {} in `{}`",
                assembled.descriptor(),
                linked.name,
                linked.library.folder.display()
            ))
        })?;
        Ok((installer.install(assembled)?, linked))
    }
}

fn choice(position: usize, library: FoundLibrary, origin: String) -> Choice {
    Choice { position, linked: Linked { name: libtorch::NAME.to_owned(), library, origin } }
}
