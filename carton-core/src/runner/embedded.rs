//! Runners that are linked into the program, which starts its own executable again as the runner process
//! (spec/runner-descriptor.md, "Runners inside a program").
//!
//! This works only for a program that calls [`runner_main`] first in its `main`. The library never re-executes a program that did
//! not ask for it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use carton_runner_interface::runner::EmbeddedRunner;

use super::descriptor::{Descriptor, INTERFACE_VERSION};
use super::needs::SandboxNeeds;
use super::release_date::RELEASE_DATE;

/// The first argument of an executable that is started as one of its own runners. The second is the runner's name.
pub const RUNNER_ARGUMENT: &str = "__carton-runner";

struct Registered {
    executable: PathBuf,
    runners: &'static [EmbeddedRunner],
}

static REGISTERED: OnceLock<Registered> = OnceLock::new();

/// Makes `runners` available to this process. If the process was started as one of them, runs it and exits. So it does if the process was
/// started to confine a runner (`carton-sandbox`): whoever calls this needs no other launcher.
///
/// Call it first in `main`, before starting threads or reading arguments:
///
/// ```
/// # static RUNNERS: &[carton_core::runner::EmbeddedRunner] = &[];
/// carton_core::runner_main(RUNNERS);
/// // … the program itself …
/// ```
pub fn runner_main(runners: &'static [EmbeddedRunner]) {
    carton_sandbox::launcher_main();
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() == Some(OsStr::new(RUNNER_ARGUMENT)) {
        exit(run_named(runners, arguments.next()));
    }
    let Some(executable) = own_executable() else { return };
    // A second call has no effect: the runners of the first one are registered.
    let _ = REGISTERED.set(Registered { executable, runners });
}

/// Returns the executable of this process. Where the system cannot name it because `/proc` is missing, returns the link there that leads to
/// it: the runners are known all the same, and starting one reports what is missing.
fn own_executable() -> Option<PathBuf> {
    let known = std::env::current_exe().ok();
    known.or_else(|| cfg!(target_os = "linux").then(|| PathBuf::from(OWN_EXECUTABLE)))
}

/// The link to the executable of a process, on Linux.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// Makes `runners` available to this process that are part of another program: `executable` calls [`runner_main`] with the same ones. A
/// library that is loaded into a program of others brings its runners in this way.
///
/// Has no effect after a call of [`runner_main`], or after another call of this function.
pub fn runners_of(executable: impl Into<PathBuf>, runners: &'static [EmbeddedRunner]) {
    let _ = REGISTERED.set(Registered { executable: executable.into(), runners });
}

fn run_named(runners: &[EmbeddedRunner], name: Option<OsString>) -> ExitCode {
    match runners.iter().find(|runner| name.as_deref() == Some(OsStr::new(runner.name))) {
        Some(runner) => (runner.run)(),
        None => {
            let names: Vec<&str> = runners.iter().map(|runner| runner.name).collect();
            let name = name.unwrap_or_default();
            eprintln!("no embedded runner `{}`, there are: {}", name.to_string_lossy(), names.join(", "));
            ExitCode::from(2)
        }
    }
}

fn exit(code: ExitCode) -> ! {
    // An `ExitCode` does not tell its number.
    std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 1 })
}

/// Returns the program that [`runner_main`] or [`runners_of`] named.
pub(crate) fn executable() -> Option<&'static Path> {
    REGISTERED.get().map(|registered| registered.executable.as_path())
}

/// Returns the descriptors of the runners that [`runner_main`] registered. Their libraries are looked for in `runner_data_dir`.
pub(crate) fn descriptors(runner_data_dir: &Path) -> Vec<Descriptor> {
    let Some(Registered { executable, runners }) = REGISTERED.get() else { return Vec::new() };
    runners
        .iter()
        .filter_map(|runner| {
            let found = runner.find_framework_version.and_then(|find| find(runner_data_dir));
            let framework_version = found.and_then(|version| semver::Version::parse(&version).ok());
            Some(Descriptor {
                runner_name: runner.name.to_owned(),
                framework_version: match framework_version {
                    Some(version) => version,
                    None => semver::Version::parse(runner.framework_version).ok()?,
                },
                runner_compat_version: runner.compat_version,
                runner_interface_version: INTERFACE_VERSION,
                runner_release_date: RELEASE_DATE.parse().ok()?,
                runner_path: executable.clone(),
                args: vec![RUNNER_ARGUMENT.to_owned(), runner.name.to_owned()],
                platform: super::PLATFORM.to_owned(),
                files: runner.files,
                environment: Vec::new(),
                sandbox: SandboxNeeds {
                    data: runner.data.iter().map(|&name| name.to_owned()).collect(),
                    read_variables: runner.read_variables.iter().map(|&name| name.to_owned()).collect(),
                    ..SandboxNeeds::default()
                },
                prepare: None,
                library: None,
                folder: None,
            })
        })
        .collect()
}
