//! Files of which parts are read.

use std::os::unix::fs::FileExt;

use super::*;
use crate::cache::Scope;
use crate::error::Failure as _;

const STORED: &str = "tensor_data/t.zt";
const SMALL: &str = "tensor_data/small.zt";
const DEFLATED: &str = "tensor_data/deflated.zt";
const ELSEWHERE: &str = "misc/other.zt";

fn example() -> Builder {
    Builder::example()
        .stored(STORED, &pattern(300_000))
        .stored(SMALL, b"0123456789")
        .file(DEFLATED, &pattern(100_000))
        .stored(ELSEWHERE, &pattern(70_000))
}

fn part(contents: &Contents, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, ContentsError> {
    let mut bytes = vec![0; length];
    contents.read_range(path, offset, &mut bytes, &Context::default()).map(|()| bytes)
}

#[test]
fn parts_of_files_wherever_they_are() {
    let builder = example();
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    let desk = Desk::new();
    desk.write(&builder);
    let all = [
        desk.open().unwrap(),
        Contents::open_archive(FileSource::open(&desk.path()).unwrap(), None, None, Blobs::default()).unwrap(),
        builder.in_memory().unwrap(),
        Contents::open_folder(folder.path(), None).unwrap(),
        Contents::open_folder(folder.path(), None).unwrap().with_cache(Some(Arc::clone(&desk.cache))),
    ];
    for contents in &all {
        for path in [STORED, SMALL, DEFLATED, ELSEWHERE, "model/a/link"] {
            let whole = builder.expected(if path == "model/a/link" { "model/weights.bin" } else { path });
            assert_eq!(contents.verified_length(path, &Context::default()).unwrap(), whole.len() as u64);
            for (offset, length) in [(0, whole.len()), (3, 4), (whole.len(), 0), (whole.len() - 1, 1)] {
                assert!(part(contents, path, offset as u64, length).unwrap() == whole[offset..offset + length]);
            }
            for (offset, length) in [(0, whole.len() + 1), (whole.len() as u64, 1), (u64::MAX, 1), (u64::MAX, 0)] {
                let error = part(contents, path, offset, length).unwrap_err();
                assert!(matches!(error, ContentsError::Size { .. }), "{error}");
            }
            if let Some((file, range)) = contents.mappable(path) {
                let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
                file.read_exact_at(&mut bytes, range.start).unwrap();
                assert!(bytes == whole);
                assert!(file.write_at(b"x", range.start).is_err());
            }
        }
        assert!(matches!(part(contents, "none", 0, 0), Err(ContentsError::NoSuchFile { .. })));
    }
    // What is stored is used where it is.
    let (_, range) = all[0].mappable(STORED).unwrap();
    let mut bytes = vec![0; 1000];
    fs::File::open(desk.path()).unwrap().read_exact_at(&mut bytes, range.start).unwrap();
    assert!(bytes == pattern(300_000)[..1000]);
}

#[test]
fn a_file_that_is_not_the_listed_one_gives_no_part() {
    for path in [STORED, SMALL, DEFLATED] {
        let builder = example().line(path, Some(Sha256Digest::of(b"another")));
        let folder = tempfile::tempdir().unwrap();
        builder.write_folder(folder.path());
        let desk = Desk::new();
        desk.write(&builder);
        let without_cache =
            Contents::open_archive(FileSource::open(&desk.path()).unwrap(), None, None, Blobs::default());
        for contents in [desk.open(), without_cache, builder.in_memory(), Contents::open_folder(folder.path(), None)] {
            let error = part(&contents.unwrap(), path, 0, 1).unwrap_err();
            assert!(matches!(&error, ContentsError::Digest { path: named, .. } if named == path), "{error}");
        }
    }
}

#[test]
fn that_a_file_was_verified_is_remembered() {
    let builder = example();
    let desk = Desk::new();
    desk.write(&builder);
    let is_remembered = |scope| {
        let contents = desk.open().unwrap();
        let identity = contents.locator.origin().unchanged_identity().unwrap().unwrap();
        desk.cache.verifications().is_carton_verified(&identity, &contents.manifest_hash().unwrap(), scope)
    };
    part(&desk.open().unwrap(), STORED, 0, 1).unwrap();
    assert!(is_remembered(Scope::StoredTensorFiles) && !is_remembered(Scope::StoredModelFiles));
    desk.open().unwrap().model_ranges(&Context::default()).unwrap();
    assert!(is_remembered(Scope::StoredTensorFiles) && is_remembered(Scope::StoredModelFiles));
    assert!(is_remembered(Scope::StoredModelAndTensorFiles) && !is_remembered(Scope::Everything));
    // A wrong byte is not detected if no file time shows the change.
    let contents = desk.open().unwrap();
    let (_, range) = contents.mappable(STORED).unwrap();
    assert!(desk.open().unwrap().verify(&Context::default()).unwrap().is_good());
    assert!(is_remembered(Scope::Everything) && is_remembered(Scope::StoredTensorFiles));
    // Changed while it is open.
    let file = fs::File::options().write(true).open(desk.path()).unwrap();
    file.write_all_at(b"X", range.start + 1000).unwrap();
    file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(9)).unwrap();
    assert!(matches!(part(&contents, STORED, 0, 1), Err(ContentsError::Changed { .. })));
    assert_eq!(part(&desk.open().unwrap(), STORED, 0, 1).unwrap_err().kind(), ErrorKind::Integrity);
}

#[test]
fn what_is_known_of_a_folder_is_kept() {
    let builder = example();
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    let desk = Desk::new();
    let open = || Contents::open_folder(folder.path(), None).unwrap().with_cache(Some(Arc::clone(&desk.cache)));
    // A tick of the clock, after which it can be told that nothing changed since.
    std::thread::sleep(std::time::Duration::from_millis(30));
    let known = || {
        let (_, lines) = open().locator.known_of_folder(folder.path()).unwrap();
        lines.into_iter().map(|line| line.path).collect::<Vec<_>>()
    };
    part(&open(), STORED, 0, 1).unwrap();
    assert_eq!(known(), [STORED]);
    open().model_directory(&Context::default()).unwrap();
    let both = known();
    assert!(both.contains(&STORED.to_owned()) && both.contains(&"model/weights.bin".to_owned()), "{both:?}");
    part(&open(), SMALL, 0, 1).unwrap();
    assert_eq!(known().len(), both.len() + 1);
}
