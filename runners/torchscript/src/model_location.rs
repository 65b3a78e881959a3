//! Finds the TorchScript file among the files of a model. Pure: paths in, path out.

use carton_runner_interface::runner::ModelFile;

/// A TorchScript file.
pub(crate) const MODEL_FILE: ModelFile =
    ModelFile { name: "TorchScript", extensions: &["pt", "pth", "ts"], is_any_if_alone: true };

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
