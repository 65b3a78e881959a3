//! Reads the license of a Python package from its wheel: an archive with a file `METADATA`.

use std::fs::File;
use std::io;
use std::sync::Arc;

use carton_format::archive::Archive;
use carton_format::source::{FileIdentity, Source};

use super::Package;

/// A larger `METADATA` is not read.
const MAX_METADATA: u64 = 4 << 20;
/// Longer texts are those of licenses, not their names.
const MAX_NAME: usize = 120;

/// A file of a carton, read by position.
struct PackageFile {
    package: Package,
    path: String,
    length: u64,
}

impl Source for PackageFile {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let is_inside = offset.checked_add(buffer.len() as u64).is_some_and(|end| end <= self.length);
        if !is_inside {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.package.contents().read_range(&self.path, offset, buffer, self.package.context()).map_err(io::Error::other)
    }

    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    fn file(&self) -> Option<&File> {
        None
    }

    fn location(&self) -> &str {
        &self.path
    }
}

/// The license that the wheel at `path` states. `None` if it states none, or cannot be read.
pub(super) fn of_wheel(package: &Package, path: &str, length: u64) -> Option<String> {
    let source = PackageFile { package: package.clone(), path: path.to_owned(), length };
    let archive = Archive::open(Arc::new(source)).ok()?;
    let is_metadata = |name: &str| {
        name.strip_suffix("/METADATA").is_some_and(|folder| folder.ends_with(".dist-info") && !folder.contains('/'))
    };
    let entry = archive.entries().iter().find(|entry| is_metadata(entry.name()))?;
    let metadata = archive.read(entry, MAX_METADATA).ok()?;
    stated(&String::from_utf8_lossy(&metadata))
}

/// The license in the text of `METADATA`: the expression; else its name, where it is no whole text; else the only classifier.
fn stated(metadata: &str) -> Option<String> {
    // A line with a blank in front belongs to the field before it.
    let headers = metadata.lines().take_while(|line| !line.is_empty());
    let mut fields: Vec<(&str, String)> = Vec::new();
    for line in headers {
        match line.split_once(':').filter(|_| !line.starts_with([' ', '\t'])) {
            Some((name, value)) => fields.push((name, value.trim().to_owned())),
            None => {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    value.push_str(line.trim());
                }
            }
        }
    }
    let all = |name: &'static str| {
        fields.iter().filter(move |(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let is_name = |text: &&String| {
        !text.is_empty() && text.len() <= MAX_NAME && !text.contains('\n') && !text.eq_ignore_ascii_case("unknown")
    };
    let named = all("License-Expression").chain(all("License")).find(is_name).cloned();
    named.or_else(|| {
        let mut classifiers = all("Classifier").filter_map(|value| value.strip_prefix("License :: "));
        let only = classifiers.next().filter(|_| classifiers.next().is_none())?;
        let name = only.rsplit(" :: ").next()?.trim().to_owned();
        (!name.is_empty() && name != "OSI Approved" && name.len() <= MAX_NAME).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licenses_of_metadata() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(stated(text).as_deref(), expected, "{text}");
        check(
            "Metadata-Version: 2.4\nName: a\nLicense-Expression: MIT OR Apache-2.0\nLicense: other\n",
            Some("MIT OR Apache-2.0"),
        );
        check("Name: a\nLicense: BSD 3-Clause\n", Some("BSD 3-Clause"));
        check("Name: a\nLicense: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License\n", Some("MIT License"));
        check("Name: a\nLicense: Copyright\n        all rights\n        reserved\n", None);
        check("Name: a\nClassifier: License :: OSI Approved\n", None);
        check(
            "Classifier: License :: OSI Approved :: MIT License\nClassifier: License :: OSI Approved :: Apache Software License\n",
            None,
        );
        check("Name: a\n\nLicense: in the description", None);
        check("", None);
    }
}
