//! Whose turn it is to read, where several threads share a connection.
//!
//! A thread that has read a call runs it at once, and somebody else has to be able to read meanwhile. Waking another
//! thread for that on each call would cost more than the call. On Linux the threads wait on an epoll descriptor for one
//! shot of readiness each: nobody is woken until there is something to read, and then only the thread that waited last,
//! which is the warm one. Elsewhere, and inside one process, the lock on the reader is the turn.

use std::io;

use super::Receiver;

/// The turn at reading one connection.
pub(crate) struct Turn(Option<imp::Epoll>);

impl Turn {
    /// Nobody's turn until it is [passed](Self::pass) for the first time.
    pub(crate) fn new(receiver: &Receiver) -> io::Result<Self> {
        Ok(Self(match receiver {
            Receiver::Unix(socket) => imp::Epoll::new(socket)?,
            Receiver::InMemory(_) => None,
        }))
    }

    /// Blocks until it may be this thread's turn, which it is once it holds the lock on the reader.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), imp::Epoll::wait)
    }

    /// Lets another thread read; `more` says that bytes were read already that are still to be looked at. Not before
    /// the lock on the reader is released.
    pub(crate) fn pass(&self, more: bool) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |epoll| epoll.pass(more))
    }

    /// Takes the turn without waiting for it, for the thread that holds the lock on the reader: nobody else is woken before
    /// the turn is passed again. `false` where turns cannot be taken.
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
            // The kernel does not know of bytes that were read ahead. A socket that can be written to wakes the next
            // thread too, and one that cannot will be, because hosts always read.
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
