//! `carton runner install`: installs a runner from an index, an archive, a folder, or this program itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_core::runner::{Place, Requirement};
use carton_runner_onnx::onnx_runtime_library;
use semver::VersionReq;

use super::super::Context;
use super::consent::Consent;
use super::installed::{Done, Parts};
use super::job::{Job, Misuse, is_python};
use super::{index_place, onnx_runtime, place, uv, with_installer};
use crate::args::RunnerInstallArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::progress::Unit;
use crate::python;
use crate::text::one_line;
use carton_core::Advice;

/// A folder with this subfolder is the source of the runner `python`.
const PYTHON_PACKAGE: &str = "carton_runner";

/// The source of the runner, parsed from the argument.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Named(Requirement),
    Archive(Place),
    Folder(PathBuf),
}

pub(super) async fn run(arguments: RunnerInstallArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let source = source(&arguments)?;
    check(&arguments, &source)?;
    let is_named = |name: &str| matches!(&source, Source::Named(requirement) if requirement.name == name);
    let (is_onnx, is_python) = (is_named(carton_runner_onnx::RUNNER_NAME), is_named(python::RUNNER_NAME));
    // First, because the runner's framework version is that of the library.
    let onnx_runtime = match is_onnx && !arguments.without_onnxruntime {
        true => Some(onnx_runtime(context).await?),
        false => None,
    };
    let done = install(&arguments, source.clone(), context).await?;
    let uv = match is_python && !arguments.without_uv {
        true => with_uv(&done, consent(&arguments, context), context).await,
        false => Ok(None),
    };
    let parts = match uv {
        Ok(uv) => Parts { onnx_runtime, uv },
        Err(error) => {
            // The runner is installed in any case.
            if !context.output.is_json() {
                context.output.text(&done.text())?;
            }
            return Err(error);
        }
    };
    done.report(&parts, context.output)?;
    if let (Some(library), false) = (&parts.onnx_runtime, context.output.is_json()) {
        warn_of_newer(&library.version, context);
    }
    Ok(Exit::Ok)
}

/// Refuses options that do not go with the source.
fn check(arguments: &RunnerInstallArgs, source: &Source) -> Result<(), Failure> {
    if arguments.sha256.is_some() && !matches!(source, Source::Archive(_)) {
        return Err(
            Failure::usage(Misuse::NoArchive).hint("an index has the hash of each of its archives; a folder has none")
        );
    }
    let is_python = matches!(source, Source::Named(requirement) if is_python(requirement));
    for (option, is_there) in [("--python", arguments.python.is_some()), ("--without-uv", arguments.without_uv)] {
        if is_there && !is_python {
            return Err(Failure::usage(Misuse::NoPythonRunner(option)));
        }
    }
    let is_onnx = matches!(source, Source::Named(requirement) if requirement.name == carton_runner_onnx::RUNNER_NAME);
    if arguments.without_onnxruntime && !is_onnx {
        return Err(Failure::usage(Misuse::NotOnnx));
    }
    if arguments.torch.is_some() && (is_onnx || is_python) {
        return Err(Failure::usage(Misuse::NoLibrary(arguments.runner.clone())));
    }
    Ok(())
}

fn consent(arguments: &RunnerInstallArgs, context: &Context<'_>) -> Consent {
    let progress = Arc::clone(context.output.progress());
    Consent { is_given: arguments.yes, may_ask: !context.output.is_json(), progress }
}

async fn install(arguments: &RunnerInstallArgs, source: Source, context: &Context<'_>) -> Result<Done, Failure> {
    let job = Job {
        index: index_place(arguments.index.as_deref(), &context.config)?,
        only_index: arguments.index.is_some(),
        python: arguments.python.clone(),
        torch: arguments.torch.clone(),
        consent: consent(arguments, context),
        config: context.config.clone(),
        warnings: Arc::default(),
    };
    let (sha256, warnings) = (arguments.sha256, Arc::clone(&job.warnings));
    let done = with_installer(context, move |installer, cancel_token| match source {
        Source::Named(requirement) if job.python.is_some() => job.python(installer, &requirement, cancel_token),
        Source::Named(requirement) => job.named(installer, &requirement, cancel_token),
        Source::Archive(place) => {
            let assembled = installer.assemble_archive(&place, sha256).map_err(|error| match error.advice() {
                Some(Advice::PassDigest) => Failure::from(error).instead_of(Exit::Failure, Exit::Usage),
                _ => Failure::from(error),
            });
            job.assembled(installer, assembled?, place.to_string(), cancel_token)
        }
        Source::Folder(path) => {
            let assembled = installer.assemble_folder(&path).map_err(|error| {
                let is_source_of_python = !path.join("runner.toml").exists() && path.join(PYTHON_PACKAGE).is_dir();
                match error.advice() {
                    None if is_source_of_python => {
                        Failure::from(error).hint("this program carries that runner: `carton runner install python`")
                    }
                    _ => Failure::from(error),
                }
            });
            job.assembled(installer, assembled?, path.display().to_string(), cancel_token)
        }
    })
    .await;
    for warning in warnings.lock().drain(..) {
        context.output.warning(&one_line(&warning));
    }
    done
}

/// Installs the library of ONNX Runtime, without which the runner onnx runs nothing.
async fn onnx_runtime(context: &Context<'_>) -> Result<onnx_runtime::Library, Failure> {
    let Context { config, output, .. } = context;
    let config = (*config).clone();
    let display = Arc::clone(output.progress());
    let shown = Arc::clone(&display);
    let result = interrupt::blocking(move |cancel_token| {
        let request = onnx_runtime::Request {
            config: &config,
            report: &|stage| shown.update(stage, 0, None, Unit::Other),
            cancel_token,
        };
        request.bring_in().map_err(onnx_runtime::LibraryError::into_failure)
    })
    .await;
    display.finish();
    result
}

/// Installs `uv` unless the runner python finds one.
async fn with_uv(done: &Done, consent: Consent, context: &Context<'_>) -> Result<Option<uv::Uv>, Failure> {
    let (interpreter, data) = (PathBuf::from(&done.source), context.config.runner_data_dir.clone());
    with_installer(context, move |installer, cancel_token| match uv::find(&data, &interpreter, cancel_token) {
        Some(_) => Ok(None),
        None => uv::bring_in(installer, &data, &consent, cancel_token).map(Some),
    })
    .await
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

/// What follows `@` is neither a version nor a requirement on one.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a version requirement")]
struct RequirementError {
    text: String,
    source: semver::Error,
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
        VersionReq::parse(text).map_err(|source| Failure::usage(RequirementError { text: text.to_owned(), source }))
    });
    let framework_version = parsed.transpose()?;
    let compat_version = arguments.compat_version;
    Ok(Source::Named(Requirement::new(name).framework_version(framework_version).compat_version(compat_version)))
}
