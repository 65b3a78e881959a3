//! Parsers for values with a syntax of their own: `NAME=VALUE`, `KEY=VALUE`, durations, sizes.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fmt;
#[cfg(feature = "tables")]
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use carton_core::{Links, Sha256Digest, ShownUrl};
#[cfg(feature = "tables")]
use carton_rows::RowFormat;
use serde_json::Value;

use super::model::digest;

/// The path that means standard input or standard output.
pub(crate) const STANDARD_STREAM: &str = "-";

/// What stands before the path of a file whose bytes are an input's value.
const FILE_PREFIX: char = '@';

/// `-i [NAME=]VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputArgument {
    /// The input's name. Inputs without a name are assigned in the declared order.
    pub(crate) name: Option<String>,
    /// The source of its value.
    pub(crate) value: InputValue,
}

/// The source of an input's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputValue {
    /// A `.npy` file.
    Npy(PathBuf),
    /// An array of a `.npz` file, or all of its arrays if none is named.
    Npz(PathBuf, Option<String>),
    /// A tensor of a safetensors or zTensor file, or all of its tensors if none is named.
    Tensors(PathBuf, Option<String>),
    /// The bytes of a file, or of standard input: one element of bytes, or one text.
    File(PathBuf),
    /// JSON text, or text that is neither a known file nor JSON. Not parsed here, because the error message needs the input's name.
    Json(String),
}

impl FromStr for InputArgument {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (name, value) = split_name(text);
        Ok(Self { name: name.map(str::to_owned), value: InputValue::parse(value) })
    }
}

impl InputValue {
    fn parse(text: &str) -> Self {
        let starts_like_json = text.trim_start().starts_with(['[', '{', '"']);
        if let Some(path) = text.strip_prefix(FILE_PREFIX) {
            return Self::File(path.into());
        }
        if !starts_like_json {
            if let Some((path, array)) = text.split_once(".npz#") {
                return Self::Npz(format!("{path}.npz").into(), Some(array.to_owned()));
            }
            for ending in [".safetensors", ".safetensors.index.json", ".zt"] {
                if let Some((path, tensor)) = text.split_once(&format!("{ending}#")) {
                    return Self::Tensors(format!("{path}{ending}").into(), Some(tensor.to_owned()));
                }
                if text.to_ascii_lowercase().ends_with(ending) {
                    return Self::Tensors(text.into(), None);
                }
            }
            if has_extension(Path::new(text), "npz") {
                return Self::Npz(text.into(), None);
            }
            if has_extension(Path::new(text), "npy") {
                return Self::Npy(text.into());
            }
        }
        Self::Json(text.to_owned())
    }
}

/// `-o [NAME=]FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputArgument {
    /// The output's name. Files without a name take outputs in the declared order.
    pub(crate) name: Option<String>,
    /// The file.
    pub(crate) path: PathBuf,
}

impl FromStr for OutputArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = split_name(text);
        let path = Path::new(path);
        if is_table(path) && name.is_none() {
            return Ok(Self { name: None, path: path.into() });
        }
        let all = ["npz", SAFETENSORS].into_iter().find(|extension| has_extension(path, extension));
        if all.is_none() && !has_extension(path, "npy") {
            return Err(
                "expected NAME=FILE.npy, FILE.npz or FILE.safetensors; or with --rows FILE.parquet, FILE.arrow, \
                        FILE.arrows or -"
                    .to_owned(),
            );
        }
        if let Some(extension) = all.filter(|_| name.is_some()) {
            return Err(format!("a .{extension} file takes all outputs: write it without a name"));
        }
        Ok(Self { name: name.map(str::to_owned), path: path.into() })
    }
}

/// The ending of safetensors files.
const SAFETENSORS: &str = "safetensors";

/// Whether outputs are written there as a safetensors file.
pub(crate) fn is_safetensors(path: &Path) -> bool {
    has_extension(path, SAFETENSORS)
}

/// Whether an output can be written there as a part of a table.
#[cfg(feature = "tables")]
fn is_table(path: &Path) -> bool {
    RowFormat::of_path(path).is_some() || path.as_os_str() == STANDARD_STREAM
}

#[cfg(not(feature = "tables"))]
fn is_table(_path: &Path) -> bool {
    false
}

impl OutputArgument {
    /// The format of the table that is to be written; `None` for arrays.
    #[cfg(feature = "tables")]
    pub(crate) fn table_format(&self) -> Option<RowFormat> {
        match self.is_standard_output() {
            true => Some(RowFormat::ArrowStream),
            false => RowFormat::of_path(&self.path),
        }
    }

    /// Whether a table goes to standard output.
    #[cfg(feature = "tables")]
    pub(crate) fn is_standard_output(&self) -> bool {
        self.path.as_os_str() == STANDARD_STREAM
    }

