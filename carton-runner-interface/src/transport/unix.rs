//! Unix stream sockets. Reads are always `recvmsg`, because a plain read drops the descriptors that were passed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    Shutdown,
};

/// The kernel's limit for one message (SCM_MAX_FD).
const DESCRIPTORS_PER_MESSAGE: usize = 253;

#[cfg(target_os = "linux")]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::DONTWAIT.union(RecvFlags::CMSG_CLOEXEC);
#[cfg(not(target_os = "linux"))]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::DONTWAIT;

#[cfg(target_os = "linux")]
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(not(target_os = "linux"))]
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT;

pub(super) fn try_send(socket: &OwnedFd, parts: [&[u8]; 2], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    if descriptors.is_empty() {
        return send(socket, &parts.map(IoSlice::new), &mut SendAncillaryBuffer::default());
    }
    let n_descriptors = descriptors.len().min(DESCRIPTORS_PER_MESSAGE);
    let borrowed: Vec<_> = descriptors[..n_descriptors].iter().map(AsFd::as_fd).collect();
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    let sent = if n_descriptors < descriptors.len() {
        // More descriptors than one message carries: spread them over the first bytes of the frame.
        let first = parts.into_iter().find_map(|part| part.get(..1)).unwrap_or_default();
        send(socket, &[IoSlice::new(first)], &mut ancillary)?
    } else {
        send(socket, &parts.map(IoSlice::new), &mut ancillary)?
    };
    drop(descriptors.drain(..n_descriptors));
    Ok(sent)
}

fn send(socket: &OwnedFd, parts: &[IoSlice<'_>], ancillary: &mut SendAncillaryBuffer<'_, '_, '_>) -> io::Result<usize> {
    loop {
        match rustix::net::sendmsg(socket, parts, ancillary, SEND_FLAGS) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

pub(super) fn wait_writable(socket: &OwnedFd) -> io::Result<()> {
    wait(socket, PollFlags::OUT)
}

fn wait(socket: &OwnedFd, what: PollFlags) -> io::Result<()> {
    let mut poll = [PollFd::new(socket, what)];
    loop {
        match rustix::event::poll(&mut poll, None) {
            Err(Errno::INTR) => {}
            result => return Ok(result.map(drop)?),
        }
    }
}

/// Whether there is something to read, or the connection is over.
pub(super) fn is_readable(socket: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&Timespec::default()))? > 0)
}

pub(super) fn shut_down(socket: &OwnedFd) {
    // A socket that is not connected any more has nothing left to shut down.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    loop {
        match try_receive(socket, buffer, descriptors)? {
            Some(n_bytes) => return Ok(n_bytes),
            // Waits in `poll`, because a thread that blocks in `recvmsg` is also woken each time the peer reads what was sent to it.
            None => wait(socket, PollFlags::IN)?,
        }
    }
}

/// As `receive`; `None` if there are no bytes now.
pub(super) fn try_receive(
    socket: &OwnedFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<Option<usize>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
    loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let result = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, RECEIVE_FLAGS);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received.inspect(close_on_exec));
            }
        }
        match result {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            // The peer closed the connection before it read all bytes of this side. That is an end like any other.
            Err(Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN) => return Ok(Some(0)),
            result => return Ok(Some(result?.bytes)),
        }
    }
}

#[cfg(target_os = "linux")]
fn close_on_exec(_: &OwnedFd) {}

/// Where `recvmsg` cannot set the flag, set it right after.
#[cfg(not(target_os = "linux"))]
fn close_on_exec(descriptor: &OwnedFd) {
    let _ = rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC);
}
