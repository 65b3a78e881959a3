//! From a path in a carton to its verified bytes, wherever they are: in the archive, in an unpacked folder, in the cache, or
//! on a server (spec/carton-format.md, "MANIFEST").
//!
//! Nothing of a file is handed out as complete before its SHA-256 matched MANIFEST. What the files mean is not known here.
//! Cartons are read with positioned reads and never mapped: one that is truncated or replaced while open gives an error.
//!
//! `state` lists the parts of an open carton. A field of a part is private to the module of that part.

mod archive_bytes;
mod bare;
mod blobs;
mod copy;
mod error;
mod fetch;
mod file_info;
mod in_place;
mod known_checksums;
mod locate;
mod model;
mod open;
mod origin;
mod part;
mod ranges;
mod raw_reader;
mod read;
mod state;
mod stated;
mod tree;
mod unpack;
mod verified_files;
mod verify;

pub(crate) use archive_bytes::ArchiveBytes;
pub(crate) use bare::OutsideLinks;
pub(crate) use blobs::{BlobStore, Blobs};
pub(crate) use error::ContentsError;
use error::{LinkFailure, LinkProblem};
pub(crate) use fetch::Access;
pub use file_info::FileInfo;
pub use model::ModelDirectory;
pub use ranges::{ModelRange, ModelRanges};
pub(crate) use state::Contents;
pub use verify::{BadFile, VerifyReport};

#[cfg(test)]
pub(crate) mod tests;
