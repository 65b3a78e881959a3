//! Measures `carton serve` beside bounds and peers, and exercises it for a long time.
//!
//!     cargo build --release -p carton-cli -p carton-serving-bench
//!     target/release/carton-serving-bench compare
//!     target/release/carton-serving-bench soak --minutes 10
//!
//! `compare` gives, at 1, 16 and 64 connections, requests a second, times, processor time a request and memory, each as a ratio to a *bound*:
//! a bare program on the same libraries that parses and writes the same and runs no model. The peers in `peers/` serve the same models
//! on the same engine with as many threads. `body kept` is a bound that keeps the bytes it reads, and `in process` a bare program that runs
//! the model itself. Clients and servers share the machine, so that only ratios mean something. Everything that is installed and made is in
//! `target/serving`; `CARTON_TEST_ONNXRUNTIME` names a library of ONNX Runtime to use instead of the one installed there.

mod bound;
mod case;
mod client;
mod compare;
mod in_process;
mod load;
mod part;
mod report;
mod server;
mod soak;
mod subject;

/// The messages and calls of the protocol.
#[allow(missing_docs, unreachable_pub, clippy::enum_variant_names, clippy::missing_errors_doc)]
mod protocol {
    tonic::include_proto!("inference");
}

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Parser)]
#[command(about = "Measures `carton serve`, and exercises it for a long time")]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Measure beside bounds and peers
    Compare(compare::Options),
    /// Keep the server under load while clients leave and runners die
    Soak(soak::Options),
    /// Be a bound
    #[command(hide = true)]
    Bound { protocol: Protocol },
    /// Be a server that runs the model of the pictures in its own process
    #[command(hide = true)]
    InProcess(in_process::Options),
}

#[derive(Clone, Copy, ValueEnum)]
enum Protocol {
    Http,
    /// HTTP, and bodies are read as a whole
    HttpKept,
    Grpc,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(action: Action) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let work = async {
            match action {
                Action::Compare(options) => compare::run(options).await,
                Action::Soak(options) => soak::run(options).await,
                Action::Bound { protocol: Protocol::Http } => bound::serve_http(false).await,
                Action::Bound { protocol: Protocol::HttpKept } => bound::serve_http(true).await,
                Action::Bound { protocol: Protocol::Grpc } => bound::serve_grpc().await,
                Action::InProcess(options) => in_process::serve(options).await,
            }
        };
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        // Returning drops the servers, which would stay otherwise.
        tokio::select! {
            result = work => result,
            _ = interrupt.recv() => Err("interrupted".into()),
            _ = terminate.recv() => Err("terminated".into()),
        }
    })
}
