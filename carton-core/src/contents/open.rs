//! Opening a carton file, or an unpacked carton.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::archive::{Archive, EntryKind};
use carton_format::digest::Sha256Digest;
use carton_format::links::{self, Links};
use carton_format::manifest::{self, Manifest, ManifestHash};
use carton_format::name;

use super::fetch::{Fetcher, read_ahead};
use super::known_checksums::KnownChecksums;
use super::locate::Locator;
use super::origin::Origin;
use super::tree::{DESCRIBING, Found, Tree, arrange};
use super::verified_files::VerifiedFiles;
use super::{Access, ArchiveBytes, Blobs, Contents, ContentsError};
use crate::cache::{Cache, Moment, WORTH_WAITING, open_regular};

impl Contents {
    /// Opens a carton file. Its MANIFEST must have the hash `expect`, if one is given, before anything else is used.
    ///
    /// Without a cache nothing is remembered, and model folders are temporary. Files that are in `blobs` need not be in the carton.
    ///
    /// # Errors
    /// Not a carton, another carton than expected, or one whose entries and MANIFEST do not agree.
    pub(crate) fn open_archive(
        bytes: impl Into<ArchiveBytes>,
        cache: Option<Arc<Cache>>,
        expect: Option<ManifestHash>,
        blobs: Blobs,
    ) -> Result<Contents, ContentsError> {
        let bytes = bytes.into();
        let source = bytes.source();
        let remote = bytes.remote();
        let location = source.location().to_owned();
        // A large carton that was written just now: waiting for the clock to tick is cheaper than hashing it once more.
        let opened_at = source.identity().zip(source.file()).map(|(identity, file)| match identity.size {
            WORTH_WAITING.. => Moment::after_tick_of(file, &identity),
            _ => Moment::now(file),
        });
        let archive = Archive::open(source).map_err(ContentsError::archive(&location))?;
        let described =
            DESCRIBING.iter().filter_map(|(name, cap)| archive.get(name).filter(|entry| entry.size() <= *cap));
        read_ahead(remote.as_deref(), described.map(|entry| archive.window(entry)))?;
        let metadata_file = |name: &str, cap: usize| match archive.get(name) {
            Some(entry) if entry.kind() == EntryKind::File => {
                archive.read(entry, cap as u64).map(Some).map_err(ContentsError::archive(name))
            }
            // Readers that follow links would see another carton than those that do not.
            Some(_) => Err(ContentsError::Kind { path: PathBuf::from(name) }),
            None => Ok(None),
        };
        let (manifest, hash) = check_manifest(metadata_file(manifest::NAME, manifest::MAX_LENGTH)?, &location, expect)?;
        let links = match metadata_file(links::NAME, Links::MAX_LENGTH)? {
            Some(bytes) => Links::parse(&bytes)?,
            None => Links::default(),
        };
        let links_inside = archive.entries().iter().filter(|entry| entry.kind() == EntryKind::Symlink);
        read_ahead(remote.as_deref(), links_inside.map(|entry| archive.window(entry)))?;
        let mut found = BTreeMap::new();
        for (index, entry) in archive.entries().iter().enumerate() {
            let what = match entry.kind() {
                EntryKind::Directory => continue,
                EntryKind::File => Found::File { size: entry.size(), entry: index },
                EntryKind::Symlink => {
                    let target = archive.read(entry, name::MAX_LENGTH as u64);
                    Found::Symlink { target: target.map_err(ContentsError::archive(entry.name()))? }
                }
            };
            found.insert(entry.name().to_owned(), what);
        }
        let items = arrange(&manifest, |digest| !links.urls(digest).is_empty() || blobs.has(digest), found)?;
        let origin = Origin::Archive { archive, remote, opened_at };
        let tree = Tree::new((manifest, hash), links, blobs, items);
        Ok(Contents::new(tree, origin).with_cache(cache))
    }

    /// Opens an unpacked carton: a folder with MANIFEST and the files it lists.
    ///
    /// # Errors
    /// As for [`Contents::open_archive`].
    pub(crate) fn open_folder(path: &Path, expect: Option<ManifestHash>) -> Result<Contents, ContentsError> {
        let path = &std::path::absolute(path).map_err(ContentsError::io("resolve", path))?;
        let location = path.display().to_string();
        let manifest_bytes = read_small(&path.join(manifest::NAME), manifest::MAX_LENGTH)?;
        let (manifest, hash) = check_manifest(manifest_bytes, &location, expect)?;
        let links = match read_small(&path.join(links::NAME), Links::MAX_LENGTH)? {
            Some(bytes) => Links::parse(&bytes)?,
            None => Links::default(),
        };
        let items = arrange(&manifest, |digest| !links.urls(digest).is_empty(), walk(path)?)?;
        let origin = Origin::Folder(path.to_path_buf());
        Ok(Contents::new(Tree::new((manifest, hash), links, Blobs::default(), items), origin))
    }

