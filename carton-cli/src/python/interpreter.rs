//! Finds a Python interpreter for the `python` runner, and queries its version and path.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use carton_core::CancelToken;
use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::failure::{Exit, Failure};
use crate::interrupt::InterruptError;
use carton_core::program::{self, Ended};

/// A Python interpreter on this machine that the runner can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interpreter {
    /// Its path: the interpreter itself, not a link or a script that chooses one; or the interpreter of a virtual environment if that was
    /// named.
    pub(super) path: String,
    pub(super) version: Version,
    /// The files and folders that it consists of.
    pub(super) files: Vec<PathBuf>,
}

/// The oldest version that the runner supports.
const OLDEST: (u64, u64) = (3, 9);
/// The timeout for querying an interpreter.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of interpreters that are queried in search of a version.
const MAX_ASKED: usize = 64;

/// The query. Python 2 understands it, too.
const QUESTION: &str = r#"
import json, os, platform, sys, sysconfig
base = sys.executable
in_venv = sys.prefix != getattr(sys, "base_prefix", sys.prefix)
if in_venv:
    base = os.path.join(sys.base_exec_prefix, "bin", "python%d.%d" % sys.version_info[:2])
    if not os.path.exists(base):
        base = getattr(sys, "_base_executable", sys.executable)
executables = [sys.executable, base]
files = executables + [os.path.realpath(name) for name in executables]
for prefix in (sys.prefix, sys.exec_prefix, getattr(sys, "base_prefix", ""), getattr(sys, "base_exec_prefix", "")):
    files += [os.path.join(prefix, name) for name in ("lib", "lib64", "pyvenv.cfg")]
files += [os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "")]
# The headers, with which compilers of models (`torch.compile`, Cython) build modules.
files += [path for name, path in sysconfig.get_paths().items() if "lib" in path or "include" in name]
print("\n" + json.dumps({
    "implementation": platform.python_implementation(),
    "version": sys.version_info[:3],
    "level": sys.version_info[3],
    "serial": sys.version_info[4],
    "executable": os.path.abspath(sys.executable) if in_venv else os.path.realpath(base),
    "base": os.path.realpath(base),
    "files": sorted(set(path for path in files if os.path.isabs(path) and os.path.exists(path))),
}))
"#;

/// The answer, in the last line of its output.
#[derive(Deserialize)]
struct Answer {
    implementation: String,
    version: (u64, u64, u64),
    level: String,
    serial: u64,
    executable: String,
    base: String,
    #[serde(default)]
    files: Vec<PathBuf>,
}

/// The error for an interpreter that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the interpreter `{}`", path.display())]
struct Unusable {
    path: PathBuf,
    source: Problem,
}

/// The reason why an interpreter cannot be used.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("it cannot be started")]
    Start(#[source] io::Error),
    #[error("it ended with {status}{}", Said(said))]
    Ended { status: ExitStatus, said: String },
    #[error("it did not say within {} seconds which Python it is", PATIENCE.as_secs())]
    Silent,
    #[error("it does not behave like a Python interpreter")]
    NoPython,
    #[error("it is {found}, the runner needs CPython")]
    Implementation { found: String },
    #[error("it is Python {found}, the runner needs 3.9 or later")]
    TooOld { found: Version },
    #[error("it is Python {found}, required is `{required}`")]
    Version { found: Version, required: VersionReq },
    #[error("interrupted")]
    Interrupted,
}

/// Formats the first line that a program printed, for the end of a message.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.lines().map(str::trim).find(|line| !line.is_empty()) {
            Some(line) => write!(f, ": {line}"),
            None => Ok(()),
        }
    }
}

/// No interpreter meets the requirements.
#[derive(Debug, thiserror::Error)]
#[error("no Python interpreter {what} is on this machine{}", Seen(seen))]
struct NotFound {
    what: String,
    seen: Vec<String>,
}

struct Seen<'a>(&'a [String]);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; there are {}", self.0.join(", ")) }
    }
}

/// `--python` with neither a path nor a version.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is neither an interpreter nor a version of Python")]
struct NoVersion {
    text: String,
    source: semver::Error,
}

/// The value of `--python`.
enum Asked {
    File(PathBuf),
    Name(String),
    Version(VersionReq),
}

fn asked(text: &str) -> Result<Asked, Failure> {
    if text.contains('/') {
        return Ok(Asked::File(PathBuf::from(text)));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "=<>~^*".contains(c)) {
        return Ok(Asked::Name(text.to_owned()));
    }
    // A bare version means exactly that version: `3.10` does not include 3.12.
    let exact = if text.starts_with(|c: char| c.is_ascii_digit()) { format!("={text}") } else { text.to_owned() };
    let version = VersionReq::parse(&exact).map_err(|source| {
        Failure::usage(NoVersion { text: text.to_owned(), source }).hint("for example: `--python 3.11`")
    });
    version.map(Asked::Version)
}

