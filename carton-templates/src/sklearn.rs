//! Estimators of scikit-learn, and of libraries with its interface: files of skops, joblib and pickle.
//!
//! skops writes a description of the types in the file, and its reader makes only types that it is told to trust: `main.py` lists them. To
//! load a pickle is to call what it names, so it is loaded only where the model runs, confined. A file that names what no estimator needs,
//! such as `os.system`, is not run.

use std::collections::BTreeSet;
use std::fs::File;

use crate::candidate::Candidate;
use crate::pickle::{self, Found};
use crate::template::python_text;
use crate::version::Version;
use crate::{Recognized, Template, TemplateError, skops, xgboost};

/// Packages with estimators, by the module that files name.
const PACKAGES: [(&str, &str); 10] = [
    ("sklearn", "scikit-learn"),
    ("xgboost", "xgboost"),
    ("lightgbm", "lightgbm"),
    ("catboost", "catboost"),
    ("imblearn", "imbalanced-learn"),
    ("category_encoders", "category-encoders"),
    ("pandas", "pandas"),
    ("cloudpickle", "cloudpickle"),
    ("numpy", "numpy"),
    ("scipy", "scipy"),
];
/// How many of `PACKAGES` have estimators.
const N_OF_ESTIMATORS: usize = 6;
/// Modules that estimators name beside those of packages.
const HARMLESS: [&str; 29] = [
    "__builtin__",
    "__main__",
    "_codecs",
    "_loss",
    "abc",
    "array",
    "builtins",
    "collections",
    "copy_reg",
    "copyreg",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "itertools",
    "joblib",
    "json",
    "math",
    "numbers",
    "operator",
    "pathlib",
    "random",
    "re",
    "string",
    "types",
    "typing",
    "uuid",
    "zoneinfo",
];
/// Modules that run programs or code, or open files and connections.
const DANGEROUS: [&str; 40] = [
    "_pickle",
    "asyncio",
    "bdb",
    "cProfile",
    "code",
    "codeop",
    "commands",
    "ctypes",
    "dill",
    "doctest",
    "ftplib",
    "http",
    "imp",
    "importlib",
    "io",
    "marshal",
    "multiprocessing",
    "nt",
    "os",
    "pdb",
    "pickle",
    "pip",
    "pkgutil",
    "platform",
    "popen2",
    "posix",
    "profile",
    "pty",
    "runpy",
    "shutil",
    "signal",
    "smtplib",
    "socket",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
    "timeit",
    "urllib",
    "webbrowser",
];
/// Parts of packages that build programs.
const OF_BUILDS: [&str; 2] = ["distutils", "f2py"];
/// Functions of harmless modules that do so.
const DANGEROUS_NAMES: [&str; 23] = [
    "__import__",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "eval_expr",
    "exec",
    "execfile",
    "f2py",
    "file",
    "fromfile",
    "genfromtxt",
    "globals",
    "input",
    "load",
    "loads",
    "locals",
    "memmap",
    "methodcaller",
    "myeval",
    "open",
    "runstring",
    "setattr",
];
/// How many names a warning has.
const N_NAMED: usize = 12;

/// Recognizes a file of skops by its entry `schema.json`, and a pickle, also compressed by gzip or zlib, by its first bytes and its opcodes.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    if let Some(schema) = skops::read(candidate)? {
        return Ok(Some(of_skops(candidate, schema)));
    }
    let start = candidate.start();
    if let Some(compression) = compression(start) {
        return Ok(Some(Recognized::NotRun {
            kind: format!("a file compressed by {compression}"),
            hint: "if joblib wrote it, write it again with zlib, so that it can be inspected: \
                   `joblib.dump(joblib.load(\"model.joblib\"), \"model.joblib\", compress=3)`"
                .to_owned(),
        }));
    }
    if start.len() < 2 {
        return Ok(None);
    }
    let file = File::open(candidate.path()).map_err(TemplateError::io("open", candidate.path()))?;
    Ok(pickle::read(file, start).and_then(|found| of_pickle(candidate, found)))
}

/// Returns how joblib may have compressed a file that is not looked into.
fn compression(start: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 4] =
        [(b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x5d\0\0", "LZMA"), (b"\x04\x22\x4d\x18", "LZ4")];
    KINDS.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, name)| *name)
}

