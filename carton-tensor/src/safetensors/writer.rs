//! Writes a file from beginning to end. Keeps none of the data in memory.

use std::collections::BTreeSet;
use std::io::{self, Seek, SeekFrom, Write};

use super::{HeaderError, Layout, Metadata, SafetensorsError};
use crate::files::RawTensor;

/// Writes a complete file with these tensors. The tensors are sorted into the format's order; `metadata` keeps its own.
///
/// # Errors
/// [`SafetensorsError::Unwritable`] for tensors that the format cannot hold, such as two of one name; [`SafetensorsError::Io`].
pub fn write<'t, N: AsRef<str>>(
    tensors: impl IntoIterator<Item = (N, &'t RawTensor)>,
    metadata: &Metadata,
    output: impl Write,
) -> Result<(), SafetensorsError> {
    let tensors: Vec<(N, &RawTensor)> = tensors.into_iter().collect();
    let descriptions = tensors.iter().map(|(name, tensor)| (name.as_ref(), tensor.dtype(), tensor.shape()));
    let layout = Layout::new(descriptions, metadata)?;
    let order = layout.order().to_vec();
    let mut writer = Writer::new(output, layout)?;
    for (name, tensor) in order.into_iter().filter_map(|position| tensors.get(position)) {
        writer.write(name.as_ref(), tensor.bytes())?;
    }
    writer.finish()?;
    Ok(())
}

/// Writes a file piece by piece. A [`Layout`] first declares the content. The data follows, tensor by tensor in the order of the
/// layout, each in any number of pieces.
///
/// ```
/// use carton_tensor::files::ElementType;
/// use carton_tensor::safetensors::{Layout, Metadata, Reader, Writer};
/// let tensors = [("byte", ElementType::Uint8, [1]), ("word", ElementType::Uint32, [2])];
/// let layout = Layout::new(tensors, &Metadata::default())?;
/// let mut writer = Writer::new(Vec::new(), layout)?;
/// writer.write("word", &[1, 0, 0, 0])?;
/// writer.write("word", &[2, 0, 0, 0])?;
/// writer.write("byte", &[3])?;
/// let file = writer.finish()?;
/// assert_eq!(Reader::new(file, "example")?.read("word")?.to_f32(), Some(vec![1.0, 2.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    layout: Layout,
    /// The position in the layout of the tensor that is written next.
    position: usize,
    /// The bytes of this tensor that have been written.
    n_written: u64,
    /// The positions of reserved tensors that are not yet filled.
    reserved: BTreeSet<usize>,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// [`SafetensorsError::Io`].
    pub fn new(mut output: W, layout: Layout) -> Result<Self, SafetensorsError> {
        output.write_all(layout.header_bytes()).map_err(io_error)?;
        Ok(Self { output, layout, position: 0, n_written: 0, reserved: BTreeSet::new() })
    }

    /// The layout of the file.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Writes the next bytes of the tensor `name`.
    ///
    /// # Errors
    /// [`SafetensorsError::Unexpected`] if another tensor comes next, or if there are more bytes than the tensor still lacks;
    /// [`SafetensorsError::Io`].
    pub fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), SafetensorsError> {
        // A tensor without data may be skipped.
        while let Some((next, missing)) = self.next()
            && missing == 0
            && next != name
        {
            self.advance();
        }
        let Some((next, missing)) = self.next() else {
            return Err(unexpected(format!("tensor `{}` after the last one", name.escape_debug())));
        };
        if next != name {
            let (next, name) = (next.escape_debug(), name.escape_debug());
            return Err(unexpected(format!("tensor `{name}` when {missing} bytes of `{next}` were expected")));
        }
        let given = bytes.len() as u64;
        if given > missing {
            let name = name.escape_debug();
            return Err(unexpected(format!("{given} bytes of tensor `{name}`, which lacks {missing}")));
        }
        self.output.write_all(bytes).map_err(io_error)?;
        self.n_written += given;
        if given == missing {
            self.advance();
        }
        Ok(())
    }

    /// Checks that every tensor is complete, flushes the output and returns it.
    ///
    /// # Errors
    /// [`SafetensorsError::Unexpected`] if bytes are missing; [`SafetensorsError::Io`].
    pub fn finish(mut self) -> Result<W, SafetensorsError> {
        while let Some((next, missing)) = self.next() {
            if missing > 0 {
                return Err(unexpected(format!(
                    "the end, although tensor `{}` lacks {missing} bytes",
                    next.escape_debug()
                )));
            }
            self.advance();
        }
        if let Some(tensor) = self.reserved.first().and_then(|position| self.layout.header().at(*position)) {
            let name = tensor.name.escape_debug();
            return Err(unexpected(format!("the end, although tensor `{name}` was reserved and not filled")));
        }
        self.output.flush().map_err(io_error)?;
        Ok(self.output)
    }

    /// Returns the tensor that comes next, and how many of its bytes are missing.
    fn next(&self) -> Option<(&str, u64)> {
        let tensor = self.layout.header().at(self.position)?;
        Some((tensor.name, tensor.range.end - tensor.range.start - self.n_written))
    }

    fn advance(&mut self) {
        self.position += 1;
        self.n_written = 0;
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Skips the tensor `name`, which must come next, and leaves room for it. [`fill`](Self::fill) writes it later. This allows a
    /// tensor that is computed together with a later one to be before it in the file.
    ///
    /// # Errors
    /// [`SafetensorsError::Unexpected`] if another tensor comes next, or if some of it has been written already;
    /// [`SafetensorsError::Io`].
    pub fn reserve(&mut self, name: &str) -> Result<(), SafetensorsError> {
        // Writing no bytes returns the error if another tensor comes next.
        self.write(name, &[])?;
        let Some((_, missing)) = self.next().filter(|(next, missing)| *next == name && *missing > 0) else {
            return Ok(());
        };
        if self.n_written > 0 {
            return Err(unexpected(format!("tensor `{}` to reserve, which has begun", name.escape_debug())));
        }
        self.seek_by(i128::from(missing))?;
        self.reserved.insert(self.position);
        self.advance();
        Ok(())
    }

    /// Writes all of a [reserved](Self::reserve) tensor.
    ///
    /// # Errors
    /// [`SafetensorsError::Unexpected`] if the tensor is not reserved, or has another number of bytes; [`SafetensorsError::Io`].
    pub fn fill(&mut self, name: &str, bytes: &[u8]) -> Result<(), SafetensorsError> {
        let header = self.layout.header();
        let find = |position: &&usize| header.at(**position).is_some_and(|tensor| tensor.name == name);
        let found = self.reserved.iter().find(find).and_then(|&position| Some((position, header.at(position)?.range)));
        let Some((position, range)) = found.filter(|(_, range)| range.end - range.start == bytes.len() as u64) else {
            let (name, given) = (name.escape_debug(), bytes.len());
            return Err(unexpected(format!(
                "{given} bytes of tensor `{name}`, for which no room of that size was reserved"
            )));
        };
        let ends = header.iter().next_back().map_or(range.end, |last| last.range.end);
        let here = header.at(self.position).map_or(ends, |next| next.range.start + self.n_written);
        self.seek_by(i128::from(range.start) - i128::from(here))?;
        self.output.write_all(bytes).map_err(io_error)?;
        self.seek_by(i128::from(here) - i128::from(range.end))?;
        self.reserved.remove(&position);
        Ok(())
    }

    fn seek_by(&mut self, distance: i128) -> Result<(), SafetensorsError> {
        let distance = i64::try_from(distance).map_err(|_| io_error(io::ErrorKind::FileTooLarge.into()))?;
        self.output.seek(SeekFrom::Current(distance)).map(drop).map_err(io_error)
    }
}

