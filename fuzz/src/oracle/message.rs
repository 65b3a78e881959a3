//! Arbitrary bytes as the data that a peer sends, frame by frame, without a connection: frames, messages, and tensors in frames. What
//! is accepted is the same after writing and reading it again.

use carton_runner_interface::fuzzing::{Said, frame, passed_on, write_frame};

use super::same::is_same;

/// The largest frame. Nothing is allocated for a frame before it arrives.
const FRAME_CAP: u64 = 1 << 20;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(mut stream: &[u8]) -> bool {
    let mut is_accepted = true;
    while let Ok(Some((json, body, rest))) = frame(stream, FRAME_CAP) {
        let n_bytes = stream.len() - rest.len();
        assert_eq!(write_frame(json, body, FRAME_CAP).as_deref(), Some(&stream[..n_bytes]));
        is_accepted &= check_message(json, body);
        stream = rest;
    }
    is_accepted && stream.is_empty()
}

fn check_message(json: &[u8], body: &[u8]) -> bool {
    let Ok(said) = Said::parse(json) else { return false };
    assert!(std::str::from_utf8(json).is_ok());
    if let Some(written) = said.to_json() {
        let written = written.expect("it was read");
        let again = Said::parse(&written).expect("it was written");
        assert!(again == said, "{}", String::from_utf8_lossy(&written));
    }
    let Some(tensors) = said.tensors(body) else { return true };
    if let Ok(tensors) = &tensors {
        let again = passed_on(tensors).expect("they were read");
        assert!(again.len() == tensors.len());
        for ((name, one), (other_name, other)) in tensors.iter().zip(&again) {
            assert!(name == other_name && is_same(one, other), "{name:?}");
        }
    }
    tensors.is_ok()
}
