//! Records of remote cartons: which carton a URL last led to, and the blocks of the remote file that describe the carton.
//!
//! ```text
//! carton-remote 1 <SHA-256 of the next line>
//! {"url_key":…,"blocks":[[offset,length],…],"blocks_sha256":…}
//! the blocks' bytes, one after another
//! ```

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use carton_format::context::CancelToken;
use carton_format::digest::{Hasher, Sha256Digest, digest_type};
use carton_format::manifest::ManifestHash;
use carton_format::url::{ShownUrl, Url};
use carton_network::http::Version;
use serde::{Deserialize, Serialize};

use super::files::open_regular;
use super::folder::{create_folder, touch};
use super::layout::URLS;
use super::partial::Partial;
use super::record::read_own_file;
use super::{Cache, CacheError};

/// The blocks of a carton with a hundred thousand files are about 30 MiB.
const MAX_BLOCKS_LENGTH: u64 = 64 << 20;
const MAX_HEADER_LENGTH: u64 = 1 << 20;
const MAX_URL_RECORD_LENGTH: u64 = 16 << 10;
/// One carton may be at several URLs, and signed URLs are new each time. What has a tag in a registry has two records.
const MAX_REMOTES: usize = 8;
const MAGIC: &str = "carton-remote 1 ";
const PREFIX: &str = "remote-";

digest_type! {
    /// Names a URL: the SHA-256 of its text, without the signature of a signed one. The URL itself may hold a secret and is not stored.
    pub(crate) struct UrlKey
}

impl From<&Url> for UrlKey {
    fn from(url: &Url) -> Self {
        Self::of(url.identity().as_bytes())
    }
}

/// The kind of remote file that a record describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RemoteForm {
    /// The carton.
    #[default]
    Carton,
    /// The manifest of an artifact in a registry, as one block. The carton without its large files is `whole`.
    Artifact,
}

/// A remote carton as it was last seen: enough to open it again without requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteCarton {
    pub(crate) url_key: UrlKey,
    /// The part of the URL that may be shown.
    pub(crate) address: ShownUrl,
    pub(crate) form: RemoteForm,
    /// The version of the remote file that everything else here describes.
    pub(crate) version: Version,
    /// The carton's manifest hash.
    pub(crate) manifest: ManifestHash,
    /// Parts of the remote file by their offset, sorted and without overlaps.
    pub(crate) blocks: Vec<(u64, Vec<u8>)>,
    /// The digest of the remote file itself, if it was downloaded as a whole because the server sends no ranges. The cache need not have
    /// that file if it has the blocks and every file of the carton. Of an artifact, the carton without its large files, which is needed.
    pub(crate) whole: Option<Sha256Digest>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) url_key: UrlKey,
    pub(super) address: ShownUrl,
    #[serde(default)]
    form: RemoteForm,
    version: Version,
    manifest: ManifestHash,
    pub(super) whole: Option<Sha256Digest>,
    blocks: Vec<(u64, u64)>,
    blocks_sha256: Sha256Digest,
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UrlRecord {
    url_key: UrlKey,
    manifest: ManifestHash,
    /// For a name that stands for another URL, that URL. The carton has a record of it, and none of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stands_for: Option<ShownUrl>,
}

impl UrlRecord {
    /// The URL of which the carton has a record.
    fn target(&self) -> Option<UrlKey> {
        match &self.stands_for {
            Some(url) => Url::parse(url.as_str()).ok().map(|url| UrlKey::from(&url)),
            None => Some(self.url_key),
        }
    }
}

/// What is known of cartons on servers: which carton a URL last led to, and the parts that describe it.
pub(crate) struct Remotes<'a> {
    pub(super) cache: &'a Cache,
}

