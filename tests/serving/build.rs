//! Generates the messages and calls of the protocol, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/open_inference.proto");
    let files = protox::compile(["proto/open_inference.proto"], ["proto"])?;
    // `Bytes` for tensors, so that a request that is sent again and again is not copied.
    tonic_prost_build::configure().bytes(".inference.ModelInferRequest.raw_input_contents").compile_fds(files)?;
    Ok(())
}
