//! `carton serve`: models over HTTP and gRPC.

use std::io;
use std::path::Path;

use carton_core::Location;
use carton_server::{Address, ModelConfig, ModelSpec, ServeConfig, ServerError, ServerHandle, TlsFiles};
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Context, open};
use crate::args::ServeArgs;
use crate::failure::{Exit, Failure, causes_in_one_line};
use crate::orphans;
use crate::text::one_line;

/// Where the server listens unless something else is asked for: on this machine alone.
const HTTP: &str = "127.0.0.1:8080";
const GRPC: &str = "127.0.0.1:8081";

/// The output of `--json`.
#[derive(Serialize)]
struct Listening {
    http: Vec<String>,
    grpc: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("there is nothing to serve")]
    NoModels,
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
}

pub(super) async fn run(arguments: ServeArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let config = configured(&arguments)?;
    let models = specs(&config, context)?;
    if let (Some(folder), true) = (&config.repository, models.is_empty()) {
        output.warning(&format!(
            "there is no carton in `{}` yet; SIGHUP reads it again",
            one_line(&folder.display().to_string())
        ));
    }
    orphans::reap_as_init();
    // The server watches for signals before it says where it listens, because a program that reads that line may send one at once.
    let mut signals = StopSignals::new().map_err(|error| Failure::new(ServeError::Signals(error)))?;
    let hang_up = signal(SignalKind::hangup()).map_err(|error| Failure::new(ServeError::Signals(error)))?;
    let server = models.into_iter().fold(config.builder().map_err(Failure::new)?, carton_server::ServerBuilder::model);
    let explained = |error| explained(error, &config);
    let server = server.bind().await.map_err(explained)?;
    let (http, grpc) = (server.http_addresses(), server.grpc_addresses());
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    http.iter().for_each(|address| output.note(&format!("listening on {}", shown(scheme, address))));
    grpc.iter().for_each(|address| output.note(&format!("listening on {}", shown("grpc", address))));
    if output.is_json() {
        let texts = |addresses: &[Address]| addresses.iter().map(ToString::to_string).collect();
        output.json(&Listening { http: texts(&http), grpc: texts(&grpc) })?;
    }
    let handle = server.handle();
    let reloading = reload_on_hang_up(hang_up, &arguments, &handle, context);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = server.run(async { drop(stopped.await) });
    let ready = announce(&handle, context);
    tokio::pin!(serving, reloading, ready);
    let mut stop = Some(stop);
    loop {
        tokio::select! {
            ended = &mut serving => {
                output.progress().finish();
                return ended.map(|()| Exit::Ok).map_err(explained);
            }
            () = &mut reloading => {}
            // It stays pending after it said so once.
            () = &mut ready => {}
            () = signals.next() => match stop.take() {
                Some(stop) => {
                    output.note("ending when running calls are answered; a second signal ends the server at once");
                    drop(stop);
                }
                None => return Ok(Exit::Interrupted),
            },
        }
    }
}

/// Says once that all models are ready, and never returns.
async fn announce(handle: &ServerHandle, context: &Context<'_>) {
    const INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);
    while !handle.is_ready() {
        tokio::time::sleep(INTERVAL).await;
    }
    context.output.progress().finish();
    context.output.note("ready");
    std::future::pending().await
}

/// Reads the models of the configuration again at each SIGHUP, and opens the access log again. Never returns.
async fn reload_on_hang_up(mut hang_up: Signal, arguments: &ServeArgs, handle: &ServerHandle, context: &Context<'_>) {
    while hang_up.recv().await.is_some() {
        handle.reopen_access_log();
        match configured(arguments).and_then(|config| specs(&config, context)) {
            Ok(models) => {
                let errors = handle.serve(models).await;
                context.output.progress().finish();
                errors.iter().for_each(|error| context.output.warning(&one_line(&causes_in_one_line(error))));
                context.output.note(match &errors[..] {
                    [] => "reloaded",
                    [ServerError::Load(_), ..] => "reloaded, but for models with errors",
                    _ => "not reloaded",
                });
            }
            Err(failure) => {
                let why: Vec<String> = std::iter::once(failure.message()).chain(failure.causes()).collect();
                context.output.warning(&one_line(&format!("not reloaded: {}", why.join(": "))));
            }
        }
    }
    std::future::pending().await
}

struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The configuration: the file, with the arguments above it.
fn configured(arguments: &ServeArgs) -> Result<ServeConfig, Failure> {
    let mut config = match &arguments.file {
        Some(path) => ServeConfig::read(path).map_err(Failure::usage)?,
        None => ServeConfig::default(),
    };
    for (configured, asked) in [(&mut config.http, &arguments.http), (&mut config.grpc, &arguments.grpc)] {
        if !asked.is_empty() {
            configured.clone_from(asked);
        }
    }
    if config.http.is_empty() && config.grpc.is_empty() {
        config.http.extend(HTTP.parse());
        config.grpc.extend(GRPC.parse());
    }
    let paths = [
        (&mut config.repository, &arguments.repository),
        (&mut config.token_file, &arguments.token_file),
        (&mut config.admin_token_file, &arguments.admin_token_file),
        (&mut config.access_log, &arguments.access_log),
    ];
    for (configured, asked) in paths {
        if asked.is_some() {
            configured.clone_from(asked);
        }
    }
    if let (Some(certificate), Some(key)) = (&arguments.tls_certificate, &arguments.tls_key) {
        let mut files = TlsFiles::new(certificate, key);
        files.client_roots.clone_from(&arguments.tls_client_roots);
        config.tls = Some(files);
    }
    config.public_pages |= arguments.public_pages;
    config.repository_api |= arguments.repository_api;
    config.models.extend(arguments.models.iter().map(|text| named(text)));
    // An argument is for all models, also for those of the file that say something else.
    for model in config.models.iter_mut().chain([&mut config.defaults]) {
        apply(arguments, model);
    }
    Ok(config)
}

/// `NAME=MODEL`, or a path or URL. A `=` belongs to the path or URL if what is before it cannot be a name, as in `a.carton#sha256=…`.
fn named(text: &str) -> ModelConfig {
    match text.split_once('=') {
        Some((name, location)) if !name.is_empty() && !name.contains(['/', ':', '#']) => {
            let mut model = ModelConfig::at(location);
            model.name = Some(name.to_owned());
            model
        }
        _ => ModelConfig::at(text),
    }
}

fn apply(arguments: &ServeArgs, model: &mut ModelConfig) {
    model.instances = arguments.instances.or(model.instances);
    model.max_batch = arguments.max_batch.or(model.max_batch);
    model.max_delay_ms = arguments.max_delay.or(model.max_delay_ms);
    model.max_queue = arguments.max_queue.or(model.max_queue);
    model.timeout = arguments.timeout.or(model.timeout);
    model.self_test = arguments.self_test.then_some(true).or(model.self_test);
    model.signature_mode = arguments.signature_mode.map(Into::into).or(model.signature_mode);
    model.device = arguments.device.clone().or(model.device.take());
    model.runner = arguments.runner.clone().or(model.runner.take());
    model.options.extend(arguments.options.iter().map(|option| (option.key.clone(), option.value.clone())));
    model.sandbox = arguments.sandbox.sandbox.or(model.sandbox);
    for permissions in &arguments.sandbox.allow {
        model.allow.network |= permissions.network;
        model.allow.build |= permissions.build;
        model.allow.read.extend(permissions.read.iter().cloned());
    }
    model.env.extend(arguments.sandbox.env.iter().cloned());
    model.limits = arguments.sandbox.limits().or(model.limits);
}

/// The models to serve. A folder of cartons may be empty; without one there must be a model, also when a file that is being written is read again.
fn specs(config: &ServeConfig, context: &Context<'_>) -> Result<Vec<ModelSpec>, Failure> {
    let specs = match open::progress(context) {
        Some(on_progress) => config.models_reporting(&context.config, on_progress),
        None => config.models(&context.config),
    };
    let specs = specs.map_err(Failure::usage)?;
    if specs.is_empty() && config.repository.is_none() {
        return Err(Failure::usage(ServeError::NoModels).hint("name a carton: `carton serve digits.carton`"));
    }
    Ok(specs)
}

/// The failure of a server. That of a model has the exit code and the hint of its cause.
fn explained(error: ServerError, config: &ServeConfig) -> Failure {
    let hint = match &error {
        ServerError::Bind { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            Some("listen elsewhere with --http and --grpc; port 0 is any free one")
        }
        _ => None,
    };
    let failure = match error {
        ServerError::Load(carton_server::LoadError::Load { name, source }) => {
            let is_it = |model: &&ModelConfig| {
                let of_location = || Location::from(model.location.as_deref()?).name();
                model.name.clone().or_else(of_location).as_ref() == Some(&name)
            };
            let location = config.models.iter().find(is_it).and_then(|model| model.location.as_deref());
            let failure = open::explained(source, Path::new(location.unwrap_or_default()));
            return failure.because_of_it(format!("cannot serve model `{}`", one_line(&name)));
        }
        ServerError::Load(error) => Failure::with_exit(Exit::SelfTest, error),
        error => Failure::new(error),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn shown(scheme: &str, address: &Address) -> String {
    match address {
        Address::Tcp(address) => format!("{scheme}://{address}"),
        unix => one_line(&unix.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_arguments() {
        let check = |text: &str, name: Option<&str>, location: &str| {
            let model = named(text);
            assert_eq!((model.name.as_deref(), model.location.as_deref()), (name, Some(location)), "{text}");
        };
        check("digits.carton", None, "digits.carton");
        check("a=digits.carton", Some("a"), "digits.carton");
        check("a=https://host/x.carton?k=v", Some("a"), "https://host/x.carton?k=v");
        check("https://host/x.carton?k=v", None, "https://host/x.carton?k=v");
        check("./a=b.carton", None, "./a=b.carton");
        check("a.carton#sha256=0", None, "a.carton#sha256=0");
        check("b=a.carton#sha256=0", Some("b"), "a.carton#sha256=0");
        check("=b", None, "=b");
    }
}
