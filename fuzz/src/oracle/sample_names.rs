//! Arbitrary text as names of tensors in key-value mode. Splitting names and joining the parts gives the same names; splitting finds
//! the samples that a brute-force search finds, and misses no possible way.

use std::collections::{BTreeMap, BTreeSet};

use carton_dataset::KeyValueNames;
use carton_dataset::fuzzing::{count, infer, is_confusable, may_name_samples, split, ways, without_column};

use crate::generate::names::{Names, names_of};

/// The longest input for the brute-force search, which takes quadratic time.
const MAX_SEARCHED: usize = 256;
/// Separators that often occur inside names. They are only inferred if there is no other separator.
const COMMON: [&str; 5] = ["", "_", "-", ".", " "];

/// Checks these bytes. Returns whether the names in them can be those of samples.
pub fn check(bytes: &[u8]) -> bool {
    let Names { names, n_samples, may_be_columns, said } = names_of(bytes);
    check_split(&said, &names);
    for long in said.columns.iter().take(16) {
        for short in said.columns.iter().take(16) {
            let before = long.strip_suffix(short.as_str()).filter(|before| !before.is_empty());
            let is_taken_for =
                before.is_some_and(|before| format!("{}{before}", said.separator).ends_with(&said.separator));
            assert_eq!(is_confusable(long, short, &said.separator), is_taken_for, "{long:?} {short:?}");
        }
    }
    let found = ways(&names, &said.separator);
    for (n_samples, way) in &found {
        assert_eq!(way.separator, said.separator);
        check_way(way, *n_samples, &names);
    }
    // Names that cannot belong to samples cannot be split.
    assert!(found.is_empty() || may_name_samples(&names), "{names:?}");
    if bytes.len() <= MAX_SEARCHED {
        let found: BTreeSet<&[String]> = found.iter().map(|(_, way)| way.columns.as_slice()).collect();
        for columns in searched(&names, &said.separator) {
            let way = KeyValueNames { separator: said.separator.clone(), columns: columns.clone() };
            if hides_longest(&way, &names) {
                continue;
            }
            assert!(found.contains(columns.as_slice()), "{columns:?} of {names:?}");
        }
    }
    match infer(&names, n_samples, may_be_columns) {
        Some(way) => {
            let found = count(&way, &names);
            assert!(found <= n_samples, "{found} samples of {n_samples}");
            let is_one_of_many = found == 1 && n_samples > 1;
            assert!(!is_one_of_many || !may_be_columns || !COMMON.contains(&way.separator.as_str()), "{way:?}");
            check_way(&way, found, &names);
            // Inferring again with the number of samples that was found must succeed.
            let again = infer(&names, found, may_be_columns).expect("there is a way");
            check_way(&again, found, &names);
            true
        }
        None => !found.is_empty(),
    }
}

/// Checks that names are split at the first separator that a column follows, otherwise at the last separator.
fn check_split(said: &KeyValueNames, names: &[&str]) {
    let mut samples = BTreeSet::new();
    for (&name, (sample, column)) in names.iter().zip(split(said, names)) {
        samples.insert(sample);
        match known(said, name) {
            Some(expected) => assert_eq!((sample, column), expected, "{name:?}"),
            None if said.separator.is_empty() || !name.contains(&said.separator) => {
                assert_eq!((sample, column), (name, ""));
            }
            None => {
                assert_eq!(format!("{sample}{}{column}", said.separator), name);
                let mut later = name.char_indices().filter(|(position, _)| *position > sample.len());
                let rest = later.next().map_or("", |(position, _)| &name[position..]);
                assert!(!rest.contains(&said.separator), "{name:?} has a later separator");
            }
        }
    }
    assert_eq!(count(said, names), samples.len() as u64);
    assert_eq!(without_column(said, names), names.iter().copied().find(|name| known(said, name).is_none()));
}

/// Splits a name by definition: at the first separator that one of the columns follows.
fn known<'n>(said: &KeyValueNames, name: &'n str) -> Option<(&'n str, &'n str)> {
    let positions = name.char_indices().map(|(position, _)| position).chain([name.len()]);
    positions.into_iter().find_map(|position| {
        let (sample, rest) = name.split_at(position);
        let column = rest.strip_prefix(said.separator.as_str())?;
        said.columns.iter().any(|known| known == column).then_some((sample, column))
    })
}

/// Checks that every sample has a tensor of every column, and that there are no other tensors.
fn check_way(way: &KeyValueNames, n_samples: u64, names: &[&str]) {
    assert!(!way.columns.is_empty() && way.columns.is_sorted());
    assert_eq!(n_samples * way.columns.len() as u64, names.len() as u64, "{way:?}");
    assert_eq!(count(way, names), n_samples);
    assert_eq!(without_column(way, names), None);
    let apart = split(way, names);
    let samples: BTreeSet<&str> = apart.iter().map(|(sample, _)| *sample).collect();
    let columns = way.columns.iter();
    let together: BTreeSet<String> = columns
        .flat_map(|column| samples.iter().map(move |sample| format!("{sample}{}{column}", way.separator)))
        .collect();
    assert!(together.iter().map(String::as_str).eq(names.iter().copied()), "{way:?} makes {together:?} of {names:?}");
}

/// Returns the columns of all ways to split the names: for each possible sample of each name, the columns of that sample, if they fit
/// all names.
fn searched(names: &[&str], separator: &str) -> BTreeSet<Vec<String>> {
    let mut ways = BTreeSet::new();
    for name in names {
        for (position, _) in name.char_indices() {
            let (sample, rest) = name.split_at(position);
            if !rest.starts_with(separator) || sample.is_empty() && separator.is_empty() {
                continue;
            }
            let start = format!("{sample}{separator}");
            let columns = names.iter().filter_map(|name| name.strip_prefix(start.as_str())).map(str::to_owned);
            let mut columns: Vec<String> = columns.collect();
            columns.sort_unstable();
            let way = KeyValueNames { separator: separator.to_owned(), columns };
            if is_whole(&way, names) {
                ways.insert(way.columns);
            }
        }
    }
    ways
}

/// Whether a tensor of another sample begins like the tensors of the sample with the longest name. For example, `a` has `a__b__x`, and
/// `a__b` has `a__b__b__x`, both of the column `b__x`. Inference does not find such a way, so the columns must be specified.
fn hides_longest(way: &KeyValueNames, names: &[&str]) -> bool {
    let longest = names.iter().copied().max_by_key(|name| name.len());
    let Some((sample, _)) = longest.and_then(|name| known(way, name)) else { return false };
    let start = format!("{sample}{}", way.separator);
    names.iter().filter(|name| name.starts_with(&start)).count() != way.columns.len()
}

fn is_whole(way: &KeyValueNames, names: &[&str]) -> bool {
    if way.columns.iter().any(String::is_empty) {
        return false;
    }
    let mut samples: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        match known(way, name) {
            Some((sample, _)) if !(sample.is_empty() && way.separator.is_empty()) => {
                *samples.entry(sample).or_default() += 1;
            }
            _ => return false,
        }
    }
    samples.values().all(|&n_columns| n_columns == way.columns.len())
}
