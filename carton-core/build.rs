//! Tells the library which target triple it is built for: runners are matched by it.

fn main() {
    println!("cargo::rustc-env=CARTON_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
}
