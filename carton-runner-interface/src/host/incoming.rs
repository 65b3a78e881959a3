//! The receiving end of a connection, and the turn to read from it.

use std::io;

use parking_lot::Mutex;

use crate::transport::Receiver;
use crate::transport::reader::FrameReader;
use crate::transport::turn::Turn;

/// The receiving end of a connection. Who reads has the turn and the lock.
pub(super) struct Incoming {
    pub(super) reader: Mutex<FrameReader>,
    pub(super) turn: Turn,
}

impl Incoming {
    /// The thread of the connection has the turn first.
    pub(super) fn new(receiver: Receiver, frame_cap: u64) -> io::Result<Self> {
        let turn = Turn::new(&receiver)?;
        Ok(Self { reader: Mutex::new(FrameReader::new(receiver, frame_cap)), turn })
    }
}
