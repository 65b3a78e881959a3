//! Generates the list of files in the Python runner's package, which `carton runner install python` writes out.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// A symbolic link to the package, so that the published crate contains its files.
const PACKAGE: &str = "carton_runner";

fn main() -> io::Result<()> {
    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join(PACKAGE);
    let mut files = Vec::new();
    list(&package, "carton_runner", &mut files)?;
    files.sort();
    let mut code = String::from("&[\n");
    for (name, path) in &files {
        writeln!(code, "    ({name:?}, include_bytes!({path:?})),").map_err(io::Error::other)?;
    }
    code.push_str("]\n");
    let output = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(output.join("python_package.rs"), code)
}

/// Lists the Python files in a folder and below, with their names in the package. Tells Cargo to watch each folder for new files.
fn list(folder: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
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
            files.push((inner, path));
        }
    }
    Ok(())
}
