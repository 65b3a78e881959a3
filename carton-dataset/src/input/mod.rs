//! Reads the rows to be written (spec/dataset.md §4.1): record batches from Parquet files, Arrow IPC files and Arrow IPC streams.
//!
//! A file's format is recognized by its first bytes, never by its name. Batches have a bounded number of rows, and only the requested
//! columns are decoded. The files are untrusted: their claims are compared with the actual bytes before memory is allocated for them
//! ([`ipc_message`], [`parquet`]), and a panic of a library on a corrupt file becomes an error ([`guard`]).

mod guard;
mod ipc;
mod ipc_message;
mod ipc_projection;
mod parquet;
mod parquet_footer;
mod parquet_headers;
mod parquet_layout;
mod parquet_pages;
mod read_start;
mod rows;
mod thrift;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use carton_tensor::content::Content;

pub(crate) use self::guard::guarded;
use self::read_start::read_start;
use self::rows::Rows;
use crate::error::DatasetError;
pub use crate::error::InputError;

/// The largest number of rows in a batch, unless [`Input::max_rows`] sets another.
const MAX_ROWS: usize = 65_536;

/// Record batches from a file or a stream.
///
/// ```no_run
/// use carton_dataset::Input;
/// let input = Input::open("rows.parquet")?.project(&["image", "label"])?;
/// println!("{} rows of {}", input.n_rows().unwrap_or_default(), input.schema());
/// for batch in input {
///     println!("{} rows", batch?.num_rows());
/// }
/// # Ok::<(), carton_dataset::DatasetError>(())
/// ```
pub struct Input {
    place: String,
    /// `None` after the last batch, and after the first error.
    rows: Option<Box<dyn Rows>>,
    schema: SchemaRef,
    n_rows: Option<u64>,
    max_rows: usize,
    /// A batch of the file that is larger than `max_rows`, and the number of its rows that were returned already.
    rest: Option<(RecordBatch, usize)>,
}

