//! MANIFEST: the files of a carton and their SHA-256 digests (spec/carton-format.md, "MANIFEST").
//!
//! Pure: bytes in, entries out. A carton's hash is that of the exact bytes of its MANIFEST, so the bytes are kept.

use std::ops::Range;

use crate::digest::{DigestError, Sha256Digest, digest_type};
use crate::name::{self, NameError, Overlap};

/// The name of the MANIFEST file.
pub const NAME: &str = "MANIFEST";

/// The largest MANIFEST that is read, in bytes: a million files with names of 190 bytes.
pub const MAX_LENGTH: usize = 256 << 20;

/// The most lines of a MANIFEST: as many as an archive has entries.
const MAX_LINES: usize = 1 << 20;

digest_type! {
    /// The hash of a carton: the SHA-256 of its MANIFEST. As the MANIFEST has the digest of every file, it names the carton with all
    /// of its contents. Its text is that of a [`Sha256Digest`].
    ///
    /// ```
    /// use carton_format::manifest::ManifestHash;
    ///
    /// let hash: ManifestHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".parse()?;
    /// assert_eq!(hash, ManifestHash::of(b""));
    /// # Ok::<(), carton_format::digest::DigestError>(())
    /// ```
    pub struct ManifestHash
}

/// The files of a carton and their digests, sorted by path.
///
/// ```
/// use carton_format::digest::Sha256Digest;
/// use carton_format::manifest::Manifest;
///
/// let empty = Sha256Digest::of(b"");
/// let manifest = Manifest::from_entries([("model/a=b".to_owned(), empty), ("carton.toml".to_owned(), empty)])?;
/// assert_eq!(manifest.to_bytes(), format!("carton.toml={empty}\nmodel/a=b={empty}\n").as_bytes());
/// assert_eq!(manifest.get("model/a=b"), Some(empty));
/// assert_eq!(Manifest::parse(manifest.to_bytes())?.hash(), manifest.hash());
/// # Ok::<(), carton_format::manifest::ManifestError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    text: Box<str>,
    /// Sorted by name.
    entries: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// The range of the path in the text.
    name: Range<u32>,
    digest: Sha256Digest,
}

/// Why a MANIFEST is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The file is larger than `MAX_LENGTH`.
    #[error("MANIFEST is too large: at most {MAX_LENGTH} bytes, found {found}")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// There are more lines than files that a carton may have.
    #[error("MANIFEST has too many lines: at most {MAX_LINES}")]
    TooManyLines,
    /// A line has no `=`, or is empty.
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
        /// The cause.
        #[source]
        source: NameError,
    },
    /// The digest of a line is malformed.
    #[error("MANIFEST line {line}: malformed digest of `{path}`")]
    Digest {
        /// The line's number, from 1.
        line: usize,
        /// The path of the line.
        path: String,
        /// Why it is malformed.
        #[source]
        source: DigestError,
    },
    /// MANIFEST or LINKS is listed. They describe the carton and are not part of it.
    #[error("MANIFEST lists `{path}`, which it must not")]
    Reserved {
        /// The one that is listed.
        path: String,
    },
    /// Two lines have the same path.
    #[error("MANIFEST lists `{path}` twice")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// Where a back slash is taken for a slash, a path with one names the same file as another path, or lies in a file.
    #[error(
        "MANIFEST lists `{path}` and a file that is, or is in, the same one where a back slash is taken for a slash"
    )]
    BackSlash {
        /// The path.
        path: String,
    },
    /// A path lies in another one that is a file, and so cannot be a folder.
    #[error("MANIFEST lists `{path}` and also `{file}`, which is a file")]
    InsideFile {
        /// The path.
        path: String,
        /// The file in which it lies.
        file: String,
    },
}

/// Formats bytes as text for a message, cut to a readable length.
fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(200)];
    let dots = if shown.len() < bytes.len() { "…" } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}

impl Manifest {
    /// Reads a MANIFEST.
    ///
    /// Parsing is strict, because the hash stands for the whole carton: lines `path=sha256` split at the last `=`, ended by LF (the last
    /// one may lack it), each path at most once. The lines need not be sorted: the hash covers the bytes in their order, and nothing else
    /// depends on the order.
    ///
    /// # Errors
    /// [`ManifestError`] for the first invalid line.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_LENGTH {
            return Err(ManifestError::TooLong { found: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?;
        // Lines are rarely shorter than this.
        let mut entries = Vec::with_capacity(text.len() / 80);
        let body = text.strip_suffix('\n').unwrap_or(text);
        let mut start = 0;
        // An empty file has no line; `split` would return one.
        for (index, line) in body.split('\n').enumerate().take(if text.is_empty() { 0 } else { usize::MAX }) {
            if index == MAX_LINES {
                return Err(ManifestError::TooManyLines);
            }
            entries.push(parse_line(index + 1, line, start)?);
            start += line.len() + 1;
        }
        Self::check(text.into(), entries)
    }

    /// The MANIFEST of the given files, in the form that is written: sorted by the bytes of the path, each line ended by LF.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), because a MANIFEST that cannot be read must not be written.
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
        Self::parse(&bytes)
    }

