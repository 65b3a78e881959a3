//! Whatever the journal says, a missing byte is never handed out.

use std::os::unix::fs::FileExt;

use super::*;
use crate::download::journal::{Header, Journal, chunk_size};

/// Prepares a folder as an earlier attempt would have left it: this many bytes of each chunk are present, all others are wrong.
fn lay_out(folder: &Path, url: &Url, all: &[u8], done: &[usize]) {
    Download::forget(folder).unwrap();
    let header = Header {
        url: carton_format::digest::Sha256Digest::of(url.expose_str().as_bytes()),
        version: Version { length: Some(all.len() as u64), ..strong("1") },
        range: None,
        accept_encoded: false,
        encodings: Vec::new(),
        length: all.len() as u64,
        chunk_size: chunk_size(all.len() as u64),
    };
    let data = std::fs::File::create(folder.join("data")).unwrap();
    data.write_all_at(&vec![0xEE; all.len()], 0).unwrap();
    let journal = Journal::create(folder, &header).unwrap().unwrap();
    for (index, &n_bytes) in done.iter().enumerate() {
        let start = index * CHUNK;
        data.write_all_at(&all[start..start + n_bytes], start as u64).unwrap();
        journal.record(index, &[n_bytes as u64]).unwrap();
    }
}

#[test]
fn every_state_is_continued() {
    let all = content(4 * CHUNK + 1000);
    let (server, folder) = (FileServer::start(all.clone()), tempfile::tempdir().unwrap());
    let check = |done: [usize; 5]| {
        lay_out(folder.path(), &server.url, &all, &done);
        let brought = fetch(&target(&server.url, folder.path())).unwrap();
        assert!(brought.bytes == all, "{done:?}");
        let kept = done.iter().sum::<usize>() as u64;
        assert_eq!((brought.activity.kept(), brought.activity.received()), (kept, all.len() as u64 - kept));
        assert_eq!(brought.download.is_resumed(), kept > 0);
    };
    for state in 0..3_usize.pow(5) {
        let sizes = [CHUNK, CHUNK, CHUNK, CHUNK, 1000];
        check(std::array::from_fn(|index| match state / 3_usize.pow(index as u32) % 3 {
            0 => 0,
            1 => sizes[index] / 2 + index,
            _ => sizes[index],
        }));
    }
}

#[test]
fn a_damaged_journal_costs_at_most_a_restart() {
    let all = content(2 * CHUNK + 1000);
    let (server, folder) = (FileServer::start(all.clone()), tempfile::tempdir().unwrap());
    let path = folder.path().join("journal");
    lay_out(folder.path(), &server.url, &all, &[CHUNK, 5, 0]);
    let good = std::fs::read(&path).unwrap();
    let check = |bytes: &[u8], what: &str| {
        lay_out(folder.path(), &server.url, &all, &[CHUNK, 5, 0]);
        std::fs::write(&path, bytes).unwrap();
        let brought = fetch(&target(&server.url, folder.path())).unwrap();
        assert!(brought.bytes == all, "{what}");
    };
    for position in 0..good.len() {
        let mut bytes = good.clone();
        bytes[position] ^= 1 << (position % 8);
        check(&bytes, &format!("bit {} of byte {position} flipped", position % 8));
        check(&good[..position], &format!("cut to {position} bytes"));
    }
    check(&[&good[..], &[0]].concat(), "a byte more");
    check(&vec![0; good.len()], "zeros");
}

#[test]
fn slots_that_are_swapped_count_as_empty() {
    let all = content(3 * CHUNK);
    let (server, folder) = (FileServer::start(all.clone()), tempfile::tempdir().unwrap());
    lay_out(folder.path(), &server.url, &all, &[CHUNK, 5, 0]);
    let path = folder.path().join("journal");
    let mut bytes = std::fs::read(&path).unwrap();
    let slots = bytes.len() - 24;
    bytes[slots..].rotate_left(8);
    std::fs::write(&path, bytes).unwrap();
    let brought = fetch(&target(&server.url, folder.path())).unwrap();
    assert!(brought.bytes == all && !brought.download.is_resumed());
}

#[test]
fn data_that_does_not_fit_the_journal_is_not_used() {
    let all = content(3 * CHUNK);
    let (server, folder) = (FileServer::start(all.clone()), tempfile::tempdir().unwrap());
    let data = folder.path().join("data");
    let check = |spoil: &dyn Fn()| {
        lay_out(folder.path(), &server.url, &all, &[CHUNK, 5, 0]);
        spoil();
        let brought = fetch(&target(&server.url, folder.path())).unwrap();
        assert!(brought.bytes == all && !brought.download.is_resumed());
    };
    check(&|| std::fs::remove_file(&data).unwrap());
    check(&|| std::fs::write(&data, &all[1..]).unwrap());
    check(&|| std::fs::write(&data, [&all[..], &[0]].concat()).unwrap());
}

#[test]
fn the_layout_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let url = "http://host/file".parse().unwrap();
    lay_out(folder.path(), &url, &content(CHUNK + 1), &[3, 1]);
    let bytes = std::fs::read(folder.path().join("journal")).unwrap();
    assert_eq!(&bytes[..8], b"CTNDOWN1");
    let length = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    assert_eq!(
        std::str::from_utf8(&bytes[12..12 + length]).unwrap(),
        "{\"url\":\"887511a5af1791845f6f6190a37941e99a478496f157ea1871992afeced8e6fd\",\
         \"version\":{\"etag\":\"\\\"1\\\"\",\"last_modified\":null,\"length\":131073},\"range\":null,\
         \"accept_encoded\":false,\"encodings\":[],\"length\":131073,\"chunk_size\":131072}"
    );
    let slots = &bytes[12 + length + 32..];
    assert_eq!((slots.len(), &slots[..4], &slots[8..12]), (16, &[3, 0, 0, 0][..], &[1, 0, 0, 0][..]));
}

#[test]
fn chunks_grow_with_the_file() {
    let check = |length: u64, expected: u64| assert_eq!(chunk_size(length), expected, "{length}");
    check(0, 128 << 10);
    check(8 << 30, 128 << 10);
    check((8 << 30) + 1, 256 << 10);
    check(1 << 40, 16 << 20);
    check(crate::download::journal::MAX_LENGTH, 1 << 31);
    check(u64::MAX, 1 << 31);
}
