//! Splits the names of tensors in key-value mode into the names of samples and columns: `SAMPLE SEPARATOR COLUMN` without the spaces
//! (spec/dataset.md §2.1 to §2.3). Pure.
//!
//! Shards and manifest of the Spark connector do not name the separator. It is inferred from what the names of all samples have in
//! common: every sample has a tensor for every column.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use carton_tensor::safetensors::Metadata;

use crate::manifest::KeyValueNames;
use crate::options::KeyValue;
use crate::shard_metadata::{COLUMNS_KEY, SEPARATOR_KEY};

/// The largest number of columns that are inferred, because every way to split names keeps its columns in memory.
const MAX_COLUMNS: usize = 4096;
/// The longest JSON list of columns in a shard's metadata, in bytes, because every shard repeats it and it is parsed again for each.
const MAX_COLUMN_LIST: usize = 1 << 20;
/// The number of positions at which a name is split for a trial, starting from its end.
const MAX_SPLITS: usize = 256;
/// The number of separators that are tried.
const MAX_SEPARATORS: usize = 32;
/// The budget for trials: the bytes of names that are compared in all trials together, and the number of trials that are made even if
/// names are longer.
const MAX_COMPARED: usize = 256 << 20;
const MIN_TRIES: usize = 4;

/// How the names of tensors are split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleNames {
    separator: String,
    /// Empty if the columns are not known.
    columns: Columns,
}

/// The names of columns, sorted by their bytes in reverse order, so that the columns that a text can end with are adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Columns(Vec<String>);

impl Columns {
    fn new(columns: impl IntoIterator<Item = String>) -> Self {
        let mut columns: Vec<String> = columns.into_iter().collect();
        columns.sort_unstable_by(|one, other| one.bytes().rev().cmp(other.bytes().rev()));
        columns.dedup();
        Self(columns)
    }

    /// Calls `on_length` with the length of each column that `text` ends with, the shortest first, until it breaks. The time is
    /// proportional to the length of `text`.
    fn ends_of(&self, text: &str, mut on_length: impl FnMut(usize) -> ControlFlow<()>) {
        let mut candidates = self.0.as_slice();
        let mut bytes = text.bytes().rev();
        for length in 0..=text.len() {
            // All candidates end with the last `length` bytes of the text. A candidate of exactly that length sorts first.
            if let Some((first, longer)) = candidates.split_first()
                && first.len() == length
            {
                if on_length(length).is_break() {
                    return;
                }
                candidates = longer;
            }
            let (Some(first), Some(last), Some(byte)) = (candidates.first(), candidates.last(), bytes.next()) else {
                return;
            };
            let before = |column: &String| column.as_bytes().iter().nth_back(length).copied();
            if before(first) != Some(byte) || before(last) != Some(byte) {
                let from = candidates.partition_point(|column| before(column) < Some(byte));
                let to = candidates.partition_point(|column| before(column) <= Some(byte));
                candidates = candidates.get(from..to).unwrap_or_default();
            }
        }
    }

    /// Returns the length of the longest column.
    fn longest(&self) -> Option<usize> {
        self.0.iter().map(String::len).max()
    }
}

impl SampleNames {
    pub(crate) fn new(separator: impl Into<String>, columns: impl IntoIterator<Item = String>) -> Self {
        Self { separator: separator.into(), columns: Columns::new(columns) }
    }

    /// Takes separator and columns from a shard's metadata. The separator defaults to `__`; the columns are unknown if the metadata does
    /// not list them.
    ///
    /// # Errors
    /// Returns as text what is wrong with the list of columns.
    pub(crate) fn from_metadata(metadata: &Metadata) -> Result<Self, String> {
        let separator = metadata.get(SEPARATOR_KEY).unwrap_or(KeyValue::SEPARATOR);
        let Some(list) = metadata.get(COLUMNS_KEY) else { return Ok(Self::new(separator, [])) };
        check_length(list)?;
        let columns: Vec<String> =
            serde_json::from_str(list).map_err(|error| format!("`{COLUMNS_KEY}` is no list of names: {error}"))?;
        Ok(Self::new(separator, columns))
    }

