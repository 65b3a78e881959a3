//! The part of a connection that both sides have: sending, which never blocks a thread that must not block, and shared memory.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use carton_tensor::Tensor;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::dtypes::Dtypes;
use crate::frame::{HEADER_LENGTH, Header, JSON_CAP};
use crate::housekeeper::{Housekeeper, Tick};
use crate::message::{Envelope, Message, Release, Side};
use crate::protocol_error::ProtocolError;
use crate::shared_memory::lending::Lend;
use crate::shared_memory::pool::Region;
use crate::shared_memory::{MemoryListener, SharedMemory};
use crate::tensor_encoding::Encoded;
use crate::transport::Sender;

/// The bytes that may wait for a slow peer. Calls wait while there are more.
const BACKLOG_CAP: usize = 64 << 20;
/// The frames that may wait before the connection is closed, because the peer sends but never reads. Calls wait long before.
const BACKLOG_LIMIT: usize = 1 << 16;
/// The bytes of dropped buffers of the peer that are worth a separate message. Fewer wait for the next message or tick.
const EAGER_RELEASE: u64 = 256 << 20;
/// Time between ticks while buffers come and go. Releases mostly ride on messages and need no tick; a tick in the middle of a call takes
/// the core, and its caches, from the model that runs there.
const BUSY_TICK: Duration = Duration::from_millis(50);
/// Time between ticks while only idle memory is left to be freed.
const IDLE_TICK: Duration = Duration::from_secs(2);

/// The shared half of a connection.
pub(crate) struct Link {
    this: Weak<Self>,
    pub(crate) memory: SharedMemory,
    sender: Sender,
    frame_cap: u64,
    outgoing: Mutex<Outgoing>,
    room: Condvar,
    housekeeper: OnceLock<Arc<Housekeeper>>,
    /// Whether buffers were dropped since the last tick.
    busy: AtomicBool,
    closed: AtomicBool,
    peer_dtypes: OnceLock<Dtypes>,
}

/// Limits of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkOptions {
    /// The largest frame that is sent.
    pub(crate) frame_cap: u64,
    /// The most shared memory of this side.
    pub(crate) pool_cap: u64,
    /// The most shared memory of the peer.
    pub(crate) peer_cap: u64,
}

/// The frames that wait to be sent.
#[derive(Default)]
struct Outgoing {
    backlog: VecDeque<Piece>,
    n_bytes: usize,
    draining: bool,
    failed: bool,
    wakers: Vec<Waker>,
}

/// The rest of a frame that could not be sent at once.
struct Piece {
    parts: [Vec<u8>; 2],
    sent: usize,
    descriptors: Vec<OwnedFd>,
}

impl Piece {
    fn n_left(&self) -> usize {
        self.parts[0].len() + self.parts[1].len() - self.sent
    }
}

/// A message to be sent.
#[derive(Default)]
pub(crate) struct Outbound {
    pub(crate) id: Option<u64>,
    pub(crate) body: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) lends: Vec<Lend>,
    pub(crate) regions: Vec<Arc<Region>>,
    /// Tensors that are not needed any more. They are dropped just before the message is written, so that the message that names buffers
    /// of the peer also releases them.
    pub(crate) parting: Vec<Tensor>,
}

impl Outbound {
    pub(crate) fn of_call(id: u64) -> Self {
        Self { id: Some(id), ..Self::default() }
    }

    /// Adds encoded tensors, and returns their description for the message.
    pub(crate) fn carry(&mut self, encoded: Encoded) -> Vec<crate::message::WireTensor> {
        self.body = encoded.body;
        self.lends = encoded.lends;
        self.regions = encoded.regions;
        self.parting = encoded.borrowed;
        encoded.tensors
    }
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("the connection is closed")]
    Closed,
    #[error("a message of {bytes} bytes is above the limit of {cap}")]
    TooLarge { bytes: u64, cap: u64 },
    #[error("the message cannot be written as JSON")]
    Json(#[source] serde_json::Error),
}

impl Link {
    pub(crate) fn new(side: Side, sender: Sender, options: LinkOptions) -> std::io::Result<Arc<Self>> {
        let LinkOptions { frame_cap, pool_cap, peer_cap } = options;
        let link = Arc::new_cyclic(|this: &Weak<Self>| Self {
            this: this.clone(),
            memory: SharedMemory::new(side, pool_cap, peer_cap, this.clone()),
            sender,
            frame_cap,
            outgoing: Mutex::default(),
            room: Condvar::new(),
            housekeeper: OnceLock::new(),
            busy: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            peer_dtypes: OnceLock::new(),
        });
        let _ = link.housekeeper.set(Housekeeper::start(link.this.clone())?);
        Ok(link)
    }

    /// The dtypes that the peer takes.
    pub(crate) fn peer_dtypes(&self) -> Dtypes {
        self.peer_dtypes.get().copied().unwrap_or_default()
    }

    /// Remembers which dtypes the peer takes, as its hello states.
    pub(crate) fn set_peer_dtypes(&self, dtypes: Dtypes) {
        // There is one hello on a connection.
        let _ = self.peer_dtypes.set(dtypes);
    }

