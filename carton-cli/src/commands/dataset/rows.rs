//! The source of a dataset's rows: files one after another, the files of folders, or standard input.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Field, FieldRef, Schema, SchemaRef};
use carton_core::CancelToken;
use carton_dataset::Input;
use carton_dataset::column::ExtensionType;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{failure, row_types};
use crate::failure::Failure;

/// The argument that means standard input.
pub(in crate::commands) const STANDARD_INPUT: &str = "-";

/// Interval at which a wait for input checks the cancel token.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

#[derive(Debug, thiserror::Error)]
enum RowsError {
    #[error("the columns of `{}` are not those of `{}`: {found}, expected {expected}", path.display(), first.display())]
    OtherColumns { path: PathBuf, first: PathBuf, found: String, expected: String },
    #[error("standard input can be read once only")]
    StandardInputTwice,
    #[error("there are no files with rows in `{}`", folder.display())]
    EmptyFolder { folder: PathBuf },
    #[error("`{}` is a folder in a folder of rows, expected files only", folder.display())]
    NestedFolder { folder: PathBuf },
    #[error("cannot read `{}`", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
}

/// The rows of several inputs, all with the same columns.
pub(in crate::commands) struct Rows {
    inputs: Vec<(Input, Arrangement)>,
}

/// Makes record batches of one input as those of the first input.
pub(in crate::commands) struct Arrangement {
    /// The positions of the input's columns in the order of the first input's columns.
    order: Vec<usize>,
    first: SchemaRef,
}

impl Arrangement {
    /// Returns the rows with the columns of the first input, in its order and of its types.
    ///
    /// # Errors
    /// The rows have other columns than the input said.
    pub(in crate::commands) fn apply(&self, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        row_types::retype(rows.project(&self.order)?, &self.first)
    }
}

impl Rows {
    /// Opens the inputs. A folder stands for its files. `choose` is given the schema of the first one, and returns the columns to read; all if `None`.
    pub(in crate::commands) fn open(
        paths: &[PathBuf],
        mut choose: impl FnMut(&Schema) -> Option<Vec<String>>,
        cancel_token: &CancelToken,
    ) -> Result<Self, Failure> {
        if paths.iter().filter(|path| is_standard_input(path)).count() > 1 {
            return Err(Failure::usage(RowsError::StandardInputTwice));
        }
        let mut inputs: Vec<(Input, Arrangement)> = Vec::with_capacity(paths.len());
        let mut columns: Option<Option<Vec<String>>> = None;
        let paths = files_of(paths)?;
        for path in &paths {
            let input = match is_standard_input(path) {
                true => Input::stream(InterruptibleStdin::new(cancel_token), "standard input"),
                false => Input::open(path),
            };
            let input = input.map_err(failure)?;
            let input = match columns.get_or_insert_with(|| choose(&input.schema())) {
                Some(columns) => input.project(columns).map_err(failure)?,
                None => input,
            };
            let first = inputs.first().map_or_else(|| input.schema(), |(first, _)| first.schema());
            let order = order(&first, &input.schema()).ok_or_else(|| {
                let (found, expected) = (described(&input.schema()), described(&first));
                let (path, first) = (path.clone(), paths.first().cloned().unwrap_or_default());
                Failure::new(RowsError::OtherColumns { path, first, found, expected })
            })?;
            inputs.push((input, Arrangement { order, first }));
        }
        Ok(Self { inputs })
    }

    /// Restricts reading to these columns.
    pub(in crate::commands) fn project(self, columns: &[String]) -> Result<Self, Failure> {
        let mut inputs: Vec<(Input, Arrangement)> = Vec::with_capacity(self.inputs.len());
        for (input, _) in self.inputs {
            let input = input.project(columns).map_err(failure)?;
            let first = inputs.first().map_or_else(|| input.schema(), |(first, _)| first.schema());
            // All inputs have the same columns, so that there is an order.
            let order = order(&first, &input.schema()).unwrap_or_default();
            inputs.push((input, Arrangement { order, first }));
        }
        Ok(Self { inputs })
    }

