//! The transports of frames: a Unix socket, or a pair of pipes inside one process for tests.
//!
//! A transport is a stream of bytes that also carries descriptors. These arrive in order, each no later than the first byte that it
//! was sent with. [`reader`] divides the stream into frames.

mod in_memory;
pub(crate) mod reader;
pub(crate) mod turn;
mod unix;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// One end of a connection: a connected Unix stream socket, or one of [`Transport::in_memory`].
///
/// ```
/// use carton_runner_interface::Transport;
/// let (host, runner) = std::os::unix::net::UnixStream::pair()?;
/// let (host, runner) = (Transport::from(host), Transport::from(runner));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Transport(End);

enum End {
    Unix(OwnedFd),
    InMemory(in_memory::End),
}

impl From<UnixStream> for Transport {
    fn from(stream: UnixStream) -> Self {
        Self::from(OwnedFd::from(stream))
    }
}

impl From<OwnedFd> for Transport {
    /// `socket` is a connected Unix stream socket.
    fn from(socket: OwnedFd) -> Self {
        Self(End::Unix(socket))
    }
}

impl Transport {
    /// Creates two connected ends inside one process. Their pipes pass descriptors as objects.
    #[must_use]
    pub fn in_memory() -> (Self, Self) {
        let (one, other) = in_memory::pair();
        (Self(End::InMemory(one)), Self(End::InMemory(other)))
    }

    /// The two directions.
    pub(crate) fn split(self) -> (Sender, Receiver) {
        match self.0 {
            End::Unix(socket) => {
                let socket = Arc::new(socket);
                (Sender::Unix(Arc::clone(&socket)), Receiver::Unix(socket))
            }
            End::InMemory(end) => (Sender::InMemory(end.clone()), Receiver::InMemory(end)),
        }
    }
}

/// The direction to the peer. Clones share it.
#[derive(Clone)]
pub(crate) enum Sender {
    Unix(Arc<OwnedFd>),
    InMemory(in_memory::End),
}

impl Sender {
    /// Sends as much as possible without blocking, with the descriptors on the first byte, and removes the descriptors that were sent from
    /// `descriptors`. Fails with [`io::ErrorKind::WouldBlock`] if nothing can be sent.
    pub(crate) fn try_send(&self, parts: [&[u8]; 2], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => unix::try_send(socket, parts, descriptors),
            Self::InMemory(end) => end.try_send(parts, descriptors),
        }
    }

    /// Blocks until more can be sent, or the connection is over.
    pub(crate) fn wait_writable(&self) -> io::Result<()> {
        match self {
            Self::Unix(socket) => unix::wait_writable(socket),
            Self::InMemory(end) => end.wait_writable(),
        }
    }

    /// Ends both directions at once. Threads that block in them wake up.
    pub(crate) fn shut_down(&self) {
        match self {
            Self::Unix(socket) => unix::shut_down(socket),
            Self::InMemory(end) => end.shut_down(),
        }
    }
}

/// The direction from the peer.
pub(crate) enum Receiver {
    Unix(Arc<OwnedFd>),
    InMemory(in_memory::End),
}

impl Receiver {
    /// Blocks until there are bytes, and takes at most `buffer.len()` of them and the descriptors that came with them. Returns 0 at the
    /// end of the connection, also if it was reset.
    pub(crate) fn receive(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => unix::receive(socket, buffer, descriptors),
            Self::InMemory(end) => end.receive(buffer, descriptors),
        }
    }

    /// As [`receive`](Self::receive), without blocking. `None` if there are no bytes now, or if the transport cannot tell.
    pub(crate) fn try_receive(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<Option<usize>> {
        match self {
            Self::Unix(socket) => unix::try_receive(socket, buffer, descriptors),
            Self::InMemory(_) => Ok(None),
        }
    }

    /// Whether there is something to read, or the connection is over; `None` if the transport cannot tell.
    pub(crate) fn is_readable(&self) -> Option<bool> {
        match self {
            Self::Unix(socket) => unix::is_readable(socket).ok(),
            Self::InMemory(_) => None,
        }
    }
}
