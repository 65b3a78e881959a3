//! Serves cartons over HTTP and gRPC with the runner `noop`, which is in this program, and those that are installed.
//!
//! ```sh
//! cargo run -p carton-server --example serve -- --http 127.0.0.1:8000 --grpc 127.0.0.1:8001 echo=echo.carton
//! ```

use std::error::Error;
use std::process::ExitCode;

use carton_core::runner::{EmbeddedRunner, ModelFilesMode};
use carton_server::{ModelSpec, Server};

const RUNNERS: &[EmbeddedRunner] = &[carton_noop_runner::RUNNER.files(ModelFilesMode::Directory)];

fn main() -> ExitCode {
    // Comes first: a runner is this program, started again.
    carton_core::runner_main(RUNNERS);
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut cause: Option<&dyn Error> = Some(error.as_ref());
            while let Some(error) = cause {
                eprintln!("{error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn serve() -> Result<(), Box<dyn Error>> {
    let mut builder = Server::builder();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        builder = match (argument.as_str(), argument.split_once('=')) {
            ("--http", _) => builder.http(arguments.next().unwrap_or_default().parse()?),
            ("--grpc", _) => builder.grpc(arguments.next().unwrap_or_default().parse()?),
            ("--repository-api", _) => builder.repository_api(true),
            (_, Some((name, location))) => builder.model(ModelSpec::new(name, location)),
            _ => return Err(format!("expected NAME=LOCATION, found `{argument}`").into()),
        };
    }
    let server = builder.bind().await?;
    server.http_addresses().iter().for_each(|address| eprintln!("listening on http://{address}"));
    server.grpc_addresses().iter().for_each(|address| eprintln!("listening on grpc://{address}"));
    Ok(server.run(async { drop(tokio::signal::ctrl_c().await) }).await?)
}
