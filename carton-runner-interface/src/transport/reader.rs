//! Reads frames from a transport.

use std::io;
use std::os::fd::OwnedFd;

use carton_tensor::AlignedBytes;

use super::Receiver;
use crate::frame::{Frame, HEADER_LENGTH, Header};
use crate::protocol_error::ProtocolError;

/// The size of the buffer into which small frames are read ahead.
const BUFFER_LENGTH: usize = 64 << 10;

/// The most descriptors that may wait to be claimed.
const DESCRIPTOR_CAP: usize = 4096;

/// Why no more frames come.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The peer closed its end, between frames or inside one.
    #[error("the connection ended")]
    EndOfFile,
    /// The peer broke the framing.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// An error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The next frame, for a thread that must not wait.
pub(crate) enum TryNext {
    Frame(Frame),
    /// It has not arrived whole.
    NotYet,
    /// It comes with descriptors, or is longer than the buffer: for a thread that may wait.
    ToBeWaitedFor,
}

/// What the buffer has of the next frame.
enum Buffered {
    Part,
    Whole,
    /// The frame is longer than the buffer.
    TooLong,
}

/// Reads frames, and keeps the descriptors that came with them until a message claims them.
pub(crate) struct FrameReader {
    receiver: Receiver,
    frame_cap: u64,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    descriptors: Vec<OwnedFd>,
}

impl FrameReader {
    pub(crate) fn new(receiver: Receiver, frame_cap: u64) -> Self {
        Self { receiver, frame_cap, buffer: vec![0; BUFFER_LENGTH], start: 0, end: 0, descriptors: Vec::new() }
    }

    /// Blocks until a whole frame has arrived.
    ///
    /// Closes descriptors that no message claimed, as soon as no buffered byte is left that could belong to a message that names them.
    pub(crate) fn next(&mut self) -> Result<Frame, ReadError> {
        if self.start == self.end {
            self.descriptors.clear();
        }
        while self.end - self.start < HEADER_LENGTH {
            self.fill()?;
        }
        let mut header = [0; HEADER_LENGTH];
        header.copy_from_slice(&self.buffer[self.start..self.start + HEADER_LENGTH]);
        let header = Header::parse(header, self.frame_cap)?;
        self.start += HEADER_LENGTH;
        let mut json = vec![0; header.json];
        self.read_exact(&mut json)?;
        // Memory may be short even for frames far below the cap.
        let body = AlignedBytes::try_zeroed(header.body);
        let mut body = body.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.read_exact(body.as_mut_slice())?;
        Ok(Frame { json, body })
    }

    /// Returns the next frame if it has arrived whole. Never blocks, and closes no descriptor, which can block, too.
    pub(crate) fn try_next(&mut self) -> Result<TryNext, ReadError> {
        let mut has_received = false;
        loop {
            if !self.descriptors.is_empty() {
                return Ok(TryNext::ToBeWaitedFor);
            }
            match self.buffered()? {
                Buffered::Whole => return self.next().map(TryNext::Frame),
                Buffered::TooLong => return Ok(TryNext::ToBeWaitedFor),
                Buffered::Part if has_received => return Ok(TryNext::NotYet),
                Buffered::Part => {}
            }
            self.make_room();
            match self.receiver.try_receive(&mut self.buffer[self.end..], &mut self.descriptors)? {
                Some(n_bytes) => self.end += received(n_bytes, &self.descriptors)?,
                None => return Ok(TryNext::NotYet),
            }
            has_received = true;
        }
    }

    /// What the buffer has of the next frame.
    fn buffered(&self) -> Result<Buffered, ReadError> {
        let Some((header, rest)) = self.buffer[self.start..self.end].split_first_chunk() else {
            return Ok(Buffered::Part);
        };
        let header = Header::parse(*header, self.frame_cap)?;
        let length = header.json.saturating_add(header.body);
        Ok(match length {
            _ if length > BUFFER_LENGTH - HEADER_LENGTH => Buffered::TooLong,
            _ if length > rest.len() => Buffered::Part,
            _ => Buffered::Whole,
        })
    }

    /// Whether bytes were read that belong to the next frames.
    pub(crate) fn has_read_ahead(&self) -> bool {
        self.start < self.end
    }

    /// Whether [`next`](Self::next) has something to read; `None` if the transport cannot tell.
    pub(crate) fn is_readable(&self) -> Option<bool> {
        if self.has_read_ahead() { Some(true) } else { self.receiver.is_readable() }
    }

    /// Takes the next `n_descriptors` descriptors in the order in which they came.
    pub(crate) fn claim(&mut self, message: &'static str, n_descriptors: usize) -> Result<Vec<OwnedFd>, ProtocolError> {
        let found = self.descriptors.len();
        if found < n_descriptors {
            return Err(ProtocolError::MissingDescriptors { message, named: n_descriptors, found });
        }
        Ok(self.descriptors.drain(..n_descriptors).collect())
    }

