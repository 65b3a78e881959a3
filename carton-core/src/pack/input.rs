//! Collects what goes into a carton: finds and reads the files and tensors that the metadata names, and gives them their names in
//! the carton.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use carton_format::archive::Compression;
use carton_format::context::Context;
use carton_format::metadata::{Draft, DraftReference, Metadata, Reference, Signature, TensorSpec};
use carton_format::side::Side;
use carton_format::signature::{Bindings, Giver, as_declared, check_inputs};
use carton_format::tensor_data::TensorFormat;
use carton_tensor::{Tensor, Tensors, npy};

use super::error::PackError;
use super::other_side;
use crate::Error;
use crate::package::{self, PackageInput, Selection, Unpublished};

/// Everything that goes into the carton.
#[derive(Clone)]
pub(super) struct Input {
    pub(super) draft: Draft,
    pub(super) model_path: PathBuf,
    pub(super) selection: Selection,
    pub(super) misc: BTreeMap<String, PathBuf>,
    pub(super) tensors: BTreeMap<String, Tensor>,
    pub(super) tensor_format: TensorFormat,
    pub(super) compression: Compression,
}

impl Input {
    /// Reads the files that the metadata refers to, adds them to the tensors of `tensor_data` or the files of `misc`, and makes
    /// the references point there. Relative paths start from `folder`.
    pub(super) fn read_files(&mut self, folder: &Path) -> Result<(), Error> {
        let Self { draft, tensors, misc, .. } = self;
        let mut known: BTreeMap<(PathBuf, Option<String>), Reference> = BTreeMap::new();
        draft.resolve_files(|path, member, place| {
            let key = (path.to_path_buf(), member.map(str::to_owned));
            if let Some(reference) = known.get(&key) {
                return Ok(reference.clone());
            }
            let reference = match read_tensor(&folder.join(path), member).map_err(|source| {
                let member = member.map(|member| format!("#{member}")).unwrap_or_default();
                let reference = format!("{}{member}", path.display());
                Error::from(PackError::Reference { place: place(), reference, source })
            })? {
                Some(tensor) => {
                    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                    let name = unused(tensors, member.unwrap_or(&stem));
                    tensors.insert(name.clone(), tensor);
                    Reference::TensorData(name)
                }
                None => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let name = unused(misc, &name);
                    misc.insert(name.clone(), folder.join(path));
                    Reference::Misc(name)
                }
            };
            known.insert(key, reference.clone());
            Ok::<_, Error>(reference)
        })
    }

    pub(super) fn add_tensors(&mut self, tensors: BTreeMap<String, Tensor>) -> BTreeMap<String, DraftReference> {
        let mut references = BTreeMap::new();
        for (name, tensor) in tensors {
            let stored = unused(&self.tensors, &name);
            self.tensors.insert(stored.clone(), tensor);
            references.insert(name, Reference::TensorData(stored).into());
        }
        references
    }

    /// Whether the inputs are declared and the outputs are not.
    pub(super) fn lacks_outputs(&self) -> bool {
        self.draft.inputs.is_some() && self.draft.outputs.is_none()
    }

    /// Declares the outputs that self-tests and examples show, if they are not declared.
    pub(super) fn declare_shown_outputs(&mut self) {
        if self.lacks_outputs() {
            self.draft.outputs = other_side::of_tests(&self.draft, &self.tensors);
        }
    }

    /// Writes the carton, without giving it its name yet. Its outputs may be undeclared, so that it can be loaded to record them.
    pub(super) fn write(self, output: &Path, context: &Context) -> Result<Unpublished, Error> {
        let metadata: Metadata = self.draft.validate_inputs()?;
        check_defaults(metadata.inputs(), &self.tensors)?;
        let input = PackageInput {
            selection: self.selection,
            misc: self.misc,
            tensors: self.tensors,
            tensor_format: self.tensor_format,
            ..PackageInput::new(metadata, self.model_path)
        };
        package::write_unpublished(&input, output, self.compression, context)
            .map_err(|error| PackError::Package(error).into())
    }
}

/// Checks that the default of each input is what a call may pass for it. No call without the input would succeed otherwise.
fn check_defaults(inputs: &[TensorSpec], tensors: &BTreeMap<String, Tensor>) -> Result<(), Error> {
    for input in inputs {
        let Some(default) = input.default_tensor().and_then(|name| tensors.get(name)) else { continue };
        let specs = vec![input.clone()];
        let mut given = Tensors::from([(input.name.clone(), default.clone())]);
        as_declared(Side::Input, Giver::User, Some(&specs), &mut given)?;
        let signature = Signature::new(Some(specs), None);
        let given = given.iter().map(|(name, tensor)| (name.as_str(), tensor));
        check_inputs(&signature, &mut Bindings::default(), given)?;
    }
    Ok(())
}

/// Reads the tensor of an `.npy` file or of a member of an `.npz` file; `None` for other files.
fn read_tensor(path: &Path, member: Option<&str>) -> Result<Option<Tensor>, Error> {
    let error = |source| PackError::TensorFile { path: path.to_path_buf(), source };
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    match (extension.as_ref().and_then(|extension| extension.to_str()), member) {
        (Some("npz"), Some(member)) => {
            let mut arrays = npy::Npz::open(path).map_err(error)?;
            Ok(Some(arrays.read(member).map_err(error)?))
        }
        (Some("npz"), None) => {
            let mut arrays = npy::Npz::open(path).map_err(error)?;
            match arrays.names().to_vec().as_slice() {
                [only] => Ok(Some(arrays.read(only).map_err(error)?)),
                names => Err(PackError::NpzMember { path: path.to_path_buf(), names: names.to_vec() }.into()),
            }
        }
        (Some("npy"), None) => Ok(Some(npy::read_path(path).map_err(error)?)),
        // Any other file is packed unchanged, for people to look at.
        _ => std::fs::metadata(path).map(|_| None).map_err(Error::io("open", path)),
    }
}

/// Returns `name`, or `name_2`, `name_3`, … if it is taken. The number comes before the extension.
fn unused<T>(taken: &BTreeMap<String, T>, name: &str) -> String {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        _ => (name, String::new()),
    };
    let mut candidate = name.to_owned();
    let mut number = 2;
    while taken.contains_key(&candidate) {
        candidate = format!("{stem}_{number}{extension}");
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_names_get_a_number() {
        let taken: BTreeMap<String, ()> =
            [("x", ()), ("x_2", ()), ("cat.png", ())].map(|(k, v)| (k.to_owned(), v)).into();
        let check = |name: &str, expected: &str| assert_eq!(unused(&taken, name), expected);
        check("y", "y");
        check("x", "x_3");
        check("cat.png", "cat_2.png");
    }
}
