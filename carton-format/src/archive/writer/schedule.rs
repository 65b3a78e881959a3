//! Schedules the work of the writer's threads, through the state that they share.
//!
//! Offsets are assigned in the order of the entries, so that the bytes of the file do not depend on timing. An entry's offset is known
//! once the offsets and lengths of all entries before it are: a stored entry's length at once, the others' after their compression.
//! Entries that are compressed in memory may be ready before their offset is known; a budget limits the memory of those that wait.
//!
//! No deadlock is possible: entries are taken into memory in order, so the first one without an offset is either being worked on or can
//! be taken, because everything that uses the budget lies before it and gets its offset.

use std::collections::{BinaryHeap, VecDeque};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::header::{Outcome, Placed, Shape};
use super::plan::{Planned, Treatment};
use crate::archive::{ArchiveError, Method};

/// The number of bytes that all entries in memory together may take.
const MEMORY_BUDGET: u64 = 64 << 20;
/// Stored files from this size on are begun before smaller work, so that none of them is left over at the end.
const LARGE: u64 = 32 << 20;
/// The number of buffers that may wait for an idle thread to write them.
const MAX_BUFFERS: usize = 32;

pub(super) struct Schedule<'a> {
    plan: &'a [Planned],
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    slots: Vec<Slot>,
    /// All entries before this one have an offset and a length.
    head: usize,
    /// The offset of the entry `head`.
    head_offset: u64,
    /// The first entry that was not yet considered for compression in memory.
    next_in_memory: usize,
    /// Stored entries that have an offset: size and index of large ones, indices of the others.
    large: BinaryHeap<(u64, usize)>,
    small: VecDeque<usize>,
    /// The streamed entry at `head`, unless a thread has taken it.
    streamed: Option<usize>,
    memory_used: u64,
    buffers_waiting: VecDeque<Buffer>,
    buffers_free: Vec<Vec<u8>>,
    buffers_made: usize,
    unfinished: usize,
    stopped: bool,
    error: Option<ArchiveError>,
}

#[derive(Default)]
struct Slot {
    offset: u64,
    outcome: Option<Outcome>,
    /// The data that was compressed in memory and waits for its offset.
    data: Option<Vec<u8>>,
}

/// Bytes to write at an offset.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    pub(super) offset: u64,
}

/// A task for a thread.
pub(super) enum Task {
    /// Write a buffer that another thread filled.
    Write(Buffer),
    /// Compress an entry in memory.
    InMemory(usize),
    /// Store an entry at an offset, or copy it there.
    Stored(usize, u64),
    /// Compress an entry at an offset.
    Streamed(usize, u64),
}

/// An entry that was compressed in memory and now has its offset.
pub(super) struct Ready {
    pub(super) index: usize,
    pub(super) offset: u64,
    pub(super) shape: Shape,
    pub(super) outcome: Outcome,
    pub(super) data: Vec<u8>,
}

/// The memory that an entry in memory counts for: its bytes before and after compression.
pub(super) fn memory_needed(planned: &Planned) -> u64 {
    2 * planned.size + 4096
}

/// The largest possible length of a streamed entry's data: incompressible data grows a little.
pub(super) fn largest_streamed(size: u64) -> u64 {
    size.saturating_add(size / 128).saturating_add(1 << 16)
}

