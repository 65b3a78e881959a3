//! Bodies as servers send them, decompression bombs, and invalid bytes.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write;

use proptest::prelude::*;

use super::*;

/// The lines `N squared is N*N` for N below 100, compressed by the reference implementation of brotli.
const SQUARES_BR: &str = "\
    1b3307808c94aac37b844aee86b3afa487a88808313e41c8e6f8a7e7620f3a630f33bd808b8be182c571d089620d3fe0ef8240d3199e57\
    7d2fffe45fbdeed00f07be39e4f1a7f5d609fb741abd3b31cf27f1e58ffb757977157bd06248671439111bb06a56de38b801cd9dfaa162\
    953d6c3126d322724e6cc2aa39711da2c7241766bfa952658f1a7cbb404ee5c87ae506ac0a91d7283a92e672d18f95aaece4169de86446\
    96117b436155ddf24245374573c9eab7d556d9a95a744527576469b1cfe9dda6c76d40b719b90dad76a49a836a4cd5442a56d4122aceaa\
    48ab28a878f296f1daa2d7b6bd76e0b53c6f575e7be7b58197ca5e02f58a3aad743ae864ebae56ef417713ddad7477d45d60d66d326c32\
    65b268b2c76cca14b4292c5354e631f8543f";
/// The empty content, compressed by the same implementation.
const EMPTY_BR: &str = "3b";
/// 100 MiB of zeros, compressed by the same implementation.
const ZEROS_BR: &str = "\
    cbffff3f002400e2b14072effff8ffff078004401c1680eefd1fffffff00900088c302d0bdffe3ffff1f001200715800baf77ffcffff\
    034002200e0b40f7fe8fffff7f004800c46101e8defff1ffff0f000980382c00ddfb3ffeffff012001108705a07bffc7ffff3f002400\
    e2b00074effff8ffff078004401c1680eefd1fffffff00900088c302d0bdffe3ffff1f001200715800baf77ff9ffff034002200e0b40\
    f7fe07";

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn squares() -> Vec<u8> {
    (0..100).map(|n| format!("{n} squared is {}\n", n * n)).collect::<String>().into_bytes()
}

fn level() -> flate2::Compression {
    flate2::Compression::new(6)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::GzBuilder::new().filename("weights").comment("none").write(Vec::new(), level());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// Returns one byte at a time, and is interrupted before each.
struct Trickle<'a> {
    bytes: &'a [u8],
    interrupted: bool,
}

impl Read for Trickle<'_> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n_bytes = output.len().min(1);
        self.bytes.read(&mut output[..n_bytes])
    }
}

type Encode = fn(&[u8]) -> Vec<u8>;

fn names(encodings: &str) -> Vec<String> {
    encodings.split(',').filter(|name| !name.is_empty()).map(|name| name.trim().to_owned()).collect()
}

/// The decoded bytes, or the error and its cause in one line.
fn read_all(reader: impl Read, encodings: &str, limit: Limit) -> Result<Vec<u8>, String> {
    let mut decoder = decode(reader, &names(encodings), limit).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    match decoder.read_to_end(&mut bytes) {
        Ok(_) => {
            assert_eq!(decoder.read(&mut [0]).unwrap(), 0);
            Ok(bytes)
        }
        Err(error) => {
            assert!(decoder.read(&mut [0]).is_err(), "an error is not forgotten");
            let error = EncodingError::from_read(error).unwrap();
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            Err(format!("{error}{cause}"))
        }
    }
}

/// Checks that the bytes decode to `expected`, or to an error that contains it; reads them as a whole and byte by byte.
#[track_caller]
fn check(encoded: &[u8], encodings: &str, limit: Limit, expected: Result<&[u8], &str>) {
    let trickle = Trickle { bytes: encoded, interrupted: false };
    for found in [read_all(encoded, encodings, limit), read_all(trickle, encodings, limit)] {
        match (&found, expected) {
            (Ok(bytes), Ok(expected)) => assert!(bytes == expected, "{encodings}: other bytes"),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{encodings}: {error}"),
            _ => panic!("{encodings}: expected {expected:?}, found {found:?}"),
        }
    }
}

