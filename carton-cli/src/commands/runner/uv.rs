//! Installs `uv`, which makes the environments of Python models, from its wheel, where it is missing.
//!
//! ```text
//! <runner_data_dir>/uv/<version>/uv     found there by the python runner and by this command
//! ```

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use carton_core::runner::{Installer, PLATFORM, WheelFile, Workspace};
use carton_core::{CancelToken, Sha256Digest};
use semver::Version;

use super::consent::Consent;
use super::package_index::package_index;
use super::parse_place;
use crate::failure::{Exit, Failure};
use crate::python::UV_FOLDER;
use crate::text::{byte_size, one_line};
use carton_core::program::{Ended, run};

pub(super) const VERSION: &str = "0.13.9";
/// The wheels: platform, tag of the wheel, hash, bytes. Those with musl work on the same systems, and are not needed.
const WHEELS: [(&str, &str, &str, u64); 2] = [
    (
        "x86_64-unknown-linux-gnu",
        "manylinux_2_17_x86_64.manylinux2014_x86_64",
        "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
        17_606_939,
    ),
    (
        "aarch64-unknown-linux-gnu",
        "manylinux_2_28_aarch64",
        "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
        16_864_124,
    ),
];

/// The timeout for printing a version.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An installed `uv`.
pub(super) struct Uv {
    pub(super) path: PathBuf,
    /// The package index that it is from.
    pub(super) source: String,
}

/// Why `uv` is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum UvError {
    #[error("there is no wheel of uv for {PLATFORM}")]
    Platform,
    #[error("the wheel of uv has no usable program: {reason}")]
    Unusable { reason: String },
    #[error("cannot {what} `{}`", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
}

fn io<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Failure + 'a {
    move |source| Failure::new(UvError::Io { what, path: path.to_path_buf(), source })
}

/// What can be done where `uv` is missing.
const OTHERWISE: &str = "`--yes` agrees; or install uv in another way: https://docs.astral.sh/uv/";

/// Returns the newest `uv` that this command has installed.
pub(super) fn installed(runner_data_dir: &Path) -> Option<PathBuf> {
    let entries = runner_data_dir.join(UV_FOLDER).read_dir().ok()?.flatten();
    let versions = entries.filter_map(|entry| {
        let version: Version = entry.file_name().to_str()?.parse().ok()?;
        let program = entry.path().join("uv");
        program.is_file().then_some((version, program))
    });
    Some(versions.max()?.1)
}

/// Returns the `uv` that the python runner would find, with `interpreter` as its interpreter. `carton_runner/environments/uv.py` looks in the
/// same places.
pub(super) fn find(runner_data_dir: &Path, interpreter: &Path, cancel_token: &CancelToken) -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let named = env::var_os("UV").filter(|value| !value.is_empty()).map(PathBuf::from);
    let in_path: Vec<PathBuf> = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let of_home = home.iter().flat_map(|home| [home.join(".local/bin"), home.join(".cargo/bin")]);
    let beside = [Some(interpreter.to_path_buf()), fs::canonicalize(interpreter).ok()];
    let beside = beside.into_iter().flatten().filter_map(|path| Some(path.parent()?.to_path_buf()));
    let folders = in_path.into_iter().filter(|folder| folder.is_absolute()).chain(of_home).chain(beside);
    let programs = named.into_iter().chain(folders.map(|folder| folder.join("uv"))).chain(installed(runner_data_dir));
    let mut programs = programs.filter(|path| path.is_file());
    if let Some(found) = programs.find(|path| version_of(Command::new(path), cancel_token).is_ok()) {
        return Some(found);
    }
    let mut module = Command::new(interpreter);
    module.args(["-I", "-m", "uv"]);
    version_of(module, cancel_token).is_ok().then(|| interpreter.to_path_buf())
}

/// Returns what `uv --version` prints, or why that failed.
fn version_of(mut command: Command, cancel_token: &CancelToken) -> Result<String, String> {
    match run(command.arg("--version"), Some(TIMEOUT), cancel_token) {
        Ok(Ended::Exited { status, stdout, .. }) if status.success() && stdout.starts_with("uv ") => Ok(stdout),
        Ok(Ended::Exited { status, stderr, .. }) => Err(format!("{status}: {stderr}")),
        Ok(Ended::TimedOut | Ended::Interrupted) => Err("it did not end".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Installs `uv` after asking.
///
/// # Errors
/// The user does not agree, there is no wheel for this platform, or it cannot be fetched.
pub(super) fn bring_in(
    installer: &Installer<'_>,
    runner_data_dir: &Path,
    consent: &Consent,
    cancel_token: &CancelToken,
) -> Result<Uv, Failure> {
    let root = runner_data_dir.join(UV_FOLDER);
    let (_, tag, sha256, size) = WHEELS.iter().find(|(platform, ..)| *platform == PLATFORM).ok_or_else(|| {
        Failure::with_exit(Exit::NoRunner, UvError::Platform).hint("install it: https://docs.astral.sh/uv/")
    })?;
    let index = package_index();
    let place = parse_place(&index).map_err(Failure::new)?;
    let source = one_line(&place.to_string());
    let question = format!(
        "Install uv {VERSION} ({}) from {source} into {}?",
        byte_size(*size),
        one_line(&root.display().to_string())
    );
    consent.ask(&question, &format!("installing uv {VERSION} from {source}"), OTHERWISE, cancel_token)?;
    let sha256: Sha256Digest = sha256.parse().map_err(Failure::new)?;
    let file_name = format!("uv-{VERSION}-py3-none-{tag}.whl");
    let workspace = Workspace::create(&root).map_err(io("install into", &root))?;
    let [wheel, new] = ["wheel", "new"].map(|name| workspace.path().join(name));
    for folder in [&wheel, &new] {
        fs::create_dir(folder).map_err(io("create", folder))?;
    }
    installer.unpack_wheel(&place, &WheelFile::new("uv", &file_name, sha256), &wheel)?;
    let program = new.join("uv");
    let packed = wheel.join(format!("uv-{VERSION}.data/scripts/uv"));
    fs::rename(&packed, &program).map_err(io("create", &program))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(io("create", &program))?;
    let information = new.join("dist-info");
    fs::rename(wheel.join(format!("uv-{VERSION}.dist-info")), &information).map_err(io("create", &information))?;
    version_of(Command::new(&program), cancel_token)
        .map_err(|reason| Failure::new(UvError::Unusable { reason: one_line(&reason) }))?;
    let target = root.join(VERSION);
    workspace.publish(&new, &target).map_err(io("create", &target))?;
    Ok(Uv { path: target.join("uv"), source })
}
