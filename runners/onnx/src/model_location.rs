//! Finds the `.onnx` file among the files of a model, and the paths of its external data. Pure: paths in, paths out.

use carton_runner_interface::runner::{ModelFile, RunnerError};

/// The file that holds the graph.
pub(crate) const MODEL_FILE: ModelFile = ModelFile { name: ".onnx", extensions: &["onnx"], is_any_if_alone: false };

/// Returns the path among the model's files of external data at `location`, which the file at `model` states.
///
/// # Errors
/// The location is an absolute path, has a component `..`, or is not portable: a model may read its own folder and
/// nothing else.
pub(crate) fn external_path(model: &str, location: &str) -> Result<String, RunnerError> {
    let refused = |why| RunnerError::new(format!("external data at `{}` {why}", location.escape_debug()));
    let path = carton_tensor::onnx::external_path(location).map_err(refused)?;
    Ok(match model.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{path}"),
        None => path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choosing() {
        let check = |paths: &[&str], wanted: Option<&str>, expected: Result<&str, &str>| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            let found = MODEL_FILE.choose(&paths, wanted).map_err(|error| error.message);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{paths:?} {wanted:?}");
        };
        check(&["README.md", "model.onnx", "model.onnx.data"], None, Ok("model.onnx"));
        check(&["sub/Model.ONNX"], None, Ok("sub/Model.ONNX"));
        check(&["onnx", "a.b/onnx", "x.onnx_data"], None, Err("no .onnx file found"));
        check(
            &["a.onnx", "b.onnx"],
            None,
            Err("there are 2 .onnx files: `a.onnx`, `b.onnx`; choose one with the option model = \"…\""),
        );
        check(&["a.onnx", "b.onnx"], Some("b.onnx"), Ok("b.onnx"));
        check(&["model.pb"], Some("model.pb"), Ok("model.pb"));
        check(
            &["a.onnx"],
            Some("../b.onnx"),
            Err("option `model` names `../b.onnx`, which is not there; there is one .onnx file: `a.onnx`"),
        );
    }

    #[test]
    fn external_data() {
        let check = |model: &str, location: &str, expected: Result<&str, &str>| {
            let found = external_path(model, location).map_err(|error| error.message);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{model} {location}");
        };
        check("m.onnx", "m.onnx.data", Ok("m.onnx.data"));
        check("m.onnx", "./sub//w", Ok("sub/w"));
        check("a/b/m.onnx", "w.bin", Ok("a/b/w.bin"));
        check(
            "a/m.onnx",
            "../w.bin",
            Err("external data at `../w.bin` has `..` in its path; it must lie in the model's folder"),
        );
        check(
            "m.onnx",
            "/etc/passwd",
            Err("external data at `/etc/passwd` is an absolute path; it must lie in the model's folder"),
        );
        for unportable in ["a\\b", "a\0b", "c:b"] {
            assert!(external_path("m.onnx", unportable).is_err(), "{unportable}");
        }
        check("a/m.onnx", "./", Err("external data at `./` names no file"));
    }
}
