//! Tells the library which target triple it is built for: runners are matched by it. Also tells it which triples there are, as far as the
//! compiler knows: packing warns of others.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rustc-env=CARTON_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = std::env::var_os("RUSTC").ok_or("cargo did not say which compiler it uses")?;
    let answer = Command::new(compiler).args(["--print", "target-list"]).output()?;
    if !answer.status.success() {
        return Err(format!("the compiler does not list its targets: {}", answer.status).into());
    }
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo did not say where to write")?);
    std::fs::write(folder.join("target_triples"), answer.stdout)?;
    Ok(())
}
