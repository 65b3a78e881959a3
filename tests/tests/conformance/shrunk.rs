//! Cartons of any writer, shrunk by us and resolved again: they stay the same carton.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use carton_core::shrink::LeaveOut;
use carton_core::{Advice, Carton, Links, Package, Sha256Digest};
use carton_format::archive::Archive;
use carton_format::source::FileSource;

use crate::judge::Court;

/// Shrinks the carton in two ways and resolves it again: the bytes of its MANIFEST and of each file stay the same.
pub(crate) fn check(name: &str, bytes: &[u8]) {
    let court = Court::new();
    let folder = court.config().cache_dir.with_file_name("shrunk");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("foreign.carton");
    std::fs::write(&path, bytes).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let open = async |path: &Path| {
            let package = Carton::open(path).config(court.config()).await;
            package.unwrap_or_else(|error| panic!("{name}: {}: {error}", path.display()))
        };
        let whole = open(&path).await;
        let manifest = entry(&path, "MANIFEST").unwrap();
        let files = everything(&whole);
        let digests = files.values().map(|bytes| Sha256Digest::of(bytes));
        let urls = digests.map(|digest| (digest, vec![format!("http://host/{digest}")])).collect();
        let all = LeaveOut::Linked(Links::from_urls(urls).unwrap());
        let some = LeaveOut::large_from("https://host/files", 100);
        for (leave_out, small) in [(all, "all.carton"), (some, "some.carton")] {
            let small = folder.join(small);
            match Carton::shrink(&path, &small, leave_out).config(court.config()).await {
                Ok(shrunk) => assert!(!shrunk.left_out.is_empty(), "{name}"),
                // Some cartons have no large files.
                Err(error) if matches!(error.advice(), Some(Advice::LowerMinSize | Advice::LookUpDigests { .. })) => {
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            }
            let shrunk = open(&small).await;
            assert_eq!(entry(&small, "MANIFEST").unwrap(), manifest, "{name}");
            assert!(shrunk.files().iter().any(|file| file.linked), "{name}");
            let report = shrunk.verify().await.unwrap();
            assert!(report.is_good(), "{name}: {report:?}");
            assert!(!report.not_fetched.is_empty(), "{name}");
        }
        for bytes in files.values() {
            insert_into_cache(&court.config().cache_dir, bytes);
        }
        for from in ["foreign.carton", "all.carton", "some.carton"] {
            let from = folder.join(from);
            if !from.exists() {
                continue;
            }
            let again = folder.join("again.carton");
            let resolve = Carton::resolve(&from, &again).config(court.config());
            resolve.await.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(entry(&again, "MANIFEST").unwrap(), manifest, "{name}");
            assert_eq!(entry(&again, "LINKS"), None, "{name}");
            assert!(everything(&open(&again).await) == files, "{name}");
        }
    });
}

fn everything(package: &Package) -> BTreeMap<String, Vec<u8>> {
    let read = |path: String| (path.clone(), package.read_file(&path, 64 << 20).unwrap());
    package.files().into_iter().map(|file| read(file.path)).collect()
}

/// The bytes of an entry of the archive, if it has one of this name.
fn entry(carton: &Path, name: &str) -> Option<Vec<u8>> {
    let archive = Archive::open(Arc::new(FileSource::open(carton).unwrap())).unwrap();
    archive.get(name).map(|entry| archive.read(entry, 64 << 20).unwrap())
}

/// Puts a file into the cache, as if it had been fetched.
fn insert_into_cache(cache: &Path, bytes: &[u8]) {
    let digest = Sha256Digest::of(bytes).to_string();
    let folder = cache.join("files-v1").join(&digest[..2]);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(digest), bytes).unwrap();
}
