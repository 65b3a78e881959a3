//! Ranges of open files, and what is remembered about a carton file.

use std::os::unix::fs::{FileExt, MetadataExt};

use super::*;
use crate::error::Failure as _;

fn read_range(range: &ModelRange) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(range.length).unwrap()];
    range.file.read_exact_at(&mut bytes, range.offset).unwrap();
    bytes
}

fn check_ranges(builder: &Builder, ranges: &ModelRanges) {
    let paths: Vec<&str> = ranges.files().iter().map(|range| range.path.as_str()).collect();
    assert_eq!(paths, ["a/config.json", "a/empty", "a/link", "large.json", "weights.bin"]);
    for range in ranges.files() {
        let path = if range.path == "a/link" { "weights.bin" } else { &range.path };
        assert!(read_range(range) == builder.expected(&format!("model/{path}")), "{path}");
        // A runner that gets the descriptor cannot write with it.
        assert!(range.file.write_at(b"x", range.offset).is_err(), "{path}");
    }
}

#[test]
fn ranges_have_the_bytes_of_all_files() {
    let builder = Builder::example();
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    let desk = Desk::new();
    desk.write(&builder);
    let all = [
        desk.open().unwrap(),
        builder.in_memory().unwrap(),
        builder.in_memory().unwrap().with_cache(Some(Arc::clone(&desk.cache))),
        Contents::open_folder(folder.path(), None).unwrap(),
        Contents::open_folder(folder.path(), None).unwrap().with_cache(Some(Arc::clone(&desk.cache))),
    ];
    for contents in &all {
        for _ in 0..2 {
            check_ranges(&builder, &contents.model_ranges(&Context::default()).unwrap());
        }
    }
    // Stored files are used in place; others are in the cache, or in a file without a name.
    let ranges = desk.open().unwrap().model_ranges(&Context::default()).unwrap();
    let inode = |at: usize| ranges.files()[at].file.metadata().unwrap().ino();
    let carton = fs::metadata(desk.path()).unwrap().ino();
    let cached = fs::metadata(desk.cache.files().path(&Sha256Digest::of(&pattern(200_000)))).unwrap().ino();
    assert_eq!([inode(1), inode(2), inode(3), inode(4)], [carton, carton, cached, carton]);
    assert_eq!(ranges.files()[0].file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::read_dir(desk.cache.path().join("partial-v1")).unwrap().count(), 0);
    assert_eq!(desk.cache.models().unwrap(), []);
}

/// Whether the carton as it is now needs no hashing.
fn is_remembered(desk: &Desk) -> bool {
    let contents = desk.open().unwrap();
    let identity = contents.locator.origin().unchanged_identity().unwrap().unwrap();
    desk.cache.verifications().is_carton_verified(
        &identity,
        &contents.manifest_hash().unwrap(),
        crate::cache::Scope::StoredModelFiles,
    )
}

#[test]
fn a_carton_is_hashed_once_while_it_stays_as_it_is() {
    let builder = Builder::example();
    let desk = Desk::new();
    desk.write(&builder);
    assert!(!is_remembered(&desk));
    desk.open().unwrap().model_ranges(&Context::default()).unwrap();
    assert!(is_remembered(&desk));
    check_ranges(&builder, &desk.open().unwrap().model_ranges(&Context::default()).unwrap());
    // A copy with the same bytes is another file.
    let bytes = fs::read(desk.path()).unwrap();
    fs::write(desk.path().with_extension("copy"), &bytes).unwrap();
    fs::rename(desk.path().with_extension("copy"), desk.path()).unwrap();
    assert!(!is_remembered(&desk));
}

#[test]
fn a_carton_tampered_with_after_it_was_recorded_is_noticed() {
    let builder = Builder::example();
    let desk = Desk::new();
    desk.write(&builder);
    desk.open().unwrap().model_ranges(&Context::default()).unwrap();
    assert!(desk.open().unwrap().verify(&Context::default()).unwrap().is_good());
    assert!(is_remembered(&desk));
    let modified = fs::metadata(desk.path()).unwrap().modified().unwrap();
    let contents = desk.open().unwrap();
    let offset = contents.model_ranges(&Context::default()).unwrap().files()[4].offset;
    let file = fs::File::options().write(true).open(desk.path()).unwrap();
    file.write_all_at(b"X", offset + 1000).unwrap();
    file.set_modified(modified).unwrap();
    assert_eq!(fs::metadata(desk.path()).unwrap().modified().unwrap(), modified);
    let error = desk.open().unwrap().model_ranges(&Context::default()).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Integrity, "cannot read `model/weights.bin`"));
    // A reader that had it open before notices the change once the time is not set back.
    file.set_modified(std::time::SystemTime::now()).unwrap();
    assert!(matches!(contents.model_ranges(&Context::default()), Err(ContentsError::Changed { .. })));
}

#[test]
fn a_carton_written_just_now_is_not_recorded() {
    let builder = Builder::example();
    let desk = Desk::new();
    let mut n_early = 0;
    for _ in 0..20 {
        let bytes = builder.bytes();
        fs::write(desk.path(), &bytes).unwrap();
        let contents = desk.open().unwrap();
        let identity = contents.locator.origin().unchanged_identity().unwrap().unwrap();
        let Origin::Archive { opened_at: Some(moment), .. } = contents.locator.origin() else { panic!() };
        let is_proven = moment.is_after(&identity);
        n_early += u32::from(!is_proven);
        contents.model_ranges(&Context::default()).unwrap();
        assert_eq!(is_remembered(&desk), is_proven);
    }
    println!("{n_early} of 20 cartons were opened in the tick they were written in");
}

#[test]
fn verify_hashes_whatever_is_remembered() {
    let builder = Builder::example();
    let desk = Desk::new();
    desk.write(&builder);
    let contents = desk.open().unwrap();
    assert!(contents.verify(&Context::default()).unwrap().is_good());
    let identity = contents.locator.origin().unchanged_identity().unwrap().unwrap();
    let hash = contents.manifest_hash().unwrap();
    assert!(desk.cache.verifications().is_carton_verified(&identity, &hash, crate::cache::Scope::Everything));
    let n_files = builder.files.len() as u64;
    assert!(count_steps(|context| assert!(contents.verify(context).unwrap().is_good())) >= n_files - 1);
}