/// One body in each encoding.
fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = squares();
    vec![
        ("", bytes.clone()),
        ("gzip", gzip(&bytes)),
        ("deflate", zlib(&bytes)),
        ("deflate", raw(&bytes)),
        ("zstd", zstd(&bytes)),
        ("br", from_hex(SQUARES_BR)),
        ("br, gzip", gzip(&from_hex(SQUARES_BR))),
        ("gzip, zstd, deflate", raw(&zstd(&gzip(&bytes)))),
    ]
}

#[test]
fn every_encoding_is_undone() {
    let bytes = squares();
    let length = bytes.len() as u64;
    for (encodings, encoded) in bodies() {
        check(&encoded, encodings, Limit::default(), Ok(&bytes));
        check(&encoded, encodings, Limit::declared(length), Ok(&bytes));
        check(
            &encoded,
            encodings,
            Limit::declared(length + 1),
            Err(&format!("has {length} bytes, expected {}", length + 1)),
        );
        check(
            &encoded,
            encodings,
            Limit::declared(length - 1),
            Err(&format!("more than the expected {} bytes", length - 1)),
        );
        check(&encoded, encodings, Limit::declared(0), Err("more than the expected 0 bytes"));
    }
    check(&gzip(&bytes), "X-GZip", Limit::default(), Ok(&bytes));
    check(&zstd(&bytes), "identity, ZSTD, Identity", Limit::default(), Ok(&bytes));
}

#[test]
fn no_bytes_are_bytes_too() {
    for (encodings, encoded) in [
        ("", Vec::new()),
        ("gzip", gzip(&[])),
        ("deflate", zlib(&[])),
        ("deflate", raw(&[])),
        ("zstd", zstd(&[])),
        ("br", from_hex(EMPTY_BR)),
    ] {
        check(&encoded, encodings, Limit::default(), Ok(&[]));
        check(&encoded, encodings, Limit::declared(0), Ok(&[]));
        check(&encoded, encodings, Limit::declared(1), Err("has 0 bytes, expected 1"));
    }
    // An empty body is not valid in any encoding, but is valid without one.
    for encoding in ["gzip", "deflate", "zstd", "br"] {
        check(&[], encoding, Limit::default(), Err("ends in the middle"));
    }
}

#[test]
fn what_ends_early_is_an_error() {
    for (encodings, encoded) in bodies().into_iter().skip(1) {
        for length in 0..encoded.len() {
            check(&encoded[..length], encodings, Limit::default(), Err("ends in the middle of its"));
        }
    }
}

#[test]
fn what_is_behind_the_end_is_an_error() {
    for (encodings, encoded) in bodies().into_iter().skip(1) {
        for garbage in [&b"\0"[..], b"garbage", &[0; 100]] {
            let encoded = [&encoded, garbage].concat();
            for limit in [Limit::default(), Limit::declared(squares().len() as u64)] {
                // A few bytes may still be the beginning of another member or frame.
                let expected = if read_all(&encoded[..], encodings, limit).is_err_and(|error| error.contains("ends in"))
                {
                    assert!(garbage.len() < 4, "{encodings}");
                    "ends in the middle of its"
                } else {
                    "the content is not valid "
                };
                check(&encoded, encodings, limit, Err(expected));
            }
        }
    }
}