    /// Splits a name into those of sample and column: at the first separator that a known column follows, else at the last separator.
    pub(crate) fn split<'n>(&self, name: &'n str) -> (&'n str, &'n str) {
        if let Some(known) = self.split_known(name) {
            return known;
        }
        if self.separator.is_empty() {
            return (name, "");
        }
        name.rsplit_once(&self.separator).unwrap_or((name, ""))
    }

    /// Splits a name that ends with a separator and a known column, of which the longest counts.
    fn split_known<'n>(&self, name: &'n str) -> Option<(&'n str, &'n str)> {
        let mut longest = None;
        self.columns.ends_of(name, |length| {
            let split = name.split_at_checked(name.len() - length);
            let known = split.and_then(|(before, column)| Some((before.strip_suffix(&self.separator)?, column)));
            longest = known.or(longest);
            ControlFlow::Continue(())
        });
        longest
    }

    /// Returns the number of samples that tensors of these names belong to.
    pub(crate) fn count<'n>(&self, names: impl Iterator<Item = &'n str>) -> u64 {
        names.map(|name| self.split(name).0).collect::<HashSet<_>>().len() as u64
    }

    /// Whether the separator is unlikely to be part of a name by chance. `user_id` and `item_id` are more likely two columns than one
    /// column of two samples.
    pub(crate) fn has_distinct_separator(&self) -> bool {
        !is_common(&self.separator)
    }

    /// Returns the first of these names that does not end with a separator and one of the columns.
    pub(crate) fn without_column<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        names.find(|name| self.split_known(name).is_none())
    }

    pub(crate) fn to_key_value(&self) -> KeyValueNames {
        let columns: BTreeSet<String> = self.columns.0.iter().cloned().collect();
        KeyValueNames { separator: self.separator.clone(), columns: columns.into_iter().collect() }
    }

    /// Infers how the sorted names of all tensors of a dataset combine those of `n_samples` samples, or of fewer if several rows had the
    /// same name and only the last one counts. `may_be_columns` says whether the tensors' shapes allow them to be columns of batches.
    pub(crate) fn infer(names: &[&str], n_samples: u64, may_be_columns: bool) -> Option<Self> {
        let longest = longest(names)?;
        let mut budget = Budget::of(names);
        let mut exact: Option<Self> = None;
        let mut fewer: Option<(u64, Self)> = None;
        for separator in separators(longest) {
            if exact.is_some() && is_common(separator) {
                break;
            }
            let is_exact = |found: u64| found == n_samples;
            each_way(names, separator, &mut budget, is_exact, |_, way| {
                // A suffix that the names of all samples share belongs to the column rather than to the samples.
                let is_longer = |other: &Self| n_samples > 1 && other.columns.longest() < way.columns.longest();
                if exact.as_ref().is_none_or(is_longer) {
                    exact = Some(way);
                }
                ControlFlow::Break(())
            });
            if exact.is_some() {
                continue;
            }
            // If all tensors share a single sample name, it may only be a prefix that some columns have in common.
            let may_be_one = !(may_be_columns && is_common(separator));
            let is_fewer = |found: u64| found < n_samples && (found > 1 || may_be_one);
            each_way(names, separator, &mut budget, is_fewer, |found, way| {
                if fewer.as_ref().is_none_or(|(most, _)| *most < found) {
                    fewer = Some((found, way));
                }
                ControlFlow::Continue(())
            });
        }
        exact.or(fewer.map(|(_, way)| way))
    }

    /// Returns all ways to split the sorted names of all tensors of a dataset at this separator, each with the number of samples that it
    /// gives; the longest columns first.
    pub(crate) fn ways(names: &[&str], separator: &str) -> Vec<(u64, Self)> {
        let mut ways = Vec::new();
        each_way(
            names,
            separator,
            &mut Budget::of(names),
            |_| true,
            |n_samples, way| {
                ways.push((n_samples, way));
                ControlFlow::Continue(())
            },
        );
        ways
    }
}

/// Returns the list of columns for a shard's metadata.
///
/// # Errors
/// Returns as text that it is longer than readers accept.
pub(crate) fn column_list(columns: &[String]) -> Result<String, String> {
    let list = serde_json::Value::from(columns).to_string();
    check_length(&list).map(|()| list)
}

fn check_length(list: &str) -> Result<(), String> {
    match list.len() {
        found if found > MAX_COLUMN_LIST => {
            Err(format!("`{COLUMNS_KEY}` has {found} bytes, expected at most {MAX_COLUMN_LIST}"))
        }
        _ => Ok(()),
    }
}

/// Whether a separator is often part of a name.
fn is_common(separator: &str) -> bool {
    matches!(separator, "" | "_" | "-" | "." | " ")
}

