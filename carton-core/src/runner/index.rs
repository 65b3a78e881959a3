//! Reads a runner index (spec/runner-descriptor.md, "Installation from an index"). Pure: bytes in, entries out.

use std::borrow::Borrow;
use std::fmt;
use std::path::PathBuf;

use carton_format::causes::without_value;
use carton_format::digest::Sha256Digest;
use carton_format::name::{self, NameError};
use carton_network::place::{Place, ResolveError};
use serde::Deserialize;
use serde::de::{SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::ModelFilesMode;
use super::PLATFORM;
use super::descriptor::{self, Descriptor, DescriptorError, ExecutablePaths, RawDate, RawDescriptor};
use super::library::LibraryNeed;
use super::needs::{PrepareNeeds, SandboxNeeds};
use super::select::{NoRunner, Requirement, select};
use crate::error::Error;
use crate::error::Failure;
use carton_format::error_kind::ErrorKind;

/// The largest index that is read, in bytes. The index of the original Carton, with every release, has some tens of kilobytes.
pub const MAX_INDEX_BYTES: u64 = 16 << 20;
/// The largest number of entries that are read.
pub const MAX_INDEX_ENTRIES: usize = 1 << 16;
/// The longest entry that is read, in bytes of JSON.
const MAX_ENTRY_BYTES: usize = 1 << 20;
/// The largest number of parts of one runner.
const MAX_PARTS: usize = 256;

/// The runners that an index offers.
#[derive(Clone, Debug, Default)]
pub struct RunnerIndex {
    entries: Vec<IndexEntry>,
    broken: Vec<BrokenEntry>,
}

/// A runner that can be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexEntry {
    /// Its descriptor. The path of the executable is relative to the runner's folder, and empty if only the `runner.toml` in its
    /// parts states it.
    pub descriptor: Descriptor,
    /// The ID of this release in the index.
    pub id: Option<String>,
    /// The archives that make up its folder.
    pub parts: Vec<Part>,
}

/// One archive of a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// The URL or path of the archive.
    pub place: Place,
    /// The hash of the archive.
    pub sha256: Sha256Digest,
    /// The folder that it is unpacked to, relative to the runner's folder; empty for the runner's folder itself.
    pub folder: String,
}

/// An entry that cannot be used. It does not affect the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenEntry {
    /// The position of the entry, counted from 0.
    pub position: usize,
    /// The reason, in words.
    pub reason: String,
}

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunnerIndexError {
    /// The index is not a JSON list.
    #[error("the file is not a runner index: expected a JSON list of runners")]
    Json(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The index is too large.
    #[error("a runner index may have {MAX_INDEX_BYTES} bytes, found {found}")]
    TooLarge {
        /// Its size in bytes.
        found: u64,
    },
}

impl Failure for RunnerIndexError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Integrity
    }
}

/// Why one entry cannot be used.
#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error("it has {found} bytes, expected at most {MAX_ENTRY_BYTES}")]
    TooLarge { found: usize },
    #[error("{0}")]
    Json(String),
    #[error("{0}")]
    Descriptor(DescriptorError),
    #[error("it has {found} parts, expected 1 to {MAX_PARTS}")]
    Parts { found: usize },
    #[error("part {part}: {source}")]
    Place { part: usize, source: ResolveError },
    #[error("part {part}: expected 64 hexadecimal digits as sha256, found `{found}`")]
    Digest { part: usize, found: String },
    #[error("part {part}: relative_path `{found}` cannot be used: {source}")]
    Folder { part: usize, found: String, source: NameError },
}

#[derive(Deserialize)]
struct RawEntry {
    runner_name: String,
    framework_version: String,
    runner_compat_version: u64,
    runner_interface_version: u64,
    runner_release_date: String,
    platform: String,
    #[serde(default)]
    id: Option<String>,
    download_info: Vec<RawPart>,
    #[serde(default)]
    runner_path: Option<PathBuf>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    files: ModelFilesMode,
    #[serde(default)]
    environment: Vec<String>,
    #[serde(default)]
    sandbox: SandboxNeeds,
    #[serde(default)]
    prepare: Option<PrepareNeeds>,
    #[serde(default)]
    library: Option<LibraryNeed>,
}