#[test]
fn members_and_frames_may_follow_each_other() {
    let bytes = squares();
    let twice = [&bytes[..], &bytes].concat();
    check(&[gzip(&bytes), gzip(&[]), gzip(&bytes)].concat(), "gzip", Limit::default(), Ok(&twice));
    // A skippable frame is not part of the content.
    let skippable = [&0x184D_2A50_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
    check(&[zstd(&bytes), skippable, zstd(&bytes)].concat(), "zstd", Limit::default(), Ok(&twice));
    // The other encodings have no such frames.
    check(&[zlib(&bytes), zlib(&bytes)].concat(), "deflate", Limit::default(), Err("more after its end"));
    let br = from_hex(SQUARES_BR);
    check(&[br.clone(), br].concat(), "br", Limit::default(), Err("more after its end"));
}

#[test]
fn damage_is_found() {
    // The checksums at the end, and gzip's length.
    for (encodings, encoded, n_check) in [("gzip", gzip(&squares()), 8), ("deflate", zlib(&squares()), 4)] {
        for at in 1..=n_check {
            let mut damaged = encoded.clone();
            damaged[encoded.len() - at] ^= 1;
            check(&damaged, encodings, Limit::default(), Err("is not valid"));
        }
    }
    check(b"these are no zstd bytes", "zstd", Limit::default(), Err("is not valid zstd: "));
    check(b"these are no gzip bytes", "gzip", Limit::default(), Err("is not valid gzip: "));
    check(&zstd(&squares()), "gzip", Limit::default(), Err("is not valid gzip: "));
    check(&[0xFF; 20], "br", Limit::default(), Err("is not valid br: "));
    check(&[0xFF; 20], "deflate", Limit::default(), Err("is not valid deflate: "));
    // A zlib stream that requires a dictionary.
    check(&[0x78, 0x20, 0, 0, 0, 1, 0, 0], "deflate", Limit::default(), Err("is not valid deflate"));
}

#[test]
fn windows_are_bounded() {
    // A frame header that asks for a window of 256 MiB, and a raw block of no bytes.
    let frame = [&0xFD2F_B528_u32.to_le_bytes()[..], &[0x00, 18 << 3, 0x01, 0, 0]].concat();
    check(&frame, "zstd", Limit::default(), Err("is not valid zstd: "));
    let frame = [&0xFD2F_B528_u32.to_le_bytes()[..], &[0x00, 17 << 3, 0x01, 0, 0]].concat();
    check(&frame, "zstd", Limit::default(), Ok(&[]));
    // The header of brotli's large windows, which RFC 7932 does not have.
    check(&[0x11, 0x9E, 0, 0], "br", Limit::default(), Err("is not valid br: "));
}

#[test]
fn unknown_encodings_are_named() {
    check(b"", "compress", Limit::default(), Err("the content encoding `compress` is not supported"));
    check(b"", "gzip, a\x1B", Limit::default(), Err("the content encoding `a\\u{1b}` is not supported"));
    check(b"", "gzip, gzip, gzip, gzip, gzip", Limit::default(), Err("is encoded 5 times, at most 4"));
    check(b"x", "identity, identity, identity, identity, identity", Limit::default(), Ok(b"x"));
    let four = (0..4).fold(squares(), |bytes, _| gzip(&bytes));
    check(&four, "gzip, gzip, gzip, gzip", Limit::default(), Ok(&squares()));
}

/// How much of a bomb is decoded before it is refused.
fn exploded(encoded: &[u8], encodings: &str, limit: Limit) -> u64 {
    let mut decoder = decode(encoded, &names(encodings), limit).unwrap();
    let mut buffer = vec![0; 100_000];
    let mut total = 0;
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => panic!("{encodings}: the bomb is not noticed"),
            Ok(n_bytes) => total += n_bytes as u64,
            Err(error) => {
                let error = EncodingError::from_read(error).unwrap();
                assert!(matches!(error, EncodingError::Limit { .. } | EncodingError::TooLong { .. }), "{error}");
                return total;
            }
        }
    }
}

