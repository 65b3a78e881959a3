//! Cartons built in code, good and hostile, opened in every way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hostile;
mod in_place;
mod linked;
mod materialised;
mod parts;
mod stated;

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carton_format::context::Context;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::manifest::ManifestHash;
use carton_format::source::{FileSource, MemorySource};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::origin::Origin;
use super::*;
use crate::cache::Cache;

/// A carton in the making, written with the `zip` crate, so that it can be what our writer refuses.
#[derive(Clone, Default)]
pub(crate) struct Builder {
    files: Vec<(String, Vec<u8>, CompressionMethod)>,
    symlinks: Vec<(String, String)>,
    folders: Vec<String>,
    /// Lines of MANIFEST by path, added or replaced.
    lines: Vec<(String, Option<Sha256Digest>)>,
    manifest: Option<Vec<u8>>,
    links: Option<String>,
}

impl Builder {
    /// A small model: a large stored file, small ones, a link, and files that are not the model's.
    fn example() -> Builder {
        Builder::default()
            .file("carton.toml", b"spec_version = 1\n")
            .stored("model/weights.bin", &pattern(300_000))
            .file("model/large.json", &pattern(200_000))
            .file("model/a/config.json", b"{}")
            .stored("model/a/empty", b"")
            .symlink("model/a/link", "../weights.bin")
            .file("misc/picture.png", b"a picture")
    }

    pub(crate) fn file(mut self, path: &str, bytes: &[u8]) -> Builder {
        self.files.push((path.to_owned(), bytes.to_vec(), CompressionMethod::Deflated));
        self
    }

    pub(crate) fn stored(mut self, path: &str, bytes: &[u8]) -> Builder {
        self.files.push((path.to_owned(), bytes.to_vec(), CompressionMethod::Stored));
        self
    }

    fn symlink(mut self, path: &str, target: &str) -> Builder {
        self.symlinks.push((path.to_owned(), target.to_owned()));
        self
    }

    fn folder(mut self, path: &str) -> Builder {
        self.folders.push(path.to_owned());
        self
    }

    /// Adds or changes a line of MANIFEST, or takes it out.
    fn line(mut self, path: &str, digest: Option<Sha256Digest>) -> Builder {
        self.lines.push((path.to_owned(), digest));
        self
    }

    pub(crate) fn manifest(mut self, bytes: &[u8]) -> Builder {
        self.manifest = Some(bytes.to_vec());
        self
    }

    /// Takes a file out of the archive and leaves it in MANIFEST, with a link.
    fn linked(mut self, path: &str) -> Builder {
        let at = self.files.iter().position(|(name, ..)| name == path).unwrap();
        let digest = Sha256Digest::of(&self.files.remove(at).1);
        self.links = Some(format!("version = 1\n[urls]\n{digest} = [\"https://example.com/{path}\"]\n"));
        self.line(path, Some(digest))
    }

    /// The bytes of MANIFEST: the right ones unless told otherwise.
    fn manifest_bytes(&self) -> Vec<u8> {
        if let Some(bytes) = &self.manifest {
            return bytes.clone();
        }
        let mut lines: std::collections::BTreeMap<String, Sha256Digest> =
            self.files.iter().map(|(path, bytes, _)| (path.clone(), Sha256Digest::of(bytes))).collect();
        for (path, target) in &self.symlinks {
            let leads_to = carton_format::name::resolve_link(path, target.as_bytes()).ok();
            let digest = leads_to.and_then(|path| lines.get(&path).copied());
            lines.insert(path.clone(), digest.unwrap_or(Sha256Digest::of(b"nothing")));
        }
        for (path, digest) in &self.lines {
            match digest {
                Some(digest) => lines.insert(path.clone(), *digest),
                None => lines.remove(path),
            };
        }
        lines.iter().map(|(path, digest)| format!("{path}={digest}\n")).collect::<String>().into_bytes()
    }

    fn hash(&self) -> ManifestHash {
        ManifestHash::of(&self.manifest_bytes())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let options = |method| SimpleFileOptions::default().compression_method(method);
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for folder in &self.folders {
            zip.add_directory(folder.clone(), options(CompressionMethod::Stored)).unwrap();
        }
        for (path, bytes, method) in &self.files {
            zip.start_file(path, options(*method)).unwrap();
            zip.write_all(bytes).unwrap();
        }
        for (path, target) in &self.symlinks {
            zip.add_symlink(path, target, options(CompressionMethod::Stored)).unwrap();
        }
        if let Some(links) = &self.links {
            zip.start_file("LINKS", options(CompressionMethod::Deflated)).unwrap();
            zip.write_all(links.as_bytes()).unwrap();
        }
        zip.start_file("MANIFEST", options(CompressionMethod::Stored)).unwrap();
        zip.write_all(&self.manifest_bytes()).unwrap();
        zip.finish().unwrap().into_inner()
    }

