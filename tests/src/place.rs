//! A temporary home for one test: its own cache, its own runners, cartons packed there.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use carton_core::config::Config;
use carton_core::runner::PLATFORM;
use carton_core::{Carton, Load, Location, Open, Pack};
use tempfile::TempDir;

use crate::python_runner;

/// A temporary home for one test.
pub struct TestPlace {
    folder: TempDir,
    runner_executable: PathBuf,
}

impl TestPlace {
    /// Makes a place whose runners are all `runner_executable`: pass `env!("CARGO_BIN_EXE_carton-test-runner")`, which
    /// is set only for integration tests.
    ///
    /// # Panics
    /// If no temporary folder can be made.
    #[must_use]
    pub fn new(runner_executable: &str) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), runner_executable: runner_executable.into() };
        std::fs::create_dir_all(place.config().runner_dir).unwrap();
        // As `carton runner install noop` does.
        std::fs::write(place.config().runner_dir.join(".launcher"), "noop/run\n").unwrap();
        for runner in ["noop", "onnx"] {
            place.install(runner, &["__carton-runner", runner], "directory");
        }
        place
    }

    /// The folder of the place.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A configuration with directories inside the place.
    #[must_use]
    pub fn config(&self) -> Config {
        Config::in_folder(self.path())
    }

    /// Installs the test runner's executable as a runner named `name`, started with `args`.
    ///
    /// # Panics
    /// When it cannot be installed.
    pub fn install(&self, name: &str, args: &[&str], files: &str) {
        let folder = self.config().runner_dir.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(&self.runner_executable, folder.join("run")).unwrap();
        self.describe(name, args, files);
    }

    /// Writes the descriptor of a runner whose executable is `run` in its folder.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn describe(&self, name: &str, args: &[&str], files: &str) {
        let folder = self.config().runner_dir.join(name);
        let version = if name == "onnx" { carton_runner_onnx::RUNNER.framework_version } else { "1.0.0" };
        std::fs::create_dir_all(&folder).unwrap();
        let mut text = format!(
            "version = 1\n[[runner]]\nrunner_name = \"{name}\"\nframework_version = \"{version}\"\n\
             runner_compat_version = 1\nrunner_interface_version = 2\nrunner_release_date = 2026-01-01T00:00:00Z\n\
             runner_path = \"run\"\nargs = {args:?}\nplatform = \"{PLATFORM}\"\nfiles = \"{files}\"\n"
        );
        if name == "onnx" {
            let (variables, data) = (carton_runner_onnx::RUNNER.read_variables, carton_runner_onnx::RUNNER.data);
            text.push_str(&format!("[runner.sandbox]\nread_variables = {variables:?}\ndata = {data:?}\n"));
        }
        if ["plain", "python"].contains(&name) {
            let files = python_runner::files();
            text.push_str(&format!("[runner.sandbox]\nnamespaces = true\nread = {files:?}\n"));
        }
        std::fs::write(folder.join("runner.toml"), text).unwrap();
    }

    /// A configuration that counts the starts of runners: before each, a line with the number of the process that is killed for the runner
    /// is added to [`starts`](Self::starts). The runner gets their number as `CARTON_TEST_STARTS`.
    #[must_use]
    pub fn counting_config(&self) -> Config {
        let starts = self.starts();
        let count = format!("echo $$ >> {starts:?}; CARTON_TEST_STARTS=$(wc -l < {starts:?}) exec \"$@\"");
        let mut config = self.config();
        config.sandbox.wrapper = ["/bin/sh", "-c", &count, "sh"].map(str::to_owned).to_vec();
        config
    }

    /// The file with a line for each start of a runner with [`counting_config`](Self::counting_config).
    #[must_use]
    pub fn starts(&self) -> PathBuf {
        self.path().join("starts")
    }

    /// [`Carton::load`] in this place.
    pub fn load(&self, location: impl Into<Location>) -> Load {
        Carton::load(location).config(self.config())
    }

    /// [`Carton::open`] in this place.
    pub fn open(&self, location: impl Into<Location>) -> Open {
        Carton::open(location).config(self.config())
    }

    /// [`Carton::pack`] in this place, for a runner.
    pub fn pack(&self, model: impl Into<PathBuf>, runner: &str, output: impl Into<PathBuf>) -> Pack {
        Carton::pack(model, output).runner(runner).config(self.config())
    }

    /// Packs a folder with one small file for `noop` under `metadata` (a draft of carton.toml).
    ///
    /// # Panics
    /// When it cannot be packed.
    pub async fn pack_noop(&self, metadata: &str) -> PathBuf {
        let model = self.path().join("model");
        std::fs::create_dir_all(&model).unwrap();
        std::fs::write(model.join("weights.bin"), [7_u8; 100]).unwrap();
        let output = self.path().join("noop.carton");
        let metadata = carton_core::metadata::Draft::parse(metadata).unwrap();
        let pack = self.pack(&model, "noop", &output).metadata(metadata).metadata_folder(self.path()).check(false);
        if let Err(error) = pack.await {
            panic!("{error}: {:?}", std::error::Error::source(&error));
        }
        output
    }
}