/// Finds the requested interpreter.
///
/// # Errors
/// There is no such interpreter, or it cannot be used.
pub(super) fn find(
    text: Option<&str>,
    required: Option<&VersionReq>,
    cancel_token: &CancelToken,
) -> Result<Interpreter, Failure> {
    let required = required.filter(|required| **required != VersionReq::STAR);
    let version = match text.map(asked).transpose()? {
        Some(Asked::File(path)) => return named(&path, required, true, cancel_token),
        Some(Asked::Name(name)) => {
            let path = in_path(&name).next().ok_or_else(|| not_found(format!("called `{name}`"), Vec::new()))?;
            return named(&path, required, true, cancel_token);
        }
        Some(Asked::Version(version)) => Some(version),
        None => None,
    };
    if version.is_none() && required.is_none() {
        let path = in_path("python3").chain(in_path("python")).next();
        let path = path.ok_or_else(|| not_found("called `python3`".to_owned(), Vec::new()))?;
        return named(&path, None, false, cancel_token);
    }
    let suits = |found: &Version| [version.as_ref(), required].into_iter().flatten().all(|one| one.matches(found));
    let mut seen = BTreeSet::new();
    let mut too_old = None;
    for path in everywhere().into_iter().take(MAX_ASKED) {
        match ask(&path, false, cancel_token) {
            Ok(found) if suits(&found.version) => return Ok(found),
            Ok(found) => drop(seen.insert(found.version)),
            Err(Problem::Interrupted) => return Err(interrupted()),
            Err(Problem::TooOld { found }) if suits(&found) => too_old = Some((path, Problem::TooOld { found })),
            // It may be a script that chooses between versions and finds none.
            Err(_) => {}
        }
    }
    if let Some((path, source)) = too_old {
        return Err(unusable(&path, source));
    }
    let texts = [version.as_ref(), required].into_iter().flatten().map(|required| format!("`{required}`"));
    let what = format!("that meets {}", texts.collect::<Vec<_>>().join(" and "));
    let failure = not_found(what, seen.iter().map(Version::to_string).collect());
    Err(match [version.as_ref(), required].into_iter().flatten().find_map(minor_of) {
        Some(minor) => failure.hint(format!(
            "install it: `uv python install {minor}`, `pyenv install {minor}`, or `apt-get install python{minor} python{minor}-venv` where the \
             system has that package; then `carton runner install python --python {minor}`"
        )),
        None => failure,
    })
}

/// Returns the minor version that a requirement names, such as `3.12`.
fn minor_of(required: &VersionReq) -> Option<String> {
    let wanted = required.comparators.first()?;
    Some(format!("{}.{}", wanted.major, wanted.minor?))
}

fn not_found(what: String, seen: Vec<String>) -> Failure {
    Failure::with_exit(Exit::NoRunner, NotFound { what, seen })
        .hint("install it, or name an interpreter: `carton runner install python --python PATH`")
}

fn interrupted() -> Failure {
    Failure::with_exit(Exit::Interrupted, InterruptError::Interrupted)
}

fn named(
    path: &Path,
    required: Option<&VersionReq>,
    is_explicit: bool,
    cancel_token: &CancelToken,
) -> Result<Interpreter, Failure> {
    let suits = |found: Interpreter| match required {
        Some(required) if !required.matches(&found.version) => {
            Err(Problem::Version { found: found.version, required: required.clone() })
        }
        _ => Ok(found),
    };
    ask(path, is_explicit, cancel_token).and_then(suits).map_err(|source| match source {
        Problem::Interrupted => interrupted(),
        source => unusable(path, source),
    })
}

fn unusable(path: &Path, source: Problem) -> Failure {
    Failure::new(Unusable { path: path.to_path_buf(), source })
        .hint("name another interpreter: `--python PATH`, or a version: `--python 3.11`")
}

/// Returns the executables with this name in `PATH`.
fn in_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let name = name.to_owned();
    folders
        .into_iter()
        .filter(|folder| folder.is_absolute())
        .map(move |folder| folder.join(&name))
        .filter(|path| path.is_file())
}