    fn in_memory(&self) -> Result<Contents, ContentsError> {
        Contents::open_archive(MemorySource::new(self.bytes(), "memory"), None, None, Blobs::default())
    }

    /// As an unpacked carton.
    pub(crate) fn write_folder(&self, root: &Path) {
        let path_of = |path: &String| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        for (path, bytes, _) in &self.files {
            fs::write(path_of(path), bytes).unwrap();
        }
        for (path, target) in &self.symlinks {
            std::os::unix::fs::symlink(target, path_of(path)).unwrap();
        }
        for folder in &self.folders {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        if let Some(links) = &self.links {
            fs::write(root.join("LINKS"), links).unwrap();
        }
        fs::write(root.join("MANIFEST"), self.manifest_bytes()).unwrap();
    }

    fn expected(&self, path: &str) -> &[u8] {
        &self.files.iter().find(|(name, ..)| name == path).unwrap().1
    }
}

fn pattern(length: usize) -> Vec<u8> {
    b"weights, more or less; ".iter().copied().cycle().take(length).collect()
}

/// A folder with a cache and a carton file.
struct Desk {
    folder: tempfile::TempDir,
    cache: Arc<Cache>,
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::open(&folder.path().join("cache")).unwrap());
        Desk { folder, cache }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("test.carton")
    }

    fn write(&self, builder: &Builder) {
        fs::write(self.path(), builder.bytes()).unwrap();
        age();
    }

    fn open(&self) -> Result<Contents, ContentsError> {
        let source = FileSource::open(&self.path()).map_err(ContentsError::io("open", &self.path()))?;
        Contents::open_archive(source, Some(Arc::clone(&self.cache)), None, Blobs::default())
    }
}

/// Waits until what was just written can be told from what is written later.
fn age() {
    std::thread::sleep(std::time::Duration::from_millis(15));
}