    pub(crate) fn frame_cap(&self) -> u64 {
        self.frame_cap
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock()
    }

    /// The thread for timers; always there once [`new`](Self::new) has returned.
    pub(crate) fn housekeeper(&self) -> Option<&Arc<Housekeeper>> {
        self.housekeeper.get()
    }

    /// Sends a message, or queues what cannot be sent now. Never blocks.
    ///
    /// Holds one lock while it drops tensors that are not needed any more, takes the releases, announces regions, and writes the message.
    /// So a release never overtakes a message that names its buffer, and no message overtakes the announcement of its region.
    pub(crate) fn send(&self, message: Message, outbound: Outbound) -> Result<(), SendError> {
        let Outbound { id, body, descriptors, lends, regions, parting } = outbound;
        let mut outgoing = self.lock();
        if outgoing.failed {
            return Err(SendError::Closed);
        }
        drop(parting);
        let envelope = Envelope { id, release: self.memory.releases.take(), message };
        let framed = serialize(&envelope).and_then(|json| {
            let header = Header::encode(json.len() - HEADER_LENGTH, body.len(), self.frame_cap);
            let bytes = (json.len() + body.len()) as u64;
            let cap = if (json.len() as u64) > JSON_CAP { JSON_CAP } else { self.frame_cap };
            header.map(|header| (header, json)).ok_or(SendError::TooLarge { bytes, cap })
        });
        let (header, mut json) = match framed {
            Ok(framed) => framed,
            Err(error) => {
                self.memory.releases.restore(envelope.release);
                return Err(error);
            }
        };
        json[..HEADER_LENGTH].copy_from_slice(&header);
        for region in regions {
            if let Some(descriptor) = region.take_descriptor() {
                let message = Message::Map { region: region.number, size: region.size() as u64 };
                self.write_message(&mut outgoing, message, vec![descriptor])?;
            }
        }
        for region in self.memory.pool.take_retired() {
            self.write_message(&mut outgoing, Message::Unmap { region }, Vec::new())?;
        }
        self.memory.lent.lend(lends);
        self.write(&mut outgoing, [json, body], descriptors)
    }

    /// Sends a message that belongs to no call and carries nothing.
    pub(crate) fn send_plain(&self, message: Message) -> Result<(), SendError> {
        self.send(message, Outbound::default())
    }

    fn write_message(
        &self,
        outgoing: &mut Outgoing,
        message: Message,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), SendError> {
        let mut json = serialize(&Envelope { id: None, release: Vec::new(), message })?;
        let too_large = SendError::TooLarge { bytes: json.len() as u64, cap: self.frame_cap };
        let header = Header::encode(json.len() - HEADER_LENGTH, 0, self.frame_cap).ok_or(too_large)?;
        json[..HEADER_LENGTH].copy_from_slice(&header);
        self.write(outgoing, [json, Vec::new()], descriptors)
    }

    fn write(
        &self,
        outgoing: &mut Outgoing,
        parts: [Vec<u8>; 2],
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<(), SendError> {
        let total = parts[0].len() + parts[1].len();
        let mut sent = 0;
        while outgoing.backlog.is_empty() && sent < total {
            let rest = rest_of(&parts, sent);
            match self.sender.try_send(rest, &mut descriptors) {
                Ok(n_bytes) => sent += n_bytes,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(self.fail(outgoing)),
            }
        }
        if sent == total {
            return Ok(());
        }
        self.queue(outgoing, Piece { parts, sent, descriptors })
    }

    /// Hands the rest of a frame to the thread that sends the backlog.
    fn queue(&self, outgoing: &mut Outgoing, piece: Piece) -> Result<(), SendError> {
        if outgoing.backlog.len() >= BACKLOG_LIMIT {
            return Err(self.fail(outgoing));
        }
        outgoing.n_bytes += piece.n_left();
        outgoing.backlog.push_back(piece);
        if !outgoing.draining {
            let Some(link) = self.this.upgrade() else { return Err(self.fail(outgoing)) };
            let spawned = std::thread::Builder::new().name("carton-writer".to_owned()).spawn(move || link.drain());
            if spawned.is_err() {
                return Err(self.fail(outgoing));
            }
            outgoing.draining = true;
        }
        Ok(())
    }

    /// Drops the backlog and closes the connection, because sending failed. The reading thread sees the end.
    fn fail(&self, outgoing: &mut Outgoing) -> SendError {
        outgoing.failed = true;
        outgoing.backlog.clear();
        outgoing.n_bytes = 0;
        std::mem::take(&mut outgoing.wakers).into_iter().for_each(Waker::wake);
        self.room.notify_all();
        self.sender.shut_down();
        SendError::Closed
    }

    /// Sends the backlog as the peer reads it. Runs on a separate thread, which ends when the backlog is empty.
    fn drain(&self) {
        loop {
            let mut outgoing = self.lock();
            let Outgoing { backlog, n_bytes, .. } = &mut *outgoing;
            let Some(piece) = backlog.front_mut() else {
                outgoing.draining = false;
                return;
            };
            match self.sender.try_send(rest_of(&piece.parts, piece.sent), &mut piece.descriptors) {
                Ok(sent) => {
                    piece.sent += sent;
                    *n_bytes -= sent;
                    if piece.n_left() == 0 {
                        backlog.pop_front();
                    }
                    if *n_bytes < BACKLOG_CAP {
                        std::mem::take(&mut outgoing.wakers).into_iter().for_each(Waker::wake);
                        self.room.notify_all();
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    drop(outgoing);
                    // The next attempt to send reports a failure.
                    let _ = self.sender.wait_writable();
                }
                Err(_) => {
                    self.fail(&mut outgoing);
                    outgoing.draining = false;
                    return;
                }
            }
        }
    }

    /// Blocks until the peer has read enough of the backlog. For threads that may block.
    pub(crate) fn wait_for_room(&self) {
        let mut outgoing = self.lock();
        while outgoing.n_bytes > BACKLOG_CAP && !outgoing.failed {
            self.room.wait(&mut outgoing);
        }
    }

    /// As [`wait_for_room`](Self::wait_for_room), for tasks.
    pub(crate) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        let mut outgoing = self.lock();
        if outgoing.n_bytes <= BACKLOG_CAP || outgoing.failed {
            return Poll::Ready(());
        }
        outgoing.wakers.push(context.waker().clone());
        Poll::Pending
    }

    /// Takes back the buffers that the peer releases. Must be called after the rest of the message is handled.
    pub(crate) fn released(&self, releases: &[Release]) -> Result<(), ProtocolError> {
        if releases.is_empty() {
            return Ok(());
        }
        self.memory.lent.release(releases)?;
        self.activity();
        Ok(())
    }

    /// Ends the connection in both directions and takes back all memory.
    pub(crate) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.sender.shut_down();
        let mut outgoing = self.lock();
        self.fail(&mut outgoing);
        drop(outgoing);
        self.memory.clear();
        if let Some(housekeeper) = self.housekeeper.get() {
            housekeeper.stop();
        }
    }

