//! Reads `.carton/requirements.lock` of Python models, and compares two. Pure. The format is that of the python runner
//! (`runners/python/carton_runner/environments/lock.py`): exact versions with hashes, and comments. Whatever else a line has makes the lock
//! one that is not compared, so that no package is missed.

use std::collections::{BTreeMap, BTreeSet};

use super::report::PackageChange;

/// Where a model has its lock.
pub(super) const LOCK: &str = "model/.carton/requirements.lock";

/// Larger locks are not read: a thousand packages with fifty files each are 5 MB.
pub(super) const MAX_LOCK: u64 = 32 << 20;

/// Longer lines are refused. A requirement with the hashes of a thousand files has 75 kB.
const MAX_LINE: usize = 1 << 20;

/// The packages of a lock: versions and hashes by normalized name with extras, and marker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lock(BTreeMap<(String, String), BTreeMap<String, BTreeSet<String>>>);

impl Lock {
    /// Reads a lock.
    ///
    /// # Errors
    /// What is wrong, with the number of the line.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text =
            str::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 from byte {} on", error.valid_up_to()))?;
        let mut lock = Self::default();
        let (mut line, mut first) = (String::new(), 1);
        for (number, part) in (1_usize..).zip(text.split('\n')) {
            let part = part.trim_end_matches('\r');
            if line.len() + part.len() > MAX_LINE {
                return Err(format!("line {first} is longer than {MAX_LINE} bytes"));
            }
            match part.strip_suffix('\\') {
                Some(begun) => {
                    line.push_str(begun);
                    line.push(' ');
                }
                None => {
                    line.push_str(part);
                    lock.add(line.trim_matches([' ', '\t'])).map_err(|problem| format!("line {first} {problem}"))?;
                    line.clear();
                    first = number + 1;
                }
            }
        }
        lock.add(line.trim_matches([' ', '\t'])).map_err(|problem| format!("line {first} {problem}"))?;
        Ok(lock)
    }

    fn add(&mut self, line: &str) -> Result<(), &'static str> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let mut words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
        let hashes = words.split_off(words.iter().position(|word| word.starts_with("--")).unwrap_or(words.len()));
        if hashes.is_empty() {
            return Err("has no hash");
        }
        if !hashes.iter().all(|hash| is_hash(hash)) {
            return Err("has something that is no hash");
        }
        let specifier = words.join(" ");
        let (pinned, marker) = match specifier.split_once(';') {
            Some((pinned, marker)) => (pinned.trim(), Some(marker.trim())),
            None => (specifier.as_str(), None),
        };
        if marker.is_some_and(|marker| marker.is_empty() || !marker.chars().all(is_of_marker)) {
            return Err("has a marker that is none");
        }
        let (name, version) = pinned.split_once("==").ok_or("is no exact version of a package")?;
        let is_version =
            !version.is_empty() && version.chars().all(|c| c.is_ascii_alphanumeric() || ".!+_-".contains(c));
        let name = normalized(name).filter(|_| is_version).ok_or("is no exact version of a package")?;
        let versions = self.0.entry((name, marker.unwrap_or_default().to_owned())).or_default();
        versions.entry(version.to_owned()).or_default().extend(hashes.into_iter().map(str::to_owned));
        Ok(())
    }
}

/// The packages that differ, sorted by name.
pub(super) fn compare(a: &Lock, b: &Lock) -> Vec<PackageChange> {
    let keys: BTreeSet<_> = a.0.keys().chain(b.0.keys()).collect();
    let versions = |lock: &Lock, key: &(String, String)| {
        lock.0.get(key).map(|versions| versions.keys().cloned().collect()).unwrap_or_default()
    };
    let changed = keys.into_iter().filter(|key| a.0.get(*key) != b.0.get(*key));
    let change = |key: &(String, String)| PackageChange {
        name: key.0.clone(),
        marker: Some(key.1.clone()).filter(|marker| !marker.is_empty()),
        a: versions(a, key),
        b: versions(b, key),
    };
    changed.map(change).collect()
}

