//! `carton pack`: packs a model into a carton, or makes a shrunk carton whole.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use carton_core::metadata::{Draft, MetadataError};
use carton_core::packing::{FetchModel, FetchedModel, NotPacked, PackCheck, Recognized, TensorFormat, fetch_model};
use carton_core::shrink::Resolve;
use carton_core::signature::cast_inputs;
use carton_core::{Advice, Carton, Error, Links, Location, ManifestHash, Pack, Sha256Digest};
use serde::Serialize;

use super::context::confined;
use super::{Context, open, set, shrink};
use crate::args::{LinkArgument, MiscArgument, PackArgs, TensorFormatChoice};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::tensors::{DeclaredInput, ReadInputs};
use crate::text::{byte_size, one_line, shell_word};

#[derive(Debug, thiserror::Error)]
enum PackArgumentError {
    #[error("no runner is named, neither by --runner nor by the metadata, and `{}` does not tell which one runs it", path.display())]
    NoRunner { path: PathBuf },
    #[error("no runner is named, neither by --runner nor by the metadata, and `{}` is {content}, which none is known for", path.display())]
    OtherContent { path: PathBuf, content: carton_tensor::content::Content },
    #[error("cannot read `{}`", path.display())]
    ReadMetadata { path: PathBuf, source: io::Error },
    #[error("cannot use `{}`", path.display())]
    Metadata { path: PathBuf, source: MetadataError },
    #[error("cannot derive the carton's name from `{}`", path.display())]
    NoName { path: PathBuf },
    #[error("misc file `{name}` is given twice")]
    MiscTwice { name: String },
}

#[derive(Serialize)]
struct Packed {
    path: PathBuf,
    manifest_sha256: ManifestHash,
    size: Option<u64>,
    /// Left out if nothing was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<PackCheck>,
    /// What of the folder is not packed; left out if that is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_packed: Vec<NotPacked>,
    /// Digests of links without a file; left out if all have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmatched: Vec<Sha256Digest>,
    /// Warnings about what may be unintended, or keeps other readers from opening the carton; one sentence each.
    warnings: Vec<String>,
}

