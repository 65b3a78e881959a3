//! Finds libtorch, compiles the shim against it, links both, and passes the version of libtorch to the crate.
//!
//! `LIBTORCH` names the folder with `include` and `lib`; `LIBTORCH_INCLUDE` another one for `include`. `LIBTORCH_CXX11_ABI` is 0 for a
//! libtorch that was built with the older ABI of the C++ library, as PyPI's wheels before 2.6 were.

#![allow(clippy::panic, reason = "how a build script says what is missing")]

use std::path::{Path, PathBuf};

/// The oldest libtorch with everything that the shim uses.
const OLDEST: (u32, u32) = (1, 13);

fn main() {
    for variable in ["LIBTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_CXX11_ABI"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed=build.rs");
    let Some(libtorch) = std::env::var_os("LIBTORCH").map(PathBuf::from) else {
        panic!(
            "LIBTORCH does not name a folder with libtorch; `runners/torchscript/install` sets it, and \
             `eval \"$(runners/torchscript/libtorch)\"` sets it for a shell"
        );
    };
    let include = std::env::var_os("LIBTORCH_INCLUDE").map_or(libtorch.clone(), PathBuf::from).join("include");
    let api = include.join("torch/csrc/api/include");
    let headers = Version::of_headers(&include, &api);
    let version = release(&libtorch).unwrap_or_else(|| headers.to_string());
    assert!(
        (headers.major, headers.minor) >= OLDEST,
        "{} is libtorch {version}, but the runner needs {}.{} or later",
        libtorch.display(),
        OLDEST.0,
        OLDEST.1
    );
    println!("cargo:rustc-env=CARTON_LIBTORCH_VERSION={version}");
    for (name, since) in [("libtorch_float8", (2, 1)), ("libtorch_float8_fnuz", (2, 2))] {
        println!("cargo:rustc-check-cfg=cfg({name})");
        if (headers.major, headers.minor) >= since {
            println!("cargo:rustc-cfg={name}");
        }
    }
    compile_shim(&include, &api);
    link(&libtorch.join("lib"));
}

fn compile_shim(include: &Path, api: &Path) {
    let abi = std::env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".to_owned());
    cc::Build::new()
        .cpp(true)
        .std(standard(include))
        .warnings(false)
        .include(include)
        .include(api)
        .define("_GLIBCXX_USE_CXX11_ABI", abi.as_str())
        .flag("-include")
        .flag("shim/older_systems.h")
        .files(
            ["load.cpp", "aliasing.cpp", "run.cpp", "process.cpp", "older_systems.cpp"]
                .map(|file| Path::new("shim").join(file)),
        )
        .compile("carton_torchscript_shim");
}

/// The oldest C++ standard that the headers accept. A newer one than they were written for need not compile.
fn standard(include: &Path) -> &'static str {
    let header = std::fs::read_to_string(include.join("ATen/ATen.h")).unwrap_or_default();
    if header.contains("__cplusplus < 202002L") { "c++20" } else { "c++17" }
}

fn link(libraries: &Path) {
    println!("cargo:rustc-link-search=native={}", libraries.display());
    println!("cargo:rustc-link-lib=torch_cpu");
    println!("cargo:rustc-link-lib=c10");
    if libraries.join("libtorch_cuda.so").exists() {
        // No symbol of it is referenced: it registers itself when it is loaded.
        println!("cargo:rustc-link-arg-bins=-Wl,--no-as-needed,-ltorch_cuda,--as-needed");
    }
    // In an installation, libraries that do not belong to the system are beside the program. The older kind of tag also applies
    // to the libraries that they need in turn.
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,$ORIGIN/lib,--disable-new-dtags");
}

/// Returns the release in the file `build-version`, which releases of libtorch have. The headers of Debian's 1.13.1 say 1.13.0.
fn release(libtorch: &Path) -> Option<String> {
    let text = read(&libtorch.join("build-version"))?;
    Some(text.trim().split('+').next().unwrap_or_default().to_owned())
}

/// Reads a file that identifies the libtorch, and rebuilds when it changes: another libtorch may be put into the same folder.
fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    println!("cargo:rerun-if-changed={}", path.display());
    Some(text)
}

struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    fn of_headers(include: &Path, api: &Path) -> Self {
        let headers = [include.join("torch/headeronly/version.h"), api.join("torch/version.h")];
        for header in &headers {
            let Some(text) = read(header) else { continue };
            let number = |part: &str| {
                let define = format!("#define TORCH_VERSION_{part} ");
                text.lines().find_map(|line| line.strip_prefix(&define)?.trim().parse().ok())
            };
            if let (Some(major), Some(minor), Some(patch)) = (number("MAJOR"), number("MINOR"), number("PATCH")) {
                return Self { major, minor, patch };
            }
        }
        panic!("no headers of libtorch: neither {} nor {} says a version", headers[0].display(), headers[1].display());
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