    /// Whether the file holds all outputs.
    pub(crate) fn takes_all(&self) -> bool {
        has_extension(&self.path, "npz") || is_safetensors(&self.path)
    }
}

/// `--input-column INPUT=COLUMN` and `--output-column OUTPUT=COLUMN`.
#[cfg(feature = "tables")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnArgument {
    /// The input or output.
    pub(crate) name: String,
    /// Its column.
    pub(crate) column: String,
}

#[cfg(feature = "tables")]
impl FromStr for ColumnArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, column) = text.split_once('=').ok_or("expected NAME=COLUMN")?;
        Ok(Self { name: name.to_owned(), column: column.to_owned() })
    }
}

/// `--opt KEY=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OptionArgument {
    /// The option's name.
    pub(crate) key: String,
    /// Its value.
    pub(crate) value: Value,
}

impl FromStr for OptionArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
        if key.is_empty() {
            return Err("expected KEY=VALUE, found no key".to_owned());
        }
        let value = match serde_json::from_str(value) {
            // An environment variable is a text, whatever it looks like.
            _ if key.starts_with("env.") => Value::String(value.to_owned()),
            // The carton stores options as TOML, which has no null.
            Ok(Value::Null) => Value::String(value.to_owned()),
            Ok(parsed) => parsed,
            Err(error) if value.starts_with(['[', '{', '"']) => {
                return Err(format!("the value is not valid JSON ({error}); a string may be written as JSON too"));
            }
            Err(_) => Value::String(value.to_owned()),
        };
        Ok(Self { key: key.to_owned(), value })
    }
}

/// `--link SHA256=URL`, parsed only when it is used: the argument parser prints values that it refuses, and a URL may contain a secret.
#[derive(Clone)]
pub(crate) struct LinkArgument(String);

/// A `--link` that cannot be used. Its message contains no secrets.
#[derive(Debug, thiserror::Error)]
#[error("cannot use `--link {shown}`: {reason}")]
pub(crate) struct LinkArgumentError {
    shown: String,
    reason: String,
}

impl LinkArgument {
    /// Returns the digest of the file, and its URL.
    ///
    /// # Errors
    /// Returns an error for anything but `SHA256=URL`, and for a URL with a scheme that cartons cannot link to.
    pub(crate) fn read(&self) -> Result<(Sha256Digest, String), LinkArgumentError> {
        let hash_and_url = self.0.split_once('=');
        // Without a hash in front, the text before the `=` may be part of the URL.
        let hash_and_url =
            hash_and_url.filter(|(hash, _)| hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b':'));
        let Some((hash, url)) = hash_and_url.filter(|(hash, _)| !hash.starts_with("http")) else {
            return Err(LinkArgumentError { shown: "…".to_owned(), reason: "expected SHA256=URL".to_owned() });
        };
        let error = |reason| LinkArgumentError { shown: format!("{hash}={}", ShownUrl::of_text(url)), reason };
        let digest = digest(hash).map_err(error)?;
        Links::from_urls([(digest, vec![url.to_owned()])].into()).map_err(|invalid| error(invalid.to_string()))?;
        Ok((digest, url.to_owned()))
    }
}

impl fmt::Debug for LinkArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkArgument")
    }
}

impl FromStr for LinkArgument {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// `--misc [NAME=]FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MiscArgument {
    /// Its path below `misc/`.
    pub(crate) name: String,
    /// The file.
    pub(crate) path: PathBuf,
}

impl FromStr for MiscArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A path that contains `=` is told from a name by its beginning.
        let is_path = ["/", "./", "../"].iter().any(|start| text.starts_with(start));
        if let Some((name, path)) = text.split_once('=').filter(|(name, _)| !name.is_empty() && !is_path) {
            return Ok(Self { name: name.to_owned(), path: path.into() });
        }
        let path = PathBuf::from(text);
        let name = path.file_name().and_then(OsStr::to_str).ok_or("expected the path of a file")?.to_owned();
        Ok(Self { name, path })
    }
}

/// Splits `NAME=VALUE` at the first `=`. Text that starts like JSON or a file has no name, because it may contain `=`.
fn split_name(text: &str) -> (Option<&str>, &str) {
    if text.trim_start().starts_with(['[', '{', '"', FILE_PREFIX]) {
        return (None, text);
    }
    match text.split_once('=') {
        Some((name, value)) => (Some(name), value),
        None => (None, text),
    }
}

fn has_extension(path: &Path, expected: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(expected))
}

/// Parses a duration: a number followed by `ms`, `s`, `m` or `h`; without a unit, seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    in_units(text, &[("ms", 1e-3), ("", 1.0), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3600.0)], "ms, s, m or h")
}