pub(super) async fn run(mut arguments: PackArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    if arguments.resolve {
        return resolve(arguments, context).await;
    }
    let fetched = fetched(&arguments.path, context).await?;
    arguments.path = fetched.path().to_path_buf();
    if let Some(folder) = &arguments.eject {
        return eject(&fetched, folder, context).await;
    }
    let draft = match arguments.metadata.as_deref() {
        Some(path) => read_draft(path)?,
        None => Draft::default(),
    };
    if arguments.runner.is_none() && draft.runner_name.is_none() {
        note_recognized_runner(&fetched, context).await?;
    }
    let path = match arguments.output {
        Some(path) => path,
        None => default_output(&arguments.path)?,
    };
    let recorded = arguments.record_self_test;
    let is_cast = arguments.cast;
    let inputs = interrupt::blocking(move |_| Ok(ReadInputs::read(recorded, is_cast)?)).await?;
    let pack = Carton::pack(&arguments.path, path)
        .metadata(draft)
        .strict(arguments.strict)
        .options(arguments.options.into_iter().map(|option| (option.key, option.value)))
        .check(!arguments.no_check)
        .links(links(arguments.link)?)
        .install_runners(arguments.install_runners)
        .compression(arguments.compression.into())
        .tensor_format(match arguments.tensor_format {
            TensorFormatChoice::Bin => TensorFormat::Bin,
            TensorFormatChoice::Safetensors => TensorFormat::Safetensors,
            TensorFormatChoice::Ztensor => TensorFormat::Ztensor,
        })
        .config(context.config.clone());
    let pack = arguments.exclude.into_iter().fold(pack, Pack::exclude);
    let pack = arguments.allow_secret.into_iter().fold(pack, Pack::allow_secret);
    let pack =
        set(pack, arguments.bundle_wheels.then_some(true), |pack, bundle| pack.pack_option("bundle_wheels", bundle));
    let pack = set(pack, arguments.runner, Pack::runner);
    let pack = set(pack, arguments.metadata.as_deref().and_then(Path::parent), Pack::metadata_folder);
    let pack = set(pack, arguments.framework_version, Pack::framework_version);
    let pack = set(pack, arguments.links.as_deref().map(shrink::read_links).transpose()?, Pack::known_links);
    let pack = pack.papers(&fetched);
    let pack = misc_files(arguments.misc)?.into_iter().fold(pack, |pack, (name, file)| pack.misc(name, file));
    let pack = set(confined!(pack, arguments.sandbox), open::progress(context), Pack::progress);
    let model = arguments.path.clone();
    let explained = |error: Error| {
        let error = fetched.explain(error);
        match error.advice() {
        Some(Advice::NameRunner { content: None }) => Failure::usage(PackArgumentError::NoRunner { path: model.clone() })
            .hint("name one: --runner NAME; `carton runner ls` lists them"),
        Some(Advice::NameRunner { content: Some(content) }) => {
            Failure::usage(PackArgumentError::OtherContent { path: model.clone(), content }).hint(
                "a folder with the file and Python code that loads it is a model of the python runner: `carton pack FOLDER --runner \
                 python`",
            )
        }
        Some(Advice::AllowSecret { path, is_in_folder }) => {
            let path = shell_word(&path);
            let leave_out = match is_in_folder {
                true => format!("leave it out by a line in .cartonignore, or by --exclude {path}"),
                false => "take it out".to_owned(),
            };
            Failure::from(error).hint(format!("{leave_out}; if it is no secret, pack it by --allow-secret {path}"))
        }
        _ => Failure::from(error).instead_of(Exit::Integrity, Exit::Failure),
    }
    };
    let mut packing = pack.prepare().await.map_err(&explained)?;
    if !inputs.is_empty() {
        // Where nothing is declared, the call says what is.
        let specs = packing.declared_inputs().unwrap_or_default();
        let declared = specs.iter().map(DeclaredInput::from);
        let mut inputs = inputs.into_tensors(&declared.collect::<Vec<_>>())?;
        if arguments.cast {
            let specs = specs.to_vec();
            inputs = interrupt::blocking(move |_| cast_inputs(&specs, inputs).map_err(Failure::usage)).await?;
        }
        packing.record(inputs).map_err(&explained)?;
    }
    let packed = packing.write().await.map_err(&explained)?;
    report(packed, context)
}

/// The model on this machine, fetched if it is on a server.
async fn fetched(path: &Path, context: &Context<'_>) -> Result<FetchedModel, Failure> {
    let location = path.to_str().map_or_else(|| Location::from(path), |text| Location::from(text.trim()));
    let fetch =
        set(fetch_model(location).config(context.config.clone()), open::progress(context), FetchModel::progress);
    let model = fetch.await?;
    context.output.progress().finish();
    if let Some(commit) = model.commit() {
        context.output.note(&format!("the files are those of commit {commit}"));
    }
    Ok(model)
}

/// Prints which runner is recognized from the model's files, if one is.
async fn note_recognized_runner(model: &FetchedModel, context: &Context<'_>) -> Result<(), Failure> {
    let recognized = Carton::recognize(model.path()).await.map_err(|error| model.explain(error))?;
    let note = match recognized {
        Some(Recognized { template: Some(template), .. }) => format!(
            "{} is packed with the Python model that runs it ({}); --eject FOLDER writes that model, to change it",
            template.kind(),
            shown(template.requirements())
        ),
        Some(Recognized { runner, .. }) => format!("packing for the {runner} runner; name another with --runner"),
        None => return Ok(()),
    };
    context.output.note(&one_line(&note));
    Ok(())
}

