//! The records of remote cartons.

use carton_format::url::ShownUrl;
use carton_network::http::Version;

use super::*;

fn example_remote(url: &str, manifest: &str) -> RemoteCarton {
    RemoteCarton {
        url_key: UrlKey::of(url.as_bytes()),
        address: ShownUrl::of_text(&format!("https://host/{url}")),
        form: RemoteForm::Carton,
        version: Version { etag: Some("\"1\"".to_owned()), last_modified: None, length: Some(1 << 40) },
        manifest: ManifestHash::of(manifest.as_bytes()),
        blocks: vec![(0, vec![1; 40]), (40, Vec::new()), (1000, vec![2; 300])],
        whole: None,
    }
}

#[test]
fn a_remote_carton_is_found_by_its_url_and_by_its_manifest() {
    let (_folder, cache) = new_cache();
    let one = example_remote("one", "m");
    let two = example_remote("two", "m");
    let by_manifest = |carton: &RemoteCarton| cache.remotes().by_manifest(&carton.manifest, carton.form);
    cache.remotes().remember(&one).unwrap();
    age();
    cache.remotes().remember(&two).unwrap();
    assert_eq!(cache.remotes().by_url(&one.url_key).as_ref(), Some(&one));
    assert_eq!(cache.remotes().by_url(&two.url_key).as_ref(), Some(&two));
    assert_eq!(by_manifest(&one).as_ref(), Some(&two), "the newest");
    assert_eq!(cache.remotes().by_url(&UrlKey::of(b"three")), None);
    assert_eq!(by_manifest(&example_remote("three", "other")), None);
    assert_eq!(by_manifest(&RemoteCarton { form: RemoteForm::Artifact, ..one.clone() }), None, "of another form");
    // The file at the URL was replaced by another carton.
    let replaced = example_remote("one", "n");
    cache.remotes().remember(&replaced).unwrap();
    assert_eq!(cache.remotes().by_url(&one.url_key), Some(replaced));
    assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0);
}

#[test]
fn a_carton_that_was_downloaded_as_a_whole_is_known_while_it_is_there() {
    let (_folder, cache) = new_cache();
    let bytes = vec![5; 100_000];
    let whole = cache.files().insert(&mut &bytes[..]).unwrap();
    let carton = RemoteCarton { whole: Some(whole), blocks: Vec::new(), ..example_remote("one", "m") };
    cache.remotes().remember(&carton).unwrap();
    let found =
        || (cache.remotes().by_url(&carton.url_key), cache.remotes().by_manifest(&carton.manifest, carton.form));
    assert_eq!(found(), (Some(carton.clone()), Some(carton.clone())));
    damage(&cache.files().path(&whole));
    assert_eq!(found(), (None, None));
    cache.files().insert(&mut &bytes[..]).unwrap();
    assert!(found().0.is_some());
    fs::remove_file(cache.files().path(&whole)).unwrap();
    assert_eq!(found(), (None, None));
    // With the description of the carton in the cache, its files are all that is needed.
    let described = RemoteCarton { whole: Some(whole), ..example_remote("one", "m") };
    cache.remotes().remember(&described).unwrap();
    assert_eq!(found(), (Some(described.clone()), Some(described)));
}

#[test]
fn only_the_newest_urls_of_a_carton_are_kept() {
    let (_folder, cache) = new_cache();
    let all: Vec<RemoteCarton> = (0..11).map(|number| example_remote(&format!("{number}"), "m")).collect();
    for carton in &all {
        cache.remotes().remember(carton).unwrap();
        age();
    }
    let found: Vec<bool> = all.iter().map(|carton| cache.remotes().by_url(&carton.url_key).is_some()).collect();
    assert_eq!(found, [[false; 3].as_slice(), &[true; 8]].concat());
    assert_eq!(count_files(&cache.layout.bucket(URLS)), 8);
}

#[test]
fn a_damaged_record_is_as_if_it_were_not_there() {
    let (_folder, cache) = new_cache();
    let carton = example_remote("one", "m");
    cache.remotes().remember(&carton).unwrap();
    let record = cache.layout.carton(&carton.manifest).join(format!("remote-{}", carton.url_key));
    let url = cache.layout.bucket(URLS).join(format!("{}.json", carton.url_key));
    for path in [record, url] {
        let bytes = fs::read(&path).unwrap();
        let check = |damaged: &[u8], what: String| {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.remotes().by_url(&carton.url_key), None, "{what}");
        };
        for length in 0..bytes.len() {
            check(&bytes[..length], format!("cut to {length}"));
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            check(&damaged, format!("byte {at} changed"));
        }
        let mut longer = bytes.clone();
        longer.push(b'x');
        check(&longer, "a byte added".to_owned());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(cache.remotes().by_url(&carton.url_key), None);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(cache.remotes().by_url(&carton.url_key), None);
        fs::remove_dir(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(cache.remotes().by_url(&carton.url_key).as_ref(), Some(&carton));
    }
}

#[test]
fn what_would_not_be_read_again_is_not_remembered() {
    let (_folder, cache) = new_cache();
    let check = |blocks: Vec<(u64, Vec<u8>)>, expected: bool| {
        let carton = RemoteCarton { blocks, ..example_remote("one", "m") };
        cache.remotes().remember(&carton).unwrap();
        assert_eq!(cache.remotes().by_url(&carton.url_key).is_some(), expected);
    };
    check(vec![(0, vec![0; 10]), (9, vec![0])], false);
    check(vec![(5, vec![0]), (4, vec![0])], false);
    check(vec![(u64::MAX, vec![0])], false);
    check(vec![(0, vec![0; (64 << 20) + 1])], false);
    check((0..200_000).map(|at| (at, vec![0])).collect(), false);
    check(vec![(0, vec![0; 64 << 20])], true);
    check(Vec::new(), true);
}
