//! Model folders, unpacking and interruptions.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::error::Failure as _;

fn check_model(builder: &Builder, folder: &Path) {
    for (path, bytes, _) in &builder.files {
        if let Some(path) = path.strip_prefix("model/") {
            assert!(fs::read(folder.join(path)).unwrap() == *bytes, "{path}");
        }
    }
    assert!(fs::read(folder.join("a/link")).unwrap() == builder.expected("model/weights.bin"));
    assert_eq!(fs::read_link(folder.join("a/link")).unwrap(), Path::new("../weights.bin"));
}

#[test]
fn a_model_folder_is_made_in_the_cache_once() {
    let builder = Builder::example();
    let desk = Desk::new();
    desk.write(&builder);
    let contents = desk.open().unwrap();
    let directory = contents.model_directory(&Context::default()).unwrap();
    check_model(&builder, directory.path());
    assert_eq!(desk.cache.models().unwrap(), [builder.hash()]);
    assert_eq!(desk.cache.remove_model(&builder.hash()).unwrap(), crate::cache::Removed::InUse);
    // Opened anew, all is known: one report of progress for the whole, however many files there are.
    let again = desk.open().unwrap();
    assert_eq!(count_steps(|context| drop(again.model_directory(context).unwrap())), 1);
    drop(directory);
    assert_eq!(desk.cache.remove_model(&builder.hash()).unwrap(), crate::cache::Removed::Yes);
}

#[test]
fn without_a_cache_the_folder_is_temporary() {
    let builder = Builder::example();
    let directory = builder.in_memory().unwrap().model_directory(&Context::default()).unwrap();
    check_model(&builder, directory.path());
    let path = directory.path().to_path_buf();
    drop(directory);
    assert!(!path.exists());
}

#[test]
fn an_unpacked_carton_is_used_where_it_is() {
    let builder = Builder::example();
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    age();
    let desk = Desk::new();
    let open = || Contents::open_folder(folder.path(), None).unwrap().with_cache(Some(Arc::clone(&desk.cache)));
    let verify = || count_steps(|context| drop(open().model_directory(context).unwrap()));
    assert_eq!(open().model_directory(&Context::default()).unwrap().path(), folder.path().join("model"));
    let is_remembered = |path: &str| {
        let metadata = fs::metadata(folder.path()).unwrap();
        let index =
            desk.cache.verifications().folder_index(&carton_format::source::FileIdentity::of(&metadata)).unwrap();
        index.lines.iter().any(|line| line.path == path)
    };
    assert!(is_remembered("model/weights.bin"));
    assert!(verify() < 6);
    // Other bytes, the same length and time: noticed.
    let path = folder.path().join("model/weights.bin");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[299_999] ^= 1;
    fs::write(&path, &bytes).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let error = open().model_directory(&Context::default()).unwrap_err();
    assert!(matches!(&error, ContentsError::Digest { path, .. } if path == "model/weights.bin"), "{error}");
    bytes[299_999] ^= 1;
    fs::write(&path, &bytes).unwrap();
    open().model_directory(&Context::default()).unwrap();
}

#[test]
fn unpacking_gives_a_folder_that_is_the_same_carton() {
    let builder = Builder::example().linked("misc/picture.png");
    let desk = Desk::new();
    desk.write(&builder);
    let destination = desk.folder.path().join("unpacked");
    assert_eq!(desk.open().unwrap().unpack(&destination, &Context::default()).unwrap_err().kind(), ErrorKind::Network);
    assert!(!destination.exists());
    desk.cache.files().insert(&mut &b"a picture"[..]).unwrap();
    fs::create_dir(&destination).unwrap();
    desk.open().unwrap().unpack(&destination, &Context::default()).unwrap();
    let unpacked = Contents::open_folder(&destination, Some(builder.hash())).unwrap();
    assert_eq!(unpacked.read("misc/picture.png", 100, &Context::default()).unwrap(), b"a picture");
    assert!(unpacked.verify(&Context::default()).unwrap().is_good());
    check_model(&builder, &destination.join("model"));
    assert!(!destination.join("LINKS").exists(), "nothing is missing any more");
    // Nothing is overwritten.
    let check = |destination: &Path| {
        let error = desk.open().unwrap().unpack(destination, &Context::default()).unwrap_err();
        assert!(matches!(error, ContentsError::DestinationExists { .. }), "{error}");
    };
    check(&destination);
    check(&desk.path());
}

#[test]
fn an_interruption_leaves_nothing() {
    let builder = Builder::example();
    let desk = Desk::new();
    desk.write(&builder);
    let contents = desk.open().unwrap();
    let names = || fs::read_dir(desk.folder.path()).unwrap().count();
    let n_before = names();
    for after in [0, 1, 100_000, 499_000] {
        let stop = || {
            Context::watched(move |progress, cancel_token| {
                if progress.done >= after {
                    cancel_token.cancel();
                }
            })
        };
        let check = |what: &str, result: Result<(), ContentsError>| {
            assert!(matches!(result, Err(ContentsError::Interrupted)), "{what} after {after}: {result:?}");
            assert_eq!(desk.cache.models().unwrap(), [], "{what}");
            assert_eq!(fs::read_dir(desk.cache.path().join("partial-v1")).unwrap().count(), 0, "{what}");
            assert_eq!(names(), n_before, "{what}");
        };
        check("directory", contents.model_directory(&stop()).map(drop));
        check("ranges", contents.model_ranges(&stop()).map(drop));
        check("verify", contents.verify(&stop()).map(drop));
        check("unpack", contents.unpack(&desk.folder.path().join("unpacked"), &stop()));
    }
}

#[test]
fn progress_ends_at_the_total() {
    let builder = Builder::example();
    let desk = Desk::new();
    desk.write(&builder);
    let contents = desk.open().unwrap();
    let total: u64 = builder.files.iter().map(|(_, bytes, _)| bytes.len() as u64).sum();
    let model: u64 = total - 17 - 9;
    let check = |expected: u64, work: &dyn Fn(&Context)| {
        let done = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&done);
        work(&Context::watched(move |progress, _| {
            assert_eq!(progress.total, Some(expected));
            counted.fetch_max(progress.done, Ordering::Relaxed);
        }));
        assert_eq!(done.load(Ordering::Relaxed), expected);
    };
    check(total, &|context| assert!(contents.verify(context).unwrap().is_good()));
    for _ in 0..2 {
        check(model, &|context| drop(contents.model_ranges(context).unwrap()));
        check(model, &|context| drop(contents.model_directory(context).unwrap()));
    }
    check(total, &|context| contents.unpack(&desk.folder.path().join("x"), context).unwrap());
}