/// The first of the packages that a model needs, in one line. A file may list any number of them.
fn shown(requirements: &[String]) -> String {
    const SHOWN: usize = 8;
    let first: Vec<String> = requirements.iter().take(SHOWN).map(|line| line.chars().take(80).collect()).collect();
    match requirements.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// `carton pack --eject`.
async fn eject(model: &FetchedModel, folder: &Path, context: &Context<'_>) -> Result<Exit, Failure> {
    let template = Carton::eject(model.path(), folder).await.map_err(|error| model.explain(error))?;
    let folder = folder.display().to_string();
    if context.output.is_json() {
        context.output.json(&Ejected {
            path: folder,
            template: template.name().to_owned(),
            kind: template.kind().to_owned(),
        })?;
    } else {
        let text = format!("wrote {folder}: {}\npack it with `carton pack {}`\n", template.kind(), shell_word(&folder));
        context.output.text(&text)?;
    }
    Ok(Exit::Ok)
}

/// The result of `carton pack --eject`.
#[derive(Serialize)]
struct Ejected {
    path: String,
    template: String,
    kind: String,
}

/// `carton pack --resolve`.
async fn resolve(arguments: PackArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let path = match arguments.output {
        Some(path) => path,
        None => {
            let name = shrink::name_of(&arguments.path)?;
            PathBuf::from(format!("{}.carton", name.strip_suffix(".shrunk").unwrap_or(&name)))
        }
    };
    let location = arguments.path.to_str().map_or_else(|| Location::from(&arguments.path), Location::from);
    let resolve = Carton::resolve(location, path)
        .compression(arguments.compression.into())
        .allow_file_links(arguments.allow_file_links)
        .config(context.config.clone());
    let resolve = set(resolve, arguments.expect, Resolve::expect_hash);
    let packed = set(resolve, open::progress(context), Resolve::progress).await;
    report(packed.map_err(|error| open::explained(error, &arguments.path))?, context)
}

fn report(packed: carton_core::Packed, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    output.progress().finish();
    let packed = Packed {
        size: fs::metadata(&packed.path).ok().map(|metadata| metadata.len()),
        path: packed.path,
        manifest_sha256: packed.manifest_sha256,
        check: packed.check,
        not_packed: packed.not_packed,
        unmatched: packed.unmatched,
        warnings: packed.warnings.iter().map(ToString::to_string).collect(),
    };
    if output.is_json() {
        output.json(&packed)?;
    } else {
        let size = packed.size.map(|size| format!(" ({})", byte_size(size))).unwrap_or_default();
        let path = packed.path.display().to_string();
        for NotPacked { path, n_files, n_bytes, .. } in &packed.not_packed {
            let files = if *n_files == 1 { "file" } else { "files" };
            output.note(&one_line(&format!("not packed: {path} ({n_files} {files}, {})", byte_size(*n_bytes))));
        }
        output.text(&format!("packed {}{size}\nmanifest sha256:{}\n", one_line(&path), packed.manifest_sha256))?;
        if let Some(check) = &packed.check {
            output.text(&format!("{}\n", one_line(&check.to_string())))?;
        }
    }
    Ok(Exit::Ok)
}

fn read_draft(path: &Path) -> Result<Draft, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|source| Failure::new(PackArgumentError::ReadMetadata { path: path.to_path_buf(), source }))?;
    Draft::parse(&text).map_err(|source| Failure::new(PackArgumentError::Metadata { path: path.to_path_buf(), source }))
}

/// Returns `NAME.carton` in the current folder. The name of a folder is kept whole: `my.model` has no extension there.
fn default_output(model: &Path) -> Result<PathBuf, Failure> {
    let no_name = || {
        let error = PackArgumentError::NoName { path: model.to_path_buf() };
        Failure::usage(error).hint("name it: --output OUT.carton")
    };
    let absolute = fs::canonicalize(model).unwrap_or_else(|_| model.to_path_buf());
    let name = if absolute.is_dir() { absolute.file_name() } else { absolute.file_stem() };
    let mut name = name.filter(|name| !name.is_empty()).ok_or_else(no_name)?.to_os_string();
    name.push(".carton");
    Ok(PathBuf::from(name))
}

/// Collects the links on the command line: digests of files to leave out, with their URLs.
fn links(arguments: Vec<LinkArgument>) -> Result<Links, Failure> {
    let mut urls: BTreeMap<Sha256Digest, Vec<String>> = BTreeMap::new();
    for argument in arguments {
        let (digest, url) = argument.read().map_err(Failure::usage)?;
        urls.entry(digest).or_default().push(url);
    }
    Links::from_urls(urls).map_err(Failure::usage)
}

fn misc_files(arguments: Vec<MiscArgument>) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut files = BTreeMap::new();
    for MiscArgument { name, path } in arguments {
        if files.insert(name.clone(), path).is_some() {
            return Err(Failure::usage(PackArgumentError::MiscTwice { name }));
        }
    }
    Ok(files)
}
