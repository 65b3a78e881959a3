//! A peer that sends the content of an input over a socket.
//!
//! The input consists of frames, separated by a byte that does not occur in text. A frame is JSON, or JSON, [`BODY`] and the bytes that
//! follow the JSON. The lengths in a frame are computed, because fuzzing would rarely guess them. An empty frame makes the peer wait
//! for a frame of the other side. An input that begins with [`BODY`] is sent unchanged.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::pieces::SEPARATOR;

/// The separator between the JSON of a frame and its bytes.
pub const BODY: u8 = 0xFE;

/// How long the peer waits for a frame that may never come.
const PATIENCE: Duration = Duration::from_millis(10);
/// The most frames of an input that are sent.
const MAX_FRAMES: usize = 64;
/// The size of a region of shared memory that the peer provides.
const REGION: usize = 1 << 16;

/// Sends all of `input`, and then reads until the other side closes.
pub fn talk(mut socket: UnixStream, input: &[u8]) {
    socket.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    socket.set_write_timeout(Some(PATIENCE)).expect("it is a socket");
    match input.strip_prefix(&[BODY]) {
        Some(stream) => drop(send(&socket, stream, &[])),
        None => {
            for piece in input.split(|&byte| byte == SEPARATOR).take(MAX_FRAMES) {
                if piece.is_empty() {
                    wait(&mut socket);
                } else if !send(&socket, &frame(piece), &descriptors(piece)) {
                    break;
                }
            }
        }
    }
    // The other side reads all that was sent, and then the end of the stream.
    let _ = socket.shutdown(Shutdown::Write);
    socket.set_read_timeout(None).expect("it is a socket");
    let _ = std::io::copy(&mut socket, &mut std::io::sink());
}

/// Makes a frame with correct lengths.
fn frame(piece: &[u8]) -> Vec<u8> {
    let position = piece.iter().position(|&byte| byte == BODY);
    let (json, body) = position.map_or((piece, &[][..]), |position| (&piece[..position], &piece[position + 1..]));
    let mut frame = (4 + (json.len() + body.len()) as u64).to_le_bytes().to_vec();
    frame.extend((json.len() as u32).to_le_bytes());
    frame.extend(json);
    frame.extend(body);
    frame
}

/// Returns the descriptors to send with a message, depending on the words in it.
fn descriptors(piece: &[u8]) -> Vec<OwnedFd> {
    let has = |word: &[u8]| piece.windows(word.len()).any(|window| window == word);
    if has(b"\"map\"") {
        let region = memfd_create("region", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("there is memory");
        rustix::fs::ftruncate(&region, REGION as u64).expect("there is memory");
        fcntl_add_seals(&region, SealFlags::SHRINK | SealFlags::GROW).expect("it can be sealed");
        return vec![region];
    }
    let file = || OwnedFd::from(File::open("/proc/self/exe").expect("this process is a file's"));
    if has(b"\"descriptor\"") { vec![file(), file()] } else { Vec::new() }
}

fn send(socket: &UnixStream, mut bytes: &[u8], descriptors: &[OwnedFd]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)));
    }
    while !bytes.is_empty() {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(n_bytes) => bytes = &bytes[n_bytes..],
            Err(_) => return false,
        }
        ancillary.clear();
    }
    true
}

/// Reads one frame and discards it.
fn wait(socket: &mut UnixStream) {
    let mut length = [0; 8];
    if socket.read_exact(&mut length).is_ok() {
        let _ = std::io::copy(&mut socket.take(u64::from_le_bytes(length)), &mut std::io::sink());
    }
}
