//! Compares the files of two cartons by their digests, and their links. Pure.

use std::collections::{BTreeMap, BTreeSet};

use carton_format::digest::Sha256Digest;
use carton_format::links::Links;
use carton_format::url::ShownUrl;

use super::report::{Change, FileChange, FileVersion, LinkChange};
use crate::contents::FileInfo;

/// The files that differ, sorted by path. A file that only one carton has is renamed if the other has one of the same digest at a path of
/// its own.
pub(super) fn compare(a: &[FileInfo], b: &[FileInfo]) -> Vec<FileChange> {
    let by_path = |files: &[FileInfo]| -> BTreeMap<String, FileVersion> {
        files.iter().map(|file| (file.path.clone(), FileVersion { sha256: file.sha256, size: file.size })).collect()
    };
    let (mut in_a, mut in_b) = (by_path(a), by_path(b));
    let mut changes = Vec::new();
    let common: Vec<String> = in_a.keys().filter(|path| in_b.contains_key(*path)).cloned().collect();
    for path in common {
        let (a, b) = (in_a.remove(&path), in_b.remove(&path));
        let digest = |file: &Option<FileVersion>| file.as_ref().and_then(|file| file.sha256);
        if digest(&a).is_none() || digest(&a) != digest(&b) {
            changes.push(FileChange { path, change: Change::Changed, path_a: None, a, b });
        }
    }
    let mut gone: BTreeMap<Sha256Digest, Vec<String>> = BTreeMap::new();
    for (path, file) in in_a.iter().rev() {
        if let Some(digest) = file.sha256 {
            gone.entry(digest).or_default().push(path.clone());
        }
    }
    for (path, file) in in_b {
        let from = file.sha256.and_then(|digest| gone.get_mut(&digest)?.pop());
        let a = from.as_ref().and_then(|from| in_a.remove(from));
        let change = if a.is_some() { Change::Renamed } else { Change::Added };
        changes.push(FileChange { path, change, path_a: from, a, b: Some(file) });
    }
    let removed = in_a.into_iter();
    changes.extend(removed.map(|(path, file)| FileChange {
        path,
        change: Change::Removed,
        path_a: None,
        a: Some(file),
        b: None,
    }));
    changes.sort_by(|x, y| x.path.cmp(&y.path));
    changes
}

/// The files whose links differ.
pub(super) fn compare_links(
    (a, files_a): (&Links, &[FileInfo]),
    (b, files_b): (&Links, &[FileInfo]),
) -> Vec<LinkChange> {
    let digests: BTreeSet<&Sha256Digest> = a.iter().chain(b.iter()).map(|(digest, _)| digest).collect();
    let changed = digests.into_iter().filter(|digest| a.urls(digest) != b.urls(digest));
    let shown = |urls: &[String]| urls.iter().map(|url| ShownUrl::of_text(url)).collect();
    changed
        .map(|digest| {
            let of_digest = |file: &&FileInfo| file.sha256.as_ref() == Some(digest);
            let paths: BTreeSet<String> =
                files_a.iter().chain(files_b).filter(of_digest).map(|file| file.path.clone()).collect();
            LinkChange {
                sha256: *digest,
                paths: paths.into_iter().collect(),
                a: shown(a.urls(digest)),
                b: shown(b.urls(digest)),
            }
        })
        .collect()
}

/// A tensor file, or the index of a sharded checkpoint, of each carton, whose tensors are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePair {
    pub(super) a: String,
    pub(super) b: String,
}

const INDEX: &str = ".safetensors.index.json";

/// Chooses the tensor files of the model that are compared with each other, out of all files of both cartons and those that differ. An index of a
/// sharded checkpoint stands for its shards. What only one carton has is compared with a file of the same folder that only the other has:
/// that of the same name, or else the only one.
pub(super) fn pairs(a: &[FileInfo], b: &[FileInfo], changes: &[FileChange]) -> Vec<FilePair> {
    let (sources_a, sources_b) = (sources(a), sources(b));
    let has_changed = |source: &Source| {
        let is_part = |path: &String| source.files.contains(path);
        changes.iter().any(|change| {
            change.change != Change::Renamed && (is_part(&change.path) || change.path_a.as_ref().is_some_and(is_part))
        })
    };
    let mut pairs = Vec::new();
    let mut rest = (Vec::new(), Vec::new());
    for source in &sources_a {
        match sources_b.iter().find(|other| other.path == source.path) {
            Some(other) if has_changed(source) || has_changed(other) => {
                pairs.push(FilePair { a: source.path.clone(), b: other.path.clone() });
            }
            Some(_) => {}
            None => rest.0.extend(Some(source).filter(|source| has_changed(source))),
        }
    }
    let only_in_b = sources_b.iter().filter(|source| !sources_a.iter().any(|other| other.path == source.path));
    rest.1.extend(only_in_b.filter(|source| has_changed(source)));
    let (mut rest_a, mut rest_b) = rest;
    for is_alike in [
        |source: &Source, other: &Source| source.folder() == other.folder() && source.stem() == other.stem(),
        |source: &Source, other: &Source| source.folder() == other.folder(),
    ] {
        let all_of_a = rest_a.clone();
        rest_a.retain(|source| {
            let mut alike = rest_b.iter().enumerate().filter(|(_, other)| is_alike(source, other));
            let Some((position, other)) = alike.next().filter(|_| alike.next().is_none()) else { return true };
            if all_of_a.iter().filter(|source| is_alike(source, other)).count() > 1 {
                return true;
            }
            pairs.push(FilePair { a: source.path.clone(), b: other.path.clone() });
            rest_b.remove(position);
            false
        });
    }
    pairs.sort_by(|x, y| x.a.cmp(&y.a));
    pairs
}

