//! Keeps the README of a model's folder, if it has a model card (spec/carton-format-extensions.md, "Model cards").

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use carton_format::model_card::{README, has_front_matter};

use crate::Error;
use crate::package::Selection;

/// Adds `README.md` of the model's folder to the files of `misc/`, if it is packed and begins with front matter, and the user names no other.
pub(super) fn keep(model: &Path, selection: &Selection, misc: &mut BTreeMap<String, PathBuf>) -> Result<(), Error> {
    let path = model.join(README);
    // A link may lead anywhere, and is kept in the model as it is.
    let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
    if !is_file || !selection.keeps(README) || misc.contains_key(README) {
        return Ok(());
    }
    let mut beginning = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(100).read_to_end(&mut beginning));
    read.map_err(Error::io("read", &path))?;
    if has_front_matter(&beginning) {
        misc.insert(README.to_owned(), path);
    }
    Ok(())
}