    /// The columns of the first input. Values of a column may be null if one of the inputs allows that.
    pub(in crate::commands) fn schema(&self) -> SchemaRef {
        let Some((first, _)) = self.inputs.first() else { return SchemaRef::new(Schema::empty()) };
        let first = first.schema();
        let is_nullable = |place: usize| {
            let field = |(input, arrangement): &(Input, Arrangement)| {
                arrangement.order.get(place).is_some_and(|position| input.schema().field(*position).is_nullable())
            };
            self.inputs.iter().any(field)
        };
        let fields = first.fields().iter().enumerate();
        let fields: Vec<Field> =
            fields.map(|(place, field)| field.as_ref().clone().with_nullable(is_nullable(place))).collect();
        SchemaRef::new(Schema::new_with_metadata(fields, first.metadata().clone()))
    }

    /// The total number of rows, if all inputs declare theirs.
    pub(in crate::commands) fn n_rows(&self) -> Option<u64> {
        self.inputs.iter().map(|(input, _)| input.n_rows()).try_fold(0_u64, |sum, rows| sum.checked_add(rows?))
    }

    /// Returns the inputs in order.
    pub(in crate::commands) fn into_inputs(self) -> impl Iterator<Item = (Input, Arrangement)> {
        self.inputs.into_iter()
    }
}

/// Replaces each folder by its files, sorted by name. Programs that write tables as folders give the names of files that are not part of
/// the table `_` or `.` as their first character.
fn files_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        if is_standard_input(path) || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let unreadable = |source| Failure::new(RowsError::Folder { folder: path.clone(), source });
        let entries: Vec<_> = fs::read_dir(path).and_then(Iterator::collect).map_err(unreadable)?;
        let is_shown =
            |name: &OsStr| !name.as_encoded_bytes().starts_with(b"_") && !name.as_encoded_bytes().starts_with(b".");
        let mut inside: Vec<PathBuf> =
            entries.iter().filter(|entry| is_shown(&entry.file_name())).map(fs::DirEntry::path).collect();
        inside.sort_unstable();
        if inside.is_empty() {
            return Err(Failure::usage(RowsError::EmptyFolder { folder: path.clone() }));
        }
        if let Some(folder) = inside.iter().find(|inner| inner.is_dir()) {
            let nested = Failure::usage(RowsError::NestedFolder { folder: folder.clone() });
            return Err(nested.hint("name the folders that have files, in the order of their rows"));
        }
        files.append(&mut inside);
    }
    Ok(files)
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Returns the positions in `other` of the columns of `first`, if both have the same columns. Names and extension types must be equal, and
/// types as far as [`row_types::is_same`] compares them; the order and whether values may be null do not matter.
fn order(first: &SchemaRef, other: &SchemaRef) -> Option<Vec<usize>> {
    let is_same = |(one, other): (&FieldRef, &FieldRef)| {
        one.name() == other.name()
            && row_types::is_same(one.data_type(), other.data_type())
            && ExtensionType::is_same(one, other)
    };
    if first.fields().len() != other.fields().len() {
        return None;
    }
    if first.fields().iter().zip(other.fields()).all(is_same) {
        return Some((0..first.fields().len()).collect());
    }
    let place = |field: &FieldRef| other.fields().iter().position(|found| is_same((field, found)));
    let order: Vec<usize> = first.fields().iter().map(place).collect::<Option<_>>()?;
    // Two columns of one name cannot be told apart.
    let distinct: BTreeSet<usize> = order.iter().copied().collect();
    (distinct.len() == order.len()).then_some(order)
}

fn described(schema: &SchemaRef) -> String {
    let column = |field: &FieldRef| {
        let extension = ExtensionType::described(field).map(|extension| format!(" as {extension}"));
        format!("`{}` {}{}", field.name().escape_debug(), field.data_type(), extension.unwrap_or_default())
    };
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}

/// Standard input that stops reading when the cancel token is cancelled. A plain read would block until the next byte arrives.
pub(in crate::commands) struct InterruptibleStdin {
    cancel_token: CancelToken,
}

impl InterruptibleStdin {
    pub(in crate::commands) fn new(cancel_token: &CancelToken) -> Self {
        Self { cancel_token: cancel_token.clone() }
    }
}

impl Read for InterruptibleStdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        loop {
            if self.cancel_token.is_cancelled() {
                return Err(io::Error::other("interrupted"));
            }
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&PATIENCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                // Reads directly, bypassing the standard library's buffer, of which `poll` knows nothing. Also reached at the end of
                // input.
                Ok(_) => return Ok(rustix::io::read(&stdin, &mut *buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
