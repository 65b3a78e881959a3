//! Reads and writes zTensor files, versions 1.1 and 1.2 (`spec/ztensor.md`). Their tensors consist of named components and are dense,
//! sparse or quantized, raw or compressed, with optional digests.
//!
//! ```text
//! ZTEN1000 | 0… | blob | 0… | blob | … | manifest (CBOR) | its size, 8 bytes | ZTEN1000
//!               64         n·64
//! ```
//!
//! [`Reader`] opens a file. [`Writer`] writes one from front to back, or appends to one. [`Footer`] and [`Manifest`] parse the two
//! parts that describe a file, for callers that get its bytes by other means. A violation of the format is an error that names the
//! section of the rule.

mod append;
mod attributes;
mod bytes;
mod cbor;
mod component;
mod create;
mod digest;
mod digest_algorithm;
mod error;
mod findings;
mod footer;
mod manifest;
mod name;
mod parse;
mod place;
mod quantized_group;
mod reader;
mod span;
mod sparse;
mod types;
mod version;
mod writer;

pub use append::AppendFile;
pub use attributes::{Attribute, Attributes};
pub use bytes::Bytes;
pub use create::NewFile;
pub use digest::Digest;
pub use digest_algorithm::DigestAlgorithm;
pub use error::ZTensorError;
pub use findings::{Finding, VersionRule};
pub use footer::{ALIGNMENT, Footer, MAGIC, MAX_MANIFEST, check_header};
pub use manifest::{Component, Encoding, Format, Manifest, Object};
pub use name::Name;
pub use place::FilePart;
pub use quantized_group::{QuantizedGroup, QuantizedGroupError};
pub use reader::{Checks, Reader, Verified};
pub(crate) use span::Span;
pub use sparse::{Coo, Csr, MAX_DENSE, SparseError, count_stored, density};
pub use version::Version;
pub use writer::{Part, StoreAs, Writer};