/// A tensor file, or an index with its shards.
struct Source {
    path: String,
    /// All its files. Of an index, those of the folder that have the same ending as shards have: which of them are its shards, the index says.
    files: BTreeSet<String>,
}

impl Source {
    fn folder(&self) -> &str {
        self.path.rfind('/').map_or("", |end| &self.path[..end])
    }

    fn stem(&self) -> &str {
        let name = &self.path[self.folder().len()..];
        name.strip_suffix(INDEX).or_else(|| name.rsplit_once('.').map(|(stem, _)| stem)).unwrap_or(name)
    }
}

fn sources(files: &[FileInfo]) -> Vec<Source> {
    let paths = || files.iter().map(|file| file.path.as_str()).filter(|path| path.starts_with("model/"));
    let folder = |path: &'_ str| path.rfind('/').map_or(0, |end| end + 1);
    let indices: Vec<&str> = paths().filter(|path| path.ends_with(INDEX)).collect();
    let is_shard = |path: &str| {
        path.ends_with(".safetensors")
            && path.contains("-of-")
            && indices.iter().any(|index| index[..folder(index)] == path[..folder(path)])
    };
    let mut all = Vec::new();
    for index in &indices {
        let shards = paths().filter(|path| is_shard(path) && path[..folder(path)] == index[..folder(index)]);
        let files = shards.chain([*index]).map(str::to_owned).collect();
        all.push(Source { path: (*index).to_owned(), files });
    }
    let is_tensor_file = |path: &&str| {
        [".safetensors", ".zt", ".npy", ".npz"].iter().any(|ending| path.ends_with(ending)) && !is_shard(path)
    };
    all.extend(
        paths()
            .filter(is_tensor_file)
            .map(|path| Source { path: path.to_owned(), files: BTreeSet::from([path.to_owned()]) }),
    );
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Files of these paths, each with the digest of one character.
    fn files(list: &[(&str, char)]) -> Vec<FileInfo> {
        let digest = |c: char| c.to_string().repeat(64).parse().unwrap();
        let file = |&(path, c): &(&str, char)| FileInfo {
            path: path.to_owned(),
            sha256: Some(digest(c)),
            size: Some(1),
            stored: Some(1),
            method: None,
            linked: false,
            symlink: None,
        };
        list.iter().map(file).collect()
    }

    #[test]
    fn files_are_compared_by_digest() {
        let a = files(&[("carton.toml", '1'), ("misc/a", '2'), ("misc/b", '2'), ("model/old", '3'), ("model/x", '4')]);
        let b = files(&[("carton.toml", '5'), ("misc/c", '2'), ("model/new", '6'), ("model/x", '4')]);
        let found: Vec<_> =
            compare(&a, &b).into_iter().map(|change| (change.path, change.change, change.path_a)).collect();
        let from = |path: &str| Some(path.to_owned());
        assert_eq!(
            found,
            [
                ("carton.toml".to_owned(), Change::Changed, None),
                ("misc/b".to_owned(), Change::Removed, None),
                ("misc/c".to_owned(), Change::Renamed, from("misc/a")),
                ("model/new".to_owned(), Change::Added, None),
                ("model/old".to_owned(), Change::Removed, None),
            ]
        );
    }

    #[test]
    fn tensor_files_are_paired() {
        let check = |a: &[(&str, char)], b: &[(&str, char)], expected: &[(&str, &str)]| {
            let (a, b) = (files(a), files(b));
            let found = pairs(&a, &b, &compare(&a, &b));
            let found: Vec<_> = found.iter().map(|pair| (pair.a.as_str(), pair.b.as_str())).collect();
            assert_eq!(found, expected);
        };
        check(
            &[("model/w.zt", '1'), ("misc/w.zt", '1')],
            &[("model/w.zt", '2'), ("misc/w.zt", '3')],
            &[("model/w.zt", "model/w.zt")],
        );
        check(&[("model/w.zt", '1')], &[("model/w.zt", '1')], &[]);
        check(&[("model/w.zt", '1')], &[("model/v.zt", '1')], &[]);
        check(
            &[("model/a.zt", '1'), ("model/b.zt", '2')],
            &[("model/a.safetensors", '3'), ("model/c.zt", '4')],
            &[("model/a.zt", "model/a.safetensors"), ("model/b.zt", "model/c.zt")],
        );
        // Which of them the new file replaces is not known.
        check(&[("model/a.zt", '1'), ("model/b.zt", '2'), ("model/c.zt", '3')], &[("model/x.zt", '4')], &[]);
        let index = "model/m.safetensors.index.json";
        check(
            &[(index, '1'), ("model/m-1-of-2.safetensors", '2'), ("model/m-2-of-2.safetensors", '3')],
            &[(index, '1'), ("model/m-1-of-2.safetensors", '2'), ("model/m-2-of-2.safetensors", '4')],
            &[(index, index)],
        );
        check(
            &[(index, '1'), ("model/m-1-of-2.safetensors", '2'), ("model/m-2-of-2.safetensors", '3')],
            &[("model/weights.zt", '5')],
            &[(index, "model/weights.zt")],
        );
    }
}
