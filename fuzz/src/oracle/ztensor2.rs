//! Arbitrary bytes as a file of zTensor 2, with a manifest whose hash is made right, so that what it says is read. Of a file that is accepted, each part
//! is inside of the file; reading it whole and in pieces gives the same bytes or the same error; the verifier finds an error if and only if reading
//! does; tensors have the type and shape that were listed. An error shows no control characters.

use std::ops::ControlFlow;

use carton_tensor::context::CancelToken;
use carton_tensor::ztensor::Checks;
use carton_tensor::ztensor2::{Digest, Footer, Reader, ZTensor2Error};

/// The most bytes of dense forms of sparse tensors, because a few bytes can represent any number.
const MAX_DENSE: u64 = 1 << 20;
/// The most bytes of a part that is read whole. A few bytes of zstd can represent 32,768 times as many.
const MAX_PART: u64 = 1 << 24;

/// Checks these bytes, and then the same bytes with the right hash. Returns whether any are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let is_accepted = check_file(bytes);
    repaired(bytes).map_or(is_accepted, |repaired| check_file(&repaired) | is_accepted)
}

/// Writes the hash of the manifest into the footer, if there is a manifest.
fn repaired(bytes: &[u8]) -> Option<Vec<u8>> {
    let footer: &[u8; Footer::LENGTH] = bytes.last_chunk()?;
    let range = Footer::parse(footer, bytes.len() as u64).ok()??.manifest();
    let manifest = bytes.get(range.start as usize..range.end as usize)?;
    let hash = Digest::xxh3(manifest).to_string();
    let hash = u64::from_str_radix(hash.strip_prefix("xxh3:")?, 16).ok()?;
    let mut repaired = bytes.to_vec();
    let at = repaired.len() - Footer::LENGTH + 16;
    repaired[at..at + 8].copy_from_slice(&hash.to_le_bytes());
    Some(repaired)
}

fn text(error: &ZTensor2Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let text: String = causes.map(ToString::to_string).collect();
    assert!(!text.contains(|char: char| char.is_control()), "{text}");
    text
}

fn check_file(bytes: &[u8]) -> bool {
    let reader = match Reader::new(bytes.to_vec().into(), "input.zt", None) {
        Ok(reader) => reader.checking(Checks::ALL),
        Err(error) => {
            text(&error);
            return false;
        }
    };
    let _ = reader.manifest().attributes();
    let (mut is_damaged, mut is_whole) = (false, true);
    for object in reader.objects() {
        assert_eq!(reader.object(object.name()).unwrap().name(), object.name());
        let _ = object.attributes();
        for part in object.parts() {
            let stored = part.stored();
            assert!(stored.start <= stored.end && stored.end <= bytes.len() as u64 - 40);
            if part.decoded_length() > MAX_PART || part.unknown_encoding().is_some() {
                is_whole = false;
                continue;
            }
            let whole = reader.read_part(&part, Checks::ALL);
            let mut pieces = Vec::new();
            let visited = reader.visit_part(&part, Checks::ALL, 4099, &mut |piece| {
                pieces.extend_from_slice(piece);
                ControlFlow::Continue(())
            });
            match (&whole, &visited) {
                (Ok(whole), Ok(())) => assert!(pieces == **whole && pieces.len() as u64 == part.decoded_length()),
                (Err(whole), Err(visited)) => assert_eq!(text(whole), text(visited)),
                _ => panic!("{whole:?} {visited:?}"),
            }
            is_damaged |= whole.is_err();
        }
        match reader.read(&object, MAX_DENSE) {
            Ok(tensor) => assert_eq!((Some(tensor.dtype()), tensor.shape()), (object.element_type(), object.shape())),
            Err(error) => {
                text(&error);
                is_damaged |= error.is_malformed();
            }
        }
    }
    if is_whole {
        let verified = reader.verify_some(|_| true, &CancelToken::default()).unwrap();
        assert_eq!(verified.failures.is_empty(), !is_damaged, "{:?}", verified.failures);
    }
    true
}
