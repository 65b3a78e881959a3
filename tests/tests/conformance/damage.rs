//! Cartons damaged in every place: wrong bytes are never returned as correct, nothing panics, and everything ends.

// All functions that damage a carton have one type, and some change the length.
#![allow(clippy::ptr_arg)]

use crate::builder::{CartonBuilder, Entry, hex_sha256, random};
use crate::judge::{Court, Everything, Verdict};
use crate::records::Descriptor;

/// The number of damaged cartons of each sort; `CARTON_TEST_DAMAGE` overrides it.
fn rounds() -> u64 {
    std::env::var("CARTON_TEST_DAMAGE").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(700)
}

#[test]
fn cut_off_at_every_length() {
    let bytes = CartonBuilder::little().build();
    let court = Court::new();
    for length in 0..bytes.len() {
        match court.judge(&bytes[..length]) {
            Verdict::Bad(failure) => {
                assert_eq!(failure.kind, carton_core::ErrorKind::Integrity, "{length}: {failure:?}")
            }
            Verdict::Good(_) => panic!("good with {length} of {} bytes", bytes.len()),
        }
    }
    assert!(matches!(court.judge(&bytes), Verdict::Good(_)));
}

#[test]
fn cut_off_at_every_length_with_zip64() {
    let mut carton = CartonBuilder::little();
    carton.zip64 = true;
    carton.entries.iter_mut().for_each(|entry| (entry.zip64, entry.descriptor) = (true, Descriptor::Signed));
    let bytes = carton.build();
    let court = Court::new();
    // The parts that the little carton does not have: the records at the end.
    for length in bytes.len() - 200..bytes.len() {
        assert!(
            matches!(court.judge(&bytes[..length]), Verdict::Bad(_)),
            "good with {length} of {} bytes",
            bytes.len()
        );
    }
    assert!(matches!(court.judge(&bytes), Verdict::Good(_)));
}

/// Damages the carton repeatedly, and checks that it is refused, or that all its files are unchanged.
fn check_damage(carton: &CartonBuilder, seed: u64, damage: fn(&mut Vec<u8>, &mut u64)) {
    let court = Court::new();
    let bytes = carton.build();
    let Verdict::Good(whole) = court.judge(&bytes) else { panic!("the undamaged carton is bad") };
    let mut state = seed;
    let (mut n_good, mut n_bad) = (0, 0);
    for round in 0..rounds() {
        let mut damaged = bytes.clone();
        damage(&mut damaged, &mut state);
        match court.judge(&damaged) {
            Verdict::Bad(_) => n_bad += 1,
            Verdict::Good(found) => {
                n_good += 1;
                assert!(is_same(&whole, &found), "round {round}: read something else\n{found:?}\nfrom {damaged:?}");
            }
        }
    }
    // Only dates, comments and permissions can change without an error.
    assert!(n_bad > n_good, "{n_good} of {} damaged cartons are good", n_good + n_bad);
}

fn is_same(one: &Everything, other: &Everything) -> bool {
    // With another MANIFEST it is another carton, which its hash shows.
    one.manifest_hash == other.manifest_hash
        && one.files == other.files
        && one.tensors.keys().eq(other.tensors.keys())
        && one.model_name == other.model_name
}

fn below(state: &mut u64, bound: usize) -> usize {
    (random(state) % bound as u64) as usize
}

fn flip_bits(bytes: &mut Vec<u8>, state: &mut u64) {
    for _ in 0..1 + below(state, 3) {
        let at = below(state, bytes.len());
        bytes[at] ^= 1 << below(state, 8);
    }
}

fn flip_bits_of_the_directory(bytes: &mut Vec<u8>, state: &mut u64) {
    let directory = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let at = directory + below(state, bytes.len() - directory);
    bytes[at] ^= 1 << below(state, 8);
}

fn replace_bytes(bytes: &mut Vec<u8>, state: &mut u64) {
    const ODD: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'/', b'=', b'P'];
    let at = below(state, bytes.len());
    let length = (1 + below(state, 8)).min(bytes.len() - at);
    let value = ODD[below(state, ODD.len())];
    bytes[at..at + length].fill(value);
}

fn move_bytes(bytes: &mut Vec<u8>, state: &mut u64) {
    let (from, to) = (below(state, bytes.len()), below(state, bytes.len()));
    let length = 1 + below(state, 64.min(bytes.len() - from.max(to)));
    match below(state, 3) {
        0 => bytes.copy_within(from..from + length, to),
        1 => drop(bytes.drain(from..from + length)),
        _ => {
            let piece = bytes[from..from + length].to_vec();
            bytes.splice(to..to, piece);
        }
    }
}

#[test]
fn bits_flipped_anywhere() {
    check_damage(&CartonBuilder::little(), 11, flip_bits);
}

#[test]
fn bits_flipped_in_the_directory() {
    check_damage(&CartonBuilder::little(), 12, flip_bits_of_the_directory);
}

#[test]
fn bytes_replaced() {
    check_damage(&CartonBuilder::little(), 13, replace_bytes);
}

#[test]
fn bytes_moved() {
    check_damage(&CartonBuilder::little(), 14, move_bytes);
}

#[test]
fn bits_flipped_in_streamed_zip64_and_zstd() {
    let mut carton = CartonBuilder::little();
    carton.zip64 = true;
    carton.entries.iter_mut().for_each(|entry| {
        (entry.zip64, entry.descriptor, entry.method) = (true, Descriptor::Signed, crate::builder::ZSTD);
    });
    carton.add(Entry::new("LINKS", format!("version = 1\n[urls]\n{} = [\"https://host/x\"]\n", hex_sha256(b"x"))));
    check_damage(&carton, 15, flip_bits);
    check_damage(&carton, 16, flip_bits_of_the_directory);
}
