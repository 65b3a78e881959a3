//! Packs an ONNX model with metadata and a self-test. The expected outputs of the test are what the model returns now:
//!
//! ```console
//! $ cargo run -p carton-examples --example packing -- examples/digits/model.onnx digits.carton
//! ```
//!
//! The carton is loaded and tested before it gets its name. Running its self-tests on another machine shows that the model
//! returns the same there as here.

mod support;

use std::process::ExitCode;

use carton_core::Carton;
use carton_core::metadata::Draft;
use carton_core::packing::RecordSelfTest;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    carton_core::runner_main(support::RUNNERS);
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, output] = arguments.as_slice() else {
        eprintln!("usage: packing MODEL OUTPUT.carton");
        return Ok(ExitCode::from(2));
    };
    tokio::runtime::Runtime::new()?.block_on(pack(model, output))?;
    Ok(ExitCode::SUCCESS)
}

async fn pack(model: &str, output: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut metadata = Draft::default();
    metadata.model_name = Some("packed by an example".to_owned());
    metadata.license = Some("Apache-2.0".to_owned());

    // The runner reads the inputs from the model. The metadata could declare them under other names.
    let mut packing = Carton::pack(model, output)
        .metadata(metadata)
        .progress(|event| eprintln!("{}: {} {}", event.stage, event.done, event.unit))
        .prepare()
        .await?;
    let inputs = support::zeros(packing.declared_inputs()?)?;
    packing.record(RecordSelfTest::from(inputs).named("zeros"))?;
    let packed = packing.write().await?;
    println!("packed {}, sha256:{}", packed.path.display(), packed.manifest_sha256);

    // Loads the carton as a user would who knows its hash.
    let loaded = Carton::load(output).expect_hash(packed.manifest_sha256).await?;
    let report = loaded.self_test().await?;
    println!("{report}");
    Ok(())
}
