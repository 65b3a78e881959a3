//! Finds the TorchScript file among the files of a model. Pure: paths in, path out.

use carton_runner_interface::runner::RunnerError;

/// The extensions of TorchScript files.
const EXTENSIONS: [&str; 3] = ["pt", "pth", "ts"];

/// Picks the TorchScript file among `paths` (relative, with `/`): the only one, or the one that `wanted` names.
///
/// # Errors
/// There is no TorchScript file, there are several and `wanted` is `None`, or the wanted file is not among them.
pub(crate) fn choose(paths: &[String], wanted: Option<&str>) -> Result<String, RunnerError> {
    let models: Vec<&String> = paths.iter().filter(|path| is_model(path)).collect();
    if let Some(wanted) = wanted {
        if paths.iter().any(|path| path == wanted) {
            return Ok(wanted.to_owned());
        }
        return Err(RunnerError::new(format!(
            "option `model` names `{wanted}`, which is not there; {}",
            list(&models)
        )));
    }
    match (models.as_slice(), paths) {
        ([model], _) => Ok((*model).clone()),
        // The only file of a model may have any name.
        ([], [only]) => Ok(only.clone()),
        ([], _) => Err(RunnerError::new("no TorchScript file found (.pt, .pth or .ts)")),
        _ => Err(RunnerError::new(format!("{}; choose one with the option model = \"…\"", list(&models)))),
    }
}

/// Whether a file has the name of a TorchScript file.
pub(crate) fn is_model(path: &str) -> bool {
    let extension = path.rsplit('/').next().unwrap_or(path).rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

fn list(models: &[&String]) -> String {
    /// The number of names that fit a message.
    const SHOWN: usize = 20;
    let names: Vec<String> = models.iter().take(SHOWN).map(|path| format!("`{path}`")).collect();
    match models.len() {
        0 => "there are no TorchScript files".to_owned(),
        1 => format!("there is one TorchScript file: {}", names.join(", ")),
        n if n > SHOWN => format!("there are {n} TorchScript files: {}, …", names.join(", ")),
        n => format!("there are {n} TorchScript files: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choosing() {
        let check = |paths: &[&str], wanted: Option<&str>, expected: Result<&str, &str>| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            let found = choose(&paths, wanted).map_err(|error| error.message);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{paths:?} {wanted:?}");
        };
        check(&["README.md", "model.pt"], None, Ok("model.pt"));
        check(&["README.md", "sub/Model.PTH"], None, Ok("sub/Model.PTH"));
        check(&["model.bin"], None, Ok("model.bin"));
        check(&["a.b/pt", "x.ptx"], None, Err("no TorchScript file found (.pt, .pth or .ts)"));
        check(
            &["a.pt", "b.ts"],
            None,
            Err("there are 2 TorchScript files: `a.pt`, `b.ts`; choose one with the option model = \"…\""),
        );
        check(&["a.pt", "b.ts"], Some("b.ts"), Ok("b.ts"));
        check(
            &["a.pt"],
            Some("../b.pt"),
            Err("option `model` names `../b.pt`, which is not there; there is one TorchScript file: `a.pt`"),
        );
    }
}