impl Remotes<'_> {
    /// Records a remote carton, replacing the record of its URL. A carton whose description is too large is not recorded; the description
    /// is then fetched again at the next use.
    pub(crate) fn remember(&self, carton: &RemoteCarton) -> Result<(), CacheError> {
        let root = self.cache.layout.carton(&carton.manifest);
        let path = remote_path(&root, &carton.url_key);
        let Some(bytes) = carton.to_bytes().map_err(CacheError::io("write", &path))? else {
            tracing::debug!(address = %carton.address, "the description of a carton is too large to be remembered");
            return Ok(());
        };
        let url_record = UrlRecord { url_key: carton.url_key, manifest: carton.manifest, stands_for: None };
        // The folder must not be deleted between its creation and its use.
        let _no_prune = self.cache.hold_off_prune(&CancelToken::default())?;
        let partial = self.cache.partial()?;
        create_folder(&root)?;
        partial.publish(&bytes, &path)?;
        self.write_url_record(&partial, &url_record)?;
        self.forget_oldest_remotes(&root);
        touch(&root);
        Ok(())
    }

    /// Returns the carton that this URL led to when it was last used. The query counts as a use of the carton. A carton that was
    /// downloaded as a whole, and of which no block is recorded, is returned only while its file is in the cache and undamaged.
    pub(crate) fn by_url(&self, url_key: &UrlKey) -> Option<RemoteCarton> {
        let record = self.url_record(&self.url_path(url_key))?;
        let root = self.cache.layout.carton(&record.manifest);
        let carton = read_remote(&remote_path(&root, url_key))?;
        let is_it = record.url_key == *url_key && carton.url_key == *url_key && carton.manifest == record.manifest;
        if !is_it || !self.has_whole(&carton) {
            return None;
        }
        touch(&root);
        Some(carton)
    }

    /// Returns the most recently recorded remote file of this form that leads to the carton.
    pub(crate) fn by_manifest(&self, manifest: &ManifestHash, form: RemoteForm) -> Option<RemoteCarton> {
        let root = self.cache.layout.carton(manifest);
        let is_it = |found: &RemoteCarton| found.manifest == *manifest && found.form == form && self.has_whole(found);
        let carton = remotes(&root).iter().find_map(|path| read_remote(path).filter(is_it))?;
        touch(&root);
        Some(carton)
    }

    /// Records that a name stands for `url` now, of which a carton is [recorded](Self::remember).
    pub(crate) fn remember_name(&self, name: UrlKey, url: &Url) -> Result<(), CacheError> {
        let Some(UrlRecord { manifest, .. }) = self.url_record(&self.url_path(&UrlKey::from(url))) else {
            return Ok(());
        };
        let record = UrlRecord { url_key: name, manifest, stands_for: Some(url.shown()) };
        if self.url_record(&self.url_path(&name)).as_ref() == Some(&record) {
            return Ok(());
        }
        self.write_url_record(&self.cache.partial()?, &record)
    }

    /// Returns the URL for which a name stood last, and the carton there.
    pub(crate) fn named_url(&self, name: &UrlKey) -> Option<(Url, ManifestHash)> {
        let record = self.url_record(&self.url_path(name)).filter(|record| record.url_key == *name)?;
        Some((Url::parse(record.stands_for?.as_str()).ok()?, record.manifest))
    }

    fn write_url_record(&self, partial: &Partial, record: &UrlRecord) -> Result<(), CacheError> {
        let path = self.url_path(&record.url_key);
        let bytes = serde_json::to_vec(record).map_err(|error| CacheError::io("write", &path)(error.into()))?;
        partial.publish(&bytes, &path)
    }

    fn has_whole(&self, carton: &RemoteCarton) -> bool {
        !carton.blocks.is_empty()
            || carton.whole.is_none_or(|whole| matches!(self.cache.files().get(&whole), Ok(Some(_))))
    }

    fn url_path(&self, url_key: &UrlKey) -> PathBuf {
        self.cache.layout.bucket(URLS).join(format!("{url_key}.json"))
    }

    fn url_record(&self, path: &Path) -> Option<UrlRecord> {
        serde_json::from_slice(&read_own_file(path, MAX_URL_RECORD_LENGTH)?).ok()
    }

    /// Whether the carton that a file of `urls-v1` names still has a record of that URL.
    pub(super) fn leads_to_carton(&self, path: &Path) -> bool {
        let Some(found) = self.url_record(path) else { return false };
        found.target().is_some_and(|target| remote_path(&self.cache.layout.carton(&found.manifest), &target).exists())
    }

    /// Deletes all but the newest records. Errors are ignored, because the cleanup is optional.
    fn forget_oldest_remotes(&self, root: &Path) {
        for path in remotes(root).iter().skip(MAX_REMOTES) {
            let url_key = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
            if let Some(url_path) = url_key.and_then(|key| key.parse().ok()).map(|key| self.url_path(&key))
                && self.url_record(&url_path).is_some_and(|record| self.cache.layout.carton(&record.manifest) == root)
            {
                let _ = std::fs::remove_file(url_path);
            }
            let _ = std::fs::remove_file(path);
        }
    }
}

fn remote_path(root: &Path, url_key: &UrlKey) -> PathBuf {
    root.join(format!("{PREFIX}{url_key}"))
}