    fn check(text: Box<str>, mut entries: Vec<Line>) -> Result<Self, ManifestError> {
        // A stable sort, because it takes linear time for sorted lines, which are the usual case.
        entries.sort_by(|a, b| a.path(&text).cmp(b.path(&text)));
        let mut tree = name::Tree::default();
        for entry in &entries {
            let path = entry.path(&text);
            if path == NAME || path == crate::links::NAME {
                return Err(ManifestError::Reserved { path: path.to_owned() });
            }
            tree.add(path, false).map_err(|overlap| match overlap {
                Overlap::Duplicate => ManifestError::Duplicate { path: path.to_owned() },
                Overlap::InsideFile(file) => ManifestError::InsideFile { path: path.to_owned(), file: file.to_owned() },
            })?;
        }
        if text.contains('\\')
            && let Some(path) = name::back_slash_overlap(entries.iter().map(|entry| entry.path(&text)))
        {
            return Err(ManifestError::BackSlash { path: path.to_owned() });
        }
        Ok(Self { text, entries })
    }

    /// The bytes from which it was read, or which are written.
    pub fn to_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The hash of the carton.
    pub fn hash(&self) -> ManifestHash {
        ManifestHash::of(self.text.as_bytes())
    }

    /// The digest of the file at `path`.
    pub fn get(&self, path: &str) -> Option<Sha256Digest> {
        let found = self.entries.binary_search_by(|entry| entry.path(&self.text).cmp(path));
        found.ok().map(|index| self.entries[index].digest)
    }

    /// All files and their digests, sorted by path.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Sha256Digest)> {
        self.entries.iter().map(|entry| (entry.path(&self.text), entry.digest))
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Line {
    fn path<'a>(&self, text: &'a str) -> &'a str {
        &text[self.name.start as usize..self.name.end as usize]
    }
}

/// The length of a digest in a line.
const DIGEST_LENGTH: usize = 64;

fn parse_line(line: usize, text: &str, start: usize) -> Result<Line, ManifestError> {
    // A digest has no `=`, so if it is well formed, the byte before it is the last `=`.
    let (path, digest) = match text.len().checked_sub(DIGEST_LENGTH + 1) {
        Some(equals) if text.as_bytes()[equals] == b'=' => (&text[..equals], &text[equals + 1..]),
        _ => text.rsplit_once('=').ok_or_else(|| ManifestError::Line { line, found: text.into() })?,
    };
    let name = name::check_read(path.as_bytes());
    name.map_err(|source| ManifestError::Name { line, found: path.into(), source })?;
    let digest = digest.parse().map_err(|source| ManifestError::Digest { line, path: path.to_owned(), source })?;
    // MAX_LENGTH keeps both within 32 bits.
    Ok(Line { name: start as u32..(start + path.len()) as u32, digest })
}

