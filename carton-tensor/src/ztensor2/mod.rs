//! Reads and writes files of zTensor 2 (`spec/ztensor2.md`), another container than that of versions 1.1 and 1.2, which `ztensor` reads. Their objects
//! consist of named parts, with a type, an encoding and a digest each.
//!
//! ```text
//! \x89ZT2\r\n\x1a\n | 0… | blob | 0… | blob | … | manifest (CBOR) | its place, size and XXH3, version, \x89ZT2\r\n\x1a\n
//!                       n·4096                                      40 bytes
//! ```
//!
//! [`Reader`] opens a file, and the shards beside it. [`Writer`] writes dense tensors in canonical form. [`Footer`] and [`Manifest`] parse the two parts that describe a file. A violation of the
//! format is an error that names the byte and the section of the rule.

mod cbor;
mod content;
mod digest;
mod encode;
mod error;
mod footer;
mod layout;
mod layout_rules;
mod manifest;
mod parse;
mod pieces;
mod reader;
mod seekable;
mod shards;
mod sparse;
mod types;
mod verify;
mod writer;

use crate::files::ElementType;

pub use digest::Digest;
pub use error::ZTensor2Error;
pub use footer::{ALIGNMENT, Footer, MAGIC, MAX_MANIFEST};
pub use layout::Layout;
pub use manifest::{Manifest, Object, Part};
pub use reader::Reader;
pub use verify::Verified;
pub use writer::Writer;

/// Whether the format has elements of this type (spec/ztensor2.md §3).
#[must_use]
pub fn has(dtype: ElementType) -> bool {
    types::spelling(dtype).is_some()
}

/// The encoding that is known.
const ZSTD: &str = "zt.zstd-seekable/1";
