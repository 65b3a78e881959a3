//! A peer that writes frames by hand: other versions, other languages, and peers that mean harm.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde_json::{Value, json};

/// One end of a socket pair, spoken to in bytes.
pub struct RawPeer(UnixStream);

/// A frame as bytes.
pub fn frame(json: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + json.len() as u64 + body.len() as u64).to_le_bytes().to_vec();
    bytes.extend((json.len() as u32).to_le_bytes());
    bytes.extend(json.as_bytes());
    bytes.extend(body);
    bytes
}

pub fn hello() -> Value {
    json!({"message": {"hello": {
        "protocol": "carton-runner", "versions": [2], "features": ["shared_memory", "descriptors"],
        "name": "raw", "framework_version": "1.2.3",
    }}})
}

impl RawPeer {
    /// The peer, and the other end.
    pub fn pair() -> (Self, UnixStream) {
        let (raw, other) = UnixStream::pair().unwrap();
        raw.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (Self(raw), other)
    }

    pub fn send_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let mut sent = 0;
        while sent < bytes.len() {
            let parts = [IoSlice::new(&bytes[sent..])];
            match rustix::net::sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(n_bytes) => sent += n_bytes,
                Err(_) => return false,
            }
            ancillary.clear();
        }
        true
    }

    pub fn send(&self, message: &Value) -> bool {
        self.send_bytes(&frame(&message.to_string(), &[]), &[])
    }

    pub fn send_with(&self, message: &Value, body: &[u8], descriptors: &[&OwnedFd]) -> bool {
        let descriptors: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
        self.send_bytes(&frame(&message.to_string(), body), &descriptors)
    }

    /// The next frame: message, bytes, descriptors that came with it. `None` at the end.
    pub fn receive(&self) -> Option<(Value, Vec<u8>, Vec<OwnedFd>)> {
        let mut descriptors = Vec::new();
        let mut header = [0; 12];
        self.read_exact(&mut header, &mut descriptors)?;
        let length = u64::from_le_bytes(header[..8].try_into().unwrap()) as usize;
        let json_length = u32::from_le_bytes(header[8..].try_into().unwrap()) as usize;
        let mut rest = vec![0; length - 4];
        self.read_exact(&mut rest, &mut descriptors)?;
        let body = rest.split_off(json_length);
        Some((serde_json::from_slice(&rest).unwrap(), body, descriptors))
    }

    /// The next frame that has the message `name`; everything before is dropped.
    pub fn receive_named(&self, name: &str) -> (Value, Vec<u8>, Vec<OwnedFd>) {
        loop {
            let received = self.receive().unwrap_or_else(|| panic!("the peer closed before it sent `{name}`"));
            if received.0["message"].get(name).is_some() {
                return received;
            }
        }
    }

    /// Whether the other side closes the connection, after whatever it still sends.
    pub fn is_closed_by_peer(&self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match std::io::Read::read(&mut &self.0, &mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// Ends the connection, as a process that dies does.
    pub fn shut_down(&self) {
        self.0.shutdown(std::net::Shutdown::Both).unwrap();
    }

    fn read_exact(&self, mut target: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> Option<()> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        while !target.is_empty() {
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(target)], &mut ancillary, flags);
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(passed) = message {
                    descriptors.extend(passed);
                }
            }
            let n_bytes = received.ok().filter(|received| received.bytes > 0)?.bytes;
            target = target.split_at_mut(n_bytes).1;
        }
        Some(())
    }
}

/// A memfd sealed as regions have to be.
pub fn region(contents: &[u8], seals: rustix::fs::SealFlags) -> OwnedFd {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, memfd_create};
    let descriptor = memfd_create("raw-peer", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::io::write(&descriptor, contents).unwrap();
    if !seals.is_empty() {
        fcntl_add_seals(&descriptor, seals).unwrap();
    }
    descriptor
}
