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

    fn fill(&mut self) -> Result<(), ReadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        self.end += receive(&self.receiver, &mut self.buffer[self.end..], &mut self.descriptors)?;
        Ok(())
    }
}

fn receive(receiver: &Receiver, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> Result<usize, ReadError> {
    let n_bytes = receiver.receive(buffer, descriptors)?;
    if descriptors.len() > DESCRIPTOR_CAP {
        return Err(ProtocolError::TooManyDescriptors { cap: DESCRIPTOR_CAP }.into());
    }
    if n_bytes == 0 { Err(ReadError::EndOfFile) } else { Ok(n_bytes) }
}
