//! Reads `runner.toml` (spec/runner-descriptor.md). Pure: text in, descriptors out.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};

use super::library::{LIBRARY_LINK, LibraryNeed};
use super::needs::{PrepareNeeds, SandboxNeeds};
use super::{ModelFilesMode, PLATFORM, RELEASE_DATE, ReleaseDate, ReleaseDateError};
use crate::error::Failure;
use carton_format::error_kind::ErrorKind;

/// The version of the runner protocol that this library speaks. Version 1 is that of the original Carton, which it does not
/// speak.
pub const INTERFACE_VERSION: u64 = 2;

/// A runner, as its `runner.toml` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Descriptor {
    /// The name that cartons ask for. Third parties put their own name and a slash before it.
    pub runner_name: String,
    /// The version of the framework it runs models with.
    pub framework_version: Version,
    /// The version of the contents of `model/` that it understands.
    pub runner_compat_version: u64,
    /// The version of the runner protocol it speaks.
    pub runner_interface_version: u64,
    /// When it was released. Of two runners that are otherwise equal, the newer one is chosen.
    pub runner_release_date: ReleaseDate,
    /// The path of the executable. A relative path in the file is joined to the file's folder here.
    pub runner_path: PathBuf,
    /// The arguments of the executable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The target triple it was built for.
    pub platform: String,
    /// How it takes the files of a model.
    pub files: ModelFilesMode,
    /// The environment variables that it gets in addition to those that every runner gets; a final `*` matches any ending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// What it needs in its sandbox.
    #[serde(skip_serializing_if = "SandboxNeeds::is_empty")]
    pub sandbox: SandboxNeeds,
    /// What it needs to prepare models; `None` if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<PrepareNeeds>,
    /// The library of the machine that it needs; `None` if its folder has all that is not the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryNeed>,
    /// The folder of the `runner.toml`; `None` for a runner without one.
    #[serde(skip)]
    pub(super) folder: Option<PathBuf>,
}

impl Descriptor {
    /// Describes a runner for this version of its framework, started as `runner_path`, with the defaults of this library: compat
    /// version 1, this protocol, this platform, this library's release date, the model's files as a folder, no arguments, no
    /// additional variables.
    ///
    /// # Errors
    /// The release date of this library is malformed.
    pub fn new(
        runner_name: impl Into<String>,
        framework_version: Version,
        runner_path: impl Into<PathBuf>,
    ) -> Result<Self, ReleaseDateError> {
        Ok(Self {
            runner_name: runner_name.into(),
            framework_version,
            runner_compat_version: 1,
            runner_interface_version: INTERFACE_VERSION,
            runner_release_date: RELEASE_DATE.parse()?,
            runner_path: runner_path.into(),
            args: Vec::new(),
            platform: PLATFORM.to_owned(),
            files: ModelFilesMode::Directory,
            environment: Vec::new(),
            sandbox: SandboxNeeds::default(),
            prepare: None,
            library: None,
            folder: None,
        })
    }

    /// Whether `other` is the same runner. Release date, arguments and place may differ.
    pub fn is_same_runner(&self, other: &Descriptor) -> bool {
        self.is_same_but_for_compat(other) && self.runner_compat_version == other.runner_compat_version
    }

    /// Whether `other` is the same runner, possibly for another compat version: a runner that understands several has a
    /// descriptor for each.
    pub(super) fn is_same_but_for_compat(&self, other: &Descriptor) -> bool {
        self.runner_name == other.runner_name
            && self.framework_version == other.framework_version
            && self.runner_interface_version == other.runner_interface_version
            && self.platform == other.platform
    }

    /// Returns where the library was that was linked for this runner, if it is not there any more.
    #[must_use]
    pub fn lost_library(&self) -> Option<PathBuf> {
        let link = self.folder.as_ref()?.join(LIBRARY_LINK);
        self.library.as_ref()?.missing_in(&link)?;
        Some(std::fs::read_link(&link).unwrap_or(link))
    }

    /// Makes a `runner.toml` with these runners. Their paths are not changed.
    pub(super) fn to_toml(runners: &[Descriptor]) -> std::io::Result<String> {
        #[derive(Serialize)]
        struct File<'a> {
            version: u64,
            runner: &'a [Descriptor],
        }
        toml::to_string(&File { version: 1, runner: runners }).map_err(std::io::Error::other)
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.runner_name, self.framework_version)
    }
}

