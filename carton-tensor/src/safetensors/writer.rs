//! Writes a file from beginning to end. Keeps none of the data in memory.

use std::io::{self, Write};

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
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// [`SafetensorsError::Io`].
    pub fn new(mut output: W, layout: Layout) -> Result<Self, SafetensorsError> {
        output.write_all(layout.header_bytes()).map_err(io_error)?;
        Ok(Self { output, layout, position: 0, n_written: 0 })
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