#[derive(Deserialize)]
struct RawPart {
    url: String,
    sha256: String,
    #[serde(default)]
    relative_path: String,
}

impl RunnerIndex {
    /// Parses an index. Relative URLs and paths of its parts are resolved against `place`, where the index is. Unknown fields are
    /// ignored.
    ///
    /// # Errors
    /// The bytes are not an index, or too many. A single bad entry is not an error of the index; see [`broken`](Self::broken).
    pub fn parse(bytes: &[u8], place: &Place) -> Result<Self, Error> {
        Ok(Self::of_bytes(bytes, place)?)
    }

    /// As [`parse`](Self::parse), for an error that names the index.
    pub(super) fn of_bytes(bytes: &[u8], place: &Place) -> Result<Self, RunnerIndexError> {
        if bytes.len() as u64 > MAX_INDEX_BYTES {
            return Err(RunnerIndexError::TooLarge { found: bytes.len() as u64 });
        }
        let RawIndex(entries) = serde_json::from_slice(bytes).map_err(|error| RunnerIndexError::Json(error.into()))?;
        let mut index = Self::default();
        for (position, raw) in entries.into_iter().enumerate() {
            match parse_entry(position, raw, place) {
                Ok(entry) => index.entries.push(entry),
                Err(error) => index.broken.push(BrokenEntry { position, reason: error.to_string() }),
            }
        }
        Ok(index)
    }

    /// Returns the offered runners, supported or not, in the order of the index.
    #[must_use]
    pub fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Chooses the runner to install of this index, which is at `place`.
    ///
    /// # Errors
    /// It has none that meets `requirement`.
    pub fn select(&self, place: &Place, requirement: &Requirement) -> Result<&IndexEntry, Box<NoRunner>> {
        select(&self.entries, requirement, PLATFORM).map_err(|none| none.in_index(place))
    }

    /// Returns the entries that cannot be used.
    #[must_use]
    pub fn broken(&self) -> &[BrokenEntry] {
        &self.broken
    }
}

impl Borrow<Descriptor> for IndexEntry {
    fn borrow(&self) -> &Descriptor {
        &self.descriptor
    }
}

fn parse_entry(position: usize, raw: &RawValue, index: &Place) -> Result<IndexEntry, EntryError> {
    if raw.get().len() > MAX_ENTRY_BYTES {
        return Err(EntryError::TooLarge { found: raw.get().len() });
    }
    let invalid = |error: serde_json::Error| EntryError::Json(without_value(&error.to_string()));
    let raw: RawEntry = serde_json::from_str(raw.get()).map_err(invalid)?;
    if raw.download_info.is_empty() || raw.download_info.len() > MAX_PARTS {
        return Err(EntryError::Parts { found: raw.download_info.len() });
    }
    let parts = raw.download_info.into_iter().enumerate().map(|(part, raw)| parse_part(part, raw, index));
    let parts = parts.collect::<Result<_, _>>()?;
    let described = RawDescriptor {
        runner_name: raw.runner_name,
        framework_version: raw.framework_version,
        runner_compat_version: raw.runner_compat_version,
        runner_interface_version: raw.runner_interface_version,
        runner_release_date: RawDate::Text(raw.runner_release_date),
        runner_path: raw.runner_path,
        args: raw.args,
        platform: raw.platform,
        files: raw.files,
        environment: raw.environment,
        sandbox: raw.sandbox,
        prepare: raw.prepare,
        library: raw.library,
    };
    let descriptor = descriptor::validate(position, described, "".as_ref(), ExecutablePaths::InFolder)
        .map_err(EntryError::Descriptor)?;
    Ok(IndexEntry { descriptor, id: raw.id, parts })
}

