//! Files that stand for weights: of any size, made quickly, and the same every time.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::Path;

/// The length of the repeated block. It is prime, so that no two aligned pieces of a file are equal.
const BLOCK: usize = 1_048_583;

/// Returns incompressible bytes in which no two pieces are equal, so that swapped pieces are detected.
#[must_use]
pub fn bytes(n_bytes: usize, seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(n_bytes + BLOCK);
    write(n_bytes as u64, seed, |piece| bytes.extend_from_slice(piece));
    bytes
}

/// Writes the [`bytes`] of this seed into a file.
///
/// # Panics
/// When it cannot be written.
pub fn write_file(path: &Path, n_bytes: u64, seed: u64) {
    let mut file = fs::File::create(path).unwrap();
    write(n_bytes, seed, |piece| file.write_all(piece).unwrap());
}

/// Makes a file of zeros that takes no space on most file systems.
///
/// # Panics
/// When it cannot be made.
pub fn sparse_file(path: &Path, n_bytes: u64) {
    fs::File::create(path).unwrap().set_len(n_bytes).unwrap();
}

/// Writes one random block repeatedly, numbered each time, because random numbers for a gigabyte take seconds without
/// optimization.
fn write(n_bytes: u64, seed: u64, mut sink: impl FnMut(&[u8])) {
    let mut state = seed;
    let mut block: Vec<u8> = (0..BLOCK.div_ceil(8)).flat_map(|_| split_mix(&mut state).to_le_bytes()).collect();
    block.truncate(BLOCK);
    let (mut rest, mut number) = (n_bytes, 0_u64);
    while rest > 0 {
        block[..8].copy_from_slice(&number.to_le_bytes());
        let length = rest.min(BLOCK as u64);
        sink(&block[..usize::try_from(length).unwrap()]);
        rest -= length;
        number += 1;
    }
}

/// The generator of <https://prng.di.unimi.it/splitmix64.c>.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
