//! Parses and writes `dataset_manifest.json` (spec/dataset.md §3). Pure: bytes in, entries out. It does not look at the files that a
//! manifest names; [`verify`](crate::verify) does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use carton_tensor::MAX_RANK;
use carton_tensor::safetensors::parse_dtype;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::options::check_separator;
use crate::part_name::PartName;
use crate::shard_path;

/// The file name of the manifest.
pub const MANIFEST_NAME: &str = "dataset_manifest.json";
/// The version of the dataset's layout that is written.
pub const FORMAT_VERSION: &str = "1.0";
/// The version of the shards' file format that is written.
pub const SAFETENSORS_VERSION: &str = "1.0";

/// The contents of a dataset. A `Manifest` is consistent in itself; [`verify`](crate::verify) compares it with the files.
///
/// ```
/// use carton_dataset::Manifest;
/// let json = br#"{
///     "format_version": "1.0", "safetensors_version": "1.0", "total_samples": 2, "total_bytes": 72,
///     "shards": [{"shard_path": "part-0.safetensors", "samples_count": 2, "bytes": 72}],
///     "schema": {"x": {"dtype": "F32", "shape": [2]}}
/// }"#;
/// let manifest = Manifest::parse(json)?;
/// assert_eq!((manifest.total_samples(), manifest.shards().len()), (2, 1));
/// assert_eq!(Manifest::parse(&manifest.to_json()?)?, manifest);
/// # Ok::<(), carton_dataset::ManifestError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    raw: RawManifest,
}

/// The manifest as it is in the file, not validated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RawManifest {
    format_version: String,
    safetensors_version: String,
    total_samples: u64,
    total_bytes: u64,
    shards: Vec<Shard>,
    #[serde(deserialize_with = "unique_keys")]
    schema: BTreeMap<String, TensorSchema>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_value: Option<KeyValueNames>,
}

/// One file of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its path, relative to the dataset's folder.
    pub shard_path: String,
    /// The number of its samples, including rows of padding.
    pub samples_count: u64,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// The element type and shape of a tensor, spelled as in safetensors files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSchema {
    /// The element type: `F32`, `BF16` and so on.
    pub dtype: String,
    /// The dimensions.
    pub shape: Vec<u64>,
}

/// How tensor names combine the names of samples and columns, for shards in key-value mode whose metadata does not say it
/// (spec/dataset.md §3.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValueNames {
    /// The separator between the name of a sample and that of a column.
    pub separator: String,
    /// The columns.
    pub columns: Vec<String>,
}

/// The rule that a manifest breaks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// There is a folder, a named pipe or the like under the manifest's name.
    #[error("is no regular file")]
    NoFile,
    /// The manifest is longer than the limit.
    #[error("{length} bytes, expected at most {} (spec/dataset.md §3.1)", Manifest::MAX_LENGTH)]
    TooLong {
        /// Its size.
        length: u64,
    },
    /// It is not JSON, or does not have the fields of a manifest.
    #[error("is not a manifest (spec/dataset.md §3.1)")]
    Json(#[from] serde_json::Error),
    /// The version of the layout is not supported.
    #[error("format_version `{}`, expected 1.x (spec/dataset.md §3.2)", .found.escape_debug())]
    Version {
        /// The version in the file.
        found: String,
    },
    /// A path leads, or could lead, out of the dataset's folder.
    #[error("shard_path `{}` is no path below the dataset's folder (spec/dataset.md §3.3)", .path.escape_debug())]
    Path {
        /// The path.
        path: String,
    },
    /// A shard is listed twice.
    #[error("shard `{}` is there twice (spec/dataset.md §3.3)", .path.escape_debug())]
    DuplicateShard {
        /// Its path.
        path: String,
    },
    /// A tensor of the schema cannot be in a safetensors file.
    #[error("tensor `{}` {problem} (spec/dataset.md §3.5)", shown(.name))]
    Tensor {
        /// Its name.
        name: String,
        /// The reason, in words.
        problem: String,
    },
    /// The separator is not allowed in names.
    #[error("{problem} (spec/dataset.md §3.6)")]
    Separator {
        /// The reason, in words.
        problem: String,
    },
    /// A total is not the sum over the shards.
    #[error("{field} is {found}, expected {expected}, the sum of the shards (spec/dataset.md §3.4)")]
    Total {
        /// `total_samples` or `total_bytes`.
        field: &'static str,
        /// The value in the file.
        found: u64,
        /// The sum.
        expected: u64,
    },
    /// The sum over the shards exceeds a `u64`.
    #[error("the shards have more than 2^64 - 1 {unit} (spec/dataset.md §3.4)")]
    Overflow {
        /// `samples` or `bytes`.
        unit: &'static str,
    },
}