/// Returns every interpreter that can be found: `python3` in `PATH`, those with a version in their name, and those that pyenv and uv have
/// installed. In each place, newer versions come first.
fn everywhere() -> Vec<PathBuf> {
    let path: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let mut found: Vec<PathBuf> = in_path("python3").collect();
    for folder in path.iter().filter(|folder| folder.is_absolute()) {
        let names = names_in(folder).into_iter().filter_map(|name| {
            let minor: u32 = name.strip_prefix("python3.")?.parse().ok()?;
            Some((minor, name))
        });
        let mut names: Vec<(u32, String)> = names.collect();
        names.sort_by_key(|(minor, _)| std::cmp::Reverse(*minor));
        found.extend(names.into_iter().map(|(_, name)| folder.join(name)));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let variable = |name: &str, below_home: &str| {
        std::env::var_os(name).filter(|value| !value.is_empty()).map_or_else(|| home.join(below_home), PathBuf::from)
    };
    let of_uv = match std::env::var_os("UV_PYTHON_INSTALL_DIR").filter(|value| !value.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => variable("XDG_DATA_HOME", ".local/share").join("uv/python"),
    };
    for folder in [variable("PYENV_ROOT", ".pyenv").join("versions"), of_uv] {
        let mut names = names_in(&folder);
        names.sort_by_key(|name| std::cmp::Reverse(numbers(name)));
        found.extend(names.into_iter().map(|name| folder.join(name).join("bin/python3")).filter(|path| path.is_file()));
    }
    let mut known = BTreeSet::new();
    found.retain(|path| known.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    found
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns the numbers in a name, by which `3.10.2` sorts after `3.9.18`.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Queries the interpreter at `path`.
fn ask(path: &Path, keep_venv: bool, cancel_token: &CancelToken) -> Result<Interpreter, Problem> {
    let mut command = Command::new(path);
    command.args(["-I", "-c", QUESTION]);
    let ended = program::run(&mut command, Some(PATIENCE), cancel_token).map_err(Problem::Start)?;
    let (status, stdout, stderr) = match ended {
        Ended::Exited { status, stdout, stderr } => (status, stdout, stderr),
        Ended::TimedOut => return Err(Problem::Silent),
        Ended::Interrupted => return Err(Problem::Interrupted),
    };
    if !status.success() {
        return Err(Problem::Ended { status, said: stderr });
    }
    interpret(&stdout, keep_venv)
}

fn interpret(said: &str, keep_venv: bool) -> Result<Interpreter, Problem> {
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let answer: Answer = serde_json::from_str(last).map_err(|_| Problem::NoPython)?;
    let (major, minor, patch) = answer.version;
    let pre_release = match answer.level.as_str() {
        "final" => String::new(),
        "candidate" => format!("-rc.{}", answer.serial),
        level => format!("-{level}.{}", answer.serial),
    };
    let version = format!("{major}.{minor}.{patch}{pre_release}");
    let version = Version::parse(&version).map_err(|_| Problem::NoPython)?;
    if answer.implementation != "CPython" {
        return Err(Problem::Implementation { found: answer.implementation });
    }
    if (major, minor) < OLDEST {
        return Err(Problem::TooOld { found: version });
    }
    let path = if keep_venv { answer.executable } else { answer.base };
    if !path.starts_with('/') {
        return Err(Problem::NoPython);
    }
    Ok(Interpreter { path, version, files: answer.files })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn answer(implementation: &str, version: &str, level: &str) -> String {
        format!(
            "noise of a site customization\n{{\"implementation\": \"{implementation}\", \"version\": {version}, \
             \"level\": \"{level}\", \"serial\": 2, \"executable\": \"/venv/bin/python\", \"base\": \"/usr/bin/python3\"}}\n"
        )
    }

    #[test]
    fn answers_are_judged() {
        let check = |said: &str, expected: Result<&str, &str>| match (interpret(said, false), expected) {
            (Ok(found), Ok(version)) => assert_eq!(found.version.to_string(), version),
            (Err(problem), Err(text)) => assert!(problem.to_string().contains(text), "{problem}"),
            (found, _) => assert!(found.is_err() && expected.is_err(), "{said}: {found:?}"),
        };
        check(&answer("CPython", "[3, 11, 7]", "final"), Ok("3.11.7"));
        check(&answer("CPython", "[3, 15, 0]", "candidate"), Ok("3.15.0-rc.2"));
        check(&answer("CPython", "[3, 15, 0]", "alpha"), Ok("3.15.0-alpha.2"));
        check(&answer("CPython", "[3, 9, 0]", "final"), Ok("3.9.0"));
        check(&answer("CPython", "[3, 8, 18]", "final"), Err("it is Python 3.8.18, the runner needs 3.9 or later"));
        check(&answer("CPython", "[2, 7, 18]", "final"), Err("3.9 or later"));
        check(&answer("PyPy", "[3, 10, 13]", "final"), Err("it is PyPy, the runner needs CPython"));
        check("hello\n", Err("does not behave like"));
        check("", Err("does not behave like"));
    }

    #[test]
    fn a_virtual_environment_is_kept_only_if_it_was_named() {
        let said = answer("CPython", "[3, 11, 7]", "final");
        assert_eq!(interpret(&said, true).unwrap().path, "/venv/bin/python");
        assert_eq!(interpret(&said, false).unwrap().path, "/usr/bin/python3");
    }

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        assert!(numbers("3.10.2") > numbers("3.9.18"));
        assert!(numbers("cpython-3.13.0-linux-x86_64-gnu") > numbers("cpython-3.9.18-linux-x86_64-gnu"));
    }
}