/// The error for a MANIFEST that is not UTF-8 at `position`.
fn not_utf8(bytes: &[u8], position: usize) -> ManifestError {
    let line = 1 + bytes[..position].iter().filter(|byte| **byte == b'\n').count();
    let found = bytes.split(|byte| *byte == b'\n').nth(line - 1).unwrap_or_default().to_vec();
    ManifestError::Name { line, found, source: NameError::NotUtf8 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// Checks the result of parsing: the sorted paths, or a part of the error and its causes.
    #[track_caller]
    fn check(text: impl AsRef<[u8]>, expected: Result<&[&str], &str>) {
        let found = Manifest::parse(text.as_ref());
        match (&found, expected) {
            (Ok(manifest), Ok(paths)) => {
                assert_eq!(manifest.iter().map(|(path, _)| path).collect::<Vec<_>>(), paths);
                assert_eq!(manifest.to_bytes(), text.as_ref());
                assert_eq!(manifest.hash(), ManifestHash::of(text.as_ref()));
                assert!(paths.iter().all(|path| manifest.get(path).is_some()));
                assert_eq!((manifest.len(), manifest.is_empty()), (paths.len(), paths.is_empty()));
            }
            (Err(error), Err(expected)) => {
                let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
                assert!(format!("{error}{cause}").contains(expected), "{error}{cause}");
            }
            _ => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn lines() {
        check("", Ok(&[]));
        check(format!("{}\n", "x\n".repeat(MAX_LINES)), Err("line 1"));
        let long: String = (0..=MAX_LINES).map(|line| format!("{line}={A}\n")).collect();
        check(&long, Err("too many lines"));
        check(format!("a={A}\n"), Ok(&["a"]));
        check(format!("a={A}"), Ok(&["a"]));
        check(format!("a={A}\nb/c={A}\n"), Ok(&["a", "b/c"]));
        check(format!("b={A}\na={A}\n"), Ok(&["a", "b"]));
        check(format!("a=b=c={A}\n"), Ok(&["a=b=c"]));
        check(format!("={A}={A}\n"), Ok(&[&format!("={A}")]));
        check(format!("größe={A}\n"), Ok(&["größe"]));
        check("\n", Err("line 1: expected `path=sha256`, found ``"));
        check(format!("a={A}\n\n"), Err("line 2: expected `path=sha256`, found ``"));
        check(format!("\na={A}\n"), Err("line 1: expected `path=sha256`"));
        check("a", Err("line 1: expected `path=sha256`, found `a`"));
        check(format!("a={A}\r\n"), Err("line 1: malformed digest of `a`"));
        check(
            format!("a= {A}\n"),
            Err("line 1: malformed digest of `a`: a SHA-256 is 64 hexadecimal digits, found 65"),
        );
        check(format!("a ={A}\n"), Ok(&["a "]));
        check(format!("a={}\n", A.to_uppercase()), Err("lower-case hexadecimal digits, found `A` at position 10"));
        check(format!("a={}\n", &A[1..]), Err("found 63 bytes"));
        check("a=\n", Err("found 0 bytes"));
        check(format!("={A}\n"), Err("line 1: the path `` is not allowed: it is empty"));
        check(format!("a={A}\n../a={A}\n"), Err("line 2: the path `../a` is not allowed: a component is `.` or `..`"));
        check(format!("/a={A}\n"), Err("it is absolute"));
        check(format!("a\0={A}\n"), Err("`a\\x00` is not allowed: it has a NUL or a line break"));
        check([b"a=", A.as_bytes(), b"\n\xFF=", A.as_bytes()].concat(), Err("line 2: the path `\\xff="));
        check(format!("a={A}\na={A}\n"), Err("MANIFEST lists `a` twice"));
        check(format!("a={A}\nb={A}\na={}\n", A.replace('0', "1")), Err("MANIFEST lists `a` twice"));
        check(format!("a={A}\na/b={A}\n"), Err("MANIFEST lists `a/b` and also `a`, which is a file"));
        check(format!("MANIFEST={A}\n"), Err("MANIFEST lists `MANIFEST`, which it must not"));
        check(format!("LINKS={A}\n"), Err("MANIFEST lists `LINKS`, which it must not"));
        check(format!("model/LINKS={A}\n"), Ok(&["model/LINKS"]));
    }

    #[test]
    fn what_is_written_is_sorted_by_bytes() {
        let digest: Sha256Digest = A.parse().unwrap();
        let entries = ["b", "a/b", "a-b", "B"].map(|path| (path.to_owned(), digest));
        let manifest = Manifest::from_entries(entries.clone()).unwrap();
        let expected = ["B", "a-b", "a/b", "b"].map(|path| format!("{path}={A}\n")).concat();
        assert_eq!(manifest.to_bytes(), expected.as_bytes());
        assert!(Manifest::from_entries(entries.into_iter().chain([("b".to_owned(), digest)])).is_err());
        assert!(Manifest::from_entries([("a\nb".to_owned(), digest)]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_kept(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(manifest) = Manifest::parse(&bytes) {
                prop_assert_eq!(manifest.to_bytes(), &bytes);
            }
        }

        #[test]
        fn entries_survive(entries in proptest::collection::btree_map("[a-z=. ]{1,8}/[a-z=ö]{1,9}", any::<[u8; 32]>(), 0..20)) {
            let entries: Vec<_> = entries.into_iter().map(|(path, digest)| (path, Sha256Digest::from_bytes(digest))).collect();
            prop_assume!(entries.iter().all(|(path, _)| name::check(path.as_bytes()).is_ok()));
            let manifest = Manifest::from_entries(entries.clone()).unwrap();
            let found: Vec<_> = manifest.iter().map(|(path, digest)| (path.to_owned(), digest)).collect();
            prop_assert_eq!(found, entries);
        }
    }
}