/// Parses an age: a duration with a mandatory unit, which may also be `d` for days or `w` for weeks. 0 means now, and needs no unit.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    const DAY: f64 = 86_400.0;
    if text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<u64>() == Ok(0) {
        return Ok(Duration::ZERO);
    }
    in_units(
        text,
        &[("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3600.0), ("d", DAY), ("w", 7.0 * DAY)],
        "s, m, h, d or w",
    )
}

fn in_units(text: &str, units: &[(&str, f64)], expected: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let found = &text[digits.len()..];
    let unit = units.iter().find(|(name, _)| *name == found);
    let (_, seconds_a_unit) = unit.ok_or_else(|| match found {
        "" => format!("no unit, expected {expected}"),
        found => format!("unknown unit `{found}`, expected {expected}"),
    })?;
    let number: f64 = digits.parse().map_err(|_| "expected a number such as 30, 500ms or 2m".to_owned())?;
    let seconds = number * seconds_a_unit;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        // Longer than `Duration` can represent: unlimited.
        Err(_) if seconds > 1.0 && seconds.is_finite() => Ok(Duration::MAX),
        _ => Err("expected a time above zero".to_owned()),
    }
}

/// Parses a number of bytes above zero.
#[cfg(feature = "tables")]
pub(super) fn positive_size(text: &str) -> Result<NonZeroUsize, String> {
    let n_bytes = usize::try_from(size(text)?).map_err(|error| error.to_string())?;
    NonZeroUsize::new(n_bytes).ok_or_else(|| "expected a size above zero".to_owned())
}

/// Parses a number of bytes: a number followed by `K`, `M`, `G` or `T`, which are powers of 1000, with or without `B`; or powers of 1024
/// with `i` or `iB` appended.
pub(super) fn size(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected a size such as 500MB, 10G or 1.5GiB";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.trim_end().parse().map_err(|_| EXPECTED.to_owned())?;
    let unit = text[digits.len()..].to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = unit.strip_suffix('i').map_or((unit, 1000.0), |prefix| (prefix, 1024.0));
    let power = match (prefix, base) {
        ("", 1000.0) => 0,
        ("k", _) => 1,
        ("m", _) => 2,
        ("g", _) => 3,
        ("t", _) => 4,
        _ => return Err(EXPECTED.to_owned()),
    };
    let bytes = number * f64::powi(base, power);
    // The conversion saturates at a size that no disk has.
    if bytes.is_finite() && bytes >= 0.0 { Ok(bytes as u64) } else { Err(EXPECTED.to_owned()) }
}

