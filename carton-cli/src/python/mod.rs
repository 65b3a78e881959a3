//! The `python` runner in this program: a package of Python files, which becomes a runner for the interpreter that will run them.
//! `interpreter` finds that interpreter, `environments` deletes unused environments; the files themselves are in `runners/python`.

pub(crate) mod environments;
mod interpreter;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use carton_core::CancelToken;
use carton_core::runner::{Descriptor, Installed, Installer, PrepareNeeds, Requirement, RunnerFile};

use crate::failure::Failure;
use interpreter::Interpreter;

/// The runner's name in cartons.
pub(crate) const RUNNER_NAME: &str = "python";
/// The versions of the contents of `model/` that the runner understands: the version that the original Carton's runner understands, too,
/// and one for this runner alone. `carton_runner/packing.py` has the same list.
pub(crate) const COMPAT_VERSIONS: [u64; 2] = [1, 2];

/// The files of the runner's package: paths in its folder, and contents.
static PACKAGE: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/python_package.rs"));

/// The executable of the runner.
const EXECUTABLE: &str = "run";
/// The file that is started if the executable has to be a shell script.
const SCRIPT: &str = "run.py";
/// The Python script that starts the runner. A process that the model starts with `multiprocessing` imports it again, under another name.
/// The package's folder is last in the search path, so that it hides no module of the model.
const START: &str = r#"import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

if __name__ == "__main__":
    from carton_runner.__main__ import main

    sys.exit(main())
"#;
/// The interpreter's flags: without the user's own packages and settings, and without writing bytecode, especially into a model's folder.
const FLAGS: &str = "-IB";

/// The longest first line of a script that every kernel reads whole, `#!` included.
const MAX_SHEBANG: usize = 127;

