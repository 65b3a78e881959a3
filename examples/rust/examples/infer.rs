//! Loads a carton and calls its model once, on zeros:
//!
//! ```console
//! $ cargo run -p carton-examples --example infer -- digits.carton
//! ```
//!
//! The onnx runner is linked into the program, so cartons for ONNX need no installed runner. Other cartons use a runner that
//! `carton runner install` has installed.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use carton_core::{Carton, Tensor};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    // This call comes first: the program is started again as the runner process, and then does not get past this line.
    carton_core::runner_main(support::RUNNERS);
    let Some(location) = std::env::args().nth(1) else {
        eprintln!("usage: infer CARTON");
        return Ok(ExitCode::from(2));
    };
    tokio::runtime::Runtime::new()?.block_on(infer(&location))?;
    Ok(ExitCode::SUCCESS)
}

async fn infer(location: &str) -> Result<(), Box<dyn std::error::Error>> {
    let model = Carton::load(location).device("cpu").timeout(Duration::from_secs(60)).await?;
    let declared = model.package().metadata().inputs();
    for input in declared {
        println!("input {}: {} {}", input.name, input.dtype, input.shape);
    }
    let (outputs, timings) = model.infer(support::zeros(declared)?).timed().await?;
    for (name, output) in &outputs {
        println!("output {name}: {:?}", output.shape().unwrap_or_default());
    }
    println!("{:?} in the runner", timings.run);

    // A wrong input is refused before the runner gets it. The kind of an error says how to react to it.
    let wrong = [("no such input", Tensor::from_vec(vec![0.0_f32], vec![1])?)];
    if let Err(error) = model.infer(wrong).await {
        println!("{:?}: {error}", error.kind());
    }
    Ok(())
}