impl Manifest {
    /// The longest manifest that is read, in bytes.
    pub const MAX_LENGTH: u64 = 2 << 30;

    /// Makes the manifest of these shards, given in any order, and of the tensors in them.
    ///
    /// # Errors
    /// [`ManifestError::Path`], [`ManifestError::DuplicateShard`], [`ManifestError::Tensor`], [`ManifestError::Overflow`].
    pub fn new(mut shards: Vec<Shard>, schema: BTreeMap<String, TensorSchema>) -> Result<Self, ManifestError> {
        sort(&mut shards);
        check_paths(&shards)?;
        check_schema(&schema)?;
        let (total_samples, total_bytes) = totals(&shards)?;
        let (format_version, safetensors_version) = (FORMAT_VERSION.to_owned(), SAFETENSORS_VERSION.to_owned());
        Ok(Self {
            raw: RawManifest {
                format_version,
                safetensors_version,
                total_samples,
                total_bytes,
                shards,
                schema,
                key_value: None,
            },
        })
    }

    /// Sets how tensors are named, for shards in key-value mode whose metadata does not say it.
    ///
    /// # Errors
    /// [`ManifestError::Separator`].
    pub fn with_key_value(mut self, names: KeyValueNames) -> Result<Self, ManifestError> {
        check_separator(&names.separator).map_err(|problem| ManifestError::Separator { problem })?;
        self.raw.key_value = Some(names);
        Ok(self)
    }

    /// Parses a manifest. Ignores unknown fields.
    ///
    /// # Errors
    /// Returns the first rule that it breaks.
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let length = json.len() as u64;
        if length > Self::MAX_LENGTH {
            return Err(ManifestError::TooLong { length });
        }
        // `serde_json` checks the UTF-8 of a string only if it keeps the string, so the whole input is checked here.
        let json = std::str::from_utf8(json).map_err(<serde_json::Error as serde::de::Error>::custom)?;
        // Reads the version first: an unsupported version is then reported as such, not as a missing or wrong field.
        let Version { format_version: found } = serde_json::from_str(json)?;
        if !is_known(&found) {
            return Err(ManifestError::Version { found });
        }
        let mut raw: RawManifest = serde_json::from_str(json)?;
        sort(&mut raw.shards);
        check_paths(&raw.shards)?;
        check_schema(&raw.schema)?;
        if let Some(names) = &raw.key_value {
            check_separator(&names.separator).map_err(|problem| ManifestError::Separator { problem })?;
        }
        let (total_samples, total_bytes) = totals(&raw.shards)?;
        for (field, found, expected) in
            [("total_samples", raw.total_samples, total_samples), ("total_bytes", raw.total_bytes, total_bytes)]
        {
            if found != expected {
                return Err(ManifestError::Total { field, found, expected });
            }
        }
        Ok(Self { raw })
    }

    /// Serializes the manifest. The same shards and tensors give the same bytes.
    ///
    /// # Errors
    /// [`ManifestError::Json`], which does not happen.
    pub fn to_json(&self) -> Result<Vec<u8>, ManifestError> {
        let mut json = serde_json::to_vec_pretty(&self.raw)?;
        json.push(b'\n');
        Ok(json)
    }

    /// The version of the dataset's layout, 1.x.
    #[must_use]
    pub fn format_version(&self) -> &str {
        &self.raw.format_version
    }

    /// Returns the position of the shard with this path; `None` if the manifest has no such shard.
    #[must_use]
    pub fn position(&self, shard_path: &str) -> Option<usize> {
        let wanted = sort_key(shard_path);
        self.raw.shards.binary_search_by(|shard| sort_key(&shard.shard_path).cmp(&wanted)).ok()
    }

    /// The number of samples in all shards, including rows of padding.
    #[must_use]
    pub fn total_samples(&self) -> u64 {
        self.raw.total_samples
    }

    /// The total size of all shards in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.raw.total_bytes
    }

    /// The shards in the order of their rows (spec/dataset.md §3.1).
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.raw.shards
    }

    /// How tensors are named in shards whose metadata does not say it.
    #[must_use]
    pub fn key_value(&self) -> Option<&KeyValueNames> {
        self.raw.key_value.as_ref()
    }

    /// One entry for each tensor name, from one of the shards that have it. In batch mode, other shards may have another number of rows.
    #[must_use]
    pub fn schema(&self) -> &BTreeMap<String, TensorSchema> {
        &self.raw.schema
    }
}

/// The field that is read first.
#[derive(Deserialize)]
struct Version {
    format_version: String,
}

