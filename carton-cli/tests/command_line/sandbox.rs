//! A folder to run the command in, with a home, a cache and runners of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use insta::Settings;
use insta::internals::SettingsBindDropGuard;
use tempfile::TempDir;

/// The result of a command, as snapshots show it.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Parses the one object that `--json` prints.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in:\n{}", self.stdout))
    }

    /// Fails the test, showing the whole output, unless the command ended with this code.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "exit code: {}\n----- stdout -----\n{}\n----- stderr -----\n{}",
            self.code,
            self.stdout.trim_end(),
            self.stderr.trim_end()
        )
    }
}

/// A folder to run the command in. While it lives, snapshots show no paths, times and hashes.
pub(crate) struct Sandbox {
    folder: TempDir,
    _filters: SettingsBindDropGuard,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("carton-test-").tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let mut settings = Settings::clone_current();
        let path = fs::canonicalize(folder.path()).unwrap();
        for (pattern, replacement) in [
            (escaped(path.to_str().unwrap()), "[SANDBOX]"),
            (escaped(env!("CARGO_BIN_EXE_carton")), "[CARTON]"),
            (r"\.partial-\w+".to_owned(), ".partial-[RANDOM]"),
            (r"\.carton-\w+\.partial".to_owned(), ".carton-[RANDOM].partial"),
            (r"PLATFORM +PATH".to_owned(), "PLATFORM  PATH"),
            (r"[0-9a-f]{64}".to_owned(), "[HASH]"),
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".to_owned(), "[UUID]"),
            (r"\b\d+(\.\d+)? (µs|ms|s)\b".to_owned(), "[TIME]"),
            (r"\b\d+ rows/s".to_owned(), "[RATE] rows/s"),
            (r"largest difference .* in ".to_owned(), "largest difference [DIFFERENCE] in "),
            (r"\w+-unknown-linux-gnu\b".to_owned(), "[PLATFORM]"),
            (r"2026-\d\d-\d\dT\d\d:\d\d:\d\dZ".to_owned(), "[DATE]"),
        ] {
            settings.add_filter(&pattern, replacement);
        }
        Self { folder, _filters: settings.bind_to_scope() }
    }

    /// The folder in which commands run.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The folder in which runners are installed.
    pub(crate) fn runner_dir(&self) -> PathBuf {
        self.folder.path().join("runners")
    }

    /// Writes a file below the folder in which commands run.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The command, not started yet.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carton"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.folder.path().join("home"))
            .env("CARTON_RUNNER_DIR", self.runner_dir())
            .env("CARTON_CACHE_DIR", self.folder.path().join("cache"))
            .env("TMPDIR", self.temporary())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // The engine of ONNX models, which a user has installed.
        if let Some(library) = std::env::var_os("CARTON_TEST_ONNXRUNTIME") {
            command.env("ORT_DYLIB_PATH", library);
        }
        command
    }

    /// The folder for temporary files, which must be empty when commands are done.
    pub(crate) fn temporary(&self) -> PathBuf {
        let path = self.folder.path().join("tmp");
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Runs the command with these arguments.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        outcome(&mut self.command(arguments))
    }

    /// Runs the command with arguments that are separated by single spaces.
    pub(crate) fn carton(&self, arguments: &str) -> Outcome {
        self.run(arguments.split(' '))
    }

    /// Names of everything in the folder in which commands run, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        names(&self.work())
    }
}

/// Waits for the command to end.
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Names of everything in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A file of the example model.
pub(crate) fn digits(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits").join(file);
    path.to_str().unwrap().to_owned()
}

fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_alphanumeric() || c == '/' { vec![c] } else { vec!['\\', c] }).collect()
}