/// The normalized name of a package, with its extras as they are. `None` if it is no name.
fn normalized(text: &str) -> Option<String> {
    let (name, extras) = match text.split_once('[') {
        Some((name, extras)) => (name, Some(extras.strip_suffix(']')?)),
        None => (text, None),
    };
    if !is_name(name) || extras.is_some_and(|extras| !extras.split(',').all(is_name)) {
        return None;
    }
    let mut normalized = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normalized.ends_with('-') => {}
            '-' | '_' | '.' => normalized.push('-'),
            c => normalized.push(c.to_ascii_lowercase()),
        }
    }
    Some(normalized + &extras.map(|extras| format!("[{extras}]")).unwrap_or_default())
}

fn is_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().all(is_inner) && is_outer(text.chars().next()) && is_outer(text.chars().next_back())
}

fn is_of_marker(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_ .'\"<>=!~()*+,-".contains(c)
}

fn is_hash(text: &str) -> bool {
    let digits = |algorithm: &str| text.strip_prefix("--hash=")?.strip_prefix(algorithm)?.strip_prefix(':');
    [("sha256", 64), ("sha384", 96), ("sha512", 128)].iter().any(|(algorithm, length)| {
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        digits(algorithm).is_some_and(|digits| digits.len() == *length && digits.bytes().all(is_digit))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn hash(digit: char) -> String {
        format!("--hash=sha256:{}", digit.to_string().repeat(64))
    }

    #[test]
    fn versions_hashes_and_markers_are_compared() {
        let a = format!(
            "# made by uv\nnumpy==1.26.4 \\\n    {h} \\\n    {i}\nTorch_Vision==0.1 {h}\ngone==1 {h}\nsame==1 {h}\r\nold==1 ; python_version < '3.9' {h}\nold==2 ; python_version >= '3.9' {h}\n",
            h = hash('a'),
            i = hash('b')
        );
        let b = format!(
            "numpy==2.0.0 {h}\ntorch-vision==0.1 {i}\nsame==1 {h}\nuvicorn[standard]==0.30 {h}\nold==1 ; python_version < '3.9' {h}\nold==3 ; python_version >= '3.9' {h}",
            h = hash('a'),
            i = hash('b')
        );
        let changes = compare(&Lock::parse(a.as_bytes()).unwrap(), &Lock::parse(b.as_bytes()).unwrap());
        let shown: Vec<String> = changes
            .iter()
            .map(|change| {
                format!("{} {:?} {} -> {}", change.name, change.marker, change.a.join(","), change.b.join(","))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "gone None 1 -> ",
                "numpy None 1.26.4 -> 2.0.0",
                "old Some(\"python_version >= '3.9'\") 2 -> 3",
                "torch-vision None 0.1 -> 0.1",
                "uvicorn[standard] None  -> 0.30",
            ]
        );
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        let check = |text: &str, expected: &str| assert_eq!(Lock::parse(text.as_bytes()), Err(expected.to_owned()));
        check("numpy==1", "line 1 has no hash");
        check("\nnumpy>=1 --hash=sha256:00", "line 2 has something that is no hash");
        let hash = hash('0');
        check(&format!("numpy>=1 {hash}"), "line 1 is no exact version of a package");
        check(&format!("numpy==1 {hash} -r other.txt"), "line 1 has something that is no hash");
        check(&format!("-e . {hash}"), "line 1 is no exact version of a package");
        check(&format!("n\u{1b}umpy==1 {hash}"), "line 1 is no exact version of a package");
        check(&format!("a==1 ; ${{X}} {hash}"), "line 1 has a marker that is none");
        check(&format!("a==1 {}", "x".repeat(MAX_LINE)), &format!("line 1 is longer than {MAX_LINE} bytes"));
        assert!(Lock::parse(b"\xff").is_err());
    }
}