/// Parses a share of elements: from 0 to 1.
pub(super) fn density(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        Ok(_) => Err("expected a number from 0 to 1".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a text with its name: `KEY=VALUE`.
pub(super) fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as license=mit")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses a number with its name: `NAME=NUMBER`.
pub(super) fn named_size(text: &str) -> Result<(String, usize), String> {
    let (name, number) = text.split_once('=').ok_or("expected NAME=NUMBER, such as num_layers=12")?;
    let number = number.parse().map_err(|error| format!("`{}` is no size: {error}", number.escape_debug()))?;
    Ok((name.to_owned(), number))
}

/// Parses a tolerance: a number that is not negative.
pub(super) fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 => Ok(number),
        Ok(_) => Err("expected a number of at least 0".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use serde_json::json;

    use super::*;

    #[test]
    fn inputs() {
        let check = |text: &str, name: Option<&str>, value: InputValue| {
            let expected = InputArgument { name: name.map(str::to_owned), value };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        };
        check("x=x.npy", Some("x"), InputValue::Npy("x.npy".into()));
        check("x.npy", None, InputValue::Npy("x.npy".into()));
        check("x=/a=b/c.NPY", Some("x"), InputValue::Npy("/a=b/c.NPY".into()));
        check("x=cases.npz#a#b", Some("x"), InputValue::Npz("cases.npz".into(), Some("a#b".into())));
        check("x=cases.npz#a", Some("x"), InputValue::Npz("cases.npz".into(), Some("a".into())));
        check("cases.npz", None, InputValue::Npz("cases.npz".into(), None));
        check("x=w.safetensors#a#b", Some("x"), InputValue::Tensors("w.safetensors".into(), Some("a#b".into())));
        check("w.ZT", None, InputValue::Tensors("w.ZT".into(), None));
        check(
            "m.safetensors.index.json#a",
            None,
            InputValue::Tensors("m.safetensors.index.json".into(), Some("a".into())),
        );
        check("x=@cat.jpg", Some("x"), InputValue::File("cat.jpg".into()));
        check("@a=b.npy", None, InputValue::File("a=b.npy".into()));
        check("x=@-", Some("x"), InputValue::File("-".into()));
        check("x=[[1.0]]", Some("x"), InputValue::Json("[[1.0]]".into()));
        check("[\"a=b.npy\"]", None, InputValue::Json("[\"a=b.npy\"]".into()));
        check("x=\"a.npy\"", Some("x"), InputValue::Json("\"a.npy\"".into()));
        check("x=3", Some("x"), InputValue::Json("3".into()));
        check("3", None, InputValue::Json("3".into()));
    }

    #[test]
    fn outputs() {
        let check = |text: &str, expected: Result<(Option<&str>, &str), &str>| match (text.parse(), expected) {
            (Ok(OutputArgument { name, path }), Ok(expected)) => {
                assert_eq!((name.as_deref(), path.to_str().unwrap()), expected, "{text}");
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("y=y.npy", Ok((Some("y"), "y.npy")));
        check("y.npy", Ok((None, "y.npy")));
        check("all.npz", Ok((None, "all.npz")));
        check("y=all.npz", Err("without a name"));
        check("all.safetensors", Ok((None, "all.safetensors")));
        check("y=all.safetensors", Err("without a name"));
        check("y=y.txt", Err("expected NAME=FILE.npy"));
    }

    #[test]
    fn options() {
        let check = |text: &str, expected: Result<(&str, Value), &str>| match (text.parse(), expected) {
            (Ok(OptionArgument { key, value }), Ok(expected)) => assert_eq!((key.as_str(), value), expected),
            (Err(found), Err(expected)) => {
                let found: String = found;
                assert!(found.contains(expected), "{text}: {found}");
            }
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("threads=4", Ok(("threads", json!(4))));
        check("fast=true", Ok(("fast", json!(true))));
        check("name=a=b", Ok(("name", json!("a=b"))));
        check("name=", Ok(("name", json!(""))));
        check("version=1.2.3", Ok(("version", json!("1.2.3"))));
        check("nothing=null", Ok(("nothing", json!("null"))));
        check("list=[1, \"a\"]", Ok(("list", json!([1, "a"]))));
        check("quoted=\"4\"", Ok(("quoted", json!("4"))));
        check("env.N=1.10", Ok(("env.N", json!("1.10"))));
        check("env.Q=\"a\"", Ok(("env.Q", json!("\"a\""))));
        check("broken=[1", Err("not valid JSON"));
        check("=4", Err("no key"));
        check("threads", Err("KEY=VALUE"));
    }

    #[test]
    fn misc_files() {
        let check = |text: &str, name: &str, path: &str| {
            let expected = MiscArgument { name: name.to_owned(), path: path.into() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        };
        check("pictures/cat.png", "cat.png", "pictures/cat.png");
        check("a.png=cat.png", "a.png", "cat.png");
        check("pictures/a.png=/x/cat.png", "pictures/a.png", "/x/cat.png");
        check("./x=y/cat.png", "cat.png", "./x=y/cat.png");
        check("/x=y/cat.png", "cat.png", "/x=y/cat.png");
    }

    #[test]
    fn ages_and_sizes() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(age(text).ok(), seconds.map(Duration::from_secs), "{text}");
        };
        check("30d", Some(30 * 86_400));
        check("1.5w", Some(907_200));
        check("2h", Some(7200));
        check("0", Some(0));
        check("0d", Some(0));
        check("30", None);
        check("-1d", None);
        check("d", None);
        check("1y", None);
        assert_eq!(age("99999999999999999999w"), Ok(Duration::MAX));
        let check = |text: &str, bytes: Option<u64>| assert_eq!(size(text).ok(), bytes, "{text}");
        check("0", Some(0));
        check("1000", Some(1000));
        check("7B", Some(7));
        check("64KiB", Some(65_536));
        check("64k", Some(64_000));
        check("10 MB", Some(10_000_000));
        check("10G", Some(10_000_000_000));
        check("500MB", Some(500_000_000));
        check("1GiB", Some(1 << 30));
        check("1.5 Ki", Some(1536));
        check("2tb", Some(2_000_000_000_000));
        check("99999999999T", Some(u64::MAX));
        check("-1", None);
        check("", None);
        check("G", None);
        check("10X", None);
        check("10iB", None);
        check("NaN", None);
        check("1é", None);
    }

    #[test]
    fn durations_and_tolerances() {
        let check = |text: &str, milliseconds: Option<u64>| {
            assert_eq!(duration(text).ok(), milliseconds.map(Duration::from_millis), "{text}");
        };
        check("30", Some(30_000));
        check("0.5s", Some(500));
        check("500ms", Some(500));
        check("2m", Some(120_000));
        check("1h", Some(3_600_000));
        assert_eq!(duration("99999999999999999999h"), Ok(Duration::MAX));
        check("0", None);
        check("-1s", None);
        check("NaN", None);
        check("1e400", None);
        check("3 days", None);
        assert!(tolerance("1e-5").is_ok());
        assert!(tolerance("-1").is_err());
        assert!(tolerance("NaN").is_err());
    }
}
