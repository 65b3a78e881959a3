//! Reads `model/.carton/requirements.lock`, which the python runner writes: exact versions of packages, with the hashes of their files. Pure.

/// The path of the lock in a carton.
pub(super) const LOCK: &str = "model/.carton/requirements.lock";
/// A larger lock is not read: the runner refuses it too.
pub(super) const MAX_LOCK_LENGTH: u64 = 32 << 20;

/// A line of the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Locked {
    /// The name as pip compares it: lower case, with `-` alone between words.
    pub(super) name: String,
    pub(super) version: String,
    /// For which interpreters and platforms the line counts.
    pub(super) marker: Option<String>,
    /// Algorithms and digests in hexadecimal digits, one for each file that the package may be installed from.
    pub(super) hashes: Vec<(String, String)>,
}

/// Reads a lock: its packages, and the number of the first line that is neither a comment nor a package.
pub(super) fn parse(text: &str) -> (Vec<Locked>, Option<usize>) {
    let (mut packages, mut odd) = (Vec::new(), None);
    let (mut logical, mut first) = (String::new(), 1);
    for (number, line) in (1..).zip(text.lines()) {
        if logical.is_empty() {
            first = number;
        }
        if let Some(begun) = line.strip_suffix('\\') {
            logical.push_str(begun);
            logical.push(' ');
            continue;
        }
        logical.push_str(line);
        let whole = std::mem::take(&mut logical);
        let whole = whole.trim();
        if whole.is_empty() || whole.starts_with('#') {
            continue;
        }
        match package(whole) {
            Some(package) => packages.push(package),
            None => {
                odd.get_or_insert(first);
            }
        }
    }
    if !logical.trim().is_empty() {
        odd.get_or_insert(first);
    }
    (packages, odd)
}

/// `NAME==VERSION [; MARKER] --hash=sha256:…`.
fn package(line: &str) -> Option<Locked> {
    let (specifier, hashes) = line.split_once(" --")?;
    let hashes = hashes.split_ascii_whitespace().map(hash).collect::<Option<Vec<_>>>()?;
    let (pinned, marker) = match specifier.split_once(';') {
        Some((pinned, marker)) => (pinned, Some(marker.trim().to_owned())),
        None => (specifier, None),
    };
    let (name, version) = pinned.trim().split_once("==")?;
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let is_version = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'!' | b'+' | b'_' | b'-');
    let is_right = is_name(name) && !version.is_empty() && version.bytes().all(is_version);
    is_right.then(|| Locked { name: normalized(name), version: version.to_owned(), marker, hashes })
}

/// `--hash=sha256:…`, perhaps without the dashes.
fn hash(word: &str) -> Option<(String, String)> {
    let (algorithm, digest) = word.strip_prefix("--").unwrap_or(word).strip_prefix("hash=")?.split_once(':')?;
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return None,
    };
    let is_right = digest.len() == length && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_right.then(|| (algorithm.to_owned(), digest.to_owned()))
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    name.bytes().all(is_part) && is_end(name.bytes().next()) && is_end(name.bytes().last())
}

/// A name as indexes compare it.
pub(super) fn normalized(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_the_runner() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let text = format!(
            "# Packages of the model.\n# python: 3.11\nnumpy==2.1.0 \\\n    --hash=sha256:{one} \\\n    --hash=sha256:{two}\n\
             Zope.Interface[test]==1!7.0+cpu ; python_version < '3.12' --hash=sha512:{one}{two}\n"
        );
        let (packages, odd) = parse(&text);
        assert_eq!(odd, None);
        let hash = |digest: &str| ("sha256".to_owned(), digest.to_owned());
        assert_eq!(
            packages,
            [
                Locked {
                    name: "numpy".to_owned(),
                    version: "2.1.0".to_owned(),
                    marker: None,
                    hashes: vec![hash(&one), hash(&two)],
                },
                Locked {
                    name: "zope-interface".to_owned(),
                    version: "1!7.0+cpu".to_owned(),
                    marker: Some("python_version < '3.12'".to_owned()),
                    hashes: vec![("sha512".to_owned(), format!("{one}{two}"))],
                },
            ]
        );
    }

    #[test]
    fn lines_that_no_runner_writes() {
        for line in [
            "numpy",
            "numpy==2.1",
            "numpy>=2.1 --hash=sha256:00",
            "numpy==2.1 --hash=sha256:00",
            "--index-url=https://example.com",
            "x==1 \\",
            "${A}==1 --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000",
        ] {
            assert_eq!(parse(&format!("# a comment\n{line}")), (Vec::new(), Some(2)), "{line}");
        }
    }
}