/// A `runner.toml` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DescriptorError {
    /// The file is not TOML, or a field is missing or has the wrong type.
    #[error("not a valid runner.toml")]
    Parse(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The format of the file has another version.
    #[error("unsupported runner.toml: expected version 1, found {found}")]
    Version {
        /// The version found.
        found: i64,
    },
    /// A required field is missing.
    #[error("runner {index}: {field} is missing")]
    Missing {
        /// The position of the `[[runner]]`, counted from 0.
        index: usize,
        /// The field.
        field: &'static str,
    },
    /// The value of a field is not allowed.
    #[error("runner {index}: {field} {problem}, found `{found}`")]
    Field {
        /// The position of the `[[runner]]`, counted from 0.
        index: usize,
        /// The field.
        field: &'static str,
        /// What it must be.
        problem: &'static str,
        /// Its value.
        found: String,
    },
}

impl Failure for DescriptorError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Integrity
    }
}

#[derive(Deserialize)]
struct RawVersion {
    version: i64,
}

#[derive(Deserialize)]
struct RawFile {
    #[serde(default)]
    runner: Vec<RawDescriptor>,
}

/// A runner as a `runner.toml` or an index describes it, before validation.
#[derive(Deserialize)]
pub(super) struct RawDescriptor {
    pub(super) runner_name: String,
    pub(super) framework_version: String,
    pub(super) runner_compat_version: u64,
    pub(super) runner_interface_version: u64,
    pub(super) runner_release_date: RawDate,
    /// Required in a `runner.toml`. An index entry may leave it to the `runner.toml` in its parts.
    pub(super) runner_path: Option<PathBuf>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    pub(super) platform: String,
    #[serde(default)]
    pub(super) files: ModelFilesMode,
    #[serde(default)]
    pub(super) environment: Vec<String>,
    #[serde(default)]
    pub(super) sandbox: SandboxNeeds,
    pub(super) prepare: Option<PrepareNeeds>,
    pub(super) library: Option<LibraryNeed>,
}

/// The paths that a descriptor may give for its executable, and for what it reads in its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutablePaths {
    /// Only paths below the runner's folder: for a runner that is installed or packaged, whose author is not the user.
    InFolder,
    /// Also absolute paths: for a `runner.toml` in `runner_dir`, which the user wrote. The installer of the original Carton also
    /// writes absolute paths.
    Anywhere,
}

/// A release date. The original Carton writes it as a string; a person would write it as a TOML date-time.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RawDate {
    Text(String),
    DateTime(toml::value::Datetime),
}

/// Parses the `runner.toml` of the folder `folder`. Unknown fields are ignored.
///
/// # Errors
/// See [`DescriptorError`].
pub(crate) fn parse(text: &str, folder: &Path, allowed: ExecutablePaths) -> Result<Vec<Descriptor>, DescriptorError> {
    let raw: RawVersion = toml::from_str(text).map_err(|error| DescriptorError::Parse(Box::new(error)))?;
    if raw.version != 1 {
        return Err(DescriptorError::Version { found: raw.version });
    }
    let raw: RawFile = toml::from_str(text).map_err(|error| DescriptorError::Parse(Box::new(error)))?;
    let described = raw.runner.into_iter().enumerate().map(|(index, raw)| {
        if raw.runner_path.is_none() {
            return Err(DescriptorError::Missing { index, field: "runner_path" });
        }
        validate(index, raw, folder, allowed)
    });
    described.collect()
}