/// Whether a version is 1.x, and so supported.
fn is_known(version: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    version.split_once('.').is_some_and(|(major, minor)| major == "1" && is_number(minor))
}

/// Sorts shards into the order of their rows: by task and number. The numbers are compared as numbers, because as text `10000` would sort
/// before `9999`. Shards with other names come last, by path.
fn sort(shards: &mut [Shard]) {
    shards.sort_by_cached_key(|shard| {
        let (is_other, part, path) = sort_key(&shard.shard_path);
        (is_other, part, path.to_owned())
    });
}

/// The sort key of shards.
fn sort_key(path: &str) -> (bool, Option<PartName>, &str) {
    let part = PartName::parse(path);
    (part.is_none(), part, path)
}

/// Checks that each path leads below the dataset's folder and occurs once.
fn check_paths(shards: &[Shard]) -> Result<(), ManifestError> {
    let mut seen = BTreeSet::new();
    for shard in shards {
        let path = &shard.shard_path;
        if !shard_path::is_below(path) {
            return Err(ManifestError::Path { path: path.clone() });
        }
        if !seen.insert(path.as_str()) {
            return Err(ManifestError::DuplicateShard { path: path.clone() });
        }
    }
    Ok(())
}

/// Checks that a safetensors file can have each of the tensors.
fn check_schema(schema: &BTreeMap<String, TensorSchema>) -> Result<(), ManifestError> {
    for (name, tensor) in schema {
        let problem = if name == "__metadata__" {
            "cannot have this name".to_owned()
        } else if parse_dtype(&tensor.dtype).is_none() {
            format!("has the unknown dtype `{}`", shown(&tensor.dtype))
        } else if tensor.shape.len() > MAX_RANK {
            format!("has {} dimensions, expected at most {MAX_RANK}", tensor.shape.len())
        } else {
            continue;
        };
        return Err(ManifestError::Tensor { name: name.clone(), problem });
    }
    Ok(())
}

/// The first 200 characters of a name, escaped, for error messages.
fn shown(name: &str) -> String {
    name.chars().take(200).flat_map(char::escape_debug).collect()
}

fn totals(shards: &[Shard]) -> Result<(u64, u64), ManifestError> {
    let sum = |unit, number: fn(&Shard) -> u64| {
        let sum = shards.iter().try_fold(0_u64, |sum, shard| sum.checked_add(number(shard)));
        sum.ok_or(ManifestError::Overflow { unit })
    };
    Ok((sum("samples", |shard| shard.samples_count)?, sum("bytes", |shard| shard.bytes)?))
}

