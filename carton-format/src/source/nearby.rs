//! An overlay: a source of which one range is read from a nearer source, such as the file to which it is being downloaded.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::{FileIdentity, Source};

/// A source of which one range is read from a nearer source, at the same offsets.
pub struct Nearby {
    range: Range<u64>,
    near: Arc<dyn Source>,
    far: Arc<dyn Source>,
}

impl Nearby {
    /// The bytes of `far`, of which `near` also has `range`.
    pub fn new(far: Arc<dyn Source>, range: Range<u64>, near: Arc<dyn Source>) -> Nearby {
        Nearby { range, near, far }
    }
}

impl Source for Nearby {
    fn len(&self) -> u64 {
        self.far.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        let is_near = self.range.start <= offset && end.is_some_and(|end| end <= self.range.end);
        let source = if is_near { &self.near } else { &self.far };
        source.read_at(offset, buffer)
    }

    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    fn file(&self) -> Option<&File> {
        None
    }

    fn location(&self) -> &str {
        self.far.location()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::source::{MemorySource, behaviour};

    #[test]
    fn what_is_nearby_is_not_read_from_afar() {
        let contents = b"0123456789";
        let memory = || Arc::new(MemorySource::new(&contents[..], "memory"));
        behaviour::check(&Nearby::new(memory(), 3..7, memory()), contents);
        // The far source does not have these bytes, so only the near one can be read.
        let far = Arc::new(MemorySource::new(&contents[..3], "memory"));
        let nearby = Nearby::new(far, 3..7, memory());
        nearby.read_at(3, &mut [0; 4]).unwrap();
        nearby.read_at(6, &mut [0; 2]).unwrap_err();
    }
}
