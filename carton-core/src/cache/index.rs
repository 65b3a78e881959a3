//! The identities of all files of a folder, so that a later use can tell by a stat of each which of them changed.
//!
//! The format is text with one line per file, sorted by path: the digest of its bytes (`-` for a folder), then device, inode, size and
//! the two times of its identity, then its path up to the end of the line. The first line names the format and the manifest hash.

use std::fmt::Write;

use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use carton_format::source::FileIdentity;

/// An index takes about 200 bytes per file.
pub(super) const LARGEST_INDEX: u64 = 512 * 1024 * 1024;

const HEADER: &str = "carton-folder-index 1";

/// One path of an indexed folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Relative to the folder. It contains no newline, because MANIFEST could not name such a path.
    pub(crate) path: String,
    /// The digest of the file, or `None` for a folder.
    pub(crate) digest: Option<Sha256Digest>,
    /// The result of lstat when the bytes were known to be right.
    pub(crate) identity: FileIdentity,
}

/// The state of a folder when it was last known to be complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FolderIndex {
    pub(crate) manifest: ManifestHash,
    pub(crate) lines: Vec<Line>,
}

impl FolderIndex {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::with_capacity(128 + self.lines.len() * 192);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{HEADER} {}", self.manifest);
        for line in &self.lines {
            let FileIdentity { device, inode, size, modified, changed } = line.identity;
            match &line.digest {
                Some(digest) => {
                    let _ = write!(text, "{digest}");
                }
                None => text.push('-'),
            }
            let _ = writeln!(
                text,
                " {device} {inode} {size} {} {} {} {} {}",
                modified.0, modified.1, changed.0, changed.1, line.path
            );
        }
        text.into_bytes()
    }

    /// Parses what `to_bytes` wrote. Returns `None` if it is damaged in any way: the folder is then hashed again.
    pub(crate) fn parse(bytes: &[u8]) -> Option<FolderIndex> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let mut lines = text.split('\n');
        let manifest = lines.next()?.strip_prefix(HEADER)?.strip_prefix(' ')?.parse().ok()?;
        let lines = lines.map(parse_line).collect::<Option<Vec<Line>>>()?;
        Some(FolderIndex { manifest, lines })
    }
}

fn parse_line(line: &str) -> Option<Line> {
    let mut fields = line.splitn(9, ' ');
    let digest = match fields.next()? {
        "-" => None,
        digest => Some(digest.parse().ok()?),
    };
    let identity = FileIdentity {
        device: fields.next()?.parse().ok()?,
        inode: fields.next()?.parse().ok()?,
        size: fields.next()?.parse().ok()?,
        modified: (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?),
        changed: (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?),
    };
    Some(Line { path: fields.next()?.to_owned(), digest, identity })
}