    fn activity(&self) {
        self.busy.store(true, Ordering::Relaxed);
        if let Some(housekeeper) = self.housekeeper.get() {
            housekeeper.activity();
        }
    }

    /// Sends releases now, unless another thread is sending a message, which takes them along.
    fn flush_releases(&self) {
        let Some(mut outgoing) = self.outgoing.try_lock() else { return };
        // With a backlog the releases would have to wait, so they may as well travel with the next message.
        if outgoing.failed || !outgoing.backlog.is_empty() {
            return;
        }
        let release = self.memory.releases.take();
        let retired = self.memory.pool.take_retired();
        let mut messages: Vec<Envelope> = retired
            .into_iter()
            .map(|region| Envelope { id: None, release: Vec::new(), message: Message::Unmap { region } })
            .collect();
        if !release.is_empty() {
            messages.push(Envelope { id: None, release, message: Message::Release {} });
        }
        let mut bytes = Vec::new();
        for envelope in messages {
            let Ok(mut json) = serialize(&envelope) else { return };
            let Some(header) = Header::encode(json.len() - HEADER_LENGTH, 0, self.frame_cap) else { return };
            json[..HEADER_LENGTH].copy_from_slice(&header);
            bytes.append(&mut json);
        }
        let mut sent = 0;
        while sent < bytes.len() {
            match self.sender.try_send([&bytes[sent..], &[]], &mut Vec::new()) {
                Ok(n_bytes) => sent += n_bytes,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.fail(&mut outgoing);
                    return;
                }
            }
        }
        if sent < bytes.len() {
            // If the connection cannot be written to any more, the reading thread reports it.
            let _ = self.queue(&mut outgoing, Piece { parts: [bytes, Vec::new()], sent, descriptors: Vec::new() });
        }
    }
}

impl MemoryListener for Link {
    fn memory_is_idle(&self, n_bytes: u64) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        self.activity();
        if n_bytes >= EAGER_RELEASE {
            self.flush_releases();
        }
    }
}

impl Tick for Link {
    fn tick(&self) -> Option<Duration> {
        let busy = self.busy.swap(false, Ordering::Relaxed);
        let idle_memory = self.memory.pool.trim(Instant::now());
        self.flush_releases();
        if busy || !self.memory.releases.is_empty() { Some(BUSY_TICK) } else { idle_memory.then_some(IDLE_TICK) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(housekeeper) = self.housekeeper.get() {
            housekeeper.stop();
        }
    }
}

/// The JSON of a message, with room for the header in front.
fn serialize(envelope: &Envelope) -> Result<Vec<u8>, SendError> {
    let mut json = Vec::with_capacity(256);
    json.resize(HEADER_LENGTH, 0);
    serde_json::to_writer(&mut json, envelope).map_err(SendError::Json)?;
    Ok(json)
}

/// What is left of two parts after `sent` bytes.
fn rest_of(parts: &[Vec<u8>; 2], sent: usize) -> [&[u8]; 2] {
    let [first, second] = parts;
    let in_first = sent.min(first.len());
    [&first[in_first..], second.get(sent - in_first..).unwrap_or_default()]
}