/// Deserializes an object and refuses duplicate keys, of which serde would keep the last.
fn unique_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, TensorSchema>, D::Error> {
    struct Unique;

    impl<'de> Visitor<'de> for Unique {
        type Value = BTreeMap<String, TensorSchema>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of tensors")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut schema = BTreeMap::new();
            while let Some((name, tensor)) = map.next_entry::<String, TensorSchema>()? {
                if schema.contains_key(&name) {
                    return Err(serde::de::Error::custom(format!("duplicate tensor `{}`", shown(&name))));
                }
                schema.insert(name, tensor);
            }
            Ok(schema)
        }
    }

    deserializer.deserialize_map(Unique)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    #[test]
    fn shards_are_in_the_order_of_their_rows() {
        let part = |task, shard| PartName { task, shard, attempt: uuid::Uuid::nil() }.to_string();
        let ordered = [part(0, 2), part(0, 9999), part(0, 10_000), part(7, 0), part(99_999, 0), part(100_000, 0)];
        let ordered = ordered.into_iter().chain(["a.safetensors".to_owned(), "part-b.safetensors".to_owned()]);
        let ordered: Vec<String> = ordered.collect();
        let shard = |path: &String| Shard { shard_path: path.clone(), samples_count: 1, bytes: 8 };
        let manifest = Manifest::new(ordered.iter().rev().map(shard).collect(), BTreeMap::new()).unwrap();
        assert!(manifest.shards().iter().map(|shard| &shard.shard_path).eq(&ordered));
        for (position, path) in ordered.iter().enumerate() {
            assert_eq!(manifest.position(path), Some(position), "{path}");
        }
        assert_eq!(manifest.position("b.safetensors"), None);
    }

    const TWO: &str = r#"{
  "format_version": "1.0",
  "safetensors_version": "1.0",
  "total_samples": 3,
  "total_bytes": 150,
  "shards": [
    {
      "shard_path": "part-a.safetensors",
      "samples_count": 2,
      "bytes": 100
    },
    {
      "shard_path": "part-b.safetensors",
      "samples_count": 1,
      "bytes": 50
    }
  ],
  "schema": {
    "é": {
      "dtype": "BF16",
      "shape": [
        2
      ]
    }
  }
}
"#;

    fn shard(path: &str, samples_count: u64, bytes: u64) -> Shard {
        Shard { shard_path: path.to_owned(), samples_count, bytes }
    }

    #[test]
    fn the_bytes_do_not_depend_on_the_order() {
        let schema = BTreeMap::from([("é".to_owned(), TensorSchema { dtype: "BF16".to_owned(), shape: vec![2] })]);
        let (a, b) = (shard("part-a.safetensors", 2, 100), shard("part-b.safetensors", 1, 50));
        for shards in [vec![a.clone(), b.clone()], vec![b, a]] {
            let manifest = Manifest::new(shards, schema.clone()).unwrap();
            assert_eq!(String::from_utf8(manifest.to_json().unwrap()).unwrap(), TWO);
            assert_eq!(Manifest::parse(TWO.as_bytes()).unwrap(), manifest);
        }
        assert_eq!(Manifest::new(Vec::new(), BTreeMap::new()).unwrap().total_bytes(), 0);
    }

    #[test]
    fn what_is_not_consistent_is_refused() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(TWO.contains(from), "{from}");
            let error = Manifest::parse(TWO.replace(from, to).as_bytes()).unwrap_err();
            let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            let message = format!("{error}{cause}");
            assert!(message.starts_with(expected), "{message}");
        };
        check("\"1.0\",\n  \"safe", "\"2.0\",\n  \"safe", "format_version `2.0`, expected 1.x");
        check("\"1.0\",\n  \"safe", "\"1\",\n  \"safe", "format_version `1`, expected 1.x");
        check("\"1.0\",\n  \"safe", "\"1.x\",\n  \"safe", "format_version `1.x`, expected 1.x");
        check("\"1.0\",\n  \"safe", "\"10.0\",\n  \"safe", "format_version `10.0`, expected 1.x");
        check(": 150", ": 151", "total_bytes is 151, expected 150, the sum of the shards");
        check(": 3,", ": 4,", "total_samples is 4, expected 3, the sum of the shards");
        check(": 50", ": 18446744073709551516", "the shards have more than 2^64 - 1 bytes");
        check(": 50", ": -50", "is not a manifest (spec/dataset.md §3.1): invalid value: integer `-50`");
        check(": 50", ": 50.5", "is not a manifest (spec/dataset.md §3.1): invalid type: floating point");
        check("part-b", "part-a", "shard `part-a.safetensors` is there twice");
        for path in ["../a", "/etc/a", "C:/a", "a/../b", "./a", "a//b", "a/", "", "a\\\\b", "a\\u0000"] {
            let expected = "shard_path `";
            check("part-b.safetensors", path, expected);
        }
        let tensor = r#""é": {"dtype": "F32", "shape": []}, "é""#;
        check("\"é\"", tensor, "is not a manifest (spec/dataset.md §3.1): duplicate tensor `é`");
        check("\"total_samples\": 3,", "", "is not a manifest (spec/dataset.md §3.1): missing field `total_samples`");
        check("\"BF16\"", "\"bfloat16\"", "tensor `é` has the unknown dtype `bfloat16`");
        check("\"é\"", "\"__metadata__\"", "tensor `__metadata__` cannot have this name");
        let shape = format!("[{}2", "1,".repeat(64));
        check("[\n        2", &shape, "tensor `é` has 65 dimensions, expected at most 64");
        let twice = "\"total_samples\": 3, \"total_samples\": 3,";
        check("\"total_samples\": 3,", twice, "is not a manifest (spec/dataset.md §3.1): duplicate field");
        check("  }\n}\n", "  }\n}\n}", "is not a manifest (spec/dataset.md §3.1): trailing characters");
        let not_utf8 = [b"{\"other\": \"\xff\", ", &TWO.as_bytes()[1..]].concat();
        let ManifestError::Json(error) = Manifest::parse(&not_utf8).unwrap_err() else { panic!("another rule") };
        assert_eq!(error.to_string(), "invalid utf-8 sequence of 1 bytes from index 11");
    }

    #[test]
    fn what_is_unknown_is_ignored() {
        let more = TWO.replace("\"bytes\": 50", "\"bytes\": 50, \"sha256\": [1]").replace("\"1.0\"", "\"1.7\"");
        let more = more.replacen('{', "{\"x\": {\"y\": [{}]},", 1);
        let manifest = Manifest::parse(more.as_bytes()).unwrap();
        assert_eq!((manifest.format_version(), manifest.shards().len()), ("1.7", 2));
    }
}
