//! The turn to read, where several threads share a connection.
//!
//! A thread that has read a call runs it at once, and another thread has to read meanwhile. Waking a thread for that on each call
//! would cost more than the call. On Linux the threads wait for a one-shot event of an epoll descriptor: no thread is woken before
//! there is something to read, and then only the one that began to wait last, whose caches are warm. On other systems, and inside
//! one process, the lock on the reader is the turn.

use std::io;

use super::Receiver;

/// The turn to read one connection.
pub(crate) struct Turn(Option<imp::Epoll>);

impl Turn {
    /// Creates a turn that no thread can take before it is [passed](Self::pass) for the first time.
    pub(crate) fn new(receiver: &Receiver) -> io::Result<Self> {
        Ok(Self(match receiver {
            Receiver::Unix(socket) => imp::Epoll::new(socket)?,
            Receiver::InMemory(_) => None,
        }))
    }

    /// Whether threads take turns. On systems where they do not, the lock on the reader is the turn.
    pub(crate) fn is_taken_in_turns(&self) -> bool {
        self.0.is_some()
    }

    /// Blocks until this thread may have the turn. It has the turn when it also holds the lock on the reader.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), imp::Epoll::wait)
    }

    /// Lets another thread read. `more` says that bytes were read ahead. The caller must hold the lock on the reader, so that turns
    /// are passed in the order in which bytes were read.
    pub(crate) fn pass(&self, more: bool) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |epoll| epoll.pass(more))
    }

    /// Takes the turn without waiting. The caller must hold the lock on the reader. No other thread is woken before the turn is passed
    /// again. Returns `false` if turns cannot be taken on this system.
    pub(crate) fn take(&self) -> io::Result<bool> {
        self.0.as_ref().map_or(Ok(false), |epoll| epoll.take().map(|()| true))
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::io::Errno;

    pub(super) struct Epoll {
        epoll: OwnedFd,
        socket: Arc<OwnedFd>,
    }

    impl Epoll {
        pub(super) fn new(socket: &Arc<OwnedFd>) -> io::Result<Option<Self>> {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&epoll, socket, EventData::new_u64(0), EventFlags::ONESHOT)?;
            Ok(Some(Self { epoll, socket: Arc::clone(socket) }))
        }

        pub(super) fn wait(&self) -> io::Result<()> {
            let mut events = [MaybeUninit::uninit(); 1];
            loop {
                match epoll::wait(&self.epoll, &mut events, None) {
                    Err(Errno::INTR) | Ok(([], _)) => {}
                    Ok(_) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        }

        pub(super) fn pass(&self, more: bool) -> io::Result<()> {
            // The kernel does not know about bytes that were read ahead. So the next thread is also woken when the socket is
            // writable, which it will be, because hosts always read.
            let interest = if more { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            self.set(interest)
        }

        pub(super) fn take(&self) -> io::Result<()> {
            self.set(EventFlags::empty())
        }

        fn set(&self, interest: EventFlags) -> io::Result<()> {
            Ok(epoll::modify(&self.epoll, &self.socket, EventData::new_u64(0), interest | EventFlags::ONESHOT)?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    pub(super) enum Epoll {}

    impl Epoll {
        pub(super) fn new(_: &Arc<OwnedFd>) -> io::Result<Option<Self>> {
            Ok(None)
        }

        pub(super) fn wait(&self) -> io::Result<()> {
            match *self {}
        }

        pub(super) fn pass(&self, _: bool) -> io::Result<()> {
            match *self {}
        }

        pub(super) fn take(&self) -> io::Result<()> {
            match *self {}
        }
    }
}
