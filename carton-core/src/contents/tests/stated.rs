//! Cartons that were changed and zipped again, while the cache has the files that their MANIFEST lists.

use carton_format::source::FileIdentity;

use super::*;
use crate::error::Failure as _;

/// The same MANIFEST over other bytes of one file.
fn edited(builder: &Builder, path: &str, edit: impl Fn(&mut Vec<u8>)) -> Builder {
    let mut edited = builder.clone().manifest(&builder.manifest_bytes());
    let (_, bytes, _) = edited.files.iter_mut().find(|(name, ..)| name == path).unwrap();
    edit(bytes);
    edited
}

fn flip(bytes: &mut [u8]) {
    bytes[1] ^= 1;
}

/// As if the cache were of a version without records of checksums.
fn forget_checksums(desk: &Desk, manifest: &ManifestHash) -> bool {
    fs::remove_file(checksums_path(desk, manifest)).is_ok()
}

fn checksums_path(desk: &Desk, manifest: &ManifestHash) -> PathBuf {
    desk.cache.path().join("cartons-v1").join(manifest.to_string()).join("checksums")
}

#[test]
fn an_edited_file_is_noticed_whether_or_not_it_is_used() {
    let builder = Builder::example();
    let desk = Desk::new();
    desk.write(&builder);
    drop(desk.open().unwrap().model_directory(&Context::default()).unwrap());
    assert!(desk.open().unwrap().verify(&Context::default()).unwrap().is_good());
    for path in ["misc/picture.png", "model/large.json"] {
        desk.write(&edited(&builder, path, |bytes| flip(bytes)));
        for error in [
            desk.open().unwrap().model_directory(&Context::default()).unwrap_err(),
            desk.open().unwrap().model_ranges(&Context::default()).unwrap_err(),
        ] {
            assert!(matches!(&error, ContentsError::Digest { path: found, .. } if found == path), "{path}: {error}");
        }
    }
    desk.write(&builder);
    desk.open().unwrap().model_directory(&Context::default()).unwrap();
    desk.open().unwrap().model_ranges(&Context::default()).unwrap();
}

#[test]
fn an_edited_file_is_noticed_although_the_cache_has_the_genuine_one() {
    let builder = Builder::example();
    for has_record in [true, false] {
        for (path, is_cached_by_ranges) in
            [("model/weights.bin", false), ("model/large.json", true), ("model/a/config.json", false)]
        {
            let desk = Desk::new();
            desk.write(&builder);
            drop(desk.open().unwrap().model_directory(&Context::default()).unwrap());
            drop(desk.open().unwrap().model_ranges(&Context::default()).unwrap());
            assert!(has_record || forget_checksums(&desk, &builder.hash()), "there was no record to forget");
            for edit in [(|bytes| flip(bytes)) as fn(&mut Vec<u8>), |bytes| bytes.truncate(1)] {
                desk.write(&edited(&builder, path, edit));
                let contents = desk.open().unwrap();
                let check = |what: &str, error: ContentsError| {
                    assert_eq!(error.kind(), ErrorKind::Integrity, "{path} {what}: {error}");
                    assert!(
                        matches!(&error, ContentsError::Digest { path: found, .. } if found == path),
                        "{path}, {what}: {error}"
                    );
                };
                check("directory", contents.model_directory(&Context::default()).unwrap_err());
                check("directory again", contents.model_directory(&Context::default()).unwrap_err());
                check("directory, opened anew", desk.open().unwrap().model_directory(&Context::default()).unwrap_err());
                check("ranges", desk.open().unwrap().model_ranges(&Context::default()).unwrap_err());
                if is_cached_by_ranges {
                    check(
                        "part",
                        desk.open().unwrap().read_range(path, 0, &mut [0; 1], &Context::default()).unwrap_err(),
                    );
                }
            }
            desk.write(&builder);
            desk.open().unwrap().model_directory(&Context::default()).unwrap();
            desk.open().unwrap().model_ranges(&Context::default()).unwrap();
        }
    }
}

#[test]
fn a_file_that_another_carton_brought_is_compared_too() {
    let builder = Builder::example();
    let other = Builder::example().file("misc/other.txt", b"another carton with the same model");
    let desk = Desk::new();
    desk.write(&other);
    drop(desk.open().unwrap().model_directory(&Context::default()).unwrap());
    desk.write(&edited(&builder, "model/weights.bin", |bytes| flip(bytes)));
    let error = desk.open().unwrap().model_directory(&Context::default()).unwrap_err();
    assert!(matches!(&error, ContentsError::Digest { path, .. } if path == "model/weights.bin"), "{error}");
}

#[test]
fn a_carton_that_is_only_stored_in_another_way_is_the_same() {
    let builder = Builder::example();
    let desk = Desk::new();
    desk.write(&builder);
    drop(desk.open().unwrap().model_directory(&Context::default()).unwrap());
    let mut stored = builder.clone();
    stored.files.iter_mut().for_each(|(_, _, method)| *method = CompressionMethod::Stored);
    desk.write(&stored);
    let record = || FileIdentity::of(&fs::metadata(checksums_path(&desk, &builder.hash())).unwrap());
    let written = record();
    let contents = desk.open().unwrap();
    // One report of progress for the whole: no file was hashed. Reading files for their checksums would replace the record.
    assert_eq!(count_steps(|context| drop(contents.model_directory(context).unwrap())), 1);
    assert_eq!(record(), written);
    // Without a record the files of the cache are read once, and the record is written again.
    assert!(forget_checksums(&desk, &builder.hash()));
    drop(desk.open().unwrap().model_directory(&Context::default()).unwrap());
    let written = record();
    drop(desk.open().unwrap().model_directory(&Context::default()).unwrap());
    assert_eq!(record(), written);
}

#[test]
fn an_edited_file_of_an_unpacked_carton_that_links_others_is_noticed() {
    let builder = Builder::example().linked("model/large.json");
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    age();
    let desk = Desk::new();
    let large = pattern(200_000);
    desk.cache.files().insert(&mut large.as_slice()).unwrap();
    let open = || Contents::open_folder(folder.path(), None).unwrap().with_cache(Some(Arc::clone(&desk.cache)));
    open().model_directory(&Context::default()).unwrap();
    fs::write(folder.path().join("model/a/config.json"), "[]").unwrap();
    let error = open().model_directory(&Context::default()).unwrap_err();
    assert!(matches!(&error, ContentsError::Digest { path, .. } if path == "model/a/config.json"), "{error}");
}
