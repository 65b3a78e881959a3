//! What carries frames: a Unix socket, or channels inside one process for tests.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// One end of a connection.
pub struct Transport {
    _end: OwnedFd,
}

impl From<UnixStream> for Transport {
    fn from(stream: UnixStream) -> Self {
        Self::from(OwnedFd::from(stream))
    }
}

/// A connected Unix stream socket.
impl From<OwnedFd> for Transport {
    fn from(socket: OwnedFd) -> Self {
        Self { _end: socket }
    }
}

impl Transport {
    /// Two ends inside one process, joined by channels that pass descriptors as objects.
    #[must_use]
    pub fn in_memory() -> (Self, Self) {
        todo!()
    }
}