/// The environment variables that the process gets which makes environments: how to reach a package index, and none that names a place to write
/// to. It reads the paths in their values. The process that runs models does not get them. `VARIABLES` in `carton_runner/environments` is the same list.
const ENVIRONMENT: &[&str] = &[
    "UV",
    "UV_INDEX*",
    "UV_CONFIG_FILE",
    "UV_NO_CONFIG",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
    "UV_KEYRING_PROVIDER",
    "UV_CREDENTIALS_DIR",
    "UV_INSECURE_HOST",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_OFFLINE",
    "UV_HTTP_TIMEOUT",
    "UV_HTTP_CONNECT_TIMEOUT",
    "UV_HTTP_RETRIES",
    "UV_REQUEST_TIMEOUT",
    "UV_LOCK_TIMEOUT",
    "UV_CONCURRENT_DOWNLOADS",
    "UV_CONCURRENT_INSTALLS",
    "UV_NO_BUILD",
    "UV_NO_BUILD_PACKAGE",
    "UV_EXCLUDE_NEWER",
    "UV_FORK_STRATEGY",
    "UV_PRERELEASE",
    "UV_RESOLUTION",
    "UV_NO_BINARY",
    "UV_NO_BINARY_PACKAGE",
    "UV_BUILD_CONSTRAINT",
    "UV_CONCURRENT_BUILDS",
    "UV_NO_BUILD_ISOLATION",
    "PIP_CONFIG_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_KEYRING_PROVIDER",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TIMEOUT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_RETRIES",
    "PIP_USE_FEATURE",
    "PIP_USE_DEPRECATED",
    "PIP_NO_BINARY",
    "PIP_BUILD_CONSTRAINT",
    "PIP_NO_BUILD_ISOLATION",
    "GIT_ALLOW_PROTOCOL",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_KEY_*",
    "GIT_CONFIG_VALUE_*",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NETRC",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// The folder in the runners' data folder in which this command installs uv. `carton_runner/environments/uv.py` looks there.
pub(crate) const UV_FOLDER: &str = "uv";

/// The files that uv and pip read beside those in `ENVIRONMENT`.
const CONFIGURATION: &[&str] = &[
    "~/.config/uv",
    "~/.config/pip",
    "~/.pip",
    "~/.netrc",
    "~/.local/share/uv/credentials",
    "/etc/uv",
    "/etc/pip.conf",
    "/etc/xdg/pip",
    "/etc/xdg/uv",
];

/// Whether every confined process may read a path anyway.
fn is_of_the_system(path: &Path) -> bool {
    ["/usr", "/lib", "/lib64", "/bin"].iter().any(|folder| path.starts_with(folder))
}

/// An error of making the runner.
#[derive(Debug, thiserror::Error)]
enum RunnerError {
    #[error("the version or the date of the runner is invalid")]
    Version,
    #[error("the path of the interpreter has characters that the first line of a script cannot hold: {0:?}")]
    Path(String),
}

/// Installs the runner for an interpreter: the one that `--python` names by its path, its name or its version; else `python3` in `PATH`,
/// or the first interpreter with the required version. Also returns the path of the interpreter.
///
/// # Errors
/// There is no such interpreter, it cannot be used, or files cannot be written.
pub(crate) fn install(
    installer: &Installer<'_>,
    asked: Option<&str>,
    requirement: &Requirement,
    cancel_token: &CancelToken,
) -> Result<(Installed, String), Failure> {
    let interpreter = interpreter::find(asked, requirement.framework_version.as_ref(), cancel_token)?;
    let descriptors = COMPAT_VERSIONS.iter().map(|&compat_version| descriptor(&interpreter, compat_version));
    let descriptors: Option<Vec<Descriptor>> = descriptors.collect();
    let descriptors = descriptors.ok_or_else(|| Failure::new(RunnerError::Version))?;
    let start = start(&interpreter.path).ok_or_else(|| Failure::new(RunnerError::Path(interpreter.path.clone())))?;
    let mut files: Vec<RunnerFile<'_>> =
        PACKAGE.iter().map(|&(path, contents)| RunnerFile::new(path, contents)).collect();
    for (path, text) in &start {
        files.push(RunnerFile::new(path, text.as_bytes()).executable(*path == EXECUTABLE));
    }
    let installed = installer.from_files(&descriptors, &files)?;
    compile(&interpreter, &installed.folder);
    Ok((installed, interpreter.path))
}

fn descriptor(interpreter: &Interpreter, runner_compat_version: u64) -> Option<Descriptor> {
    let mut descriptor = Descriptor::new(RUNNER_NAME, interpreter.version.clone(), EXECUTABLE).ok()?;
    descriptor.runner_compat_version = runner_compat_version;
    descriptor.sandbox.read = interpreter.files.iter().filter(|path| !is_of_the_system(path)).cloned().collect();
    descriptor.sandbox.namespaces = true;
    let mut prepare = PrepareNeeds::default();
    prepare.environment = ENVIRONMENT.iter().map(|&name| name.to_owned()).collect();
    prepare.programs = vec!["uv".to_owned()];
    prepare.read = CONFIGURATION.iter().map(PathBuf::from).collect();
    // uv may be installed beside the interpreter.
    prepare.read.extend(Path::new(&interpreter.path).parent().map(|folder| folder.join("uv")));
    // Or this command has installed it, perhaps later.
    prepare.read_data = vec![UV_FOLDER.to_owned()];
    prepare.data = vec![RUNNER_NAME.to_owned()];
    descriptor.prepare = Some(prepare);
    Some(descriptor)
}

/// Returns the files that start the package with the interpreter at `path`. A shell script is needed if the first line would be too long,
/// or if the path contains white space, which would end it there. `None` for a path that a script cannot contain.
fn start(path: &str) -> Option<Vec<(&'static str, Cow<'static, str>)>> {
    if path.chars().any(char::is_control) {
        return None;
    }
    let shebang = format!("#!{path} {FLAGS}");
    if shebang.len() <= MAX_SHEBANG && !path.contains(char::is_whitespace) {
        return Some(vec![(EXECUTABLE, format!("{shebang}\n{START}").into())]);
    }
    let quoted = path.replace('\'', r"'\''");
    let wrapper = format!("#!/bin/sh\nexec '{quoted}' {FLAGS} \"${{0%/*}}/{SCRIPT}\" \"$@\"\n");
    Some(vec![(EXECUTABLE, wrapper.into()), (SCRIPT, START.into())])
}

/// Compiles the package, so that the runner starts sooner. Stale bytecode is detected by its hash. If the compilation fails, the runner
/// works as well.
fn compile(interpreter: &Interpreter, folder: &Path) {
    let arguments = ["-I", "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "carton_runner"];
    let status = Command::new(&interpreter.path)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tracing::debug!(?status, "compiled the package");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_first_line_is_one_that_kernels_read() {
        let check = |path: &str, expected: &str| {
            let files = start(path).unwrap();
            assert_eq!(files[0].0, EXECUTABLE);
            assert!(files[0].1.starts_with(expected), "{}", files[0].1);
            assert!(files.last().unwrap().1.ends_with(START));
        };
        check("/usr/bin/python3.11", "#!/usr/bin/python3.11 -IB\nimport os\n");
        check("/my python/bin/python3", "#!/bin/sh\nexec '/my python/bin/python3' -IB \"${0%/*}/run.py\" \"$@\"\n");
        check("/it's a/python3", "#!/bin/sh\nexec '/it'\\''s a/python3' -IB ");
        check(&format!("/{}/python3", "a".repeat(120)), "#!/bin/sh\nexec '/aaa");
        assert!(start("/a\nb/python3").is_none());
    }

    #[test]
    fn the_runner_hides_from_models_what_it_is_given() {
        let (_, text) = PACKAGE.iter().find(|(name, _)| *name == "carton_runner/environments/__init__.py").unwrap();
        let text = std::str::from_utf8(text).unwrap();
        let (_, list) = text.split_once("\nVARIABLES = (\n").unwrap();
        let (list, _) = list.split_once("\n)\n").unwrap();
        let hidden: Vec<&str> = list.lines().map(|line| line.trim().trim_matches(['"', ','])).collect();
        assert_eq!(hidden, ENVIRONMENT);
    }

    #[test]
    fn the_package_is_whole() {
        let names: Vec<&str> = PACKAGE.iter().map(|(name, _)| *name).collect();
        for name in ["carton_runner/__main__.py", "carton_runner/environments/__init__.py"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(names.iter().all(|name| name.ends_with(".py")), "{names:?}");
    }
}