    /// Contents that may use neither a cache nor the network.
    pub(super) fn new(tree: Tree, origin: Origin) -> Contents {
        Contents {
            locator: Locator::new(tree, origin),
            fetcher: Fetcher::default(),
            checksums: KnownChecksums::default(),
            verified: VerifiedFiles::default(),
        }
    }

    /// Sets the cache for a folder's contents: for records of verification, and for linked files.
    pub(crate) fn with_cache(mut self, cache: Option<Arc<Cache>>) -> Contents {
        self.locator.set_cache(cache);
        self
    }

    /// Allows files on a server and linked files to be fetched into the cache.
    pub(crate) fn with_access(mut self, access: Option<Access>) -> Contents {
        self.fetcher.set_access(access);
        self
    }

    /// Marks the archive as a file of the cache, so that a lease keeps it too.
    pub(crate) fn with_whole(mut self, whole: Option<Sha256Digest>) -> Contents {
        self.locator.set_whole(whole);
        self
    }

    /// Sets the name of the model for listings of the cache.
    pub(crate) fn with_model_name(mut self, model_name: Option<String>) -> Contents {
        self.fetcher.set_model_name(model_name);
        self
    }
}

/// Compares the hash first: a MANIFEST that is not the expected one is not even parsed.
fn check_manifest(
    bytes: Option<Vec<u8>>,
    location: &str,
    expect: Option<ManifestHash>,
) -> Result<(Manifest, ManifestHash), ContentsError> {
    let bytes = bytes.ok_or_else(|| ContentsError::NoManifest { location: location.to_owned() })?;
    let found = ManifestHash::of(&bytes);
    match expect {
        Some(expected) if expected != found => Err(ContentsError::ManifestHash { expected, found }),
        _ => Ok((Manifest::parse(&bytes)?, found)),
    }
}

/// A regular file of an unpacked carton as a whole; none if it is not there.
fn read_small(path: &Path, cap: usize) -> Result<Option<Vec<u8>>, ContentsError> {
    let Some((file, identity)) = open_regular(path)? else { return Ok(None) };
    let too_long =
        |found| ContentsError::Size { path: path.display().to_string(), expected: format!("at most {cap}"), found };
    if identity.size > cap as u64 {
        return Err(too_long(identity.size));
    }
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(cap as u64 + 1).read_to_end(&mut bytes).map_err(ContentsError::io("read", path))?;
    if bytes.len() > cap {
        return Err(too_long(bytes.len() as u64));
    }
    Ok(Some(bytes))
}

/// All files and symbolic links below the folder of an unpacked carton, by their path in the carton.
fn walk(root: &Path) -> Result<BTreeMap<String, Found>, ContentsError> {
    let mut found = BTreeMap::new();
    // The longest name that is allowed bounds the depth.
    let mut folders = vec![(root.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(ContentsError::io("list", &folder))? {
            let entry = entry.map_err(ContentsError::io("list", &folder))?;
            let path = entry.path();
            let name = checked_name(&prefix, entry.file_name().as_bytes(), &path)?;
            let metadata = entry.metadata().map_err(ContentsError::io("inspect", &path))?;
            if metadata.is_dir() {
                folders.push((path, format!("{name}/")));
            } else if metadata.is_symlink() {
                let target = std::fs::read_link(&path).map_err(ContentsError::io("read link", &path))?;
                found.insert(name, Found::Symlink { target: target.as_os_str().as_bytes().to_vec() });
            } else if metadata.is_file() {
                found.insert(name, Found::File { size: metadata.len(), entry: 0 });
            } else {
                return Err(ContentsError::Kind { path });
            }
        }
    }
    Ok(found)
}

/// The path in the carton of something in a folder, if a carton can have it.
pub(super) fn checked_name(prefix: &str, file_name: &[u8], path: &Path) -> Result<String, ContentsError> {
    let name = [prefix.as_bytes(), file_name].concat();
    match name::check_read(&name) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(ContentsError::Kind { path: PathBuf::from(path) }),
    }
}
