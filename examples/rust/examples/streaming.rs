//! Prints the outputs of a model as they arrive:
//!
//! ```console
//! $ cargo run -p carton-examples --example streaming -- model.carton
//! ```
//!
//! A model that does not stream returns one item. Dropping the stream cancels the call. The example `own_runner` has a model that
//! streams.

mod support;

use std::process::ExitCode;

use carton_core::Carton;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    carton_core::runner_main(support::RUNNERS);
    let Some(location) = std::env::args().nth(1) else {
        eprintln!("usage: streaming CARTON");
        return Ok(ExitCode::from(2));
    };
    tokio::runtime::Runtime::new()?.block_on(stream(&location))?;
    Ok(ExitCode::SUCCESS)
}

async fn stream(location: &str) -> Result<(), Box<dyn std::error::Error>> {
    let model = Carton::load(location).await?;
    let inputs = support::zeros(model.package().metadata().inputs())?;
    let mut stream = model.infer(inputs).stream().await?;
    while let Some(outputs) = stream.next().await {
        for (name, output) in &outputs? {
            println!("{name}: {:?}", output.shape().unwrap_or_default());
        }
    }
    Ok(())
}
