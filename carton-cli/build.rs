//! Generates the list of files in the Python runner's package, which `carton runner install python` writes out. Finds the commit that is
//! built, for `carton --version -v`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// A symbolic link to the package, so that the published crate contains its files.
const PACKAGE: &str = "carton_runner";

fn main() -> io::Result<()> {
    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join(PACKAGE);
    let mut files = Vec::new();
    list(&package, PACKAGE, &mut files)?;
    files.sort();
    let mut code = String::from("&[\n");
    // The names of symbols depend on a hash of the text of each file that is compiled. An absolute path in this one would make programs differ that are
    // built in two folders.
    for name in &files {
        let path_expression = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?})", format!("/{name}"));
        writeln!(code, "    ({name:?}, include_bytes!({path_expression})),").map_err(io::Error::other)?;
    }
    code.push_str("]\n");
    let output = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(output.join("python_package.rs"), code)?;
    println!("cargo:rustc-env=CARTON_BUILD_COMMIT={}", commit().unwrap_or_default());
    Ok(())
}

/// Returns the commit: the one that the packager names in `CARTON_COMMIT`, that of a published crate, or that of the checkout.
fn commit() -> Option<String> {
    println!("cargo:rerun-if-env-changed=CARTON_COMMIT");
    let named = env::var("CARTON_COMMIT").ok().filter(|commit| !commit.is_empty());
    named
        .or_else(published_commit)
        .or_else(checked_out_commit)
        .filter(|commit| commit.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Reads the file that `cargo package` puts into a crate: `{"git": {"sha1": "…"}, …}`.
fn published_commit() -> Option<String> {
    let text = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// Asks git, for an optimized program, and tells Cargo to watch the file that changes with each commit.
fn checked_out_commit() -> Option<String> {
    // A program for debugging is not linked anew for each commit. An unpacked source below somebody else's checkout has no commit of its own.
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") || !Path::new("../.git").exists() {
        return None;
    }
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Lists the Python files in a folder and below, with their names in the package. Tells Cargo to watch each folder for new files.
fn list(folder: &Path, name: &str, files: &mut Vec<String>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let inner = format!("{name}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "__pycache__" {
                list(&path, &inner, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "py") {
            files.push(inner);
        }
    }
    Ok(())
}
