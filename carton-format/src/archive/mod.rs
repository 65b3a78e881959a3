//! The zip file format of cartons: the entries, where their data lies, and how a new archive is laid out (spec/carton-format.md, "The zip
//! file").
//!
//! ```text
//! local header, [padding], data      model/…       one for each entry, sorted by name within its folder
//! …                                  misc/…, tensor_data/…
//! local header, data                 LINKS         only if the carton has one
//! local header, data                 carton.toml
//! local header, data                 MANIFEST
//! central directory                                one header for each entry, in the same order
//! [zip64 end of central directory record and its locator]
//! end of central directory record
//! ```
//!
//! This layer does not interpret the entries: it writes MANIFEST, but never checks it.

mod directory;
mod entry;
mod entry_reader;
mod error;
mod record;
mod section;
#[cfg(test)]
mod tests;
mod writer;

pub use directory::{Archive, SUFFIX_LENGTH};
pub use entry::{Entry, EntryKind, Method};
pub use entry_reader::EntryReader;
pub use error::ArchiveError;
pub use writer::{Compression, Content, Tail, write};

/// The largest number of entries that is read or written.
pub const MAX_ENTRIES: u64 = 1 << 20;
/// The largest central directory that is read or written, in bytes.
pub const MAX_DIRECTORY_LENGTH: u64 = 256 << 20;
/// The largest zstd window that is read, as a power of two: 128 MiB, the largest that zstd itself accepts by default.
pub const MAX_ZSTD_WINDOW_LOG: u32 = 27;
