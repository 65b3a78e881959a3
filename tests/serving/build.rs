//! Generates the messages and calls of the protocol, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FOLDER: &str = "../../carton-server/proto";
    println!("cargo::rerun-if-changed={FOLDER}/open_inference.proto");
    let files = protox::compile(["open_inference.proto"], [FOLDER])?;
    // `Bytes` for tensors, so that a request that is sent again and again is not copied.
    tonic_prost_build::configure().bytes(".inference.ModelInferRequest.raw_input_contents").compile_fds(files)?;
    Ok(())
}
