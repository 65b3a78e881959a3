//! `carton runner install`: installs a runner from an index, an archive, a folder, or this program itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_core::CancelToken;
use carton_core::errors::InstallError;
use carton_core::runner::{Installed, Installer, Place, Requirement};
use carton_runner_onnx::onnx_runtime_library;
use semver::VersionReq;
use serde::Serialize;

use super::super::Context;
use super::{failure, index_place, onnx_runtime, place, with_installer};
use crate::args::RunnerInstallArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::one_line;
use crate::progress::Unit;
use crate::python;

/// A folder with this subfolder is the source of the runner `python`.
const PYTHON_PACKAGE: &str = "carton_runner";

/// The output of `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    runner_name: &'a str,
    framework_version: String,
    path: &'a Path,
    /// The source: an index, an archive, a folder, or `this program`; for `python` the interpreter.
    source: &'a str,
    /// The library of ONNX Runtime that the runner onnx will use, if it was installed or already present.
    #[serde(skip_serializing_if = "Option::is_none")]
    onnxruntime: Option<OnnxRuntimeAnswer<'a>>,
}

#[derive(Serialize)]
struct OnnxRuntimeAnswer<'a> {
    version: &'a str,
    path: &'a Path,
    /// `uv`, `pip`, the file that was copied, or `null` for a library that was there before.
    source: Option<&'a str>,
}

/// The source of the runner, parsed from the argument.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Named(Requirement),
    Archive(Place),
    Folder(PathBuf),
}

/// `--sha256` without an archive to compare it with.
#[derive(Debug, thiserror::Error)]
#[error("--sha256 is the hash of an archive, and none is named")]
struct NoArchive;

/// `--python` for a runner other than `python`.
#[derive(Debug, thiserror::Error)]
#[error("--python applies only to the runner `python`")]
struct NoPythonRunner;

/// `--without-onnxruntime` for a runner other than `onnx`.
#[derive(Debug, thiserror::Error)]
#[error("--without-onnxruntime goes with the runner onnx alone")]
struct NotOnnx;

pub(super) async fn run(arguments: RunnerInstallArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let Context { config, output, .. } = context;
    let source = source(&arguments)?;
    if arguments.sha256.is_some() && !matches!(source, Source::Archive(_)) {
        return Err(Failure::usage(NoArchive).hint("an index has the hash of each of its archives; a folder has none"));
    }
    if arguments.python.is_some() && !matches!(&source, Source::Named(requirement) if is_python(requirement)) {
        return Err(Failure::usage(NoPythonRunner));
    }
    let is_onnx = matches!(&source, Source::Named(requirement) if requirement.name == carton_runner_onnx::RUNNER_NAME);
    if arguments.without_onnxruntime && !is_onnx {
        return Err(Failure::usage(NotOnnx));
    }
    let index = index_place(arguments.index.as_deref(), config)?;
    let only_index = arguments.index.is_some();
    let offline = config.offline;
    let RunnerInstallArgs { sha256, python, .. } = arguments;
    let (installed, from) = with_installer(context, move |installer, cancel_token| match source {
        Source::Named(requirement) if python.is_some() => {
            python::install(installer, python.as_deref(), &requirement, cancel_token)
        }
        Source::Named(requirement) => named(installer, cancel_token, &requirement, index.as_ref(), only_index, offline),
        Source::Archive(place) => {
            let installed = installer.from_archive(&place, sha256).map_err(|error| match error {
                InstallError::NoDigest { .. } => failure(error).instead_of(Exit::Failure, Exit::Usage),
                error => failure(error),
            });
            Ok((installed?, place.to_string()))
        }
        Source::Folder(path) => {
            let installed = installer.from_folder(&path).map_err(|error| match error {
                InstallError::NoDescriptor { inside: None, .. } if path.join(PYTHON_PACKAGE).is_dir() => {
                    failure(error).hint("this program carries that runner: `carton runner install python`")
                }
                error => failure(error),
            });
            Ok((installed?, path.display().to_string()))
        }
    })
    .await?;
    let Installed { descriptor, folder, .. } = installed;
    let installed_text =
        format!("installed {descriptor} from {} in {}\n", one_line(&from), one_line(&folder.display().to_string()));
    let library = match is_onnx && !arguments.without_onnxruntime {
        true => with_library(context).await,
        false => Ok(None),
    };
    if let (Err(_), false) = (&library, output.is_json()) {
        output.text(&installed_text)?;
    }
    let library = library?;
    if output.is_json() {
        output.json(&Answer {
            runner_name: &descriptor.runner_name,
            framework_version: descriptor.framework_version.to_string(),
            path: &folder,
            source: &from,
            onnxruntime: library.as_ref().map(|library| OnnxRuntimeAnswer {
                version: &library.version,
                path: &library.path,
                source: library.source.as_deref(),
            }),
        })?;
        return Ok(Exit::Ok);
    }
    output.text(&installed_text)?;
    if let Some(onnx_runtime::Library { version, path, source }) = library {
        let path = one_line(&path.display().to_string());
        output.text(&match source {
            Some(source) => format!("installed ONNX Runtime {version} from {} as {path}\n", one_line(&source)),
            None => format!("ONNX Runtime {version} is there already: {path}\n"),
        })?;
        warn_of_newer(&version, context);
    }
    Ok(Exit::Ok)
}