/// Whether tensors of these names could belong to named samples, whatever the separator is. If not, each tensor is a column of its own.
///
/// Tensors of one sample begin alike, and tensors of one column end alike. With several samples and several columns, each tensor shares
/// its first character with another one, and its last character with another one. A name of one character has no room for both a sample
/// and a column.
pub(crate) fn may_name_samples(names: &[&str]) -> bool {
    if names.iter().any(|name| name.chars().nth(1).is_none()) {
        return false;
    }
    let count = |letter: fn(&str) -> Option<char>| {
        let mut found: HashMap<Option<char>, usize> = HashMap::new();
        for name in names {
            *found.entry(letter(name)).or_default() += 1;
        }
        found
    };
    let (first, last) = (count(|name| name.chars().next()), count(|name| name.chars().next_back()));
    let is_paired = |found: &HashMap<_, usize>| found.values().all(|&n_names| n_names > 1);
    first.len() <= 1 || last.len() <= 1 || is_paired(&first) && is_paired(&last)
}

/// Whether a tensor of the column `long` could be taken for one of the column `short` of a sample with a longer name, such as `b__c` and
/// `c`. This is possible only if `long` ends with `short`, and the separator followed by the rest of `long` ends with the separator.
pub(crate) fn is_confusable(long: &str, short: &str, separator: &str) -> bool {
    long.strip_suffix(short).is_some_and(|before| {
        let (before, separator) = (before.as_bytes(), separator.as_bytes());
        // Checks that the concatenation of `separator` and `before` ends with `separator`: `start` lies in the first one, `rest` in the
        // second.
        let n_first = separator.len().saturating_sub(before.len());
        let (start, rest) = separator.split_at_checked(n_first).unwrap_or_default();
        !before.is_empty() && separator.ends_with(start) && before.ends_with(rest)
    })
}

/// Returns the longest name. No sample's name begins with the name of the longest tensor's sample and a separator, because that sample's
/// tensor of the same column would be longer. So the tensors that begin with these two are those of one sample, one for each column. The
/// exception is a column that begins as another sample's name continues, such as `b__x` beside the samples `a` and `a__b`: then no way is
/// found, and the caller of a merge is asked for the columns.
fn longest<'n>(names: &[&'n str]) -> Option<&'n str> {
    names.iter().copied().max_by_key(|name| name.len())
}

/// Returns the possible separators in this name, the likeliest first: the default `__`, then the text between letters and digits, from
/// the end on, then strings that are often part of a name, then the empty string.
fn separators(name: &str) -> Vec<&str> {
    let mut found: Vec<&str> = name.split(char::is_alphanumeric).filter(|text| !text.is_empty()).collect();
    found.reverse();
    found.sort_by_key(|text| (*text != KeyValue::SEPARATOR, is_common(text)));
    let mut seen = HashSet::new();
    found.retain(|text| text.len() <= KeyValue::MAX_SEPARATOR && seen.insert(*text));
    found.truncate(MAX_SEPARATORS);
    if !found.contains(&KeyValue::SEPARATOR) && name.contains(KeyValue::SEPARATOR) {
        found.insert(0, KeyValue::SEPARATOR);
    }
    found.push("");
    found
}

/// Limits how many trial splits are compared with all names.
struct Budget {
    n_tries: usize,
}

impl Budget {
    fn of(names: &[&str]) -> Self {
        let n_bytes = names.iter().map(|name| name.len()).sum::<usize>().max(1);
        Self { n_tries: (MAX_COMPARED / n_bytes).max(MIN_TRIES) }
    }

    fn take(&mut self) -> bool {
        let is_left = self.n_tries > 0;
        self.n_tries = self.n_tries.saturating_sub(1);
        is_left
    }
}

