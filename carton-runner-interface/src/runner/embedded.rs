//! What a runner says of itself to a program that it is linked into.

use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// How a runner takes the files of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelFilesMode {
    /// As a read-only folder.
    #[default]
    Directory,
    /// As ranges of open files, which the runner maps in place. Files that are stored uncompressed in a carton are not copied.
    Ranges,
}

/// A runner that is linked into a program, which starts its own executable again as the runner process (spec/runner-descriptor.md, "Runners
/// inside a program"). Crates of runners have a constant of this type, which programs give to `carton_core::runner_main`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EmbeddedRunner {
    /// The name that cartons ask for.
    pub name: &'static str,
    /// The exact version of its framework; what it reports where [`find_framework_version`](Self::find_framework_version) finds none.
    pub framework_version: &'static str,
    /// Finds the version of a framework that is a library of the machine, given the runners' data folder. It is called whenever
    /// the runners of this program are listed.
    pub find_framework_version: Option<fn(&Path) -> Option<String>>,
    /// The version of the contents of `model/` that it understands.
    pub compat_version: u64,
    /// How it takes the files of a model.
    pub files: ModelFilesMode,
    /// Folders in the runners' data folder that it reads.
    pub data: &'static [&'static str],
    /// Environment variables whose values are paths of files, whose folders it reads.
    pub read_variables: &'static [&'static str],
    /// Runs the runner on the socket at standard input, until the host is gone.
    pub run: fn() -> ExitCode,
}

impl EmbeddedRunner {
    /// Makes a runner with this name and this exact framework version, which `run` runs. It understands compat version 1 and
    /// takes the model's files as ranges.
    #[must_use]
    pub const fn new(name: &'static str, framework_version: &'static str, run: fn() -> ExitCode) -> Self {
        let files = ModelFilesMode::Ranges;
        Self {
            name,
            framework_version,
            find_framework_version: None,
            compat_version: 1,
            files,
            data: &[],
            read_variables: &[],
            run,
        }
    }

    /// Sets the version of the contents of `model/` that it understands.
    #[must_use]
    pub const fn compat_version(mut self, version: u64) -> Self {
        self.compat_version = version;
        self
    }

    /// Sets what finds the version of a framework that is a library of the machine, given the runners' data folder.
    #[must_use]
    pub const fn find_framework_version(mut self, find: fn(&Path) -> Option<String>) -> Self {
        self.find_framework_version = Some(find);
        self
    }

    /// Sets the folders in the runners' data folder that it reads.
    #[must_use]
    pub const fn data(mut self, folders: &'static [&'static str]) -> Self {
        self.data = folders;
        self
    }

    /// Sets the environment variables whose values are paths of files, whose folders it reads: libraries of the user's choice.
    #[must_use]
    pub const fn read_variables(mut self, names: &'static [&'static str]) -> Self {
        self.read_variables = names;
        self
    }

    /// Replaces the code of the runner, for a program whose runners run in another program.
    #[must_use]
    pub const fn run_by(mut self, run: fn() -> ExitCode) -> Self {
        self.run = run;
        self
    }

    /// Sets how it takes the files of a model.
    #[must_use]
    pub const fn files(mut self, mode: ModelFilesMode) -> Self {
        self.files = mode;
        self
    }
}
