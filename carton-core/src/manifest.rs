//! MANIFEST: which files a carton has and what their SHA-256 is (spec/carton-format.md, "MANIFEST").
//!
//! Pure: bytes in, entries out. The hash of a carton is that of the MANIFEST's bytes as they are, so they are kept.

use std::ops::Range;

use crate::archive::name::{self, NameError, Overlap};
use crate::digest::{DigestError, Hasher, Sha256Digest};

/// The name of the file itself.
pub const NAME: &str = "MANIFEST";

/// The largest MANIFEST that is read, in bytes: a million files with names of 190 bytes.
pub const MAX_LENGTH: usize = 256 << 20;

/// The files of a carton and their digests, sorted by path.
///
/// ```
/// use carton_core::manifest::Manifest;
/// use carton_core::digest::Sha256Digest;
///
/// let empty = Sha256Digest::of(b"");
/// let manifest = Manifest::from_entries([("model/a=b".to_owned(), empty), ("carton.toml".to_owned(), empty)])?;
/// assert_eq!(manifest.to_bytes(), format!("carton.toml={empty}\nmodel/a=b={empty}\n").as_bytes());
/// assert_eq!(manifest.get("model/a=b"), Some(empty));
/// assert_eq!(Manifest::parse(manifest.to_bytes())?.hash(), manifest.hash());
/// # Ok::<(), carton_core::manifest::ManifestError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    bytes: Box<[u8]>,
    /// Sorted by name.
    entries: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Where the path is in the bytes; they are UTF-8 there.
    name: Range<u32>,
    digest: Sha256Digest,
}

/// Why a MANIFEST is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It is larger than [`MAX_LENGTH`].
    #[error("MANIFEST is too large: at most {MAX_LENGTH} bytes, found {found}")]
    TooLong {
        /// Its length.
        found: usize,
    },
    /// A line has no `=`, or there is an empty line.
    #[error("MANIFEST line {line}: expected `path=sha256`, found {}", excerpt(.found))]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// The line.
        found: Vec<u8>,
    },
    /// The path of a line is not allowed.
    #[error("MANIFEST line {line}: the path {} is not allowed", excerpt(.found))]
    Name {
        /// The line's number, from 1.
        line: usize,
        /// The path.
        found: Vec<u8>,
        /// Why not.
        #[source]
        source: NameError,
    },
    /// The digest of a line is malformed.
    #[error("MANIFEST line {line}: malformed digest of `{path}`")]
    Digest {
        /// The line's number, from 1.
        line: usize,
        /// The path it belongs to.
        path: String,
        /// What is wrong with it.
        #[source]
        source: DigestError,
    },
    /// MANIFEST or LINKS is listed, which describe the carton and are no part of it.
    #[error("MANIFEST lists `{path}`, which it must not")]
    Reserved {
        /// Which of the two.
        path: String,
    },
    /// Two lines have the same path.
    #[error("MANIFEST lists `{path}` twice")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// A path lies in another one, which is a file and so cannot be a folder.
    #[error("MANIFEST lists `{path}` and also `{file}`, which is a file")]
    InsideFile {
        /// The path.
        path: String,
        /// The file it lies in.
        file: String,
    },
}

/// Bytes as text for a message, cut to a readable length.
fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(200)];
    let dots = if shown.len() < bytes.len() { "…" } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}

impl Manifest {
    /// Reads a MANIFEST.
    ///
    /// Strict, because its hash stands for the whole carton: lines `path=sha256` split at the last `=`, ended by LF (the
    /// last one may lack it), each path at most once. Lines need not be sorted: the hash is over the bytes as they are, and
    /// nothing else depends on the order.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_LENGTH {
            return Err(ManifestError::TooLong { found: bytes.len() });
        }
        let mut entries = Vec::new();
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let lines = body.split(|byte| *byte == b'\n');
        let mut start = 0;
        // An empty file has no line; `split` would give one.
        for (index, text) in lines.enumerate().take(if bytes.is_empty() { 0 } else { usize::MAX }) {
            entries.push(parse_line(index + 1, text, start)?);
            start += text.len() + 1;
        }
        Self::check(bytes.into(), entries)
    }

    /// The MANIFEST of the given files, in the form that is written: sorted by the bytes of the path, each line ended by LF.
    pub fn from_entries(entries: impl IntoIterator<Item = (String, Sha256Digest)>) -> Result<Self, ManifestError> {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable();
        let mut bytes = Vec::with_capacity(entries.iter().map(|(path, _)| path.len() + 66).sum());
        for (path, digest) in &entries {
            bytes.extend_from_slice(path.as_bytes());
            bytes.push(b'=');
            bytes.extend_from_slice(&digest.to_hex());
            bytes.push(b'\n');
        }
        // Parsed back, so that what could not be read is not written either.
        Self::parse(&bytes)
    }

    fn check(bytes: Box<[u8]>, mut entries: Vec<Line>) -> Result<Self, ManifestError> {
        // Stable, because it takes linear time for the sorted lines that everybody writes.
        entries.sort_by(|a, b| text(&bytes, &a.name).cmp(text(&bytes, &b.name)));
        let mut tree = name::Tree::default();
        for entry in &entries {
            let path = text(&bytes, &entry.name);
            if path == NAME || path == crate::links::NAME {
                return Err(ManifestError::Reserved { path: path.to_owned() });
            }
            tree.add(path, false).map_err(|overlap| match overlap {
                Overlap::Duplicate => ManifestError::Duplicate { path: path.to_owned() },
                Overlap::InsideFile(file) => ManifestError::InsideFile { path: path.to_owned(), file: file.to_owned() },
            })?;
        }
        Ok(Self { bytes, entries })
    }

    /// The bytes it was read from or is written as.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The SHA-256 of the bytes: the hash of the carton ("model hash" or "manifest hash").
    pub fn hash(&self) -> Sha256Digest {
        let mut hasher = Hasher::new();
        hasher.update(&self.bytes);
        hasher.finish()
    }

    /// The digest of the file at `path`.
    pub fn get(&self, path: &str) -> Option<Sha256Digest> {
        let found = self.entries.binary_search_by(|entry| text(&self.bytes, &entry.name).cmp(path));
        found.ok().map(|index| self.entries[index].digest)
    }

    /// All files and their digests, sorted by path.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Sha256Digest)> {
        self.entries.iter().map(|entry| (text(&self.bytes, &entry.name), entry.digest))
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The path in `range`, which `parse_line` found to be UTF-8.
fn text<'a>(bytes: &'a [u8], range: &Range<u32>) -> &'a str {
    std::str::from_utf8(&bytes[range.start as usize..range.end as usize]).unwrap_or_default()
}

fn parse_line(line: usize, text: &[u8], start: usize) -> Result<Line, ManifestError> {
    let Some(equals) = text.iter().rposition(|byte| *byte == b'=') else {
        return Err(ManifestError::Line { line, found: text.to_vec() });
    };
    let (path, digest) = (&text[..equals], &text[equals + 1..]);
    let path = name::check(path).map_err(|source| ManifestError::Name { line, found: path.to_vec(), source })?;
    let digest = Sha256Digest::from_hex(digest).map_err(|source| ManifestError::Digest {
        line,
        path: path.to_owned(),
        source,
    })?;
    // MAX_LENGTH keeps both within 32 bits.
    Ok(Line { name: start as u32..(start + equals) as u32, digest })
}
