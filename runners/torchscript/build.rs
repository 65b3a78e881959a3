//! Finds libtorch, compiles the shim against it, and tells the crate its version.

#![allow(clippy::panic, reason = "how a build script says what is missing")]

use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for variable in ["LIBTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_CXX11_ABI"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed={}", root.join("shim").display());
    println!("cargo:rerun-if-changed={}", root.join("build.rs").display());
    let Some(libtorch) = std::env::var_os("LIBTORCH").map(PathBuf::from) else {
        panic!(
            "LIBTORCH does not name a folder with libtorch; `runners/torchscript/install` sets it, and \
             `eval \"$(runners/torchscript/libtorch {})\"` sets it for a shell",
            series()
        );
    };
    let include = std::env::var_os("LIBTORCH_INCLUDE").map_or(libtorch.clone(), PathBuf::from).join("include");
    let api = include.join("torch/csrc/api/include");
    let version = version(&libtorch, &include, &api);
    assert!(
        version.starts_with(&format!("{}.", series())),
        "{} is libtorch {version}, but this manifest is for {}",
        libtorch.display(),
        series()
    );
    println!("cargo:rustc-env=CARTON_LIBTORCH_VERSION={version}");
    let abi = std::env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".to_owned());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .include(&include)
        .include(&api)
        .define("_GLIBCXX_USE_CXX11_ABI", abi.as_str())
        .files(["load.cpp", "aliasing.cpp", "run.cpp"].map(|file| root.join("shim").join(file)))
        .compile("carton_torchscript_shim");
    // Installed, the libraries lie beside the program, where they do not belong to the system. The older kind of tag counts
    // for the libraries that they need in turn as well.
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,$ORIGIN/lib,--disable-new-dtags");
    let library = libtorch.join("lib");
    if library.join("libtorch_cuda.so").exists() {
        // Nothing refers to it by name: it registers itself when it is loaded.
        println!("cargo:rustc-link-arg-bins=-Wl,--no-as-needed,-ltorch_cuda,--as-needed");
    }
    println!("cargo:rustc-link-search=native={}", library.display());
}

/// The series of libtorch that the manifest is for: its folder is called after it.
fn series() -> &'static str {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_prefix("libtorch-"))
        .unwrap_or_else(|| panic!("a manifest outside a folder libtorch-VERSION"))
}

/// What the file `build-version` says, as releases of libtorch have it, else what the headers say. The headers of Debian's
/// 1.13.1 say 1.13.0.
fn version(libtorch: &Path, include: &Path, api: &Path) -> String {
    if let Ok(text) = std::fs::read_to_string(libtorch.join("build-version")) {
        return text.trim().split('+').next().unwrap_or_default().to_owned();
    }
    let headers = [include.join("torch/headeronly/version.h"), api.join("torch/version.h")];
    for header in &headers {
        let Ok(text) = std::fs::read_to_string(header) else { continue };
        let number = |part: &str| {
            let define = format!("#define TORCH_VERSION_{part} ");
            text.lines().find_map(|line| line.strip_prefix(&define)?.trim().parse::<u32>().ok())
        };
        if let (Some(major), Some(minor), Some(patch)) = (number("MAJOR"), number("MINOR"), number("PATCH")) {
            return format!("{major}.{minor}.{patch}");
        }
    }
    panic!("no libtorch in {}: no headers at {}", libtorch.display(), headers[0].display());
}
