//! Finds the file to load among the files of a model. Pure: paths in, path out.

use super::RunnerError;

/// A kind of model file.
///
/// ```
/// use carton_runner_interface::runner::ModelFile;
///
/// const ONNX: ModelFile = ModelFile { name: ".onnx", extensions: &["onnx"], is_any_if_alone: false };
/// let paths = ["README.md".to_owned(), "sub/Model.ONNX".to_owned()];
/// assert_eq!(ONNX.choose(&paths, None)?, "sub/Model.ONNX");
/// # Ok::<(), carton_runner_interface::runner::RunnerError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelFile {
    /// What messages call it, before the word "file".
    pub name: &'static str,
    /// The extensions that such files have, in lower case.
    pub extensions: &'static [&'static str],
    /// Whether the only file of a model may have any name.
    pub is_any_if_alone: bool,
}

impl ModelFile {
    /// Picks the file among `paths` (relative, with `/`): the only one of this kind, or the one that `wanted` names.
    ///
    /// # Errors
    /// There is none of this kind, there are several and `wanted` is `None`, or the wanted file is not among them.
    pub fn choose(&self, paths: &[String], wanted: Option<&str>) -> Result<String, RunnerError> {
        let models: Vec<&String> = paths.iter().filter(|path| self.is_model(path)).collect();
        if let Some(wanted) = wanted {
            if paths.iter().any(|path| path == wanted) {
                return Ok(wanted.to_owned());
            }
            let text = format!("option `model` names `{wanted}`, which is not there; {}", self.list(&models));
            return Err(RunnerError::new(text));
        }
        match (models.as_slice(), paths) {
            ([model], _) => Ok((*model).clone()),
            ([], [only]) if self.is_any_if_alone => Ok(only.clone()),
            ([], _) => Err(RunnerError::new(format!("no {} file found{}", self.name, self.shown_extensions()))),
            _ => {
                let text = format!("{}; choose one with the option model = \"…\"", self.list(&models));
                Err(RunnerError::new(text))
            }
        }
    }

    /// Whether a file has a name of this kind.
    #[must_use]
    pub fn is_model(&self, path: &str) -> bool {
        let extension = path.rsplit('/').next().unwrap_or(path).rsplit_once('.').map(|(_, extension)| extension);
        extension.is_some_and(|extension| self.extensions.iter().any(|known| extension.eq_ignore_ascii_case(known)))
    }

    /// The extensions, where the name does not say them.
    fn shown_extensions(&self) -> String {
        match self.extensions {
            [others @ .., last] if !others.is_empty() => {
                let others: Vec<String> = others.iter().map(|extension| format!(".{extension}")).collect();
                format!(" ({} or .{last})", others.join(", "))
            }
            _ => String::new(),
        }
    }

    fn list(&self, models: &[&String]) -> String {
        /// The number of names that fit a message.
        const SHOWN: usize = 20;
        let names: Vec<String> = models.iter().take(SHOWN).map(|path| format!("`{path}`")).collect();
        let (kind, names) = (self.name, names.join(", "));
        match models.len() {
            0 => format!("there are no {kind} files"),
            1 => format!("there is one {kind} file: {names}"),
            n if n > SHOWN => format!("there are {n} {kind} files: {names}, …"),
            n => format!("there are {n} {kind} files: {names}"),
        }
    }
}