impl<'a> Schedule<'a> {
    pub(super) fn new(plan: &'a [Planned]) -> Self {
        let mut state = State {
            slots: plan.iter().map(|_| Slot::default()).collect(),
            head: 0,
            head_offset: 0,
            next_in_memory: 0,
            large: BinaryHeap::new(),
            small: VecDeque::new(),
            streamed: None,
            memory_used: 0,
            buffers_waiting: VecDeque::new(),
            buffers_free: Vec::new(),
            buffers_made: 0,
            unfinished: plan.len(),
            stopped: false,
            error: None,
        };
        state.advance(plan);
        Self { plan, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has stopped the schedule, so its state is no longer used.
        self.state.lock()
    }

    /// Waits for a task. `None` if everything is done, or if the schedule was stopped.
    pub(super) fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(task) = state.take(self.plan) {
                return Some(task);
            }
            if state.unfinished == 0 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Accepts an entry that was compressed in memory. Returns the entries that got their offsets: the caller writes them, then calls
    /// `written`.
    pub(super) fn compressed(&self, index: usize, outcome: Outcome, data: Vec<u8>) -> Vec<Ready> {
        let mut state = self.lock();
        state.slots[index].outcome = Some(outcome);
        state.slots[index].data = Some(data);
        if state.head != index {
            return Vec::new();
        }
        let ready = state.advance(self.plan);
        drop(state);
        self.changed.notify_all();
        ready
    }

    /// Accepts the outcome of a streamed entry, and returns entries as `compressed` does.
    pub(super) fn streamed(&self, index: usize, outcome: Outcome) -> Vec<Ready> {
        let mut state = self.lock();
        state.slots[index].outcome = Some(outcome);
        state.unfinished -= 1;
        let ready = state.advance(self.plan);
        drop(state);
        self.changed.notify_all();
        ready
    }

    /// Accepts the outcome of a stored entry that was read to its end; its bytes are written, or wait to be.
    pub(super) fn stored(&self, index: usize, outcome: Outcome) {
        let mut state = self.lock();
        state.slots[index].outcome = Some(outcome);
        state.unfinished -= 1;
        let done = state.unfinished == 0;
        drop(state);
        if done {
            self.changed.notify_all();
        }
    }

    /// Reports that entries from memory were written, and releases their memory.
    pub(super) fn written(&self, entries: usize, memory: u64) {
        let mut state = self.lock();
        state.unfinished -= entries;
        state.memory_used -= memory;
        drop(state);
        self.changed.notify_all();
    }

    /// Passes a full buffer to an idle thread and returns an empty one. If too many buffers already wait, returns the full one, which the
    /// caller then writes.
    pub(super) fn hand_over(&self, buffer: Buffer, length: usize) -> Result<Vec<u8>, Buffer> {
        let mut state = self.lock();
        let empty = match state.buffers_free.pop() {
            Some(empty) => empty,
            None if state.buffers_made < MAX_BUFFERS => {
                state.buffers_made += 1;
                vec![0; length]
            }
            None => return Err(buffer),
        };
        state.buffers_waiting.push_back(buffer);
        drop(state);
        self.changed.notify_one();
        Ok(empty)
    }

    /// Accepts a buffer that was written, for reuse.
    pub(super) fn give_back(&self, buffer: Buffer) {
        self.lock().buffers_free.push(buffer.bytes);
    }

    /// Stops all threads. Only the first error is kept.
    pub(super) fn stop(&self, error: Option<ArchiveError>) {
        let mut state = self.lock();
        state.stopped = true;
        state.error = state.error.take().or(error);
        drop(state);
        self.changed.notify_all();
    }

    /// The written entries, in order, and the offset of their end.
    pub(super) fn finish(self) -> Result<(Vec<Placed>, u64), ArchiveError> {
        let state = self.state.into_inner();
        if let Some(error) = state.error {
            return Err(error);
        }
        let placed = |slot: Slot| Some(Placed { outcome: slot.outcome?, header_offset: slot.offset });
        let all: Option<Vec<_>> = state.slots.into_iter().map(placed).collect();
        // Without an error, every entry has an outcome.
        Ok((all.ok_or(ArchiveError::Interrupted)?, state.head_offset))
    }
}

impl State {
    /// Assigns offsets to entries as far as lengths are known. Returns those from memory that got theirs.
    fn advance(&mut self, plan: &[Planned]) -> Vec<Ready> {
        let mut ready = Vec::new();
        while let Some(planned) = plan.get(self.head) {
            let (index, offset) = (self.head, self.head_offset);
            let slot = &mut self.slots[index];
            slot.offset = offset;
            let length = match planned.treatment {
                Treatment::InMemory(_) => {
                    let (Some(outcome), Some(data)) = (&slot.outcome, slot.data.take()) else { break };
                    let outcome = outcome.clone();
                    let largest = outcome.compressed_size;
                    let shape = planned.shape(offset, outcome.method, largest);
                    ready.push(Ready { index, offset, shape, outcome, data });
                    shape.length + largest
                }
                Treatment::Stored => {
                    if planned.size >= LARGE {
                        self.large.push((planned.size, index));
                    } else {
                        self.small.push_back(index);
                    }
                    planned.shape(offset, Method::Stored, planned.size).length + planned.size
                }
                Treatment::Copied(method, length) => {
                    if length >= LARGE {
                        self.large.push((length, index));
                    } else {
                        self.small.push_back(index);
                    }
                    planned.shape(offset, method, length).length + length
                }
                Treatment::Streamed(method) => {
                    let Some(outcome) = &slot.outcome else {
                        self.streamed = Some(index);
                        break;
                    };
                    let largest = largest_streamed(planned.size);
                    planned.shape(offset, method, largest).length + outcome.compressed_size
                }
            };
            self.head += 1;
            self.head_offset += length;
        }
        ready
    }

    fn take(&mut self, plan: &[Planned]) -> Option<Task> {
        if let Some(buffer) = self.buffers_waiting.pop_front() {
            return Some(Task::Write(buffer));
        }
        // Everything after a streamed entry waits for it.
        if let Some(index) = self.streamed.take() {
            return Some(Task::Streamed(index, self.slots[index].offset));
        }
        if let Some((_, index)) = self.large.pop() {
            return Some(Task::Stored(index, self.slots[index].offset));
        }
        while let Some(planned) = plan.get(self.next_in_memory) {
            if matches!(planned.treatment, Treatment::InMemory(_)) {
                let needed = memory_needed(planned);
                if self.memory_used != 0 && self.memory_used + needed > MEMORY_BUDGET {
                    break;
                }
                self.memory_used += needed;
                self.next_in_memory += 1;
                return Some(Task::InMemory(self.next_in_memory - 1));
            }
            self.next_in_memory += 1;
        }
        let index = self.small.pop_front()?;
        Some(Task::Stored(index, self.slots[index].offset))
    }
}
