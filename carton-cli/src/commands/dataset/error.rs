//! Maps errors of datasets to exit codes and hints.

use std::error::Error;
use std::io;

use carton_dataset::{ColumnProblem, DatasetError, InputError};

use crate::failure::{Exit, Failure};
use crate::interrupt::InterruptError;

/// Returns the failure of the command for an error of a dataset. Rows that cannot become tensors do not count as a damaged file: the file
/// may be valid, but other contents were expected.
pub(in crate::commands) fn failure(error: DatasetError) -> Failure {
    let hint = hint(&error);
    let exit = match &error {
        DatasetError::Interrupted => return Failure::with_exit(Exit::Interrupted, InterruptError::Interrupted),
        DatasetError::Options(_) | DatasetError::NoColumn { .. } => Exit::Usage,
        DatasetError::OtherColumns { .. } => Exit::Usage,
        DatasetError::UnknownSamples { .. } | DatasetError::Layout { .. } => Exit::Usage,
        error if is_io(error) => Exit::Failure,
        DatasetError::Input { .. }
        | DatasetError::NoManifest { .. }
        | DatasetError::Manifest { .. }
        | DatasetError::Index { .. }
        | DatasetError::Attempts { .. }
        | DatasetError::Staging { .. }
        | DatasetError::Shard { .. }
        | DatasetError::MissingShard { .. }
        | DatasetError::ShardNoFile { .. }
        | DatasetError::ShardSize { .. }
        | DatasetError::ShardOutside { .. }
        | DatasetError::Samples { .. }
        | DatasetError::IndexDisagrees { .. } => Exit::Integrity,
        _ => Exit::Failure,
    };
    let failure = Failure::with_exit(exit, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Whether the operating system caused the error.
fn is_io(error: &DatasetError) -> bool {
    // Parsers report a truncated file as an IO error.
    let is_system = |error: &io::Error| error.kind() != io::ErrorKind::UnexpectedEof;
    // It is transparent: it has the system's message as its own, so the IO error is not among its causes.
    if let DatasetError::Input { source: InputError::Io(error), .. } = error {
        return is_system(error);
    }
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    causes.filter_map(|error| error.downcast_ref()).any(is_system)
}

fn hint(error: &DatasetError) -> Option<String> {
    let hint = match error {
        DatasetError::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory) =>
        {
            "a dataset is a folder, and something else is there"
        }
        DatasetError::Exists { .. } => "--overwrite replaces it",
        DatasetError::Attempts { .. } => {
            "`carton dataset merge` finishes a commit that has begun; its --attempts names those that count, and --tasks says how \
             many tasks there are"
        }
        DatasetError::AttemptRemoved { .. } => {
            "write again to another folder, or with --overwrite to replace the dataset; --task writes a part of a dataset, and \
             `carton dataset merge` commits all parts at once"
        }
        DatasetError::NoManifest { .. } => {
            "`carton dataset merge` makes it of what tasks have written, or of the shards that are there"
        }
        DatasetError::Column { problem: ColumnProblem::NeedsDtype, .. }
        | DatasetError::Row { problem: ColumnProblem::NeedsDtype, .. } => "give their dtype: --dtype COLUMN=F32",
        DatasetError::Row { problem: ColumnProblem::Shape { .. }, .. } => {
            "--shapes says which shape samples have, and without it lists are vectors"
        }
        DatasetError::Row { problem: ColumnProblem::Differs { .. }, .. } => {
            "with --batch-size all samples of a column are alike; --name-col allows each its own shape"
        }
        DatasetError::Column { problem: ColumnProblem::Unsupported(_), .. } => {
            "--columns A,B writes only some columns; --name-col takes a column of strings as names"
        }
        DatasetError::NoColumn { .. } => "names are case-sensitive",
        DatasetError::UnknownSamples { may_be_batch: true, .. } => {
            "--batch-size N says that tensors are columns of N rows, --kv-separator S that they are named after rows: NAME S COLUMN, \
             with `__` for S unless another was chosen"
        }
        DatasetError::UnknownSamples { may_be_batch: false, .. } => {
            "--kv-separator S says what stands between the names of rows and columns, `__` unless another was chosen, and --columns A,B which \
             columns there are"
        }
        DatasetError::DuplicateName { .. } => "--duplicates last-win keeps the last one",
        DatasetError::Layout { has_repeated_name: true, .. } => {
            "--duplicates last-win says that a name may be in several shards, as `duplicatesStrategy` `lastWin` of the Spark connector \
             leaves it"
        }
        DatasetError::Layout { .. } => {
            "--batch-size, --kv-separator and --columns say what the shards are that do not say it themselves"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}