impl Input {
    /// Opens a Parquet file, an Arrow IPC file or an Arrow IPC stream. Anything but a regular file, such as a named pipe, is read as a
    /// [`stream`](Self::stream).
    ///
    /// # Errors
    /// [`DatasetError::Input`] if the file cannot be read, has another format, or is invalid.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DatasetError> {
        let path = path.as_ref();
        let place = path.display().to_string();
        Self::from_path(path, &place).map_err(|source| DatasetError::Input { place, source })
    }

    /// Opens a Parquet file, and refuses other formats.
    pub(crate) fn open_parquet(path: &Path) -> Result<Self, DatasetError> {
        let place = path.display().to_string();
        let open = || {
            let mut file = File::open(path)?;
            let metadata = file.metadata()?;
            let mut start = [0; FileFormat::BYTES];
            let n_bytes = if metadata.is_file() { read_start(&mut file, &mut start)? } else { 0 };
            match FileFormat::of(start.get(..n_bytes).unwrap_or_default())? {
                FileFormat::Parquet => parquet::ParquetRows::open(file, metadata.len()),
                _ => Err(InputError::Invalid("is Arrow IPC, expected Parquet".to_owned())),
            }
        };
        match guard::guarded(open) {
            Ok(rows) => Ok(Self::new(rows, &place)),
            Err(source) => Err(DatasetError::Input { place, source }),
        }
    }

    fn from_path(path: &Path, place: &str) -> Result<Self, InputError> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(InputError::Io(io::ErrorKind::IsADirectory.into()));
        }
        if !metadata.is_file() {
            return Self::from_stream(file, place);
        }
        let mut start = [0; FileFormat::BYTES];
        let n_bytes = read_start(&mut file, &mut start)?;
        let start = start.get(..n_bytes).unwrap_or_default();
        let format = FileFormat::of(start).map_err(|error| recognized(error, &mut file))?;
        let rows: Box<dyn Rows> = match format {
            FileFormat::Parquet => guard::guarded(|| parquet::ParquetRows::open(file, metadata.len()))?,
            FileFormat::IpcFile => guard::guarded(|| ipc::IpcFile::open(file))?,
            FileFormat::IpcStream => {
                io::Seek::rewind(&mut file)?;
                guard::guarded(|| ipc::IpcStream::open(Box::new(file), Some(metadata.len())))?
            }
        };
        Ok(Self::new(rows, place))
    }

    /// Reads an Arrow IPC stream, such as standard input. Errors call it `place`. Nothing is read past the end-of-stream marker. A stream
    /// without the marker is an error: its writer was stopped before it was done.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn stream(stream: impl Read + Send + 'static, place: impl Into<String>) -> Result<Self, DatasetError> {
        let place = place.into();
        Self::from_stream(stream, &place).map_err(|source| DatasetError::Input { place, source })
    }

    fn from_stream(mut stream: impl Read + Send + 'static, place: &str) -> Result<Self, InputError> {
        let mut start = [0; FileFormat::BYTES];
        let n_bytes = read_start(&mut stream, &mut start)?;
        let start = start.get(..n_bytes).unwrap_or_default().to_vec();
        match FileFormat::of(&start)? {
            FileFormat::IpcStream => {}
            FileFormat::Parquet => return Err(InputError::NeedsFile("Parquet")),
            FileFormat::IpcFile => return Err(InputError::NeedsFile("an Arrow IPC file")),
        }
        let whole = io::Cursor::new(start).chain(stream);
        Ok(Self::new(guard::guarded(|| ipc::IpcStream::open(Box::new(whole), None))?, place))
    }

    fn new(rows: Box<dyn Rows>, place: &str) -> Self {
        let (schema, n_rows) = (rows.schema(), rows.n_rows());
        Self { place: place.to_owned(), rows: Some(rows), schema, n_rows, max_rows: MAX_ROWS, rest: None }
    }

    /// Restricts reading to these columns. They stay in the order of the file.
    ///
    /// # Errors
    /// [`DatasetError::NoColumn`].
    pub fn project<S: AsRef<str>>(mut self, columns: &[S]) -> Result<Self, DatasetError> {
        let fields = self.schema.fields();
        for column in columns {
            if !fields.iter().any(|field| field.name() == column.as_ref()) {
                return Err(DatasetError::NoColumn {
                    column: column.as_ref().escape_debug().to_string(),
                    columns: fields.iter().map(|field| field.name().escape_debug().to_string()).collect(),
                });
            }
        }
        let is_asked_for = |name: &str| columns.iter().any(|column| column.as_ref() == name);
        let positions = fields.iter().enumerate().filter(|(_, field)| is_asked_for(field.name())).map(|(i, _)| i);
        let positions: Vec<usize> = positions.collect();
        let wrong = |source| DatasetError::Input { place: self.place.clone(), source };
        if let Some(rows) = &mut self.rows {
            guard::guarded(|| rows.project(positions)).map_err(wrong)?;
            self.schema = rows.schema();
        }
        Ok(self)
    }

    /// Sets the largest number of rows in a batch.
    #[must_use]
    pub fn max_rows(self, max_rows: std::num::NonZeroUsize) -> Self {
        Self { max_rows: max_rows.get(), ..self }
    }

    /// The schema of the columns that are read.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The number of rows that the file declares; `None` for a stream.
    #[must_use]
    pub fn n_rows(&self) -> Option<u64> {
        self.n_rows
    }

    /// The name of the file in errors.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, InputError> {
        loop {
            if let Some((batch, start)) = self.rest.take() {
                let n_rows = self.max_rows.min(batch.num_rows().saturating_sub(start));
                if n_rows > 0 {
                    let slice = batch.slice(start, n_rows);
                    self.rest = Some((batch, start + n_rows));
                    return Ok(Some(slice));
                }
            }
            let (max_rows, Some(rows)) = (self.max_rows, &mut self.rows) else { return Ok(None) };
            match guard::guarded(|| rows.next_batch(max_rows))? {
                Some(batch) => self.rest = Some((batch, 0)),
                None => return Ok(None),
            }
        }
    }
}

impl Iterator for Input {
    type Item = Result<RecordBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_batch() {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => {
                self.rows = None;
                None
            }
            Err(source) => {
                self.rows = None;
                Some(Err(DatasetError::Input { place: self.place.clone(), source }))
            }
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("place", &self.place).field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileFormat {
    Parquet,
    IpcFile,
    IpcStream,
}

/// Adds to the error what the file is. Of a pipe, no more bytes are read than its format takes.
fn recognized(error: InputError, file: &mut File) -> InputError {
    let mut bytes = vec![0; Content::START];
    let n_bytes = io::Seek::rewind(file).and_then(|()| read_start(file, &mut bytes)).unwrap_or_default();
    // That it is text, its first bytes say.
    let content =
        Content::of_start(bytes.get(..n_bytes).unwrap_or_default()).filter(|content| *content != Content::Text);
    match error {
        InputError::Unrecognized { start, .. } => InputError::Unrecognized { start, content },
        error => error,
    }
}

impl FileFormat {
    /// The number of first bytes that identify the format.
    const BYTES: usize = 8;

    fn of(start: &[u8]) -> Result<Self, InputError> {
        if start.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        if start.starts_with(b"PARE") {
            return Err(InputError::Encrypted);
        }
        if start.starts_with(b"ARROW1") {
            return Ok(Self::IpcFile);
        }
        match ipc_message::begins_a_stream(start) {
            true => Ok(Self::IpcStream),
            false => Err(InputError::Unrecognized { start: start.to_vec(), content: None }),
        }
    }
}
