//! A typical program that uses the library: `main` returns the library's error, which Rust prints in its `Debug` form.

use carton_core::{Carton, Inputs};

#[tokio::main]
async fn main() -> Result<(), carton_core::Error> {
    let model = Carton::load(std::env::args().nth(1).unwrap_or_default()).await?;
    let outputs = model.infer(Inputs::none()).await?;
    println!("{}", outputs.len());
    Ok(())
}
