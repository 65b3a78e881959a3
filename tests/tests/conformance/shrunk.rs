//! Cartons of any writer shrunk by us: the same carton, without files that can be fetched, and whole again.

use std::collections::BTreeMap;

use carton_core::cache::Cache;
use carton_core::digest::Sha256Digest;
use carton_core::links::Links;
use carton_core::package::Package;
use carton_core::{Carton, LeaveOut, OpenOptions, ResolveOptions, ShrinkOptions};

use crate::judge::Court;

/// Shrinks the carton in two ways and makes it whole again: its MANIFEST is the same to the byte, and so is each file.
pub(crate) fn check(name: &str, bytes: &[u8]) {
    let court = Court::new();
    let folder = court.config().cache_dir.with_file_name("shrunk");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("foreign.carton");
    std::fs::write(&path, bytes).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let open = async |path: &std::path::Path| {
            let options = OpenOptions { config: Some(court.config()), ..OpenOptions::default() };
            Carton::open(path, options).await.unwrap_or_else(|error| panic!("{name}: {}: {error}", path.display()))
        };
        let whole = open(&path).await;
        let manifest = whole.contents().manifest().unwrap().to_bytes().to_vec();
        let files = everything(&whole);
        let digests = files.values().map(|bytes| Sha256Digest::of(bytes));
        let urls = digests.map(|digest| (digest, vec![format!("http://host/{digest}")])).collect();
        let all = LeaveOut::Linked(Links::from_urls(urls).unwrap());
        let some = LeaveOut::Large { url_prefix: "https://host/files".to_owned(), min_size: 100 };
        for (leave_out, small) in [(all, "all.carton"), (some, "some.carton")] {
            let small = folder.join(small);
            let options = ShrinkOptions { config: Some(court.config()), ..ShrinkOptions::new(leave_out) };
            match Carton::shrink(&path, &small, options).await {
                Ok(shrunk) => assert!(!shrunk.left_out.is_empty(), "{name}"),
                // Some have nothing that is large.
                Err(carton_core::Error::Shrink(_)) => continue,
                Err(error) => panic!("{name}: {error}"),
            }
            let shrunk = open(&small).await;
            assert_eq!(shrunk.contents().manifest().unwrap().to_bytes(), manifest, "{name}");
            assert!(shrunk.contents().files().iter().any(|file| file.linked), "{name}");
            let report = shrunk.contents().verify(&carton_core::contents::silent).unwrap();
            assert!(report.is_good(), "{name}: {report:?}");
            assert!(!report.not_fetched.is_empty(), "{name}");
        }
        let cache = Cache::open(&court.config().cache_dir).unwrap();
        for bytes in files.values() {
            cache.insert_file(&mut bytes.as_slice()).unwrap();
        }
        for from in ["foreign.carton", "all.carton", "some.carton"] {
            let from = folder.join(from);
            if !from.exists() {
                continue;
            }
            let again = folder.join("again.carton");
            let options = ResolveOptions { config: Some(court.config()), ..ResolveOptions::default() };
            Carton::resolve(&from, &again, options).await.unwrap_or_else(|error| panic!("{name}: {error}"));
            let again = open(&again).await;
            assert_eq!(again.contents().manifest().unwrap().to_bytes(), manifest, "{name}");
            assert!(everything(&again) == files, "{name}");
            assert!(again.contents().links().is_empty(), "{name}");
        }
    });
}

fn everything(package: &Package) -> BTreeMap<String, Vec<u8>> {
    let contents = package.contents();
    contents.paths().map(|path| (path.to_owned(), contents.read(path, 64 << 20).unwrap())).collect()
}