/// Calls `on_way` with each way to split all names at this separator for which `is_wanted` accepts the number of samples, until it
/// breaks. In such a way, every sample has a tensor for every column.
fn each_way(
    names: &[&str],
    separator: &str,
    budget: &mut Budget,
    is_wanted: impl Fn(u64) -> bool,
    mut on_way: impl FnMut(u64, SampleNames) -> ControlFlow<()>,
) {
    let Some(name) = longest(names) else { return };
    // The name of a sample may be empty, but only if there is a separator to mark it.
    let first = usize::from(separator.is_empty());
    let is_split = |&position: &usize| {
        name.get(position..).is_some_and(|rest| rest.starts_with(separator) && rest.len() > separator.len())
    };
    let mut splits: Vec<usize> = (first..name.len()).rev().filter(is_split).take(MAX_SPLITS).collect();
    splits.reverse();
    let n_names = names.len() as u64;
    for split in splits {
        let Some(start) = name.get(..split + separator.len()) else { continue };
        let from = names.partition_point(|other| *other < start);
        let rest = names.get(from..).unwrap_or_default();
        let n_columns = rest.partition_point(|other| other.starts_with(start));
        let n_samples = n_names.checked_div(n_columns as u64).unwrap_or(0);
        let is_even = n_samples * n_columns as u64 == n_names;
        if n_columns > MAX_COLUMNS || !is_even || !is_wanted(n_samples) || !budget.take() {
            continue;
        }
        let columns: Vec<&str> = rest.iter().take(n_columns).filter_map(|other| other.strip_prefix(start)).collect();
        if let Some(way) = way(names, separator, &columns, n_samples)
            && on_way(n_samples, way).is_break()
        {
            return;
        }
    }
}

