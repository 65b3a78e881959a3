//! Where the rows of a dataset come from: files one after the other, or standard input.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use arrow_schema::{FieldRef, SchemaRef};
use carton_core::CancelToken;
use carton_dataset::Input;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::failure;
use crate::failure::Failure;

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
    /// Each with the positions of its columns in the order of the first one's.
    inputs: Vec<(Input, Vec<usize>)>,
}

impl Rows {
    /// Opens the inputs. Only `columns` are read, if there are any.
    pub(super) fn open(
        paths: &[PathBuf],
        columns: Option<&[String]>,
        cancel_token: &CancelToken,
    ) -> Result<Self, Failure> {
        if paths.iter().filter(|path| is_standard_input(path)).count() > 1 {
            return Err(Failure::usage(RowsError::StandardInputTwice));
        }
        let mut inputs: Vec<(Input, Vec<usize>)> = Vec::with_capacity(paths.len());
        for path in paths {
            let input = match is_standard_input(path) {
                true => Input::stream(InterruptibleStdin::new(cancel_token), "standard input"),
                false => Input::open(path),
            };
            let input = match columns {
                Some(columns) => input.and_then(|input| input.project(columns)),
                None => input,
            };
            let input = input.map_err(failure)?;
            let first = inputs.first().map_or_else(|| input.schema(), |(first, _)| first.schema());
            let order = order(&first, &input.schema()).ok_or_else(|| {
                let (found, expected) = (described(&input.schema()), described(&first));
                let (path, first) = (path.clone(), paths.first().cloned().unwrap_or_default());
                Failure::new(RowsError::OtherColumns { path, first, found, expected })
            })?;
            inputs.push((input, order));
        }
        Ok(Self { inputs })
    }

    /// The columns.
    pub(super) fn schema(&self) -> SchemaRef {
        self.inputs.first().map_or_else(|| SchemaRef::new(arrow_schema::Schema::empty()), |(first, _)| first.schema())
    }

    /// How many rows there are, where all inputs know.
    pub(super) fn n_rows(&self) -> Option<u64> {
        self.inputs.iter().map(|(input, _)| input.n_rows()).try_fold(0_u64, |sum, rows| sum.checked_add(rows?))
    }

    /// One after the other, with the positions of its columns in the order of the first one's.
    pub(super) fn into_inputs(self) -> impl Iterator<Item = (Input, Vec<usize>)> {
        self.inputs.into_iter()
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Where the columns of `first` are in `other`, if it has these and no other ones: names and types count, and neither their order nor
/// whether there may be nulls.
fn order(first: &SchemaRef, other: &SchemaRef) -> Option<Vec<usize>> {
    let is_same =
        |(one, other): (&FieldRef, &FieldRef)| one.name() == other.name() && one.data_type() == other.data_type();
    if first.fields().len() != other.fields().len() {
        return None;
    }
    if first.fields().iter().zip(other.fields()).all(is_same) {
        return Some((0..first.fields().len()).collect());
    }
    let place = |field: &FieldRef| other.fields().iter().position(|found| is_same((field, found)));
    let order: Vec<usize> = first.fields().iter().map(place).collect::<Option<_>>()?;
    // Two columns of one name could be taken for each other.
    let distinct: BTreeSet<usize> = order.iter().copied().collect();
    (distinct.len() == order.len()).then_some(order)
}

fn described(schema: &SchemaRef) -> String {
    let column = |name: &str, kind: String| format!("`{}` {kind}", name.escape_debug());
    let columns: Vec<String> =
        schema.fields().iter().map(|field| column(field.name(), field.data_type().to_string())).collect();
    columns.join(", ")
}

/// Standard input that is left alone when nobody wants it any more: a writer that is interrupted would wait for its next byte.
pub(super) struct InterruptibleStdin {
    cancel_token: CancelToken,
}

impl InterruptibleStdin {
    pub(super) fn new(cancel_token: &CancelToken) -> Self {
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
                // Past the buffer of the library's own handle, which a poll does not know of. At the end of input as well.
                Ok(_) => return Ok(rustix::io::read(&stdin, &mut *buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
