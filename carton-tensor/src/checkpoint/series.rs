//! Files that their names count: `model-00001-of-00004.safetensors` (spec/safetensors.md §7.4). Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{LISTED, ShardedError};
use crate::safetensors::ShardIndex;

/// How the files of a series end.
const ENDINGS: [&str; 4] = [".safetensors", ".bin", ".pt", ".pth"];

/// Files whose names count them: their prefix, their number, and how their names end.
pub(super) type Series<'n> = (&'n str, &'n str, &'n str);

/// Checks that the index names all files of each series (§7.4). Returns the series.
pub(super) fn check_series<'i>(index: &'i ShardIndex, place: &str) -> Result<BTreeSet<Series<'i>>, ShardedError> {
    // For each series, the numbers and how many digits they have.
    let mut series: BTreeMap<Series<'_>, (BTreeSet<u32>, usize)> = BTreeMap::new();
    for file in index.files().filter_map(Numbered::parse) {
        let (numbers, width) = series.entry(file.series()).or_default();
        numbers.extend(file.number.parse::<u32>());
        *width = file.number.len();
    }
    for (&(prefix, total, ending), (numbers, width)) in &series {
        let Ok(n_files) = total.parse::<u32>() else { continue };
        // Almost all writers count from 1.
        let first = u32::from(!numbers.contains(&0));
        let expected = first..first.saturating_add(n_files);
        let count = n_files as usize - numbers.range(expected.clone()).count();
        if count > 0 {
            let missing = expected.filter(|number| !numbers.contains(number)).take(LISTED);
            let files = missing.map(|number| format!("{prefix}-{number:0width$}-of-{total}{ending}")).collect();
            return Err(ShardedError::MissingShards { place: place.to_owned(), files, count, section: "7.4" });
        }
    }
    Ok(series.into_keys().collect())
}

/// A name of the form `PREFIX-NUMBER-of-TOTAL.safetensors`, or with another ending of files that an index names.
pub(super) struct Numbered<'n> {
    prefix: &'n str,
    number: &'n str,
    total: &'n str,
    ending: &'n str,
}

impl<'n> Numbered<'n> {
    pub(super) fn parse(name: &'n str) -> Option<Self> {
        let (stem, ending) = ENDINGS.iter().find_map(|ending| Some((name.strip_suffix(ending)?, *ending)))?;
        let (rest, total) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let is_number = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(number) && is_number(total)).then_some(Self { prefix, number, total, ending })
    }

    /// The series that the file belongs to.
    pub(super) fn series(&self) -> Series<'n> {
        (self.prefix, self.total, self.ending)
    }
}