/// Installs the library of ONNX Runtime, so that the runner onnx can use more than its built-in engine.
async fn with_library(context: &Context<'_>) -> Result<Option<onnx_runtime::Library>, Failure> {
    let Context { config, output, .. } = context;
    let (runner_data_dir, offline) = (config.runner_data_dir.clone(), config.offline);
    let display = Arc::clone(output.progress());
    let shown = Arc::clone(&display);
    let result = interrupt::blocking(move |cancel_token| {
        let request = onnx_runtime::Request {
            runner_data_dir: &runner_data_dir,
            offline,
            report: &|stage| shown.update(stage, 0, None, Unit::Other),
            cancel_token,
        };
        request.bring_in().map(Some).map_err(onnx_runtime::LibraryError::into_failure)
    })
    .await;
    display.finish();
    result
}

/// Warns if runners will use a newer library than the one that was requested.
fn warn_of_newer(version: &str, context: &Context<'_>) {
    let used = onnx_runtime_library::installed(&context.config.runner_data_dir);
    if let Some(used) = used.filter(|used| used.parent().is_none_or(|folder| !folder.ends_with(version))) {
        context.output.warning(&format!(
            "runners will use {}, which is newer; remove its folder if they shall not",
            one_line(&used.display().to_string())
        ));
    }
}

/// Installs a runner by name: from the index, or else from this program. If neither has it, the error is that of the index.
fn named(
    installer: &Installer<'_>,
    cancel_token: &CancelToken,
    requirement: &Requirement,
    index: Option<&Place>,
    only_index: bool,
    offline: bool,
) -> Result<(Installed, String), Failure> {
    let own = |installer: &Installer<'_>| {
        if is_python(requirement) {
            return python::install(installer, None, requirement, cancel_token);
        }
        let installed = installer.from_program(requirement).map_err(failure)?;
        Ok((installed, "this program".to_owned()))
    };
    let Some(index) = index else {
        return own(installer);
    };
    let error = match installer.from_index(index, requirement) {
        Ok(installed) => return Ok((installed, index.to_string())),
        Err(error) => error,
    };
    let absent =
        matches!(error, InstallError::NoRunner(_)) || (offline && matches!(error, InstallError::Network { .. }));
    if absent && !only_index {
        match own(installer) {
            Ok(installed) => return Ok(installed),
            // The index is not expected to have it, so this error says more.
            Err(own) if is_python(requirement) => return Err(own),
            Err(_) => {}
        }
    }
    Err(failure(error))
}

/// Whether this is the runner `python`, which is made for an interpreter.
fn is_python(requirement: &Requirement) -> bool {
    requirement.name == python::RUNNER_NAME
        && requirement.compat_version.is_none_or(|version| python::COMPAT_VERSIONS.contains(&version))
}

/// Parses the argument. Text that could be a name is one, unless it can only be a path or a URL.
fn source(arguments: &RunnerInstallArgs) -> Result<Source, Failure> {
    let text = arguments.runner.as_str();
    let path = Path::new(text);
    let is_path = text.starts_with(['/', '.'])
        || text.ends_with('/')
        || (text.contains('/') && path.exists())
        || [".zip", ".tar", ".tar.gz", ".tgz"].iter().any(|ending| text.ends_with(ending));
    if is_path || Place::is_url(text) {
        let place = place(text)?;
        return Ok(match place.path() {
            Some(path) if path.is_dir() => Source::Folder(path.to_path_buf()),
            _ => Source::Archive(place),
        });
    }
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let parsed = version.map(|text| {
        VersionReq::parse(text)
            .map_err(|source| Failure::usage(InstallError::Requirement { text: text.to_owned(), source }))
    });
    let framework_version = parsed.transpose()?;
    let compat_version = arguments.compat_version;
    Ok(Source::Named(Requirement::new(name).framework_version(framework_version).compat_version(compat_version)))
}
