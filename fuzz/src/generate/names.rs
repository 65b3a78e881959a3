//! Names of tensors, and claims about their structure.

use std::collections::BTreeSet;

use carton_dataset::KeyValueNames;

use super::pieces::text_of;

/// Names, and claims about them that need not be true.
pub struct Names<'i> {
    /// Sorted and distinct.
    pub names: Vec<&'i str>,
    /// The claimed number of samples.
    pub n_samples: u64,
    /// Whether the tensors could be columns of batches.
    pub may_be_columns: bool,
    /// The claimed separator and columns, with the columns sorted.
    pub said: KeyValueNames,
}

/// The separator between columns.
pub const COLUMN_END: char = '\t';

/// Parses the lines of an input: a number of samples, preceded by `!` if the tensors cannot be columns; the separator; the columns; and
/// the names.
pub fn names_of(input: &[u8]) -> Names<'_> {
    let mut lines = text_of(input).split('\n');
    let n_samples = lines.next().unwrap_or_default();
    let (may_be_columns, n_samples) = match n_samples.strip_prefix('!') {
        Some(rest) => (false, rest),
        None => (true, n_samples),
    };
    let separator = lines.next().unwrap_or_default().to_owned();
    let columns = lines.next().unwrap_or_default().split(COLUMN_END).filter(|column| !column.is_empty());
    let columns: BTreeSet<String> = columns.map(str::to_owned).collect();
    let names: BTreeSet<&str> = lines.collect();
    Names {
        names: names.into_iter().collect(),
        n_samples: n_samples.parse().unwrap_or(2),
        may_be_columns,
        said: KeyValueNames { separator, columns: columns.into_iter().collect() },
    }
}
