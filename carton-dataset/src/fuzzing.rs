//! Exposes [`sample_names`](crate::sample_names) to the fuzz targets. Its functions are otherwise reachable only through readers of whole
//! datasets.

use crate::manifest::KeyValueNames;
use crate::sample_names::{self, SampleNames};

fn of(said: &KeyValueNames) -> SampleNames {
    SampleNames::new(said.separator.clone(), said.columns.iter().cloned())
}

/// Returns the sample's name and the column's name for each of the tensor names.
pub fn split<'n>(said: &KeyValueNames, names: &[&'n str]) -> Vec<(&'n str, &'n str)> {
    let said = of(said);
    names.iter().map(|name| said.split(name)).collect()
}

/// Returns how many samples have tensors of these names.
pub fn count(said: &KeyValueNames, names: &[&str]) -> u64 {
    of(said).count(names.iter().copied())
}

/// Returns the first of these names that ends with none of the columns.
pub fn without_column<'n>(said: &KeyValueNames, names: &[&'n str]) -> Option<&'n str> {
    of(said).without_column(names.iter().copied())
}

/// Infers separator and columns from sorted names of tensors of `n_samples` samples, or of fewer.
pub fn infer(names: &[&str], n_samples: u64, may_be_columns: bool) -> Option<KeyValueNames> {
    SampleNames::infer(names, n_samples, may_be_columns).map(|names| names.to_key_value())
}

/// Returns all ways to split sorted names at this separator, each with the number of samples that it gives.
pub fn ways(names: &[&str], separator: &str) -> Vec<(u64, KeyValueNames)> {
    SampleNames::ways(names, separator).into_iter().map(|(n_samples, way)| (n_samples, way.to_key_value())).collect()
}

/// Whether tensors of these names could belong to named samples, whatever the separator is.
pub fn may_name_samples(names: &[&str]) -> bool {
    sample_names::may_name_samples(names)
}

/// Whether a tensor of the column `long` could be taken for one of the column `short`.
pub fn is_confusable(long: &str, short: &str, separator: &str) -> bool {
    sample_names::is_confusable(long, short, separator)
}
