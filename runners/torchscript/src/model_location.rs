//! Which file of a model is the TorchScript file. Pure: paths in, path out.

use carton_runner_interface::runner::RunnerError;

/// What TorchScript files are called.
const EXTENSIONS: [&str; 3] = ["pt", "pth", "ts"];

/// Picks the TorchScript file among `paths` (relative, with `/`): the only one, or the one that `wanted` names.
///
/// # Errors
/// None, or several and no wish; a wish that is not among them.
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
        // A carton made of one file may call it what it likes.
        ([], [only]) => Ok(only.clone()),
        ([], _) => Err(RunnerError::new("no TorchScript file found (.pt, .pth or .ts)")),
        _ => Err(RunnerError::new(format!("{}; choose one with the option model = \"…\"", list(&models)))),
    }
}

/// Whether a file is a TorchScript file by its name.
pub(crate) fn is_model(path: &str) -> bool {
    let extension = path.rsplit('/').next().unwrap_or(path).rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

fn list(models: &[&String]) -> String {
    /// As many as fit a message.
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