/// Counts the bytes that were hashed or copied: a remembered file is done at once.
fn count_steps(work: impl Fn(&Context)) -> u64 {
    let n_steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&n_steps);
    work(&Context::watched(move |progress, _| {
        assert!(Some(progress.done) <= progress.total);
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    n_steps.load(Ordering::Relaxed)
}

#[test]
fn files_are_read_from_wherever_they_are() {
    let builder = Builder::example();
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    let desk = Desk::new();
    desk.write(&builder);
    let all = [
        builder.in_memory().unwrap(),
        desk.open().unwrap(),
        Contents::open_folder(folder.path(), Some(builder.hash())).unwrap(),
    ];
    for contents in &all {
        assert_eq!(contents.manifest_hash(), Some(builder.hash()));
        for (path, bytes, _) in &builder.files {
            assert!(contents.read(path, bytes.len() as u64, &Context::default()).unwrap() == *bytes, "{path}");
            let mut buffer = vec![0; bytes.len()];
            contents.read_into(path, &mut buffer, &Context::default()).unwrap();
            assert!(buffer == *bytes, "{path}");
            let mut read = Vec::new();
            std::io::Read::read_to_end(&mut contents.reader(path, &Context::default()).unwrap(), &mut read).unwrap();
            assert!(read == *bytes, "{path}");
        }
        assert!(
            contents.read("model/a/link", u64::MAX, &Context::default()).unwrap()
                == builder.expected("model/weights.bin")
        );
        let link = contents.files().into_iter().find(|file| file.path == "model/a/link").unwrap();
        assert_eq!((link.symlink.as_deref(), link.size), (Some("../weights.bin"), Some(300_000)));
        assert_eq!(link.sha256, Some(Sha256Digest::of(builder.expected("model/weights.bin"))));
        assert_eq!(contents.files().len(), builder.files.len() + 1);
        let error = contents.read("model/none", 1, &Context::default()).unwrap_err();
        assert_eq!(error.to_string(), "the carton has no file `model/none`");
        let error = contents.read("model/weights.bin", 299_999, &Context::default()).unwrap_err();
        assert_eq!(error.to_string(), "`model/weights.bin` has 300000 bytes, expected at most 299999");
        let error = contents.read_into("model/weights.bin", &mut [0; 10], &Context::default()).unwrap_err();
        assert_eq!(error.to_string(), "`model/weights.bin` has 300000 bytes, expected exactly 10");
    }
}

#[test]
fn a_bare_model_is_read_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("snapshot");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::create_dir_all(folder.path().join("blobs")).unwrap();
    fs::write(folder.path().join("blobs/weights"), "weights").unwrap();
    std::os::unix::fs::symlink("../blobs/weights", root.join("weights.bin")).unwrap();
    fs::write(root.join("sub/config.json"), "{}").unwrap();
    let contents = Contents::bare(&root, &OutsideLinks::Followed).unwrap();
    assert_eq!(contents.manifest_hash(), None);
    assert_eq!(contents.paths().collect::<Vec<_>>(), ["model/sub/config.json", "model/weights.bin"]);
    assert_eq!(contents.read("model/weights.bin", 100, &Context::default()).unwrap(), b"weights");
    assert_eq!(contents.model_directory(&Context::default()).unwrap().path(), root);
    let ranges = contents.model_ranges(&Context::default()).unwrap();
    assert_eq!(ranges.files()[1].path, "weights.bin");
    std::os::unix::fs::symlink(".", root.join("circle")).unwrap();
    let error = Contents::bare(&root, &OutsideLinks::Followed).unwrap_err();
    assert!(error.to_string().ends_with("it leads in a circle"), "{error}");
}

#[test]
fn links_that_leave_a_bare_model_are_followed_where_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let root = place.join("model");
    for path in ["model/sub", "blobs/inner", "other"] {
        fs::create_dir_all(place.join(path)).unwrap();
    }
    for path in ["model/own", "blobs/inner/weights", "other/secret"] {
        fs::write(place.join(path), path).unwrap();
    }
    let allowed = OutsideLinks::Within(vec![place.join("blobs")]);
    let check = |target: &str, followed: bool| {
        let link = root.join("sub/link");
        std::os::unix::fs::symlink(target, &link).unwrap();
        match Contents::bare(&root, &allowed) {
            Ok(contents) => {
                assert!(followed, "{target}");
                let outside = link.canonicalize().unwrap();
                let targets = contents.model_directory(&Context::default()).unwrap().targets().to_vec();
                assert_eq!(targets.contains(&outside), !outside.starts_with(&root), "{target}");
            }
            Err(ContentsError::OutsideLink { path, target: end }) => {
                assert!(!followed, "{target}");
                assert_eq!((path, end), (link.clone(), link.canonicalize().unwrap()));
            }
            Err(error) => panic!("{target}: {error}"),
        }
        assert!(Contents::bare(&root, &OutsideLinks::Followed).is_ok());
        fs::remove_file(link).unwrap();
    };
    check("../own", true);
    check("../../model/own", true);
    check("../../blobs/inner/weights", true);
    check("../../blobs", true);
    check("../../other/secret", false);
    check("../../other", false);
    // A link to a link, and a folder behind a link with a link of its own.
    std::os::unix::fs::symlink("../other/secret", place.join("blobs/onwards")).unwrap();
    check("../../blobs/onwards", false);
    std::os::unix::fs::symlink(&root, place.join("alias")).unwrap();
    assert!(Contents::bare(&place.join("alias"), &OutsideLinks::Within(Vec::new())).is_ok());
}

#[test]
fn a_bare_file_is_given_without_its_neighbours() {
    let desk = Desk::new();
    let path = desk.folder.path().join("model.onnx");
    fs::write(&path, "onnx").unwrap();
    fs::write(desk.folder.path().join("secret"), "secret").unwrap();
    for cache in [None, Some(Arc::clone(&desk.cache))] {
        let contents = Contents::bare(&path, &OutsideLinks::Within(Vec::new())).unwrap().with_cache(cache);
        let directory = contents.model_directory(&Context::default()).unwrap();
        let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["model.onnx"]);
        assert_eq!(fs::read(directory.path().join("model.onnx")).unwrap(), b"onnx");
        let path = directory.path().to_path_buf();
        drop(directory);
        assert!(!path.exists());
        let ranges = contents.model_ranges(&Context::default()).unwrap();
        assert_eq!((ranges.files()[0].path.as_str(), ranges.files()[0].length), ("model.onnx", 4));
    }
    assert_eq!(fs::read(&path).unwrap(), b"onnx");
}
