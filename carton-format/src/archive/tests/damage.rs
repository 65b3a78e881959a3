//! Damage to a valid archive: truncation, random changes, replacement. Nothing panics, and no damaged bytes are accepted.

use proptest::prelude::*;

use super::*;

/// A valid archive that uses every feature, to be damaged.
fn everything() -> Vec<u8> {
    let mut zip = plain();
    zip.items.push(Item { mode: 0o040_755, ..item("e/", 0, b"") });
    zip.items.push(Item { mode: 0o120_777, ..item("e/link", 0, b"../a") });
    zip.items.push(Item {
        edit_local: |header| {
            header.flags = flag::STREAMED;
            (header.crc32, header.size, header.compressed_size) = (0, 0, 0);
        },
        edit_central: |header| header.flags = flag::STREAMED,
        behind: vec![7; 16],
        ..item("f", method::DEFLATE, b"streamed")
    });
    zip.items.push(Item {
        edit_local: |header| (header.size, header.compressed_size) = (u32::MAX, u32::MAX),
        local_extra: [1, 0, 16, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0].to_vec(),
        ..item("g", method::STORED, b"zip64")
    });
    zip.zip64 = true;
    zip.comment = b"comment".to_vec();
    zip.build()
}

#[test]
fn cut_at_every_length() {
    let whole = everything();
    assert_eq!(read_all(whole.clone(), 100).unwrap().len(), 7);
    for length in 0..whole.len() {
        let error = read_all(whole[..length].to_vec(), 100).unwrap_err();
        match length {
            0 => assert!(matches!(error, ArchiveError::Empty), "{error:?}"),
            _ => assert!(
                matches!(error, ArchiveError::Truncated { length: found } if found == length as u64),
                "{length}: {error:?}"
            ),
        }
    }
    assert_eq!(
        read_all(whole[..9].to_vec(), 100).unwrap_err().to_string(),
        "the file is truncated: it begins as a zip file, but after 9 bytes it does not end as one"
    );
    assert_eq!(
        read_all(b"\x89PNG\r\n".to_vec(), 100).unwrap_err().to_string(),
        "the file is not a zip file: expected one to begin with `PK\\x03\\x04`, found `\\x89PNG`"
    );
    // Cut at the front, too: the offsets no longer fit.
    for length in 1..whole.len() {
        assert!(read_all(whole[length..].to_vec(), 100).is_err(), "{length}");
    }
}

#[test]
fn damage_never_panics_and_never_passes_for_good() {
    let whole = everything();
    let good = read_all(whole.clone(), 100).unwrap();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..30_000 {
        let mut damaged = whole.clone();
        for _ in 0..=random(4) {
            let at = random(damaged.len());
            match random(4) {
                0 => damaged[at] ^= 1 << random(8),
                1 => damaged[at] = [0, 1, 0x7F, 0x80, 0xFF][random(5)],
                2 => drop(damaged.remove(at)),
                _ => damaged.insert(at, random(256) as u8),
            }
        }
        // All contents that can still be read are unchanged. Names may differ, because they have no checksum.
        if let Ok(all) = read_all(damaged, 64) {
            assert!(all.iter().all(|(_, contents)| good.iter().any(|(_, expected)| expected == contents)));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read_all(bytes, 16).is_err());
    }

    #[test]
    fn any_contents_survive(
        contents in proptest::collection::btree_map("([a-z]{1,3}/){0,2}[0-9]{1,5}", proptest::collection::vec(any::<u8>(), 0..2000), 0..8),
        methods in proptest::collection::vec(proptest::sample::select(&[0u16, 8, 93][..]), 8),
        piece in 1usize..3000,
    ) {
        let items = contents.iter().zip(methods).map(|((name, contents), method)| item(name, method, contents)).collect();
        let all = read_all(zip(items).build(), piece).unwrap();
        prop_assert_eq!(all, contents.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn extra_fields_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), saturated: [bool; 4]) {
        if let Ok(fields) = ExtraFields::parse(&bytes, 0) {
            let _ = fields.zip64_values(saturated, 0);
            let _ = fields.check_unicode_path(b"a", 0);
        }
    }
}