    /// Copies the buffered bytes and reads the rest in place. Never reads past the end of the frame.
    fn read_exact(&mut self, target: &mut [u8]) -> Result<(), ReadError> {
        let n_buffered = target.len().min(self.end - self.start);
        let (head, mut rest) = target.split_at_mut(n_buffered);
        head.copy_from_slice(&self.buffer[self.start..self.start + n_buffered]);
        self.start += n_buffered;
        while !rest.is_empty() {
            let n_bytes = receive(&self.receiver, rest, &mut self.descriptors)?;
            rest = rest.split_at_mut(n_bytes).1;
        }
        Ok(())
    }

    /// Moves the buffered bytes to the begin of the buffer.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }

    fn fill(&mut self) -> Result<(), ReadError> {
        self.make_room();
        self.end += receive(&self.receiver, &mut self.buffer[self.end..], &mut self.descriptors)?;
        Ok(())
    }
}

fn receive(receiver: &Receiver, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> Result<usize, ReadError> {
    received(receiver.receive(buffer, descriptors)?, descriptors)
}

/// Checks what was received, and returns the number of bytes.
fn received(n_bytes: usize, descriptors: &[OwnedFd]) -> Result<usize, ReadError> {
    if descriptors.len() > DESCRIPTOR_CAP {
        return Err(ProtocolError::TooManyDescriptors { cap: DESCRIPTOR_CAP }.into());
    }
    if n_bytes == 0 { Err(ReadError::EndOfFile) } else { Ok(n_bytes) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::transport::Transport;

    fn pair() -> (UnixStream, FrameReader) {
        let (peer, ours) = UnixStream::pair().unwrap();
        (peer, FrameReader::new(Transport::from(ours).split().1, 1 << 20))
    }

    fn frame(json: &[u8], body: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + json.len() as u64 + body.len() as u64).to_le_bytes().to_vec();
        bytes.extend((json.len() as u32).to_le_bytes());
        bytes.extend([json, body].concat());
        bytes
    }

    #[test]
    fn frames_that_come_in_pieces_are_read_without_waiting() {
        let sent = [frame(b"{}", b"one"), frame(b"[1]", b"")].concat();
        let first = frame(b"{}", b"one").len();
        for cut in 0..=sent.len() {
            let (mut peer, mut reader) = pair();
            let mut found = Vec::new();
            for (part, n_whole) in
                [(&sent[..cut], usize::from(cut >= first) + usize::from(cut == sent.len())), (&sent[cut..], 2)]
            {
                peer.write_all(part).unwrap();
                while let TryNext::Frame(frame) = reader.try_next().unwrap() {
                    found.push((frame.json, frame.body.as_slice().to_vec()));
                }
                assert_eq!(found.len(), n_whole, "cut at {cut}");
            }
            assert_eq!(found, [(b"{}".to_vec(), b"one".to_vec()), (b"[1]".to_vec(), Vec::new())]);
            assert!(!reader.has_read_ahead());
        }
    }

    #[test]
    fn a_frame_longer_than_the_buffer_is_left_to_who_may_wait() {
        let (mut peer, mut reader) = pair();
        let body = vec![7; BUFFER_LENGTH];
        let sent = frame(b"{}", &body);
        let sending = std::thread::spawn(move || {
            peer.write_all(&sent).unwrap();
            peer
        });
        while matches!(reader.try_next().unwrap(), TryNext::NotYet) {}
        assert!(matches!(reader.try_next().unwrap(), TryNext::ToBeWaitedFor));
        assert_eq!(reader.next().unwrap().body.as_slice().to_vec(), body);
        drop(sending.join().unwrap());
        assert!(matches!(reader.try_next(), Err(ReadError::EndOfFile)));
    }

    #[test]
    fn a_frame_beyond_the_cap_is_refused_at_its_header() {
        let (mut peer, mut reader) = pair();
        peer.write_all(&(1_u64 << 40).to_le_bytes()).unwrap();
        assert!(matches!(reader.try_next().unwrap(), TryNext::NotYet));
        peer.write_all(&2_u32.to_le_bytes()).unwrap();
        assert!(matches!(reader.try_next(), Err(ReadError::Protocol(_))));
    }

    #[test]
    fn a_frame_with_descriptors_is_left_to_who_may_wait() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (sender, _) = Transport::from(theirs).split();
        let mut reader = FrameReader::new(Transport::from(ours).split().1, 1 << 20);
        let mut descriptors = vec![OwnedFd::from(UnixStream::pair().unwrap().0)];
        sender.try_send([&frame(b"{}", b""), &frame(b"[]", b"")], &mut descriptors).unwrap();
        for _ in 0..2 {
            assert!(matches!(reader.try_next().unwrap(), TryNext::ToBeWaitedFor));
        }
        assert!(reader.has_read_ahead());
        assert_eq!(reader.next().unwrap().json, b"{}");
        assert_eq!(reader.claim("map", 1).unwrap().len(), 1);
        assert!(matches!(reader.try_next().unwrap(), TryNext::Frame(_)));
    }
}
