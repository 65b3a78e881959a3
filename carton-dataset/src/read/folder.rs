//! The folder of a dataset: finds and opens its manifest and its shards. A shard may be a link only within the folders that
//! spec/dataset.md §3.3 allows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use carton_tensor::files::FileBytes;
use carton_tensor::safetensors::Reader;

use crate::error::DatasetError;
use crate::manifest::{MANIFEST_NAME, Manifest, ManifestError, Shard};

/// The folders that contain the files of a dataset.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// The path of the folder, as it was given.
    pub(super) named: PathBuf,
    /// The same path with links resolved, and the folder that really contains the manifest: caches keep files in one place and link to
    /// them.
    real: [PathBuf; 2],
}

/// The result of looking for a shard.
pub(super) enum ShardLocation {
    /// A file: its path with links resolved, and its size in bytes.
    File(PathBuf, u64),
    /// There is nothing at the path.
    Missing,
    /// Something other than a file.
    NoFile,
    /// A link that leads out of the folders.
    Outside,
}

impl Folder {
    /// Opens the folder at `path`, and reads its manifest.
    pub(super) fn open(path: &Path) -> Result<(Self, Manifest), DatasetError> {
        let manifest_path = path.join(MANIFEST_NAME);
        let io = DatasetError::io("read", &manifest_path);
        let wrong = |source| DatasetError::Manifest { place: manifest_path.display().to_string(), source };
        if fs::metadata(&manifest_path).is_ok_and(|found| !found.is_file()) {
            return Err(wrong(ManifestError::NoFile));
        }
        let bytes = match FileBytes::open(&manifest_path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.to_owned();
                return Err(match path.is_dir() {
                    true => DatasetError::NoManifest { folder },
                    false => DatasetError::NoFolder { folder },
                });
            }
            Err(error) => return Err(io(error)),
        };
        let length = bytes.len();
        if length > Manifest::MAX_LENGTH {
            return Err(wrong(ManifestError::TooLong { length }));
        }
        let manifest = Manifest::parse(&bytes.read(0..length).map_err(&io)?).map_err(wrong)?;
        let mut target = fs::canonicalize(&manifest_path).map_err(&io)?;
        target.pop();
        let real = [fs::canonicalize(path).map_err(&io)?, target];
        Ok((Self { named: path.to_owned(), real }, manifest))
    }

    /// Looks for a shard.
    pub(super) fn find(&self, shard_path: &str) -> Result<ShardLocation, DatasetError> {
        let path = self.named.join(shard_path);
        let io = DatasetError::io("read", &path);
        let real = match fs::canonicalize(&path) {
            Ok(real) => real,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(ShardLocation::Missing);
            }
            Err(error) => return Err(io(error)),
        };
        if !self.real.iter().any(|folder| real.starts_with(folder)) {
            return Ok(ShardLocation::Outside);
        }
        let metadata = fs::metadata(&real).map_err(&io)?;
        Ok(if metadata.is_file() { ShardLocation::File(real, metadata.len()) } else { ShardLocation::NoFile })
    }

    /// Opens a shard, and checks that its size is that of the manifest.
    pub(super) fn read(&self, shard: &Shard, access: Access) -> Result<Reader, DatasetError> {
        let name = || self.named.join(&shard.shard_path).display().to_string();
        let path = match self.find(&shard.shard_path)? {
            ShardLocation::File(path, _) => path,
            ShardLocation::Missing => return Err(DatasetError::MissingShard { shard: name() }),
            ShardLocation::NoFile => return Err(DatasetError::ShardNoFile { shard: name() }),
            ShardLocation::Outside => return Err(DatasetError::ShardOutside { shard: name() }),
        };
        let bytes = access.bytes(&path).map_err(DatasetError::io("read", &path))?;
        let (expected, found) = (shard.bytes, bytes.len());
        if found != expected {
            return Err(DatasetError::ShardSize { shard: name(), expected, found });
        }
        Reader::new(bytes, name()).map_err(|source| DatasetError::shard(name(), source))
    }
}

/// How the bytes of shards are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Map,
    Copy,
}

impl Access {
    pub(super) fn bytes(self, path: &Path) -> io::Result<FileBytes> {
        match self {
            Self::Map => FileBytes::map(path),
            Self::Copy => FileBytes::open(path),
        }
    }
}