fn of_skops(candidate: &Candidate, schema: skops::Schema) -> Recognized {
    let kind = match &schema.skops {
        Some(version) => format!("an estimator saved by skops (version {version})"),
        None => "an estimator saved by skops".to_owned(),
    };
    if let Some(not_run) = refused(&kind, &schema.types) {
        return not_run;
    }
    let mut requirements = requirements_of(&schema.types, schema.sklearn.as_ref(), None);
    requirements.push(schema.skops.map_or_else(|| "skops".to_owned(), |version| format!("skops>={version}")));
    let trusted: Vec<String> = schema
        .types
        .iter()
        .filter(|(module, _)| module != "builtins")
        .map(|(module, name)| python_text(&format!("{module}.{name}")))
        .collect();
    let foreign: Vec<&(String, String)> = schema
        .types
        .iter()
        .filter(|(module, _)| !["sklearn", "numpy", "scipy", "builtins"].contains(&top(module)))
        .collect();
    let mut warnings = Vec::new();
    if !foreign.is_empty() {
        let named = listed(&foreign);
        warnings.push(format!("the file has types that skops does not know, and main.py trusts, confined: {named}"));
    }
    let constants = vec![("TRUSTED", format!("[{}]", trusted.join(", ")))];
    template(candidate, kind, "skops", requirements, constants, warnings)
}

fn of_pickle(candidate: &Candidate, found: Found) -> Option<Recognized> {
    if found.names.is_empty() && !found.is_complete && !found.is_of_joblib {
        // The first bytes alone do not make a pickle.
        return None;
    }
    let (format, title) = if found.is_of_joblib { ("joblib", "joblib") } else { ("pickle", "pickle") };
    let kind = match &found.sklearn {
        Some(version) => format!("an estimator saved by {title} (scikit-learn {version})"),
        None => format!("an object saved by {title}"),
    };
    if let Some(not_run) = refused(&kind, &found.names) {
        return Some(not_run);
    }
    let mut requirements = requirements_of(&found.names, found.sklearn.as_ref(), found.xgboost);
    if format == "joblib" && !requirements.iter().any(|line| line.starts_with("scikit-learn")) {
        requirements.push("joblib".to_owned());
    }
    let named: Vec<&(String, String)> =
        found.names.iter().filter(|(module, name)| !is_of_pickles(top(module), name)).collect();
    let mut warnings =
        vec![format!("to load a pickle is to run what it names, which is done confined: {}", listed(&named))];
    if !found.is_complete {
        warnings.push("the pickle was not understood to its end, so it may name more".to_owned());
    }
    Some(template(candidate, kind, format, requirements, Vec::new(), warnings))
}

