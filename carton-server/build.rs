//! Makes Rust types of the messages in `proto`. Needs no `protoc`: protox compiles the files.

use std::error::Error;

const FILES: [&str; 2] = ["proto/open_inference.proto", "proto/health.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    FILES.iter().for_each(|file| println!("cargo::rerun-if-changed={file}"));
    let descriptors = protox::compile(FILES, ["proto"])?;
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors)?;
    Ok(())
}
