//! The files of a model that are packed, those that are not, and the secrets in what is packed.

use std::path::{Path, PathBuf};

use carton_format::metadata::Draft;
use carton_templates::Template;

use super::Pack;
use super::error::PackError;
use super::secrets::{self, Secret};
use crate::Error;
use crate::blocking::run_blocking;
use crate::package::{self, NotPacked, Selection};

/// Which files of a model are packed, and which are left out.
#[derive(Default)]
pub(super) struct Selected {
    /// The files that are packed: their paths in the model, and where they are.
    pub(super) files: Vec<(String, PathBuf)>,
    /// What is left out, by the paths in the user's folder.
    pub(super) not_packed: Vec<NotPacked>,
    /// The same by their paths in the model.
    pub(super) left_out: Vec<String>,
    /// The patterns that leave nothing out.
    pub(super) idle: Vec<String>,
}

/// Lists the files of a model. A folder that cannot be packed has none: packing it says why.
pub(super) async fn select(model: &Path, selection: &Selection) -> Result<Selected, Error> {
    let (model, selection) = (model.to_path_buf(), selection.clone());
    run_blocking(None, move |context| {
        let Ok(walked) = package::walk(&model, &selection) else { return Ok(Selected::default()) };
        let mut not_packed = walked.not_packed(&context).map_err(PackError::Package)?;
        let files = walked.model_files();
        let left_out: Vec<String> = not_packed.iter().map(|left_out| left_out.path.clone()).collect();
        let idle = selection.idle(left_out.iter().map(String::as_str));
        for one in &mut not_packed {
            one.path = selection.in_given_folder(&one.path).to_owned();
        }
        let left_out = left_out.iter().map(|path| path.trim_end_matches('/').to_owned()).collect();
        Ok(Selected { files, not_packed, left_out, idle })
    })
    .await
}

/// Lists what a template does not take of the user's folder.
pub(super) async fn unused(template: Template, folder: &Path) -> Result<Vec<NotPacked>, Error> {
    let folder = folder.to_path_buf();
    run_blocking(None, move |context| {
        let unused = template.unused(&folder).map_err(PackError::Template)?.into_iter();
        let measured = unused.map(|(name, path)| package::measure(name, &path, &context));
        Ok(measured.collect::<Result<_, _>>().map_err(PackError::Package)?)
    })
    .await
}

/// What is searched for secrets, and what the user allows.
pub(super) struct Searched<'a> {
    pub(super) pack: &'a Pack,
    pub(super) selection: &'a Selection,
    /// Whether the model is a folder, of which files can be left out.
    pub(super) is_folder: bool,
}

impl Searched<'_> {
    /// Refuses files, by their paths in the carton's model, and texts of the metadata that look like secrets, unless the user allows them.
    ///
    /// # Errors
    /// [`PackError::Secrets`].
    pub(super) fn check(&self, draft: &Draft, files: &[(String, PathBuf)]) -> Result<(), Error> {
        let in_files = files.iter().filter_map(|(name, place)| {
            let name = self.selection.in_given_folder(name);
            (!self.allows(name, Some(place))).then(|| secrets::of_file(name, place)).flatten()
        });
        let in_files: Vec<Secret> = in_files.collect();
        let in_metadata = secrets::of_metadata(draft).into_iter().filter(|secret| !self.allows(&secret.path, None));
        let n_in_files = in_files.len();
        let found: Vec<Secret> = in_files.into_iter().chain(in_metadata).collect();
        let Some(Secret { path: first, .. }) = found.first().cloned() else { return Ok(()) };
        let is_in_folder = self.is_folder && n_in_files > 0 && !first.starts_with("misc/");
        let secrets = found.iter().map(ToString::to_string).collect();
        Err(PackError::Secrets { secrets, first, is_in_folder }.into())
    }

    fn allows(&self, name: &str, place: Option<&Path>) -> bool {
        self.pack.allow_secrets.iter().any(|allowed| {
            let is_place = |place: &Path| std::fs::canonicalize(allowed).is_ok_and(|allowed| allowed == place);
            allowed.strip_prefix("./").unwrap_or(allowed) == name || place.is_some_and(is_place)
        })
    }
}
