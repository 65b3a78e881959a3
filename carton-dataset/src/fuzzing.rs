//! A door to [`sample_names`](crate::sample_names) for the fuzz targets: what takes names of tensors apart is behind readers of whole
//! datasets otherwise.

use crate::manifest::KeyValueNames;
use crate::sample_names::{self, SampleNames};

fn of(said: &KeyValueNames) -> SampleNames {
    SampleNames::new(said.separator.clone(), said.columns.iter().cloned())
}

/// The name of the sample and that of the column, of each of these.
pub fn split<'n>(said: &KeyValueNames, names: &[&'n str]) -> Vec<(&'n str, &'n str)> {
    let said = of(said);
    names.iter().map(|name| said.split(name)).collect()
}

/// How many samples have tensors of these names.
pub fn count(said: &KeyValueNames, names: &[&str]) -> u64 {
    of(said).count(names.iter().copied())
}

/// The first of these names that ends with none of the columns.
pub fn without_column<'n>(said: &KeyValueNames, names: &[&'n str]) -> Option<&'n str> {
    of(said).without_column(names.iter().copied())
}

/// How names that are sorted are made of those of so many samples, or of fewer.
pub fn infer(names: &[&str], n_samples: u64, may_be_columns: bool) -> Option<KeyValueNames> {
    SampleNames::infer(names, n_samples, may_be_columns).map(|names| names.to_key_value())
}

/// All ways to take names that are sorted apart at this separator, with the samples that there are then.
pub fn ways(names: &[&str], separator: &str) -> Vec<(u64, KeyValueNames)> {
    SampleNames::ways(names, separator).into_iter().map(|(n_samples, way)| (n_samples, way.to_key_value())).collect()
}

/// Whether tensors of these names could be those of samples, whatever the separator is.
pub fn may_name_samples(names: &[&str]) -> bool {
    sample_names::may_name_samples(names)
}

/// Whether a tensor of the column `long` could be taken for one of the column `short`.
pub fn is_confusable(long: &str, short: &str, separator: &str) -> bool {
    sample_names::is_confusable(long, short, separator)
}
