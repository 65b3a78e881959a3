//! Calls a model from many tasks at once, with inputs that are written directly into memory shared with the runner:
//!
//! ```console
//! $ cargo run --release -p carton-examples --example many_calls -- digits.carton 1000
//! ```
//!
//! For models with one numeric input. If the queue is full, a call fails with an error of the kind `Busy`. This program then
//! waits and tries again, as the clients of a server would.

mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use carton_core::{Carton, Error, ErrorKind};
use tokio::task::JoinSet;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    carton_core::runner_main(support::RUNNERS);
    let arguments: Vec<String> = std::env::args().collect();
    let [_, location, n_calls] = arguments.as_slice() else {
        eprintln!("usage: many_calls CARTON N_CALLS");
        return Ok(ExitCode::from(2));
    };
    tokio::runtime::Runtime::new()?.block_on(many_calls(location, n_calls.parse()?))?;
    Ok(ExitCode::SUCCESS)
}

async fn many_calls(location: &str, n_calls: usize) -> Result<(), Box<dyn std::error::Error>> {
    let model = Carton::load(location).max_waiting_calls(64).await?;
    let started = Instant::now();
    let mut calls = JoinSet::new();
    for number in 0..n_calls {
        // A clone shares the runner.
        let model = model.clone();
        calls.spawn(async move { call(&model, number).await });
    }
    while let Some(result) = calls.join_next().await {
        result??;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{n_calls} calls in {seconds:.3} s, {:.0} a second", n_calls as f64 / seconds);
    Ok(())
}

async fn call(model: &Carton, number: usize) -> Result<(), Error> {
    let Some(input) = model.package().metadata().inputs().first() else { return Ok(()) };
    loop {
        // The runner maps this memory, so passing the tensor copies nothing.
        let mut tensor = model.alloc_dtype(input.dtype, &support::sizes(&input.shape)).await?;
        if let Some(bytes) = tensor.bytes_mut() {
            bytes.fill(u8::try_from(number % 7).unwrap_or(0));
        }
        match model.infer([(input.name.as_str(), tensor)]).timeout(Duration::from_secs(60)).await {
            Err(error) if error.kind() == ErrorKind::Busy => tokio::time::sleep(Duration::from_millis(1)).await,
            result => return result.map(drop),
        }
    }
}