/// Returns the split if each name ends with a column, and every sample has every column.
fn way(names: &[&str], separator: &str, columns: &[&str], n_samples: u64) -> Option<SampleNames> {
    let way = SampleNames::new(separator, columns.iter().map(|column| (*column).to_owned()));
    if columns.iter().any(|column| column.is_empty()) {
        return None;
    }
    let mut samples: HashMap<&str, usize> = HashMap::new();
    for name in names {
        let (sample, _) = way.split_known(name)?;
        if sample.is_empty() && separator.is_empty() {
            return None;
        }
        *samples.entry(sample).or_default() += 1;
    }
    let is_whole = samples.len() as u64 == n_samples && samples.values().all(|&found| found == columns.len());
    is_whole.then_some(way)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_at_a_known_column() {
        let check = |separator: &str, columns: &[&str], name: &str, expected: (&str, &str)| {
            let names = SampleNames::new(separator, columns.iter().map(|&column| column.to_owned()));
            assert_eq!(names.split(name), expected, "{name} at {separator:?}, {columns:?}");
        };
        check("__", &[], "a__b__x", ("a__b", "x"));
        check("__", &[], "a", ("a", ""));
        check("__", &["input__ids", "x"], "r__input__ids", ("r", "input__ids"));
        check("__", &["_x"], "a___x", ("a", "_x"));
        check("__", &["y"], "a__b__x", ("a__b", "x"));
        check("__", &["x"], "é__x", ("é", "x"));
        check("", &["x", "y"], "ax", ("a", "x"));
        check("", &[], "ax", ("ax", ""));
    }

    #[test]
    fn separators_are_found() {
        let check_of = |may_be_columns, n_samples: u64, names: &[&str], expected: Option<(&str, &[&str], u64)>| {
            let mut names = names.to_vec();
            names.sort_unstable();
            let found = SampleNames::infer(&names, n_samples, may_be_columns);
            let found = found.map(|found| {
                let KeyValueNames { separator, columns } = found.to_key_value();
                (separator, columns, found.count(names.iter().copied()))
            });
            let expected = expected.map(|(separator, columns, n_samples)| {
                let columns: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
                (separator.to_owned(), columns, n_samples)
            });
            assert_eq!(found, expected, "{names:?}");
        };
        let check = |n_samples, names: &[&str], expected| check_of(true, n_samples, names, expected);
        check(2, &["a__x", "b__x", "a__y", "b__y"], Some(("__", &["x", "y"], 2)));
        check(2, &["a/x", "b/x"], Some(("/", &["x"], 2)));
        check(2, &["user-1::x_y", "user-2::x_y"], Some(("::", &["x_y"], 2)));
        check(1, &["a::x"], Some(("::", &["x"], 1)));
        // The names of samples and of columns may contain separators.
        check(2, &["a__in__x", "a__out__x", "b__in__x", "b__out__x"], Some(("__", &["in__x", "out__x"], 2)));
        check(4, &["a__in__x", "a__out__x", "b__in__x", "b__out__x"], Some(("__", &["x"], 4)));
        check(2, &["a__in__x", "a__y", "b__in__x", "b__y"], Some(("__", &["in__x", "y"], 2)));
        check(2, &["cat__x", "cat__id", "e__l__k__x", "e__l__k__id"], Some(("__", &["id", "x"], 2)));
        check(2, &["a", "a__b"].map(|row| format!("{row}__x")).each_ref().map(|s| s.as_str()), Some(("__", &["x"], 2)));
        // A column may end with the separator and another column: the number of samples decides.
        check(2, &["a__emb", "a__x__emb", "b__emb", "b__x__emb"], Some(("__", &["emb", "x__emb"], 2)));
        check(4, &["a__emb", "a__x__emb", "b__emb", "b__x__emb"], Some(("__", &["emb"], 4)));
        check(2, &["1_mask", "1_my_mask", "2_mask", "2_my_mask"], Some(("_", &["mask", "my_mask"], 2)));
        // An empty separator.
        check(2, &["aemb", "bemb", "aid", "bid"], Some(("", &["emb", "id"], 2)));
        check(3, &["1emb", "10emb", "100emb"], Some(("", &["emb"], 3)));
        // Of several rows with one name, only the last one counts.
        check(9, &["a/x", "b/x"], Some(("/", &["x"], 2)));
        check(9, &["aemb", "bemb", "aid", "bid"], Some(("", &["emb", "id"], 2)));
        check(9, &["a__x", "a__y"], Some(("__", &["x", "y"], 1)));
        check(9, &["a/x", "a/y"], Some(("/", &["x", "y"], 1)));
        check(9, &["a/in/x", "a/in/y"], Some(("/", &["in/x", "in/y"], 1)));
        check(9, &["a_x", "a_y"], None);
        check_of(false, 9, &["a_x", "a_y"], Some(("_", &["x", "y"], 1)));
        check_of(false, 9, &["x", "y"], None);
        // Columns of batches.
        check(64, &["image", "label"], None);
        check(64, &["image"], None);
        check(64, &["input_ids", "input_mask"], None);
        check(1, &["a__x", "a__y", "b__x"], None);
        check(0, &[], None);
    }

    #[test]
    fn columns_that_end_alike_are_confusable_where_the_separator_is_between_them() {
        let check = |long: &str, short: &str, separator: &str, expected: bool| {
            assert_eq!(is_confusable(long, short, separator), expected, "{long} {short} {separator}");
            // Compares with the definition.
            let before = long.strip_suffix(short).filter(|before| !before.is_empty());
            assert_eq!(before.is_some_and(|before| format!("{separator}{before}").ends_with(separator)), expected);
        };
        check("b__c", "c", "__", true);
        check("_c", "c", "__", true);
        check("bc", "c", "__", false);
        check("b/c", "c", "/", true);
        check("bc", "c", "", true);
        check("c", "c", "__", false);
        check("b_c", "c", "a_b_", false);
        check("b_c", "c", "b_a_b_", false);
        check("babc", "c", "bab", true);
        check("abc", "c", "abab", true);
        check("ac", "c", "ab", false);
    }

    #[test]
    fn some_names_are_those_of_columns() {
        let check = |names: &[&str], expected: bool| assert_eq!(may_name_samples(names), expected, "{names:?}");
        check(&["x", "y"], false);
        check(&["image", "label"], false);
        check(&["input_ids", "attention_mask", "labels"], false);
        check(&["input__ids", "attention__mask"], false);
        check(&["image"], true);
        check(&["input_ids", "input_mask"], true);
        check(&["user_id", "item_id"], true);
        check(&["ax", "by", "ay", "bx"], true);
        check(&["a__x"], true);
        check(&["é"], false);
    }

    /// Names for which a naive algorithm would take quadratic time.
    #[test]
    fn long_names_are_taken_apart_soon() {
        let long = "_".repeat(4 << 20);
        let other = format!("{long}x");
        let names = [long.as_str(), other.as_str()];
        let start = std::time::Instant::now();
        let _ = SampleNames::infer(&names, 7, true);
        let many: Vec<String> = (0..20_000).map(|i| format!("{i:06}_{i:06}_{i:06}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(SampleNames::infer(&many, 7, true), None);
        // Each column ends with all shorter columns.
        let nested: Vec<String> = (1..=4096).map(|length| format!("/{}", "a".repeat(length))).collect();
        let mut nested: Vec<&str> = nested.iter().map(String::as_str).collect();
        nested.sort_unstable();
        assert!(SampleNames::infer(&nested, 1, true).is_some());
        assert_eq!(SampleNames::infer(&nested, 0, true), None);
        // All names but one can be split, in many ways.
        let mixed: Vec<String> =
            nested.iter().map(|name| format!("{}{name}", "./-:".repeat(8))).chain(["x".to_owned()]).collect();
        let mut mixed: Vec<&str> = mixed.iter().map(String::as_str).collect();
        mixed.sort_unstable();
        let _ = SampleNames::infer(&mixed, 1, true);
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
