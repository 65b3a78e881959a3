//! A file or folder that may be a model, and the parts of it that recognizers look at.

use std::cell::OnceCell;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::archive::Archive;
use carton_format::source::FileSource;
use memchr::memmem;

use crate::TemplateError;

/// How many of a file's first bytes are read at once.
const START: u64 = 64 << 10;
/// The largest file or entry that is read whole.
pub(crate) const MAX_TEXT: u64 = 16 << 20;

/// The names beside `main.py` by which the python runner finds the packages of a model.
const NAMES_THE_RUNNER_READS: [&str; 7] =
    [".carton", "environment.yaml", "environment.yml", "pylock.toml", "pyproject.toml", "requirements.txt", "uv.lock"];

/// A file or folder that may be a model.
pub(crate) struct Candidate {
    path: PathBuf,
    /// The names in the folder; `None` for a file.
    entries: Option<Vec<String>>,
    start: Vec<u8>,
    archive: OnceCell<Option<Archive>>,
}

impl Candidate {
    pub(crate) fn new(path: &Path) -> Result<Self, TemplateError> {
        let metadata = fs::metadata(path).map_err(TemplateError::io("open", path))?;
        let (mut entries, mut start) = (None, Vec::new());
        if metadata.is_dir() {
            let mut names = Vec::new();
            for entry in fs::read_dir(path).map_err(TemplateError::io("list", path))? {
                let entry = entry.map_err(TemplateError::io("list", path))?;
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
            names.sort_unstable();
            entries = Some(names);
        } else if metadata.is_file() {
            start = read_at_most(path, START)?;
        }
        Ok(Self { path: path.to_path_buf(), entries, start, archive: OnceCell::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the file or folder.
    pub(crate) fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the path that the file gets beside `main.py`: its name, or one in a folder if the python runner would read a file of that name.
    pub(crate) fn name_beside_module(&self) -> String {
        let name = self.file_name();
        let is_taken = NAMES_THE_RUNNER_READS.contains(&name.as_str()) || name.ends_with(".py");
        if is_taken { format!("model/{name}") } else { name }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.entries.is_some()
    }

    /// Whether this is a folder with a file or folder of that name directly in it.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.as_ref().is_some_and(|entries| entries.binary_search_by(|entry| entry.as_str().cmp(name)).is_ok())
    }

    /// Returns the names directly in the folder, sorted; none for a file.
    pub(crate) fn entries(&self) -> &[String] {
        self.entries.as_deref().unwrap_or_default()
    }

    /// Returns the file's first 64 KiB, or all if it has fewer; nothing for a folder.
    pub(crate) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Returns the file's last bytes, at most `n_bytes`.
    pub(crate) fn end(&self, n_bytes: u64) -> Result<Vec<u8>, TemplateError> {
        let error = || TemplateError::io("read", &self.path);
        let mut file = fs::File::open(&self.path).map_err(error())?;
        let length = file.metadata().map_err(error())?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(n_bytes))).map_err(error())?;
        let mut end = Vec::new();
        file.take(n_bytes).read_to_end(&mut end).map_err(error())?;
        Ok(end)
    }

    /// Whether `text` is in the file. Searched from its end, so that what is near the end is found at once in a large file.
    pub(crate) fn contains(&self, text: &[u8]) -> Result<bool, TemplateError> {
        let error = || TemplateError::io("read", &self.path);
        let mut file = fs::File::open(&self.path).map_err(error())?;
        let mut block_end = file.metadata().map_err(error())?.len();
        // Each block has the beginning of the one behind it, because the text may cross the border.
        let mut behind = Vec::new();
        while block_end > 0 {
            let block_start = block_end.saturating_sub(START);
            file.seek(SeekFrom::Start(block_start)).map_err(error())?;
            let mut block = Vec::new();
            file.by_ref().take(block_end - block_start).read_to_end(&mut block).map_err(error())?;
            block.extend_from_slice(&behind);
            if memmem::find(&block, text).is_some() {
                return Ok(true);
            }
            block.truncate(text.len());
            (behind, block_end) = (block, block_start);
        }
        Ok(false)
    }

    /// Returns the directory of the file if it is a zip archive that can be read.
    pub(crate) fn archive(&self) -> Option<&Archive> {
        let open = || {
            if !self.start.starts_with(b"PK\x03\x04") {
                return None;
            }
            Archive::open(Arc::new(FileSource::open(&self.path).ok()?)).ok()
        };
        self.archive.get_or_init(open).as_ref()
    }

    /// Reads an entry of the archive. `None` if this is no archive, or the entry is not there, larger than 16 MiB, or broken.
    pub(crate) fn read_entry(&self, name: &str) -> Option<Vec<u8>> {
        let archive = self.archive()?;
        archive.read(archive.get(name)?, MAX_TEXT).ok()
    }

    /// Reads an entry of the archive that is a JSON object. `None` if it is not there, or is none.
    pub(crate) fn read_entry_json(&self, name: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
        serde_json::from_slice(&self.read_entry(name)?).ok()
    }

    /// Reads a file of the folder, such as `config.json`. `None` if it is not there, or larger than 16 MiB.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, TemplateError> {
        if !self.has(name) {
            return Ok(None);
        }
        let path = self.path.join(name);
        if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(None);
        }
        let read = read_at_most(&path, MAX_TEXT + 1)?;
        Ok((read.len() as u64 <= MAX_TEXT).then_some(read))
    }

    /// Reads a JSON object of the folder. `None` if it is not there, or is none.
    pub(crate) fn read_json(
        &self,
        name: &str,
    ) -> Result<Option<serde_json::Map<String, serde_json::Value>>, TemplateError> {
        Ok(self.read(name)?.and_then(|text| serde_json::from_slice(&text).ok()))
    }
}

fn read_at_most(path: &Path, n_bytes: u64) -> Result<Vec<u8>, TemplateError> {
    let mut read = Vec::new();
    let file = fs::File::open(path).map_err(TemplateError::io("open", path))?;
    file.take(n_bytes).read_to_end(&mut read).map_err(TemplateError::io("read", path))?;
    Ok(read)
}
