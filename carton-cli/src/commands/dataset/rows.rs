//! Where the rows of a dataset come from: files one after the other, or standard input.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use carton_dataset::Input;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::failure;
use crate::failure::Failure;
use crate::interrupt::Wanted;

/// What stands for standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// How long is waited for input before it is looked whether it is still wanted.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

#[derive(Debug, thiserror::Error)]
enum RowsError {
    #[error("the columns of `{}` are not those of `{}`: {found}, expected {expected}", path.display(), first.display())]
    OtherColumns { path: PathBuf, first: PathBuf, found: String, expected: String },
    #[error("standard input can be read once only")]
    StandardInputTwice,
}

/// Rows of several places, all of the same columns.
pub(super) struct Rows {
    inputs: Vec<Input>,
}

impl Rows {
    /// Opens the inputs. Only `columns` are read, if there are any.
    pub(super) fn open(paths: &[PathBuf], columns: Option<&[String]>, wanted: &Wanted) -> Result<Self, Failure> {
        if paths.iter().filter(|path| is_standard_input(path)).count() > 1 {
            return Err(Failure::usage(RowsError::StandardInputTwice));
        }
        let mut inputs: Vec<Input> = Vec::with_capacity(paths.len());
        for path in paths {
            let input = match is_standard_input(path) {
                true => Input::stream(InterruptibleStdin::new(wanted), "standard input"),
                false => Input::open(path),
            };
            let input = match columns {
                Some(columns) => input.and_then(|input| input.project(columns)),
                None => input,
            };
            let input = input.map_err(failure)?;
            if let Some(first) = inputs.first()
                && !same_columns(&first.schema(), &input.schema())
            {
                let (found, expected) = (described(&input.schema()), described(&first.schema()));
                let (path, first) = (path.clone(), paths.first().cloned().unwrap_or_default());
                return Err(Failure::new(RowsError::OtherColumns { path, first, found, expected }));
            }
            inputs.push(input);
        }
        Ok(Self { inputs })
    }

    /// The columns.
    pub(super) fn schema(&self) -> SchemaRef {
        self.inputs.first().map_or_else(|| SchemaRef::new(arrow_schema::Schema::empty()), Input::schema)
    }

    /// How many rows there are, where all inputs know.
    pub(super) fn n_rows(&self) -> Option<u64> {
        self.inputs.iter().map(Input::n_rows).try_fold(0_u64, |sum, rows| sum.checked_add(rows?))
    }

    /// One after the other.
    pub(super) fn into_inputs(self) -> impl Iterator<Item = Input> {
        self.inputs.into_iter()
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Whether names and types are the same; what else a schema says, and whether there may be nulls, is no matter.
fn same_columns(one: &SchemaRef, other: &SchemaRef) -> bool {
    let columns = |schema: &SchemaRef| {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
    };
    columns(one) == columns(other)
}

fn described(schema: &SchemaRef) -> String {
    let column = |name: &str, kind: String| format!("`{}` {kind}", name.escape_debug());
    let columns: Vec<String> =
        schema.fields().iter().map(|field| column(field.name(), field.data_type().to_string())).collect();
    columns.join(", ")
}

/// Standard input that is left alone when nobody wants it any more: a writer that is interrupted would wait for its next byte.
pub(super) struct InterruptibleStdin {
    wanted: Wanted,
}

impl InterruptibleStdin {
    pub(super) fn new(wanted: &Wanted) -> Self {
        Self { wanted: wanted.clone() }
    }
}

impl Read for InterruptibleStdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        loop {
            if self.wanted.control().is_break() {
                return Err(io::Error::other("interrupted"));
            }
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&PATIENCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                // Past the buffer of the library's own handle, which a poll does not know of. At the end of input as well.
                Ok(_) => return Ok(rustix::io::read(&stdin, &mut *buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
