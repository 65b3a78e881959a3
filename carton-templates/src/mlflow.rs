//! Models of MLflow: folders with a file `MLmodel`.

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::text::{printable, release};
use crate::{Recognized, Template, TemplateError};

/// The folder of the model beside `main.py`.
const FOLDER: &str = "mlmodel";
/// The flavor that MLflow calls without knowing the framework.
const CALLABLE: &str = "python_function";

/// Recognizes a folder by the key `flavors` of its `MLmodel`.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    let Some(text) = candidate.read("MLmodel")? else { return Ok(None) };
    let text = String::from_utf8_lossy(&text);
    let Some(flavors) = keys_below(&text, "flavors") else { return Ok(None) };
    let shown: Vec<&str> = flavors.iter().copied().filter(|name| *name != CALLABLE).collect();
    let kind = format!(
        "a model of MLflow ({})",
        if shown.is_empty() { CALLABLE.to_owned() } else { printable(&shown.join(", ")) }
    );
    let not_run = |hint: &str| Ok(Some(Recognized::NotRun { kind: kind.clone(), hint: hint.to_owned() }));
    if !flavors.contains(&CALLABLE) {
        return not_run(
            "it has no flavor `python_function`, with which MLflow calls a model of any framework: log it again with a flavor that has one",
        );
    }
    if flavors.contains(&"carton") {
        return not_run(
            "it holds a carton already, the `.carton` file in its folder `data`: use that; `mlflow artifacts download` fetches it from a server",
        );
    }
    let Some(requirements) = candidate.read("requirements.txt")? else {
        return not_run(
            "its `requirements.txt` is missing, which names the packages that it needs: write one into the folder, such as by \
             `mlflow.pyfunc.get_model_dependencies`",
        );
    };
    // The model's own list, with the pins and constraints that it has.
    let mut list = vec![format!("-r {FOLDER}/requirements.txt")];
    let text_of_list = String::from_utf8_lossy(&requirements);
    if !text_of_list.lines().any(|line| names(line.trim(), "mlflow")) {
        let version = value_of(&text, "mlflow_version").and_then(release);
        list.push(version.map_or_else(|| "mlflow".to_owned(), |version| format!("mlflow=={version}")));
    }
    let python = candidate.read("python_env.yaml")?;
    let python = python.as_deref().map(String::from_utf8_lossy);
    let python = python.as_ref().and_then(|text| release(value_of(text, "python")?));
    let python = python.and_then(|version| {
        let mut numbers = version.split('.');
        Some(format!("{}.{}", numbers.next()?, numbers.next()?))
    });
    let files = candidate.entries().iter().filter(|name| !name.starts_with('.'));
    Ok(Some(Recognized::Template(Template {
        name: "mlflow",
        kind,
        source: include_str!("../templates/mlflow/main.py"),
        constants: vec![("MODEL", python_text(FOLDER))],
        requirements: list,
        python,
        files: files.map(|name| (format!("{FOLDER}/{name}"), candidate.path().join(name))).collect(),
        warnings: Vec::new(),
    })))
}

/// Whether a line of requirements is for `package`, whatever its version.
fn names(line: &str, package: &str) -> bool {
    let rest =
        line.get(..package.len()).filter(|begin| begin.eq_ignore_ascii_case(package)).map(|_| &line[package.len()..]);
    rest.is_some_and(|rest| !rest.starts_with(|char: char| char.is_ascii_alphanumeric() || "-_.".contains(char)))
}

/// Returns the keys directly below a key at the top of a YAML document, in the block style that MLflow writes. `None` without that key.
fn keys_below<'a>(text: &'a str, key: &str) -> Option<Vec<&'a str>> {
    let mut lines = text.lines().skip_while(|line| line.strip_prefix(key).is_none_or(|rest| rest.trim_end() != ":"));
    lines.next()?;
    let block = lines.take_while(|line| line.starts_with(' '));
    let is_key = |line: &&str| line.starts_with("  ") && !line[2..].starts_with([' ', '-', '#']);
    Some(block.filter(is_key).filter_map(|line| Some(line.trim().split_once(':')?.0)).collect())
}

/// Returns the value of a key at the top of a YAML document.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.trim().trim_matches(['\'', '"']))
}