fn template(
    candidate: &Candidate,
    kind: String,
    format: &str,
    requirements: Vec<String>,
    constants: Vec<(&'static str, String)>,
    warnings: Vec<String>,
) -> Recognized {
    let name = candidate.name_beside_module();
    let all = [("MODEL", python_text(&name)), ("FORMAT", python_text(format))];
    Recognized::Template(Template {
        name: "sklearn",
        kind,
        source: include_str!("../templates/sklearn/main.py"),
        constants: all.into_iter().chain(constants).collect(),
        requirements,
        python: None,
        files: vec![(name, candidate.path().to_path_buf())],
        warnings,
    })
}

/// Returns why a file with these names is not run, if it is not.
fn refused(kind: &str, names: &BTreeSet<(String, String)>) -> Option<Recognized> {
    let not_run = |kind: String, hint: &str| {
        let own = "; to run it, write a folder with a `main.py` that loads it, and a `requirements.txt`";
        Some(Recognized::NotRun { kind, hint: format!("{hint}{own}") })
    };
    let dangerous: Vec<_> = names.iter().filter(|(module, name)| is_dangerous(module, name)).collect();
    if !dangerous.is_empty() {
        let kind = format!("{kind}, which calls {}", listed(&dangerous));
        return not_run(kind, "no estimator needs that, and a file with it is likely an attack");
    }
    let is_known = |module: &str| PACKAGES.iter().any(|(known, _)| *known == module) || HARMLESS.contains(&module);
    let unknown: BTreeSet<&str> = names.iter().map(|(module, _)| top(module)).filter(|top| !is_known(top)).collect();
    if !unknown.is_empty() {
        let modules: Vec<String> = unknown.iter().take(N_NAMED).map(|module| format!("`{module}`")).collect();
        let kind = format!("{kind}, of the modules {}", modules.join(", "));
        return not_run(kind, "it is not known which packages have these modules");
    }
    let has_estimator =
        names.iter().any(|(module, _)| PACKAGES[..N_OF_ESTIMATORS].iter().any(|(known, _)| *known == top(module)));
    if !has_estimator {
        let own: Vec<_> = names.iter().filter(|(module, name)| !is_of_pickles(top(module), name)).collect();
        let named = if own.is_empty() { "nothing".to_owned() } else { listed(&own) };
        return not_run(
            kind.to_owned(),
            &format!("it names {named}, and no estimator of scikit-learn, XGBoost, LightGBM or CatBoost"),
        );
    }
    None
}

fn is_dangerous(module: &str, name: &str) -> bool {
    let mut owners = name.split('.').rev();
    let last = owners.next().unwrap_or_default();
    // A name may lead through a module that another one imported: `os.system` of `joblib.numpy_pickle`.
    DANGEROUS.contains(&top(module))
        || module.split('.').any(|part| OF_BUILDS.contains(&part))
        || owners.any(|owner| DANGEROUS.contains(&owner))
        || DANGEROUS_NAMES.contains(&last)
}

/// Whether most pickles have it, so that it says nothing.
fn is_of_pickles(top: &str, name: &str) -> bool {
    match top {
        "numpy" | "_codecs" | "copyreg" | "copy_reg" | "collections" | "joblib" => true,
        "builtins" | "__builtin__" => name != "getattr",
        _ => false,
    }
}

fn listed(names: &[&(String, String)]) -> String {
    let mut text = names
        .iter()
        .take(N_NAMED)
        .map(|(module, name)| format!("`{}`", printable(module, name)))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > N_NAMED {
        text.push_str(&format!(" and {} more", names.len() - N_NAMED));
    }
    text
}

/// Returns a name without characters that a terminal interprets.
fn printable(module: &str, name: &str) -> String {
    format!("{module}.{name}").replace(|character: char| character.is_control(), "?")
}

/// Returns the first part of a module's name.
fn top(module: &str) -> &str {
    module.split('.').next().unwrap_or_default()
}

/// Returns the lines of `requirements.txt`. scikit-learn and XGBoost read pickles of their own version only.
fn requirements_of(
    names: &BTreeSet<(String, String)>,
    sklearn: Option<&Version>,
    xgboost: Option<[u64; 3]>,
) -> Vec<String> {
    let tops: BTreeSet<&str> = names.iter().map(|(module, _)| top(module)).collect();
    let mut lines = Vec::new();
    for (module, package) in PACKAGES {
        // scikit-learn brings NumPy and SciPy.
        let is_needed = tops.contains(module) && !["numpy", "scipy"].contains(&module);
        let is_needed =
            is_needed || module == "sklearn" && names.iter().any(|(module, _)| module.ends_with(".sklearn"));
        // A model that takes columns by name takes a DataFrame.
        let is_needed = is_needed || module == "pandas" && names.iter().any(|(_, name)| name == "ColumnTransformer");
        if !is_needed {
            continue;
        }
        match (module, sklearn, xgboost) {
            ("sklearn", Some(version), _) => lines.push(format!("{package}=={version}")),
            // Older versions of XGBoost fail with newer ones of scikit-learn.
            ("sklearn", None, Some(xgboost)) if xgboost < [2, 1, 4] => lines.push(format!("{package}<1.6")),
            // The build without CUDA began with this version.
            ("xgboost", _, Some([major, minor, patch])) if [major, minor, patch] < [2, 1, 1] => {
                lines.push(format!("xgboost=={major}.{minor}.{patch}"));
            }
            ("xgboost", _, Some([major, minor, patch])) => {
                lines.extend(xgboost::requirements_of(&format!("=={major}.{minor}.{patch}")));
            }
            ("xgboost", ..) => lines.extend(xgboost::requirements_of("")),
            ("lightgbm", ..) => lines.push("lightgbm>=4".to_owned()),
            _ => lines.push(package.to_owned()),
        }
    }
    if sklearn.is_some_and(|version| version.release() < [1, 4, 2].as_slice()) {
        // These versions were compiled for NumPy 1, and do not say so.
        lines.push("numpy<2".to_owned());
    } else if tops.contains("numpy") && names.iter().any(|(module, _)| module.starts_with("numpy._core")) {
        // NumPy 1 does not read all that NumPy 2 wrote.
        lines.push("numpy>=2".to_owned());
    }
    lines
}
