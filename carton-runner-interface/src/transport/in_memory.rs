//! Pipes inside one process. Their capacity is small, so that writers meet a full pipe as often as on a busy socket.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The capacity of one direction in bytes.
const CAPACITY: usize = 64 << 10;

/// One end: it writes to one pipe and reads from the other.
#[derive(Clone)]
pub(crate) struct End {
    outgoing: Arc<Pipe>,
    incoming: Arc<Pipe>,
    _last: Arc<ShutDownOnDrop>,
}

struct ShutDownOnDrop([Arc<Pipe>; 2]);

impl Drop for ShutDownOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(|pipe| pipe.close());
    }
}

#[derive(Default)]
struct Pipe {
    contents: Mutex<Contents>,
    changed: Condvar,
}

#[derive(Default)]
struct Contents {
    bytes: VecDeque<u8>,
    /// Descriptors, each with the position in the stream of the byte it was sent with.
    descriptors: VecDeque<(u64, OwnedFd)>,
    read: u64,
    closed: bool,
}

pub(super) fn pair() -> (End, End) {
    let (one, other) = (Arc::new(Pipe::default()), Arc::new(Pipe::default()));
    let end = |outgoing: &Arc<Pipe>, incoming: &Arc<Pipe>| End {
        outgoing: Arc::clone(outgoing),
        incoming: Arc::clone(incoming),
        _last: Arc::new(ShutDownOnDrop([Arc::clone(outgoing), Arc::clone(incoming)])),
    };
    (end(&one, &other), end(&other, &one))
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl End {
    pub(super) fn try_send(&self, parts: [&[u8]; 2], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut contents = self.outgoing.lock();
        if contents.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = CAPACITY.saturating_sub(contents.bytes.len());
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let position = contents.read + contents.bytes.len() as u64;
        contents.descriptors.extend(descriptors.drain(..).map(|descriptor| (position, descriptor)));
        let mut sent = 0;
        for part in parts {
            let n_bytes = part.len().min(room - sent);
            contents.bytes.extend(&part[..n_bytes]);
            sent += n_bytes;
        }
        self.outgoing.changed.notify_all();
        Ok(sent)
    }

    pub(super) fn wait_writable(&self) -> io::Result<()> {
        let mut contents = self.outgoing.lock();
        while contents.bytes.len() >= CAPACITY && !contents.closed {
            self.outgoing.changed.wait(&mut contents);
        }
        Ok(())
    }

    pub(super) fn receive(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut contents = self.incoming.lock();
        while contents.bytes.is_empty() && !contents.closed {
            self.incoming.changed.wait(&mut contents);
        }
        let n_bytes = contents.bytes.len().min(buffer.len());
        for (byte, received) in buffer.iter_mut().zip(contents.bytes.drain(..n_bytes)) {
            *byte = received;
        }
        contents.read += n_bytes as u64;
        while contents.descriptors.front().is_some_and(|&(position, _)| position < contents.read) {
            descriptors.extend(contents.descriptors.pop_front().map(|(_, descriptor)| descriptor));
        }
        self.incoming.changed.notify_all();
        Ok(n_bytes)
    }

    pub(super) fn shut_down(&self) {
        self.outgoing.close();
        self.incoming.close();
    }
}