fn parse_part(part: usize, raw: RawPart, index: &Place) -> Result<Part, EntryError> {
    let place = index.resolve(&raw.url).map_err(|source| EntryError::Place { part, source })?;
    // This library writes hashes in lower case, but indexes of other writers may not.
    let sha256 = raw.sha256.to_ascii_lowercase().parse();
    let sha256 = sha256.map_err(|_| EntryError::Digest { part, found: raw.sha256.clone() })?;
    let folder = raw.relative_path.strip_prefix("./").unwrap_or(&raw.relative_path);
    let folder = folder.strip_suffix('/').unwrap_or(folder);
    let folder = if folder == "." { "" } else { folder };
    if !folder.is_empty() {
        name::check(folder.as_bytes()).map_err(|source| EntryError::Folder {
            part,
            found: raw.relative_path.clone(),
            source,
        })?;
    }
    Ok(Part { place, sha256, folder: folder.to_owned() })
}

/// The entries of an index, not parsed yet, so that a bad entry does not keep the others from being read.
struct RawIndex<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for RawIndex<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a list of at most {MAX_INDEX_ENTRIES} runners")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    if entries.len() == MAX_INDEX_ENTRIES {
                        return Err(serde::de::Error::invalid_length(entries.len() + 1, &self));
                    }
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_seq(Entries).map(RawIndex)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::unreachable)]

    use super::*;

    const HERE: &str = "x86_64-unknown-linux-gnu";

    /// An entry as the index of the original Carton has it.
    fn entry() -> serde_json::Value {
        serde_json::json!({
            "runner_name": "torchscript",
            "framework_version": "1.12.1",
            "runner_compat_version": 1,
            "runner_interface_version": 2,
            "runner_release_date": "2023-08-01T12:00:00.123456+00:00",
            "platform": HERE,
            "id": "0f3a",
            "download_info": [
                {"url": "https://host/runner.zip", "sha256": "a".repeat(64), "relative_path": ""},
                {"url": "libs/torch.tar.gz", "sha256": "B".repeat(64), "relative_path": "./torch/"},
            ],
        })
    }

    fn parse(entries: &[serde_json::Value]) -> RunnerIndex {
        let text = serde_json::to_vec(entries).unwrap();
        RunnerIndex::parse(&text, &Place::parse("https://me:secret@index.org/runners/index.json?key=1").unwrap())
            .unwrap()
    }

    fn url(place: &Place) -> &str {
        match place {
            Place::Path(path) => path.to_str().unwrap(),
            place => place.url().unwrap().expose_str(),
        }
    }

    #[test]
    fn the_originals_entries_are_understood() {
        let index = parse(&[entry()]);
        assert_eq!(index.broken(), []);
        let [entry] = index.entries() else { unreachable!() };
        assert_eq!(entry.descriptor.to_string(), "torchscript 1.12.1");
        assert_eq!(entry.descriptor.runner_path.as_os_str(), "");
        assert_eq!(entry.id.as_deref(), Some("0f3a"));
        assert_eq!(url(&entry.parts[0].place), "https://host/runner.zip");
        assert_eq!(entry.parts[0].folder, "");
        assert_eq!(url(&entry.parts[1].place), "https://me:secret@index.org/runners/libs/torch.tar.gz");
        assert_eq!(entry.parts[1].sha256.to_string(), "b".repeat(64));
        assert_eq!(entry.parts[1].folder, "torch");
    }

    #[test]
    fn ours_say_how_the_runner_is_started() {
        let mut ours = entry();
        ours["runner_path"] = "bin/run".into();
        ours["args"] = serde_json::json!(["a b"]);
        ours["files"] = "ranges".into();
        ours["future"] = serde_json::json!({"x": [1]});
        let index = parse(&[ours]);
        let descriptor = &index.entries()[0].descriptor;
        assert_eq!(descriptor.runner_path.to_str(), Some("bin/run"));
        assert_eq!(descriptor.args, ["a b"]);
        assert_eq!(descriptor.files, ModelFilesMode::Ranges);
    }

    #[test]
    fn a_bad_entry_is_reported_and_hides_nothing() {
        let check = |path: &str, value: serde_json::Value, expected: &str| {
            let mut bad = entry();
            *bad.pointer_mut(path).unwrap() = value;
            let index = parse(&[entry(), bad, entry()]);
            assert_eq!(index.entries().len(), 2, "{path}");
            let [broken] = index.broken() else { unreachable!() };
            assert_eq!(broken.position, 1);
            assert!(broken.reason.contains(expected), "{path}: {}", broken.reason);
        };
        check("", serde_json::json!(3), "expected struct");
        check("/framework_version", "1.12".into(), "framework_version");
        check("/runner_name", "torch script".into(), "runner_name");
        check("/runner_release_date", "soon".into(), "runner_release_date");
        check("/runner_interface_version", (-1).into(), "u64");
        check("/download_info", serde_json::json!([]), "0 parts");
        check("/download_info", serde_json::json!("x"), "a sequence");
        let mut bad = entry();
        bad["download_info"] = "https://me:secret@host/x".into();
        assert!(!parse(&[bad]).broken()[0].reason.contains("secret"));
        let many: Vec<_> = std::iter::repeat_n(entry()["download_info"][0].clone(), 257).collect();
        check("/download_info", many.into(), "257 parts");
        check("/download_info/0/sha256", "abc".into(), "64 hexadecimal digits");
        check("/download_info/1/relative_path", "../x".into(), "relative_path `../x`");
        check("/download_info/1/relative_path", "/etc".into(), "absolute");
        check("/download_info/0/url", "file:///etc/passwd".into(), "expected `http:`");
        check("/download_info/0/url", "ftp://host/x".into(), "expected `http:`");
        check("/id", "x".repeat(2 << 20).into(), "at most 1048576");
        let mut with_path = entry();
        with_path["runner_path"] = "../run".into();
        assert!(parse(&[with_path]).broken()[0].reason.contains("runner_path"));
    }

    #[test]
    fn what_is_no_index_is_an_error() {
        let place = Place::parse("https://host/index.json").unwrap();
        let check = |text: &[u8], expected: &str| {
            let error = RunnerIndex::parse(text, &place).unwrap_err();
            let text = format!("{error}: {}", carton_format::causes::in_one_line(&error));
            assert!(text.contains(expected), "{text}");
        };
        check(b"", "JSON list");
        check(b"{}", "JSON list");
        check(b"[1", "JSON list");
        check(b"[1] 2", "JSON list");
        check(&vec![b' '; 17 << 20], "found 17825792");
        check(format!("[{}0]", "0,".repeat(MAX_INDEX_ENTRIES)).as_bytes(), "at most 65536 runners");
        assert!(RunnerIndex::parse(b"[]", &place).unwrap().entries().is_empty());
    }

    #[test]
    fn the_original_s_runners_are_never_chosen() {
        let mut old = entry();
        old["runner_interface_version"] = 1.into();
        old["framework_version"] = "1.13.0".into();
        let index = parse(&[old.clone(), entry()]);
        let requirement = |version: &str| Requirement {
            name: "torchscript".to_owned(),
            framework_version: Some(version.parse().unwrap()),
            compat_version: None,
        };
        let chosen = select(index.entries(), &requirement("^1"), HERE).unwrap();
        assert_eq!(chosen.descriptor.to_string(), "torchscript 1.12.1");
        let error = select(parse(&[old]).entries(), &requirement("^1"), HERE).unwrap_err();
        assert!(error.to_string().contains("it speaks runner interface 1, supported is 2"), "{error}");
    }
}