#[test]
fn bombs_are_stopped() {
    let zeros = vec![0; 100 << 20];
    let bombs = [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("deflate", raw(&zeros)),
        ("zstd", zstd(&zeros)),
        ("br", from_hex(ZEROS_BR)),
        ("zstd, gzip", gzip(&zstd(&zeros))),
        // The bytes that are too many here are those between the two encodings.
        ("gzip, zstd", zstd(&gzip(&zeros))),
    ];
    for (encodings, bomb) in bombs {
        let most = (64 << 20) + 200 * bomb.len() as u64;
        assert!(exploded(&bomb, encodings, Limit::default()) <= most, "{encodings}");
        let absolute = Limit { absolute: 1 << 20, ..Limit::default() };
        assert!(exploded(&bomb, encodings, absolute) <= 1 << 20, "{encodings}");
        assert_eq!(exploded(&bomb, encodings, Limit::declared(1000)), 0, "the last bytes come after the end");
        assert_eq!(exploded(&bomb, encodings, Limit::declared(200_000)), 100_000, "{encodings}");
        // Content that really has the declared number of bytes is accepted, however small its encoded form.
        let declared = Limit::declared(zeros.len() as u64);
        assert!(read_all(&bomb[..], encodings, declared).unwrap() == zeros, "{encodings}");
    }
}

#[test]
fn a_bomb_between_two_encodings_is_stopped() {
    // 100 MiB of empty gzip members decode to nothing, but would cost time all the same.
    let member = gzip(&[]);
    let bomb = zstd(&member.repeat((100 << 20) / member.len()));
    for limit in [Limit::default(), Limit::declared(5)] {
        let mut decoder = decode(&bomb[..], &names("gzip, zstd"), limit).unwrap();
        let error = EncodingError::from_read(decoder.read(&mut [0; 100]).unwrap_err()).unwrap();
        assert!(matches!(error, EncodingError::Limit { .. }), "{error}");
    }
}

#[test]
fn errors_of_the_encoded_bytes_stay_what_they_are() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    for encodings in ["", "gzip", "br", "zstd, deflate"] {
        let error = decode(Broken, &names(encodings), Limit::default()).unwrap().read(&mut [0]).unwrap_err();
        assert_eq!(EncodingError::from_read(error).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_encoded_comes_out(
        pieces in proptest::collection::vec((any::<u8>(), 1..3000_usize), 0..40),
        encodings in proptest::collection::vec(0..4_usize, 0..=4),
        at_once in 1..5000_usize,
    ) {
        let bytes: Vec<u8> = pieces.iter().flat_map(|(byte, n)| (0..*n).map(move |at| byte.wrapping_mul(at as u8 | 1))).collect();
        let encoders: [(&str, Encode); 4] = [("gzip", gzip), ("deflate", zlib), ("deflate", raw), ("zstd", zstd)];
        let names: Vec<String> = encodings.iter().map(|index| encoders[*index].0.to_owned()).collect();
        let encoded = encodings.iter().fold(bytes.clone(), |bytes, index| encoders[*index].1(&bytes));
        let mut decoder = decode(&encoded[..], &names, Limit::declared(bytes.len() as u64)).unwrap();
        let (mut found, mut buffer) = (Vec::new(), vec![0; at_once]);
        while found.len() < bytes.len() {
            let n_bytes = decoder.read(&mut buffer).unwrap();
            prop_assert!(n_bytes != 0);
            found.extend_from_slice(&buffer[..n_bytes]);
        }
        prop_assert_eq!(decoder.read(&mut buffer).unwrap(), 0);
        prop_assert!(found == bytes);
        prop_assert_eq!(decoder.encoded_bytes(), encoded.len() as u64);
    }

    #[test]
    fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..300), encoding in "gzip|deflate|zstd|br") {
        let limit = Limit { allowance: 1 << 20, ..Limit::default() };
        let _ = read_all(&bytes[..], &encoding, limit);
    }

    #[test]
    fn damaged_bodies_end(at in any::<proptest::sample::Index>(), bit in 0..8_u32, which in 1..8_usize) {
        let (encodings, mut encoded) = bodies().swap_remove(which);
        let at = at.index(encoded.len());
        encoded[at] ^= 1 << bit;
        let limit = Limit { allowance: 1 << 20, ..Limit::default() };
        let _ = read_all(&encoded[..], encodings, limit);
    }
}
