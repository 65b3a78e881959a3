//! The writer's threads: each takes tasks from the schedule until the schedule is empty.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Content;
use super::compress::{Compressors, DEFLATE_LEVEL, ZSTD_LEVEL, compress_error};
use super::copy::EntryCopy;
use super::header::{Outcome, Placed, Shape};
use super::plan::{self, Planned, Treatment};
use super::schedule::{Buffer, Ready, Schedule, Task, largest_streamed, memory_needed};
use crate::archive::{ArchiveError, Method};
use crate::context::Context;
use crate::digest::{Hasher, Sha256Digest};
use crate::progress::{ProgressEvent, Stage};
use crate::source::{FileSource, Source};

/// The number of bytes that are read, hashed and written at once: they stay in a core's cache meanwhile.
const BUFFER_LENGTH: usize = 512 << 10;

/// Writes all planned entries from the start of `output` on. Returns their outcomes and the offset of their end.
pub(super) fn run(
    plan: &[Planned],
    threads: usize,
    output: &File,
    context: &Context,
) -> Result<(Vec<Placed>, u64), ArchiveError> {
    let schedule = Schedule::new(plan);
    let reporter = Reporter {
        context,
        bytes_total: plan.iter().map(|planned| planned.size).sum(),
        bytes_done: AtomicU64::new(0),
        files_done: AtomicU64::new(0),
        reported: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| Worker::new(plan, &schedule, &reporter, output).run());
        }
        Worker::new(plan, &schedule, &reporter, output).run();
    });
    let written = schedule.finish()?;
    reporter.report()?;
    Ok(written)
}

/// Writes one entry whose bytes are in memory at `offset`. Returns its outcome and its length.
pub(super) fn write_one(planned: &Planned, offset: u64, output: &File) -> Result<(Placed, u64), ArchiveError> {
    let bytes = match &planned.content {
        Content::Bytes(bytes) => bytes.as_slice(),
        Content::File(_) | Content::Symlink(..) | Content::Entry(..) | Content::InPlace(_) => &[],
    };
    let method = match planned.treatment {
        Treatment::InMemory(method) => method,
        Treatment::Stored | Treatment::Streamed(_) | Treatment::Copied(..) => Method::Stored,
    };
    let (outcome, compressed) = compress(&mut Compressors::new(), bytes, method, None)?;
    let data = compressed.as_deref().unwrap_or(bytes);
    let shape = planned.shape(offset, outcome.method, outcome.compressed_size);
    let mut header = Vec::new();
    shape.write(&planned.name, &outcome, &mut header);
    output.write_all_at(&header, offset).map_err(write_error)?;
    output.write_all_at(data, offset + shape.length).map_err(write_error)?;
    let length = shape.length + outcome.compressed_size;
    Ok((Placed { outcome, header_offset: offset }, length))
}

/// Hashes bytes, and compresses them if that makes them smaller. A link's digest is given, because it is that of another file.
fn compress(
    compressors: &mut Compressors,
    bytes: &[u8],
    method: Method,
    digest: Option<Sha256Digest>,
) -> Result<(Outcome, Option<Vec<u8>>), ArchiveError> {
    let compressed = compressors.compress(bytes, method)?;
    let outcome = Outcome {
        method: if compressed.is_some() { method } else { Method::Stored },
        crc32: crc32fast::hash(bytes),
        size: bytes.len() as u64,
        compressed_size: compressed.as_ref().map_or(bytes.len(), Vec::len) as u64,
        digest: digest.unwrap_or_else(|| Sha256Digest::of(bytes)),
    };
    Ok((outcome, compressed))
}

/// Counts the finished work, and reports it to the caller from time to time.
struct Reporter<'a> {
    context: &'a Context,
    bytes_total: u64,
    bytes_done: AtomicU64,
    files_done: AtomicU64,
    /// The work that was finished at the last report.
    reported: AtomicU64,
}

/// The work between two reports, in bytes.
const REPORT_EVERY: u64 = 4 << 20;
/// The work that each file counts for in addition to its bytes, in bytes.
const FILE_WORK: u64 = 16 << 10;

