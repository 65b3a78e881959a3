//! Arbitrary bytes as the index of a server and as that of a file. Every entry is usable or broken. A usable entry leads neither out of
//! its folder nor from a server to files of this machine, and is the same after writing and reading it again.

use std::path::Component;

use carton_core::runner::{IndexEntry, Place, RunnerIndex};
use serde_json::{Value, json};

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let mut is_accepted = true;
    for place in ["https://example.com/runners/index.json", "/runners/index.json"] {
        let place = Place::parse(place).expect("it is a place");
        let Ok(index) = RunnerIndex::parse(bytes, &place) else { return false };
        is_accepted &= index.broken().is_empty();
        assert!(std::str::from_utf8(bytes).is_ok());
        let n_entries = serde_json::from_slice::<Vec<Value>>(bytes).map(|list| list.len());
        // The other reader limits nesting and parses the values of numbers, which this one skips.
        if let Ok(n_entries) = n_entries {
            assert_eq!(index.entries().len() + index.broken().len(), n_entries);
        }
        for entry in index.entries() {
            let mut path = entry.descriptor.runner_path.components();
            assert!(path.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)));
            for part in &entry.parts {
                assert!(place.path().is_some() || part.place.path().is_none(), "{:?}", part.place);
                assert!(part.folder.split('/').all(|part| ![".", ".."].contains(&part)), "{:?}", part.folder);
            }
        }
        let written = Value::from_iter(index.entries().iter().filter_map(written)).to_string();
        let again = RunnerIndex::parse(written.as_bytes(), &place).expect("it was written");
        let written_ones = index.entries().iter().filter(|entry| written_url(entry).is_some());
        assert!(
            again.broken().is_empty() && again.entries().iter().eq(written_ones),
            "{written}\n{:?}",
            again.broken()
        );
    }
    is_accepted
}

/// Formats an entry as JSON; `None` if no URL can express its paths.
fn written(entry: &IndexEntry) -> Option<Value> {
    let mut value = serde_json::to_value(&entry.descriptor).expect("it was read");
    let urls = written_url(entry)?;
    let parts = entry.parts.iter().zip(urls);
    let parts = parts.map(|(part, url)| json!({"url": url, "sha256": part.sha256, "relative_path": part.folder}));
    value["download_info"] = parts.collect();
    value["id"] = json!(entry.id);
    // The path was omitted, because an empty one would be refused.
    if entry.descriptor.runner_path.as_os_str().is_empty() {
        value["runner_path"] = Value::Null;
    }
    Some(value)
}

fn written_url(entry: &IndexEntry) -> Option<Vec<String>> {
    let url = |place: &Place| match place {
        Place::Path(path) => carton_core::Url::from_file_path(path).map(|url| url.expose_str().to_owned()),
        place => place.url().map(|url| url.expose_str().to_owned()),
    };
    entry.parts.iter().map(|part| url(&part.place)).collect()
}
