//! What a runner needs in its sandbox, as its descriptor says (spec/runner-descriptor.md, "The sandbox"). Pure.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What the process that runs models needs beyond its own folder and the system's programs and libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SandboxNeeds {
    /// Files and folders that it reads and executes: an interpreter, libraries in other places. Absolute paths, or `~/…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Environment variables whose values are paths of files. It reads the folders of these files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_variables: Vec<String>,
    /// Folders in the runners' data folder that it reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
    /// Whether it starts processes that talk to each other. It gets namespaces of its own: `/dev/shm`, `/tmp` and `/proc`, and a network that
    /// no other process is in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub namespaces: bool,
}

/// What the process needs that makes the preparations for a model. A runner with this answers the call `prepare`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PrepareNeeds {
    /// Environment variables that it gets, and the process that runs the model does not; a final `*` matches any ending. It reads and
    /// executes the absolute paths in their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Programs that it executes, by their names in `PATH`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Files and folders that it reads and executes: configuration of these programs. Absolute paths, or `~/…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Folders in the runners' data folder that it reads and executes: programs that were installed there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_data: Vec<String>,
    /// Folders in the runners' data folder that it writes to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
}

impl SandboxNeeds {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether whoever offers a runner named `runner_name` for download may ask for this: nothing outside of the runner's folder, but a folder
    /// of its own name in the runners' data folder.
    pub(super) fn is_for_anyone(&self, runner_name: &str) -> bool {
        self.read.is_empty() && self.read_variables.is_empty() && self.data.iter().all(|folder| folder == runner_name)
    }

    /// Returns the first path that cannot be used.
    pub(super) fn invalid(&self) -> Option<String> {
        invalid_path(&self.read).or_else(|| invalid_name(&self.data))
    }
}

impl PrepareNeeds {
    /// As [`SandboxNeeds::is_for_anyone`].
    pub(super) fn is_for_anyone(&self, runner_name: &str) -> bool {
        self.read.is_empty()
            && self.programs.is_empty()
            && self.read_data.is_empty()
            && self.environment.is_empty()
            && self.data.iter().all(|folder| folder == runner_name)
    }

    /// Returns the first path or name that cannot be used.
    pub(super) fn invalid(&self) -> Option<String> {
        let names = [&self.data, &self.read_data, &self.programs];
        invalid_path(&self.read).or_else(|| names.into_iter().find_map(|names| invalid_name(names)))
    }
}

fn invalid_path(paths: &[PathBuf]) -> Option<String> {
    let is_valid = |path: &&PathBuf| {
        let is_rooted = path.is_absolute() || path.starts_with("~");
        is_rooted && !path.components().any(|part| part == Component::ParentDir)
    };
    paths.iter().find(|path| !is_valid(path)).map(|path| path.display().to_string())
}

fn invalid_name(names: &[String]) -> Option<String> {
    let is_valid = |name: &&String| {
        let mut parts = Path::new(name.as_str()).components();
        matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
    };
    names.iter().find(|name| !is_valid(name)).cloned()
}
