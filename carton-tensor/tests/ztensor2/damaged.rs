//! The files of the library, changed at random. Whatever comes of it is read without a panic, and in the same way by each way of reading.

use std::fs;

use twox_hash::XxHash3_64;

use crate::fixtures::folder;
use crate::reject::read_all;

/// A generator of numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// The number of changed files for each of the library's. `CARTON_DAMAGED` sets another.
fn n_rounds() -> usize {
    std::env::var("CARTON_DAMAGED").ok().and_then(|number| number.parse().ok()).unwrap_or(60)
}

#[test]
fn changed_files_are_read_or_refused() {
    let names = ["types.zt", "compressed.zt", "sparse.zt", "others.zt", "appended.zt", "sharded.zt", "saved.zt"];
    for name in names {
        let bytes = fs::read(folder().join(name)).unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let footer = bytes.len() - 40;
        let manifest = number(footer)..number(footer) + number(footer + 8);
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
        let mut n_read = 0;
        for _ in 0..n_rounds() {
            let mut bytes = bytes.clone();
            // Most changes are in the manifest, and only matter if the hash of it is right.
            for _ in 0..=numbers.below(3) {
                let at = match numbers.below(4) {
                    0 => numbers.below(bytes.len()),
                    _ => manifest.start + numbers.below(manifest.len()),
                };
                bytes[at] = match numbers.below(3) {
                    0 => bytes[at] ^ 1 << numbers.below(8),
                    1 => [0, 1, 0x17, 0x18, 0x1b, 0x60, 0x80, 0xa0, 0xff][numbers.below(9)],
                    _ => bytes[manifest.start + numbers.below(manifest.len())],
                };
            }
            let hash = XxHash3_64::oneshot(&bytes[manifest.clone()]);
            bytes[footer + 16..footer + 24].copy_from_slice(&hash.to_le_bytes());
            match read_all(&bytes) {
                Ok(()) => n_read += 1,
                Err(error) => assert!(!error.to_string().contains(char::is_control), "{error}"),
            }
        }
        println!("{name}: {n_read} of {} were read", n_rounds());
    }
}