/// The paths of a carton's records, the newest first.
pub(super) fn remotes(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    let modified = |entry: &std::fs::DirEntry| entry.metadata().and_then(|metadata| metadata.modified());
    let mut found: Vec<(SystemTime, PathBuf)> =
        named.map(|entry| (modified(&entry).unwrap_or(SystemTime::UNIX_EPOCH), entry.path())).collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    found.into_iter().map(|(_, path)| path).collect()
}

impl RemoteCarton {
    /// The record, or `None` if it would be too large to be read again.
    fn to_bytes(&self) -> std::io::Result<Option<Vec<u8>>> {
        let blocks: Vec<(u64, u64)> = self.blocks.iter().map(|(offset, bytes)| (*offset, bytes.len() as u64)).collect();
        if blocks_length(&blocks).is_none() {
            return Ok(None);
        }
        let mut hasher = Hasher::new();
        for (_, bytes) in &self.blocks {
            hasher.update(bytes);
        }
        let header = Header {
            url_key: self.url_key,
            address: self.address.clone(),
            form: self.form,
            version: self.version.clone(),
            manifest: self.manifest,
            whole: self.whole,
            blocks,
            blocks_sha256: hasher.finish(),
        };
        let mut header = serde_json::to_vec(&header)?;
        header.push(b'\n');
        if header.len() as u64 + FIRST_LINE_LENGTH > MAX_HEADER_LENGTH {
            return Ok(None);
        }
        let mut bytes = format!("{MAGIC}{}\n", Sha256Digest::of(&header)).into_bytes();
        bytes.extend(header);
        for (_, block) in &self.blocks {
            bytes.extend_from_slice(block);
        }
        Ok(Some(bytes))
    }
}

const FIRST_LINE_LENGTH: u64 = MAGIC.len() as u64 + 64 + 1;

/// The total length of the blocks. `None` if the list is not one that we write: sorted, without overlaps, within the limit.
fn blocks_length(blocks: &[(u64, u64)]) -> Option<u64> {
    let (mut end, mut total) = (0_u64, 0_u64);
    for (offset, length) in blocks {
        if *offset < end {
            return None;
        }
        end = offset.checked_add(*length)?;
        total = total.checked_add(*length)?;
    }
    (total <= MAX_BLOCKS_LENGTH).then_some(total)
}

/// Reads the header of a record, which the first line's digest covers. Also returns the offset where the blocks begin.
fn read_header(file: &mut File) -> Option<(Header, u64)> {
    let mut first = [0; FIRST_LINE_LENGTH as usize];
    file.read_exact(&mut first).ok()?;
    let digest = first.strip_prefix(MAGIC.as_bytes())?.strip_suffix(b"\n")?;
    let digest = Sha256Digest::from_hex(digest).ok()?;
    let mut line = Vec::new();
    let reader = std::io::BufReader::new(&mut *file);
    std::io::BufRead::read_until(&mut reader.take(MAX_HEADER_LENGTH), b'\n', &mut line).ok()?;
    if Sha256Digest::of(&line) != digest {
        return None;
    }
    Some((serde_json::from_slice(&line).ok()?, FIRST_LINE_LENGTH + line.len() as u64))
}

/// The headers of all records of a carton, the newest first. Damaged ones are left out.
pub(super) fn read_headers(root: &Path) -> Vec<Header> {
    let read = |path: &PathBuf| Some(read_header(&mut open_regular(path).ok()??.0)?.0);
    remotes(root).iter().filter_map(read).collect()
}

/// Reads a record. Returns `None` if it is damaged in any way.
pub(super) fn read_remote(path: &Path) -> Option<RemoteCarton> {
    use std::os::unix::fs::FileExt;
    let (mut file, identity) = open_regular(path).ok()??;
    let (header, start) = read_header(&mut file)?;
    let length = blocks_length(&header.blocks)?;
    if start.checked_add(length)? != identity.size {
        return None;
    }
    let mut hasher = Hasher::new();
    let mut blocks = Vec::with_capacity(header.blocks.len());
    let mut position = start;
    for (offset, length) in &header.blocks {
        // Does not allocate more than the file's size: that was just compared with the total length of the blocks.
        let mut bytes = vec![0; usize::try_from(*length).ok()?];
        file.read_exact_at(&mut bytes, position).ok()?;
        hasher.update(&bytes);
        position += length;
        blocks.push((*offset, bytes));
    }
    let Header { url_key, address, form, version, manifest, whole, blocks_sha256, .. } = header;
    let carton = RemoteCarton { url_key, address, form, version, manifest, blocks, whole };
    (hasher.finish() == blocks_sha256).then_some(carton)
}
