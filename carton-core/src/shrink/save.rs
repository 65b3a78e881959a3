//! Saves the files that are left out, so that they can be uploaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use carton_format::context::{Context, Meter};
use carton_format::digest::{Sha256Digest, hash_all};
use carton_format::name;
use carton_format::progress::Stage;
use carton_format::source::{FileSource, Source};
use carton_format::url::Url;

use super::{LeftOut, ShrinkError};
use crate::Error;
use crate::contents::{Contents, ContentsError};
use crate::package;

/// Writes the files that are left out to `folder`, each under the name that its first URL ends with, and records the path in
/// `left_out`. A URL without a usable name gives the file its SHA-256 as its name.
pub(super) fn save(
    contents: &Contents,
    location: Option<&Path>,
    left_out: &mut [LeftOut],
    folder: &Path,
    context: &Context,
) -> Result<(), Error> {
    let mut names: BTreeMap<String, (Sha256Digest, String)> = BTreeMap::new();
    for file in left_out.iter_mut() {
        let name = file.urls.first().and_then(saved_name).unwrap_or_else(|| file.sha256.to_string());
        let (digest, other) = names.entry(name.clone()).or_insert_with(|| (file.sha256, file.path.clone()));
        if *digest != file.sha256 {
            let (path, other) = (file.path.clone(), other.clone());
            return Err(ShrinkError::SameName { path, other, name }.into());
        }
        file.saved = Some(folder.join(name));
    }
    std::fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
    let meter = context.meter(Stage::Extract, left_out.iter().map(|file| file.size).sum());
    let mut done: BTreeSet<Sha256Digest> = BTreeSet::new();
    for (file, path) in left_out.iter().filter_map(|file| Some((file, file.saved.as_deref()?))) {
        if !done.insert(file.sha256) {
            meter.advance(file.size)?;
            continue;
        }
        package::check_output(contents, location, path)?;
        match FileSource::open(path) {
            // An earlier run or another model may have saved the same file. Any other file is not ours to replace.
            Ok(there) => {
                let exists = || ShrinkError::Exists { path: path.to_path_buf() };
                let same_size = there.file().filter(|_| there.len() == file.size).ok_or_else(exists)?;
                if copy(same_size, io::sink(), |error| Error::io("read", path)(error), path, &meter)? != file.sha256 {
                    return Err(exists().into());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => save_one(contents, file, path, folder, &meter)?,
            Err(error) => return Err(Error::io("open", path)(error)),
        }
    }
    Ok(())
}

fn save_one(contents: &Contents, file: &LeftOut, path: &Path, folder: &Path, meter: &Meter<'_>) -> Result<(), Error> {
    let permissions = Permissions::from_mode(0o644);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".carton-").suffix(".partial").permissions(permissions);
    let mut temporary = builder.tempfile_in(folder).map_err(Error::io("write to", folder))?;
    let reader = contents.reader(&file.path, meter.context())?;
    let bad = |error| ContentsError::from_read(error, &file.path).into();
    // At the end of the file, the reader compares the digest with MANIFEST.
    copy(reader, temporary.as_file_mut(), bad, path, meter)?;
    // Does not replace a file that was created in the meantime.
    temporary.persist_noclobber(path).map_err(|error| Error::io("write", path)(error.error))?;
    Ok(())
}

/// Returns the name that a URL ends with, if it can be a file name and a server would look for the file under it.
fn saved_name(url: &Url) -> Option<String> {
    let name = url.file_name()?;
    let is_plain = name::check(name.as_bytes()).is_ok() && !name.contains('%') && !name.starts_with('.');
    is_plain.then(|| name.to_owned())
}

/// Copies `from` to `to` and returns the digest. `failed` makes the error of reading.
fn copy(
    mut from: impl Read,
    mut to: impl Write,
    failed: impl Fn(io::Error) -> Error,
    path: &Path,
    meter: &Meter<'_>,
) -> Result<Sha256Digest, Error> {
    hash_all(&mut from, failed, |chunk| {
        to.write_all(chunk).map_err(Error::io("write", path))?;
        Ok(meter.advance(chunk.len() as u64)?)
    })
}