impl Reporter<'_> {
    fn add(&self, bytes: u64, files: u64) -> Result<(), ArchiveError> {
        let bytes_done = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let files_done = self.files_done.fetch_add(files, Ordering::Relaxed) + files;
        let work = bytes_done.saturating_add(files_done * FILE_WORK);
        let reported = self.reported.load(Ordering::Relaxed);
        // The thread that sets the new value reports; the others continue.
        let due = work >= reported.saturating_add(REPORT_EVERY);
        if due && self.reported.compare_exchange(reported, work, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return self.report();
        }
        Ok(())
    }

    fn report(&self) -> Result<(), ArchiveError> {
        let done = self.bytes_done.load(Ordering::Relaxed);
        self.context.report(&ProgressEvent::new(Stage::Pack, done, Some(self.bytes_total), "bytes"));
        Ok(self.context.check()?)
    }
}

struct Worker<'a> {
    plan: &'a [Planned],
    schedule: &'a Schedule<'a>,
    reporter: &'a Reporter<'a>,
    output: &'a File,
    compressors: Compressors,
    /// Empty until first used, then [`BUFFER_LENGTH`] bytes.
    buffer: Vec<u8>,
}

/// Stops the other threads if this one panics, for instance in the caller's progress callback. They would otherwise wait for it.
struct StopOnPanic<'a>(&'a Schedule<'a>);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(None);
        }
    }
}

impl<'a> Worker<'a> {
    fn new(plan: &'a [Planned], schedule: &'a Schedule<'a>, reporter: &'a Reporter<'a>, output: &'a File) -> Self {
        Self { plan, schedule, reporter, output, compressors: Compressors::new(), buffer: Vec::new() }
    }

