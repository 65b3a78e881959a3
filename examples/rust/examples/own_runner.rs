//! A custom runner, linked into the program that uses it, and a model that streams its outputs:
//!
//! ```console
//! $ cargo run -p carton-examples --example own_runner
//! ```
//!
//! The framework of this runner is a counter: its model is a text file with a number, and each call streams the numbers up to it.
//! Like all runners, it runs in its own process. The protocol, the shared memory and the deadlines come with the trait.

use std::collections::BTreeMap;
use std::process::ExitCode;

use carton_core::metadata::{Draft, TensorSpec};
use carton_core::runner::EmbeddedRunner;
use carton_core::{Carton, Config, DataType, Inputs, SymbolicShape, Tensor, Tensors};
use carton_runner_interface::runner::{self, Call, Description, LoadRequest, OutputStream, Runner, RunnerError};

/// A model that counts.
struct Counter {
    limit: i64,
}

impl Runner for Counter {
    fn describe() -> Description {
        Description { name: "counter".to_owned(), framework_version: "1.0.0".to_owned() }
    }

    fn load(request: LoadRequest, call: &Call) -> Result<Self, RunnerError> {
        for name in request.options.keys() {
            call.warn(&format!("the counter runner has no option `{name}`"));
        }
        let file = request.files.map("limit.txt").map_err(|error| RunnerError::new(format!("limit.txt: {error}")))?;
        let text = String::from_utf8_lossy(file.bytes());
        let limit = text.trim().parse().map_err(|_| RunnerError::new(format!("expected a number, found {text:?}")))?;
        Ok(Self { limit })
    }

    fn infer(&self, _inputs: Tensors, _call: &Call) -> Result<Tensors, RunnerError> {
        Ok(number(self.limit))
    }

    fn infer_stream(&self, _inputs: Tensors, _call: &Call, outputs: &mut OutputStream<'_>) -> Result<(), RunnerError> {
        (1..=self.limit).try_for_each(|count| outputs.send(number(count)))
    }
}

fn number(value: i64) -> Tensors {
    BTreeMap::from([("count".to_owned(), Tensor::scalar(value))])
}

static RUNNERS: &[EmbeddedRunner] = &[EmbeddedRunner::new("counter", "1.0.0", runner::run::<Counter>)];

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    carton_core::runner_main(RUNNERS);
    tokio::runtime::Runtime::new()?.block_on(count())?;
    Ok(ExitCode::SUCCESS)
}

async fn count() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let config = Config::in_folder(folder.path());
    let (model, carton) = (folder.path().join("model"), folder.path().join("counter.carton"));
    std::fs::create_dir(&model)?;
    std::fs::write(model.join("limit.txt"), "5")?;

    let mut metadata = Draft::default();
    metadata.inputs = Some(Vec::new());
    metadata.outputs = Some(vec![TensorSpec::new("count", DataType::Int64, SymbolicShape::Dimensions(Vec::new()))]);
    Carton::pack(&model, &carton).runner("counter").metadata(metadata).config(config.clone()).await?;

    let counter = Carton::load(&carton).config(config).await?;
    let mut stream = counter.infer(Inputs::none()).stream().await?;
    while let Some(outputs) = stream.next().await {
        println!("{:?}", outputs?.get::<i64>("count")?.as_slice());
    }
    Ok(())
}
