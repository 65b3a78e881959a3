//! The errors of files of zTensor 2, and of requests to them.

use std::io;

use crate::files::RawTensorError;
use crate::ztensor::{Name, ZTensorError};

/// A rule of the format that a file breaks, or a request that cannot be met. The text of a broken rule names the byte of the file, and ends in
/// the section of `spec/ztensor2.md` that states the rule. Names from a file are shown escaped and shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZTensor2Error {
    /// Reading or writing failed.
    #[error("cannot read or write the file")]
    Io(#[from] io::Error),
    /// There is not enough memory.
    #[error("there is no memory for the {n_bytes} bytes of {at}")]
    Memory {
        /// What needs the memory.
        at: String,
        /// The bytes it needs.
        n_bytes: u64,
    },
    /// The file breaks a rule of the format.
    #[error("at byte {at}: {problem} [spec/ztensor2.md §{section}]")]
    Malformed {
        /// The section that states the rule.
        section: &'static str,
        /// The byte of the file where it is broken.
        at: u64,
        /// What was found there, and what was expected.
        problem: String,
    },
    /// The bytes of a part, or of the file of a shard, do not match their digest.
    #[error("digest mismatch for {at}: expected {expected}, found {found} [spec/ztensor2.md §{section}]")]
    DigestMismatch {
        /// The section that says what the digest covers.
        section: &'static str,
        /// What has the digest.
        at: String,
        /// The digest in the manifest.
        expected: String,
        /// The digest of the bytes.
        found: String,
    },
    /// The file has something that follows the format, and that is not read.
    #[error("{problem} [spec/ztensor2.md §{section}]")]
    Unsupported {
        /// The section that says what is read.
        section: &'static str,
        /// What it is.
        problem: String,
    },
    /// The file of a shard cannot be opened, or is no file of zTensor 2.
    #[error("the shard {file} cannot be used [spec/ztensor2.md §6]")]
    Shard {
        /// The name of the file.
        file: Name,
        /// Why.
        #[source]
        source: Box<Self>,
    },
    /// A sparse object breaks a rule that versions 1.1 and 1.2 have too, or is too large.
    #[error(transparent)]
    Sparse(Box<ZTensorError>),
    /// The bytes do not form a tensor.
    #[error("object {name} cannot be read as a tensor")]
    Tensor {
        /// The object.
        name: Name,
        /// The cause.
        #[source]
        source: RawTensorError,
    },
    /// No object has this name.
    #[error("there is no object {name}")]
    NoSuchObject {
        /// The requested name.
        name: Name,
    },
    /// A tensor, or the manifest, cannot be written.
    #[error("{name} cannot be written: {problem} [spec/ztensor2.md §{section}]")]
    NotWritten {
        /// The section with the rule that the file would break.
        section: &'static str,
        /// The tensor.
        name: Name,
        /// The reason, in words.
        problem: String,
    },
}

/// Returns the error of a rule that is broken at a byte of the file.
pub(super) fn malformed(section: &'static str, at: u64, problem: impl Into<String>) -> ZTensor2Error {
    ZTensor2Error::Malformed { section, at, problem: problem.into() }
}

impl ZTensor2Error {
    /// Whether the file breaks a rule of the format.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Malformed { .. } | Self::DigestMismatch { .. } => true,
            Self::Shard { source, .. } => source.is_malformed(),
            Self::Sparse(error) => error.is_malformed(),
            _ => false,
        }
    }

    /// Whether the content of the file caused the error, rather than the request or the machine.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        match self {
            Self::Shard { source, .. } => source.is_about_content(),
            Self::Sparse(error) => error.is_about_content(),
            Self::Io(_) | Self::Memory { .. } | Self::NoSuchObject { .. } | Self::NotWritten { .. } => false,
            Self::Malformed { .. } | Self::DigestMismatch { .. } | Self::Unsupported { .. } | Self::Tensor { .. } => {
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    /// The sections that a text names, as those of `spec/ztensor2.md`.
    fn sections<'t>(text: &'t str, marks: &[&str]) -> Vec<&'t str> {
        let is_section = |text: &&str| !text.is_empty() && text.split('.').all(|part| part.parse::<u8>().is_ok());
        let after = marks.iter().flat_map(|mark| text.split(mark).skip(1));
        after.map(|rest| rest.split(['"', ' ', ']']).next().unwrap().trim_end_matches('.')).filter(is_section).collect()
    }

    #[test]
    fn every_section_that_errors_cite_exists() {
        let page = include_str!("../../../spec/ztensor2.md");
        let stated = sections(page, &["\n## ", "\n### "]);
        let files = [
            include_str!("cbor.rs"),
            include_str!("content.rs"),
            include_str!("digest.rs"),
            include_str!("error.rs"),
            include_str!("footer.rs"),
            include_str!("layout.rs"),
            include_str!("parse.rs"),
            include_str!("reader.rs"),
            include_str!("seekable.rs"),
            include_str!("shards.rs"),
            include_str!("sparse.rs"),
            include_str!("writer.rs"),
        ];
        let cited: Vec<&str> = files
            .iter()
            .flat_map(|file| sections(file, &["malformed(\"", "refused(\"", "section: \"", "spec/ztensor2.md §"]))
            .collect();
        assert!(cited.len() > 50, "{}", cited.len());
        assert!(cited.iter().all(|section| stated.contains(section)), "{cited:?}, {stated:?}");
    }
}
