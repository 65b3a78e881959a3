//! The names of content encodings, a separator, and arbitrary bytes as an encoded body. The decoded content is the same however it is
//! read, must have exactly the declared length, and equals the output of other decoders.

use std::io::Read;

use carton_network::encoding::{Limit, decode};

use crate::generate::pieces::head_and_rest;

/// The most bytes of decoded content. Encoded bytes can represent any number.
const MAX_LENGTH: u64 = 1 << 20;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(input: &[u8]) -> bool {
    let (names, body) = head_and_rest(input);
    let Ok(names) = std::str::from_utf8(names) else { return false };
    let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
    let limit = Limit { declared: None, allowance: MAX_LENGTH, ratio: 1, absolute: MAX_LENGTH };
    let Ok(content) = decoded(body, &names, limit, 1 << 16) else { return false };
    let length = content.len() as u64;
    if content.len() <= 1 << 12 {
        assert_eq!(decoded(body, &names, limit, 1).expect("it was read in larger pieces"), content);
    }
    let declared = |length| decoded(body, &names, Limit { declared: Some(length), ..limit }, 1 << 16);
    assert_eq!(declared(length).expect("that is its length"), content);
    assert!(declared(length + 1).is_err());
    assert!(length == 0 || declared(length - 1).is_err());
    compare_with_peer(&names, body, &content);
    true
}

fn decoded(body: &[u8], names: &[String], limit: Limit, piece: usize) -> std::io::Result<Vec<u8>> {
    let mut decoder = decode(body, names, limit).map_err(std::io::Error::other)?;
    let (mut content, mut buffer) = (Vec::new(), vec![0; piece]);
    loop {
        match decoder.read(&mut buffer)? {
            0 => return Ok(content),
            n_bytes => content.extend_from_slice(&buffer[..n_bytes]),
        }
        assert!(content.len() as u64 <= MAX_LENGTH);
    }
}

/// Checks that another decoder gives the same content, if it accepts the body.
fn compare_with_peer(names: &[String], body: &[u8], content: &[u8]) {
    let [name] = names else { return };
    let mut found = Vec::new();
    let read = match name.as_str() {
        "gzip" => flate2::read::MultiGzDecoder::new(body).take(MAX_LENGTH + 1).read_to_end(&mut found),
        "zstd" => match zstd::stream::read::Decoder::new(body) {
            Ok(decoder) => decoder.take(MAX_LENGTH + 1).read_to_end(&mut found),
            Err(error) => Err(error),
        },
        _ => return,
    };
    if read.is_ok() {
        assert_eq!(found, content);
    }
}