impl From<HeaderError> for SafetensorsError {
    /// Wraps a rule that prevents tensors from being written.
    fn from(source: HeaderError) -> Self {
        Self::Unwritable(source)
    }
}

fn unexpected(problem: String) -> SafetensorsError {
    SafetensorsError::Unexpected { problem }
}

fn io_error(source: io::Error) -> SafetensorsError {
    SafetensorsError::Io { place: "safetensors output".to_owned(), source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Cursor;

    use super::*;
    use crate::files::ElementType::{Float64, Int8};
    use crate::safetensors::Reader;

    fn writer() -> Writer<Cursor<Vec<u8>>> {
        let tensors =
            [("a", Float64, vec![]), ("b", Float64, vec![2]), ("none", Float64, vec![0]), ("x", Int8, vec![3])];
        let layout =
            Layout::new(tensors.iter().map(|(name, dtype, shape)| (*name, *dtype, shape)), &Metadata::default());
        Writer::new(Cursor::new(Vec::new()), layout.unwrap()).unwrap()
    }

    #[test]
    fn tensors_that_are_passed_over_are_filled_in() {
        let number = |value: f64| value.to_le_bytes();
        let mut expected = writer();
        expected.write("a", &number(1.0)).unwrap();
        expected.write("b", &[number(2.0), number(3.0)].concat()).unwrap();
        expected.write("x", &[1, 2, 3]).unwrap();
        let expected = expected.finish().unwrap().into_inner();
        assert!(Reader::new(expected.clone(), "expected").is_ok());

        let mut found = writer();
        found.reserve("a").unwrap();
        found.reserve("b").unwrap();
        found.reserve("none").unwrap();
        found.write("x", &[1]).unwrap();
        found.fill("b", &[number(2.0), number(3.0)].concat()).unwrap();
        found.write("x", &[2, 3]).unwrap();
        found.fill("a", &number(1.0)).unwrap();
        assert_eq!(found.finish().unwrap().into_inner(), expected);
    }

    #[test]
    fn tensors_are_filled_in_once_and_whole() {
        let told = |result: Result<(), SafetensorsError>| result.unwrap_err().to_string();
        let mut found = writer();
        assert!(told(found.reserve("b")).contains("tensor `b` when 8 bytes of `a` were expected"));
        found.write("a", &[0; 4]).unwrap();
        assert!(told(found.reserve("a")).contains("which has begun"));
        found.write("a", &[0; 4]).unwrap();
        assert!(told(found.fill("a", &[0; 8])).contains("no room of that size was reserved"));
        found.reserve("b").unwrap();
        assert!(told(found.fill("b", &[0; 8])).contains("no room of that size was reserved"));
        found.write("x", &[1, 2, 3]).unwrap();
        let unfilled = found.finish().map(drop);
        assert!(told(unfilled).contains("tensor `b` was reserved and not filled"));
    }
}