/// Validates the description of a runner. A missing path stays empty.
pub(super) fn validate(
    index: usize,
    raw: RawDescriptor,
    folder: &Path,
    allowed: ExecutablePaths,
) -> Result<Descriptor, DescriptorError> {
    let field = |field, problem, found: &dyn fmt::Display| DescriptorError::Field {
        index,
        field,
        problem,
        found: found.to_string(),
    };
    if raw.runner_name.is_empty() || raw.runner_name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(field("runner_name", "must be a name without spaces", &raw.runner_name));
    }
    let framework_version = Version::parse(&raw.framework_version)
        .map_err(|_| field("framework_version", "must be an exact semantic version", &raw.framework_version))?;
    let runner_path = match raw.runner_path {
        Some(path) => {
            let problem = match allowed {
                ExecutablePaths::InFolder => "must be a relative path below the runner's folder",
                ExecutablePaths::Anywhere => {
                    "must be a relative path below the runner's folder, or absolute, without `..`"
                }
            };
            let is_plain = |part| match part {
                Component::Normal(_) | Component::CurDir => true,
                Component::RootDir => allowed == ExecutablePaths::Anywhere,
                Component::ParentDir | Component::Prefix(_) => false,
            };
            if path.as_os_str().is_empty() || !path.components().all(is_plain) {
                return Err(field("runner_path", problem, &path.display()));
            }
            // `join` with an absolute path returns that path.
            folder.join(path)
        }
        None => PathBuf::new(),
    };
    let no_date = |found: &dyn fmt::Display| field("runner_release_date", "must be an RFC 3339 date and time", found);
    let runner_release_date = match raw.runner_release_date {
        RawDate::Text(text) => text.parse().map_err(|_| no_date(&text))?,
        RawDate::DateTime(date) => ReleaseDate::from_toml(&date).ok_or_else(|| no_date(&date))?,
    };
    let invalid = raw.sandbox.invalid().map(|found| ("sandbox", found));
    let invalid = invalid.or_else(|| Some(("prepare", raw.prepare.as_ref()?.invalid()?)));
    if let Some((name, found)) = invalid {
        return Err(field(name, "must have absolute paths without `..`, and plain names", &found));
    }
    if let Some(found) = raw.library.as_ref().and_then(LibraryNeed::invalid) {
        return Err(field("library", "must have plain names, and self-tests in the runner's folder", &found));
    }
    let name = raw.runner_name.as_str();
    let is_for_anyone =
        raw.sandbox.is_for_anyone(name) && raw.prepare.as_ref().is_none_or(|needs| needs.is_for_anyone(name));
    if allowed == ExecutablePaths::InFolder && !is_for_anyone {
        let problem = "must not ask for files, variables or folders beyond the runner's own";
        return Err(field("sandbox", problem, &"more"));
    }
    Ok(Descriptor {
        runner_name: raw.runner_name,
        framework_version,
        runner_compat_version: raw.runner_compat_version,
        runner_interface_version: raw.runner_interface_version,
        runner_release_date,
        runner_path,
        args: raw.args,
        platform: raw.platform,
        files: raw.files,
        environment: raw.environment,
        sandbox: raw.sandbox,
        prepare: raw.prepare,
        library: raw.library,
        folder: (!folder.as_os_str().is_empty()).then(|| folder.to_path_buf()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(text: &str, folder: &Path) -> Result<Vec<Descriptor>, DescriptorError> {
        super::parse(text, folder, ExecutablePaths::InFolder)
    }

    const ORIGINAL: &str = r#"
version = 1

[[runner]]
runner_name = "torchscript"
framework_version = "1.12.1"
runner_compat_version = 2
runner_interface_version = 1
runner_release_date = "2023-08-01T12:00:00.123456+00:00"
runner_path = "runner"
platform = "x86_64-unknown-linux-gnu"
"#;

    #[test]
    fn the_originals_file_is_understood() {
        let descriptors = parse(ORIGINAL, Path::new("/runners/t")).unwrap();
        assert_eq!(descriptors.len(), 1);
        assert_eq!(descriptors[0].runner_path, Path::new("/runners/t/runner"));
        assert_eq!(descriptors[0].framework_version, Version::new(1, 12, 1));
        assert_eq!(descriptors[0].runner_interface_version, 1);
        assert_eq!(descriptors[0].files, ModelFilesMode::Directory);
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut descriptor = parse(ORIGINAL, Path::new("")).unwrap().remove(0);
        descriptor.args = vec!["a b".to_owned(), "\"".to_owned()];
        descriptor.files = ModelFilesMode::Ranges;
        descriptor.environment = vec!["UV_*".to_owned()];
        descriptor.sandbox.namespaces = true;
        descriptor.prepare = Some(PrepareNeeds::default());
        assert_eq!(
            parse(&Descriptor::to_toml(std::slice::from_ref(&descriptor)).unwrap(), Path::new("")).unwrap(),
            [descriptor]
        );
    }

    /// Whoever offers a runner does not decide which of the user's files it gets.
    #[test]
    fn what_a_runner_for_download_may_ask_for() {
        let check = |needs: &str, is_for_anyone: bool| {
            let text = format!("{ORIGINAL}{needs}");
            let anywhere = super::parse(&text, Path::new("/r"), ExecutablePaths::Anywhere);
            assert!(anywhere.is_ok(), "{needs}: {anywhere:?}");
            assert_eq!(parse(&text, Path::new("/r")).is_ok(), is_for_anyone, "{needs}");
        };
        check("[runner.sandbox]\nnamespaces = true\ndata = ['torchscript']", true);
        check("[runner.prepare]\ndata = ['torchscript']", true);
        check("[runner.sandbox]\nread = ['/home']", false);
        check("[runner.sandbox]\nread_variables = ['HOME']", false);
        check("[runner.sandbox]\ndata = ['python']", false);
        check("[runner.prepare]\ndata = ['python']", false);
        check("[runner.prepare]\nenvironment = ['*']", false);
        check("[runner.prepare]\nread = ['~/x']", false);
        check("[runner.prepare]\nprograms = ['sh']", false);
        check("[runner.prepare]\nread_data = ['torchscript']", false);
        for needs in [
            "sandbox]\nread = ['x']",
            "sandbox]\nread = ['/a/../b']",
            "sandbox]\ndata = ['..']",
            "prepare]\nprograms = ['/x']",
        ] {
            let text = format!("{ORIGINAL}[runner.{needs}");
            assert!(super::parse(&text, Path::new("/r"), ExecutablePaths::Anywhere).is_err(), "{needs}");
        }
    }

    #[test]
    fn bad_files_are_errors_that_name_the_field() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(ORIGINAL.contains(from));
            let error = parse(&ORIGINAL.replace(from, to), Path::new("/r")).unwrap_err();
            let mut text = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                text.push_str(&source.to_string());
            }
            assert!(text.contains(expected), "{text}");
        };
        check("version = 1\n\n", "version = 2\n\n", "expected version 1, found 2");
        check("\"runner\"", "\"../runner\"", "runner_path");
        check("\"runner\"", "\"/bin/sh\"", "runner_path");
        check("\"1.12.1\"", "\"1.12\"", "framework_version");
        check("\"torchscript\"", "\"torch script\"", "runner_name");
        check("2023-08-01T12", "2023-18-41T12", "runner_release_date");
        check("runner_interface_version = 1", "runner_interface_version = -1", "runner_interface_version");
        check("platform = ", "platfrom = ", "platform");
        check("runner_path = ", "runner_pth = ", "runner_path is missing");
    }

    #[test]
    fn executables_lie_where_their_author_may_put_them() {
        let check = |written: &str, expected: Option<&str>| {
            let text = ORIGINAL.replace("\"runner\"", &format!("{written:?}"));
            let found = super::parse(&text, Path::new("/r"), ExecutablePaths::Anywhere);
            match expected {
                Some(expected) => assert_eq!(found.unwrap()[0].runner_path, Path::new(expected), "{written}"),
                None => assert!(found.unwrap_err().to_string().contains("runner_path"), "{written}"),
            }
            let is_below = expected.is_some_and(|path| path.starts_with("/r/")) && !written.starts_with('/');
            assert_eq!(parse(&text, Path::new("/r")).is_ok(), is_below, "{written}");
        };
        check("bin/runner", Some("/r/bin/runner"));
        check("./runner", Some("/r/./runner"));
        check("/opt/carton/runner", Some("/opt/carton/runner"));
        check("/r/runner", Some("/r/runner"));
        check("/opt/../bin/sh", None);
        check("../runner", None);
        check("", None);
    }

    #[test]
    fn one_file_may_describe_several() {
        let (version, first) = ORIGINAL.split_at(ORIGINAL.find("[[").unwrap());
        let second = first.replace("1.12.1", "1.13.1").replace("\"runner\"", "\"newer/runner\"");
        let descriptors = parse(&format!("{version}{first}{second}"), Path::new("/r")).unwrap();
        let paths: Vec<_> = descriptors.iter().map(|runner| runner.runner_path.as_path()).collect();
        assert_eq!(paths, [Path::new("/r/runner"), Path::new("/r/newer/runner")]);
    }
}
