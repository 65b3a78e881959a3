//! Packages of AOTInductor: native code for one kind of machine, in the archives in which PyTorch also puts exported programs.

use serde_json::{Map, Value};

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::text::{printable, with_suffix};
use crate::{Recognized, Template, TemplateError};

/// The folder of the packages in an archive.
const FOLDER: &str = "data/aotinductor/";
/// The name that `torch._inductor.aoti_load_package` looks for.
const NAME: &str = "model";
/// The key of the device in a package's metadata.
const DEVICE: &str = "AOTI_DEVICE_KEY";
/// The oldest PyTorch whose packages are read. A package does not say which one made it.
const REQUIREMENT: &str = "torch>=2.8";
const KIND: &str = "a package of AOTInductor (.pt2)";
/// The most metadata of a package that is read; PyTorch writes one for the kernels and one for what calls them.
const MAX_METADATA: usize = 16;
const PACK_PROGRAM: &str = "pack the program that it was compiled from (`torch.export.save`)";

/// Whether an archive of PyTorch has packages, by the names of its entries in the folder that all of them are in.
pub(crate) fn is_in<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    names.any(|name| name.starts_with(FOLDER))
}

/// Recognizes what an archive of PyTorch that has packages runs as. All entries are in the folder `top`.
pub(crate) fn of_archive(candidate: &Candidate, top: &str) -> Result<Recognized, TemplateError> {
    let entries = candidate.archive().map(|archive| archive.entries()).unwrap_or_default();
    let folder = format!("{top}/{FOLDER}");
    let names: Vec<&str> = entries.iter().filter_map(|entry| entry.name().strip_prefix(folder.as_str())).collect();
    let mut packages: Vec<&str> = names.iter().filter_map(|name| Some(name.split_once('/')?.0)).collect();
    packages.sort_unstable();
    packages.dedup();
    let not_run = |hint: String| Ok(Recognized::NotRun { kind: KIND.to_owned(), hint });
    if !packages.contains(&NAME) {
        return not_run(format!(
            "a carton has one model, which `torch._inductor.aoti_compile_and_package` names `{NAME}`; this archive has {}",
            if packages.is_empty() { "none".to_owned() } else { printable(&packages.join(", ")) }
        ));
    }
    let of_package = || names.iter().filter_map(|name| name.strip_prefix(NAME)?.strip_prefix('/'));
    let metadata = of_package().filter(|name| name.ends_with("_metadata.json")).take(MAX_METADATA);
    let metadata: Vec<Map<String, Value>> =
        metadata.filter_map(|name| candidate.read_entry_json(&format!("{folder}{NAME}/{name}"))).collect();
    let said = |key: &str| texts(&metadata, key).find(|text| !text.is_empty()).map(printable);
    if said(DEVICE).is_none() {
        return Err(TemplateError::Malformed {
            path: candidate.path().to_path_buf(),
            kind: "a package of AOTInductor",
            problem: format!("no `{FOLDER}{NAME}/…_metadata.json` says by `{DEVICE}` for which device it is"),
            hint: Some("compile it again with `torch._inductor.aoti_compile_and_package`".to_owned()),
        });
    }
    if let Some(device) = texts(&metadata, DEVICE).find(|device| *device != "cpu") {
        return not_run(format!(
            "it was compiled for the device `{}`, and only packages for `cpu` are run: {PACK_PROGRAM}, or compile it for `cpu`",
            printable(device)
        ));
    }
    if !of_package().any(|name| name.ends_with(".so")) {
        return not_run(format!(
            "it has source code that is not compiled (`aot_inductor.package_cpp_only`): compile it without that option, or {PACK_PROGRAM}"
        ));
    }
    if of_package().any(|name| name == "weights_config.json") {
        return not_run(format!(
            "its weights are beside the code (`aot_inductor.package_constants_on_disk_format`), where \
             `torch._inductor.aoti_load_package` does not look for them: compile it without that option, or {PACK_PROGRAM}"
        ));
    }
    let machine = [said("AOTI_PLATFORM"), said("AOTI_MACHINE"), said("AOTI_CPU_ISA")];
    let machine: Vec<String> = machine.into_iter().flatten().collect();
    let machine = if machine.is_empty() { String::new() } else { format!(" ({})", machine.join(", ")) };
    let name = with_suffix(candidate.name_beside_module(), ".pt2");
    Ok(Recognized::Template(Template {
        name: "aotinductor",
        kind: KIND.to_owned(),
        source: include_str!("../templates/aotinductor/main.py"),
        constants: vec![("MODEL", python_text(&name))],
        requirements: vec![REQUIREMENT.to_owned()],
        python: None,
        files: vec![(name, candidate.path().to_path_buf())],
        warnings: vec![format!(
            "the package is native code for the kind of CPU that it was compiled on{machine}: elsewhere it may fail, or end its process"
        )],
    }))
}

/// Returns the texts that the metadata of a package has for `key`.
fn texts<'a>(metadata: &'a [Map<String, Value>], key: &'a str) -> impl Iterator<Item = &'a str> {
    metadata.iter().filter_map(move |one| one.get(key)?.as_str())
}