    fn run(mut self) {
        let _stop_on_panic = StopOnPanic(self.schedule);
        while let Some(task) = self.schedule.next() {
            let result = match task {
                Task::Write(buffer) => self.write_buffer(buffer),
                Task::InMemory(index) => self.in_memory(index),
                Task::Stored(index, offset) => self.stored(index, offset),
                Task::Streamed(index, offset) => self.streamed(index, offset),
            };
            if let Err(error) = result {
                self.schedule.stop(Some(error));
            }
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), ArchiveError> {
        self.output.write_all_at(bytes, offset).map_err(write_error)
    }

    fn write_buffer(&mut self, buffer: Buffer) -> Result<(), ArchiveError> {
        self.write(&buffer.bytes, buffer.offset)?;
        self.schedule.give_back(buffer);
        Ok(())
    }

    fn in_memory(&mut self, index: usize) -> Result<(), ArchiveError> {
        let planned = &self.plan[index];
        let Treatment::InMemory(method) = planned.treatment else { return Ok(()) };
        let mut read = Vec::new();
        let mut digest = None;
        let bytes = match &planned.content {
            Content::Bytes(bytes) => bytes.as_slice(),
            Content::Symlink(target, linked) => {
                digest = Some(*linked);
                target.as_bytes()
            }
            // Only an entry without bytes gets here; reading it checks that it has none.
            Content::Entry(archive, entry) => {
                read = archive.read(entry, planned.size)?;
                &read
            }
            Content::InPlace(_) => {
                let reason = "the plan should have what is in it".to_owned();
                return Err(ArchiveError::Input { name: planned.name.clone(), reason });
            }
            Content::File(path) => {
                let file = plan::open(path, planned.size)?;
                // At most IN_MEMORY_LIMIT.
                read.resize(planned.size as usize, 0);
                file.read_at(0, &mut read).map_err(|error| plan::short_read(path, planned.size, &file, error))?;
                plan::check_unchanged(path, planned.size, &file)?;
                &read
            }
        };
        let (outcome, compressed) = compress(&mut self.compressors, bytes, method, digest)?;
        planned.check_digest(outcome.digest)?;
        let data = match compressed {
            Some(compressed) => compressed,
            None if read.is_empty() => bytes.to_vec(),
            None => read,
        };
        self.reporter.add(planned.size, 1)?;
        self.write_ready(self.schedule.compressed(index, outcome, data))
    }

    /// Writes entries from memory at their offsets. Adjacent entries are written together.
    fn write_ready(&mut self, ready: Vec<Ready>) -> Result<(), ArchiveError> {
        let mut pending: Vec<u8> = Vec::new();
        let mut pending_offset = 0;
        let (entries, mut memory) = (ready.len(), 0);
        for entry in ready {
            let planned = &self.plan[entry.index];
            memory += memory_needed(planned);
            let end = pending_offset + pending.len() as u64;
            if end != entry.offset || pending.len() >= BUFFER_LENGTH {
                self.write(&pending, pending_offset)?;
                pending.clear();
                pending_offset = entry.offset;
            }
            entry.shape.write(&planned.name, &entry.outcome, &mut pending);
            pending.extend_from_slice(&entry.data);
        }
        self.write(&pending, pending_offset)?;
        if entries != 0 {
            self.schedule.written(entries, memory);
        }
        Ok(())
    }

    fn stored(&mut self, index: usize, offset: u64) -> Result<(), ArchiveError> {
        let planned = &self.plan[index];
        if let (Content::Entry(archive, entry), Treatment::Copied(method, length)) =
            (&planned.content, planned.treatment)
        {
            let shape = planned.shape(offset, method, length);
            let copy = EntryCopy::new(archive, entry)?;
            return self.copied(index, offset, shape, copy);
        }
        let shape = planned.shape(offset, Method::Stored, planned.size);
        let mut position = offset + shape.length;
        let (crc32, digest) = self.read(planned, |worker, length| {
            let start = position;
            position += length as u64;
            // Only whole buffers are handed over, because a buffer is written as a whole; the rest is written at once.
            if length < BUFFER_LENGTH {
                return worker.write(&worker.buffer[..length], start);
            }
            let full = Buffer { bytes: std::mem::take(&mut worker.buffer), offset: start };
            worker.buffer = match worker.schedule.hand_over(full, BUFFER_LENGTH) {
                Ok(empty) => empty,
                Err(full) => {
                    worker.write(&full.bytes, full.offset)?;
                    full.bytes
                }
            };
            Ok(())
        })?;
        planned.check_digest(digest)?;
        let outcome =
            Outcome { method: Method::Stored, crc32, size: planned.size, compressed_size: planned.size, digest };
        let mut header = Vec::new();
        shape.write(&planned.name, &outcome, &mut header);
        self.write(&header, offset)?;
        self.reporter.add(0, 1)?;
        self.schedule.stored(index, outcome);
        Ok(())
    }

    /// Copies the data of another archive's entry after the header at `offset`.
    fn copied(&mut self, index: usize, offset: u64, shape: Shape, mut copy: EntryCopy) -> Result<(), ArchiveError> {
        let planned = &self.plan[index];
        let mut position = offset + shape.length;
        self.buffer.resize(BUFFER_LENGTH, 0);
        loop {
            let n_bytes = copy.read(&mut self.buffer)?;
            let data = copy.take();
            self.write(&data, position)?;
            position += data.len() as u64;
            if n_bytes == 0 {
                break;
            }
            self.reporter.add(n_bytes as u64, 0)?;
        }
        let outcome = copy.finish()?;
        planned.check_digest(outcome.digest)?;
        let mut header = Vec::new();
        shape.write(&planned.name, &outcome, &mut header);
        self.write(&header, offset)?;
        self.reporter.add(0, 1)?;
        self.schedule.stored(index, outcome);
        Ok(())
    }

    fn streamed(&mut self, index: usize, offset: u64) -> Result<(), ArchiveError> {
        let planned = &self.plan[index];
        let Treatment::Streamed(method) = planned.treatment else { return Ok(()) };
        let largest = largest_streamed(planned.size);
        let shape = planned.shape(offset, method, largest);
        let sink = Sink { output: self.output, offset: offset + shape.length, written: 0, buffer: Vec::new() };
        let mut encoder = Encoder::new(method, planned.size, sink).map_err(compress_error)?;
        let (crc32, digest) = self.read(planned, |worker, length| {
            encoder.write_all(&worker.buffer[..length]).map_err(|error| ArchiveError::from_read(error, "the output"))
        })?;
        let compressed_size = encoder.finish().map_err(|error| ArchiveError::from_read(error, "the output"))?;
        planned.check_digest(digest)?;
        let outcome = Outcome { method, crc32, size: planned.size, compressed_size, digest };
        outcome.check_largest(&planned.name, largest)?;
        let mut header = Vec::new();
        shape.write(&planned.name, &outcome, &mut header);
        self.write(&header, offset)?;
        self.reporter.add(0, 1)?;
        self.write_ready(self.schedule.streamed(index, outcome))
    }

    /// Reads and hashes an entry. Passes each piece to `consume`, as the first `length` bytes of `self.buffer`.
    fn read(
        &mut self,
        planned: &Planned,
        mut consume: impl FnMut(&mut Self, usize) -> Result<(), ArchiveError>,
    ) -> Result<(u32, Sha256Digest), ArchiveError> {
        let file = match &planned.content {
            Content::File(path) => Some((path, plan::open(path, planned.size)?)),
            Content::Bytes(_) | Content::Symlink(..) | Content::Entry(..) | Content::InPlace(_) => None,
        };
        let (mut hasher, mut crc32) = (Hasher::new(), crc32fast::Hasher::new());
        let mut position = 0;
        while position < planned.size {
            self.buffer.resize(BUFFER_LENGTH, 0);
            let length = (planned.size - position).min(BUFFER_LENGTH as u64) as usize;
            let piece = &mut self.buffer[..length];
            match (&file, &planned.content) {
                (Some((path, file)), _) => {
                    let failed = |error| plan::short_read(path, planned.size, file, error);
                    FileSource::read_at(file, position, piece).map_err(failed)?;
                }
                (None, Content::Bytes(bytes)) => {
                    piece.copy_from_slice(&bytes[position as usize..position as usize + length]);
                }
                (None, _) => {}
            }
            hasher.update(piece);
            crc32.update(piece);
            consume(self, length)?;
            position += length as u64;
            self.reporter.add(length as u64, 0)?;
        }
        if let Some((path, file)) = &file {
            plan::check_unchanged(path, planned.size, file)?;
        }
        Ok((crc32.finalize(), hasher.finish()))
    }
}

/// Compresses the bytes that are written to it.
enum Encoder<'a> {
    Deflate(flate2::write::DeflateEncoder<Sink<'a>>),
    Zstd(zstd::stream::write::Encoder<'static, Sink<'a>>),
    Stored(Sink<'a>),
}

impl<'a> Encoder<'a> {
    fn new(method: Method, size: u64, sink: Sink<'a>) -> io::Result<Self> {
        Ok(match method {
            Method::Stored => Encoder::Stored(sink),
            Method::Deflate => {
                let level = flate2::Compression::new(DEFLATE_LEVEL);
                Encoder::Deflate(flate2::write::DeflateEncoder::new(sink, level))
            }
            Method::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(sink, ZSTD_LEVEL)?;
                encoder.set_pledged_src_size(Some(size))?;
                Encoder::Zstd(encoder)
            }
        })
    }

    /// Ends the compressed data and returns its length.
    fn finish(self) -> io::Result<u64> {
        let mut sink = match self {
            Encoder::Deflate(encoder) => encoder.finish()?,
            Encoder::Zstd(encoder) => encoder.finish()?,
            Encoder::Stored(sink) => sink,
        };
        sink.flush()?;
        Ok(sink.written)
    }
}

impl Write for Encoder<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Encoder::Deflate(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
            Encoder::Stored(sink) => sink.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The output from an offset on, written in large pieces.
struct Sink<'a> {
    output: &'a File,
    offset: u64,
    /// The number of bytes accepted so far, including those still in the buffer.
    written: u64,
    buffer: Vec<u8>,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
        if self.buffer.len() >= BUFFER_LENGTH {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.write_all_at(&self.buffer, self.offset).map_err(|error| io::Error::other(write_error(error)))?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

pub(super) fn write_error(source: std::io::Error) -> ArchiveError {
    ArchiveError::Io { action: "write", location: "the output".to_owned(), source }
}
