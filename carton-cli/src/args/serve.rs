//! `carton serve`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use carton_server::Address;
use clap::Args;

use super::sandbox::SandboxArgs;
use super::signature_mode::SignatureChoice;
use super::values::{OptionArgument, duration};

/// What to serve, where and how.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The cartons to serve: paths or URLs, each under the name of its file, or NAME=MODEL
    ///
    /// A URL may end in `#sha256=HASH`: then the carton must have that hash. With --runner, a model may be in no carton.
    #[arg(value_name = "MODEL", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) models: Vec<String>,

    /// Read models and settings from this file; the options here take precedence
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,

    /// Serve the cartons in this folder: NAME.carton, or NAME/VERSION.carton
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    pub(crate) repository: Option<PathBuf>,

    /// Listen for HTTP here: HOST:PORT, or unix:PATH; port 0 is any free one [default: 127.0.0.1:8080, without --grpc]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Vec<Address>,

    /// Listen for gRPC here [default: 127.0.0.1:8081, without --http]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) grpc: Vec<Address>,

    /// Run the self-tests of each model, which must pass before it is ready
    #[arg(long)]
    pub(crate) self_test: bool,

    /// What to do when inputs or outputs are not as the carton declares them [default: strict]
    #[arg(long, value_name = "HOW")]
    pub(crate) signature_mode: Option<SignatureChoice>,

    /// Start this number of runners for each model [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) instances: Option<NonZeroUsize>,

    /// Run calls together up to this number of elements, where a carton declares a batch dimension; 1 for no batches [default: 32]
    #[arg(long, value_name = "N")]
    pub(crate) max_batch: Option<NonZeroUsize>,

    /// Let a call wait this long for others to join it, such as `2ms`; a number alone is seconds [default: 0s; calls that come while runners are busy join anyway]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_delay: Option<Duration>,

    /// Refuse calls of a model that has this number of them already [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) max_queue: Option<usize>,

    /// Stop a runner whose call takes longer, such as `30s`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// Where to run: `cpu`, the index of a GPU, or its UUID [default: the CPU in the sandbox, else the framework's choice]
    #[arg(long)]
    pub(crate) device: Option<String>,

    /// Use this runner. MODEL may then be a bare model that is in no carton
    #[arg(long, value_name = "NAME")]
    pub(crate) runner: Option<String>,

    /// An option for the runners that overrides the carton's; numbers, booleans and lists as JSON
    #[arg(long = "opt", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<OptionArgument>,

    /// Let clients load and unload models of this configuration
    #[arg(long)]
    pub(crate) repository_api: bool,

    /// Demand one of the bearer tokens in this file, one a line, for calls
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,

    /// Demand one of the bearer tokens in this file for loading and unloading models
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// Show the pages for people without a token; their form has a field for it
    #[arg(long)]
    pub(crate) public_pages: bool,

    /// Encrypt connections: the server's certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = clap::ValueHint::FilePath)]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// The private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate", value_hint = clap::ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Demand a certificate of clients that one of the roots in this file signed
    #[arg(long, value_name = "FILE", requires = "tls_certificate", value_hint = clap::ValueHint::FilePath)]
    pub(crate) tls_client_roots: Option<PathBuf>,

    /// Write a line of JSON for each request to this file; `-` for standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) access_log: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

const EXAMPLES: &str = r#"Examples:
  Serve a model, see its inputs, and call it. http://127.0.0.1:8080/ is a page to try it with:
    carton serve model.carton
    curl http://127.0.0.1:8080/v2/models/model
    curl -d '{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}]}' \
      http://127.0.0.1:8080/v2/models/model/infer

  Serve a carton from the web under another name, in two processes, when its self-tests have passed:
    carton serve resnet=https://example.com/resnet-50.carton --instances 2 --self-test

  Serve what a file says (see the documentation for all of its keys):
    carton serve --file serve.toml

Signals: SIGTERM and SIGINT end the server when running calls are answered, a second one at once. SIGHUP reads the models of
the file and the folder again: those that are new or changed are loaded, and replace those before them without a failed call.
Addresses, tokens, TLS and limits are those of the start.

With --json, one object says where the server listens: {"http": [ADDRESS], "grpc": [ADDRESS]}."#;
