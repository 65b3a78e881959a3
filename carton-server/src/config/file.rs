//! `serve.toml`: TOML in, a configuration out. Unknown keys are errors: one that is ignored could be a limit or a token.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use carton_core::sandbox::{Limits as RunnerLimits, Permissions, SandboxMode};
use carton_core::signature::SignatureMode;
use carton_core::{ManifestHash, OptionValue, Options};
use serde::{Deserialize, Deserializer};

use super::ConfigError;
use crate::access::AccessLog;
use crate::connection::{Address, TlsFiles};
use crate::limits::Limits;
use crate::server::{Server, ServerBuilder};

/// The configuration of a server.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use carton_core::Config;
/// use carton_server::ServeConfig;
///
/// let config = ServeConfig::read("serve.toml".as_ref())?;
/// let mut server = config.builder()?;
/// for model in config.models(&Config::load(None)?)? {
///     server = server.model(model);
/// }
/// server.bind().await?.run(std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServeConfig {
    /// Where to listen for HTTP.
    #[serde(deserialize_with = "addresses")]
    pub http: Vec<Address>,
    /// Where to listen for gRPC.
    #[serde(deserialize_with = "addresses")]
    pub grpc: Vec<Address>,
    /// Encrypts all connections.
    pub tls: Option<TlsFiles>,
    /// A file with the tokens for calls, one a line.
    pub token_file: Option<PathBuf>,
    /// A file with the tokens for administration, one a line.
    pub admin_token_file: Option<PathBuf>,
    /// The origins whose pages may call the server from a browser; `*` is every origin.
    pub allowed_origins: Vec<String>,
    /// The hosts that requests may be for, beside addresses and `localhost`. Needed by a server on this machine without tokens.
    pub allowed_hosts: Vec<String>,
    /// The access log; `-` is standard output.
    pub access_log: Option<PathBuf>,
    /// A folder whose cartons are served: `NAME.carton`, or `NAME/VERSION.carton`.
    pub repository: Option<PathBuf>,
    /// Whether clients may load and unload models.
    pub repository_api: bool,
    /// Whether the pages for people need no token where calls need one. Their form has a field for it.
    pub public_pages: bool,
    /// How long the server says that it is not ready before it stops to accept connections, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub drain_delay: Option<Duration>,
    /// How long running calls have to finish when the server ends, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub drain_timeout: Option<Duration>,
    /// The limits of the server.
    #[serde(deserialize_with = "limits")]
    pub limits: Limits,
    /// What the models have that do not say otherwise, and those of the folder: any key of a model but `location`, `name` and `expect`.
    pub defaults: ModelConfig,
    /// The models.
    #[serde(rename = "model")]
    pub models: Vec<ModelConfig>,
}

/// A model of the configuration. What is `None` is that of the defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelConfig {
    /// A carton: a path or a URL.
    pub location: Option<String>,
    /// The name under which it is served; by default that of the file, without `.carton`.
    pub name: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// The hash that the carton must have.
    #[serde(deserialize_with = "hash")]
    pub expect: Option<ManifestHash>,
    /// The number of runners.
    pub instances: Option<NonZeroUsize>,
    /// The most elements of a batch.
    pub max_batch: Option<NonZeroUsize>,
    /// How long a call waits for others to join it, in milliseconds.
    #[serde(deserialize_with = "milliseconds")]
    pub max_delay_ms: Option<Duration>,
    /// The most calls that it has at once.
    pub max_queue: Option<usize>,
    /// The time that a call may take, in seconds. Then its runner is killed.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Option<Duration>,
    /// Whether it must pass its self-tests before it is ready.
    pub self_test: Option<bool>,
    /// What happens when inputs or outputs are not as the carton declares them: the call is refused (`strict`), as by default; that is
    /// logged (`warn`); or nothing (`off`).
    pub signature_mode: Option<SignatureMode>,
    /// The device that it runs on.
    pub device: Option<String>,
    /// The runner that runs it, instead of the carton's. A bare model needs one.
    pub runner: Option<String>,
    /// Options of the runner.
    #[serde(deserialize_with = "options")]
    pub options: Options,
    /// How it is confined.
    pub sandbox: Option<SandboxMode>,
    /// What it may use beyond its own files.
    #[serde(deserialize_with = "permissions")]
    pub allow: Permissions,
    /// Environment variables that it gets: `NAME`, one of the server's, or `NAME=VALUE`.
    pub env: Vec<String>,
    /// The limits of its runners, by name: `memory`, `processes`, `open_files`, `file_size`, `cpu_seconds`.
    #[serde(deserialize_with = "runner_limits")]
    pub limits: RunnerLimits,
}

impl ServeConfig {
    /// Reads a file. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has an unknown key or an invalid value.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path, "configuration")?;
        let mut config: Self = toml::from_str(&text).map_err(|error| ConfigError::Invalid {
            path: path.to_path_buf(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut paths: Vec<&mut PathBuf> = Vec::new();
        paths.extend(config.token_file.as_mut());
        paths.extend(config.admin_token_file.as_mut());
        paths.extend(config.access_log.as_mut().filter(|log| log.as_path() != Path::new("-")));
        paths.extend(config.repository.as_mut());
        if let Some(tls) = &mut config.tls {
            paths.extend([&mut tls.certificate, &mut tls.key]);
            paths.extend(tls.client_roots.as_mut());
        }
        paths.into_iter().for_each(|path| *path = folder.join(&*path));
        for location in config.models.iter_mut().filter_map(|model| model.location.as_mut()) {
            if carton_core::Location::from(location.as_str()).path().is_some() {
                *location = folder.join(&*location).to_string_lossy().into_owned();
            }
        }
        Ok(config)
    }

    /// The server without its models. Opens the access log and reads the tokens.
    ///
    /// # Errors
    /// The access log or a file of tokens cannot be opened, or has no token.
    pub fn builder(&self) -> Result<ServerBuilder, ConfigError> {
        let mut builder = Server::builder().limits(self.limits).repository_api(self.repository_api);
        builder = builder.public_pages(self.public_pages);
        builder = self.allowed_origins.iter().cloned().fold(builder, ServerBuilder::allowed_origin);
        builder = self.allowed_hosts.iter().cloned().fold(builder, ServerBuilder::allowed_host);
        builder = self.http.iter().cloned().fold(builder, ServerBuilder::http);
        builder = self.grpc.iter().cloned().fold(builder, ServerBuilder::grpc);
        if let Some(path) = &self.token_file {
            builder =
                tokens(path, "calls", "tokens for calls")?.iter().fold(builder, |builder, token| builder.token(token));
        }
        if let Some(path) = &self.admin_token_file {
            builder = tokens(path, "administration", "tokens for administration")?
                .iter()
                .fold(builder, |builder, token| builder.admin_token(token));
        }
        if let Some(files) = &self.tls {
            builder = builder.tls(files.clone());
        }
        if let Some(path) = &self.access_log {
            builder = builder.access_log(AccessLog::open(path)?);
        }
        if let Some(delay) = self.drain_delay {
            builder = builder.drain_delay(delay);
        }
        if let Some(timeout) = self.drain_timeout {
            builder = builder.drain_timeout(timeout);
        }
        Ok(builder)
    }
}

/// The shortest token that is accepted: a shorter one can be guessed.
const MIN_TOKEN_LENGTH: usize = 16;

fn read(path: &Path, what: &'static str) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read { what, path: path.to_path_buf(), source })
}

fn tokens(path: &Path, purpose: &'static str, what: &'static str) -> Result<Vec<String>, ConfigError> {
    let text = read(path, what)?;
    let tokens: Vec<String> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let invalid = |reason: String| ConfigError::Token { purpose, reason: format!("`{}` {reason}", path.display()) };
    if tokens.is_empty() {
        return Err(invalid("is empty".to_owned()));
    }
    if tokens.iter().any(|token| token.len() < MIN_TOKEN_LENGTH) {
        return Err(invalid(format!("has a token of fewer than {MIN_TOKEN_LENGTH} characters")));
    }
    Ok(tokens)
}

/// One address, or a list of them.
fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Address>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected an address, or a list of addresses")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

    let texts = match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    };
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(f64::deserialize(deserializer)?).map(Some)
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(f64::deserialize(deserializer)? / 1000.0).map(Some)
}

fn duration<E: serde::de::Error>(seconds: f64) -> Result<Duration, E> {
    Duration::try_from_secs_f64(seconds).map_err(|_| E::custom("expected a number that is not negative"))
}

fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ManifestHash>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Options, D::Error> {
    let table = toml::Table::deserialize(deserializer)?;
    let option = |(name, value): (String, toml::Value)| Ok((name, option_value(value).ok_or_else(unfit::<D::Error>)?));
    table.into_iter().map(option).collect()
}

fn unfit<E: serde::de::Error>() -> E {
    E::custom("an option of a runner is a text, a number, true, false, or a list of them")
}

fn option_value(value: toml::Value) -> Option<OptionValue> {
    serde_json::to_value(value).ok().and_then(|value| serde_json::from_value(value).ok())
}

fn permissions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Permissions, D::Error> {
    let mut permissions = Permissions::default();
    for text in Vec::<String>::deserialize(deserializer)? {
        permissions.add(&text).map_err(serde::de::Error::custom)?;
    }
    Ok(permissions)
}

fn runner_limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RunnerLimits, D::Error> {
    let mut limits = RunnerLimits::default();
    for (name, value) in BTreeMap::<String, u64>::deserialize(deserializer)? {
        limits.set(&name, value).map_err(serde::de::Error::custom)?;
    }
    Ok(limits)
}

fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct RawLimits {
        body_bytes: Option<usize>,
        call_bytes: Option<usize>,
        connections: Option<usize>,
        headers: Option<usize>,
        header_bytes: Option<usize>,
        #[serde(deserialize_with = "seconds")]
        header_timeout: Option<Duration>,
        #[serde(deserialize_with = "seconds")]
        body_pause: Option<Duration>,
        #[serde(deserialize_with = "seconds")]
        answer_pause: Option<Duration>,
        #[serde(deserialize_with = "seconds")]
        call_timeout: Option<Duration>,
    }

    let (raw, default) = (RawLimits::deserialize(deserializer)?, Limits::default());
    let limits = Limits {
        body_bytes: raw.body_bytes.unwrap_or(default.body_bytes),
        call_bytes: raw.call_bytes.unwrap_or(default.call_bytes),
        connections: raw.connections.unwrap_or(default.connections),
        headers: raw.headers.unwrap_or(default.headers),
        header_bytes: raw.header_bytes.unwrap_or(default.header_bytes),
        header_timeout: raw.header_timeout.unwrap_or(default.header_timeout),
        body_pause: raw.body_pause.unwrap_or(default.body_pause),
        answer_pause: raw.answer_pause.unwrap_or(default.answer_pause),
        call_timeout: raw.call_timeout.or(default.call_timeout),
    };
    let zero = |name| serde::de::Error::custom(format_args!("`{name}` is 0, expected more"));
    limits.check().map(|()| limits).map_err(zero)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(text: &str) -> Result<ServeConfig, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, text).unwrap();
        ServeConfig::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_that_a_file_can_say() {
        let config = read(
            r#"
            http = ["127.0.0.1:8080", "unix:/run/carton.sock"]
            grpc = "127.0.0.1:8081"
            repository_api = true
            allowed_origins = ["https://app.example.com"]
            allowed_hosts = ["models.internal"]
            drain_delay = 0.5
            [limits]
            body_bytes = 1024
            call_timeout = 2.5
            [defaults]
            instances = 2
            sandbox = "strict"
            [[model]]
            name = "digits"
            location = "models/digits.carton"
            max_batch = 16
            max_delay_ms = 1.5
            signature_mode = "warn"
            options = { threads = 1, providers = ["cpu"] }
            allow = ["read=/srv/data"]
            env = ["HF_TOKEN", "OMP_NUM_THREADS=1"]
            limits = { memory = 4_000_000_000 }
            [[model]]
            location = "https://example.com/other.carton"
            "#,
        );
        let config = config.unwrap();
        assert_eq!((config.http.len(), config.grpc.len(), config.limits.body_bytes), (2, 1, 1024));
        assert_eq!(config.allowed_origins, ["https://app.example.com"]);
        assert_eq!(config.allowed_hosts, ["models.internal"]);
        assert_eq!(config.limits.call_timeout, Some(Duration::from_millis(2500)));
        let digits = &config.models[0];
        assert!(digits.location.as_deref().unwrap().ends_with("/models/digits.carton"), "{digits:?}");
        assert_eq!(digits.max_delay_ms, Some(Duration::from_micros(1500)));
        assert_eq!(digits.signature_mode, Some(SignatureMode::Warn));
        assert_eq!(digits.env, ["HF_TOKEN", "OMP_NUM_THREADS=1"]);
        assert_eq!((digits.options.len(), digits.limits.memory), (2, Some(4_000_000_000)));
        assert_eq!(config.models[1].location.as_deref(), Some("https://example.com/other.carton"));
    }

    #[test]
    fn what_is_not_meant_is_an_error() {
        for (text, expected) in [
            ("htp = \"127.0.0.1:1\"", "unknown field `htp`"),
            ("http = \"8080\"", "expected HOST:PORT or unix:PATH"),
            ("drain_delay = -1.0", "not negative"),
            ("[[model]]\nsandbox = \"none\"", "unknown variant `none`"),
            ("[[model]]\nsignature_mode = \"lenient\"", "unknown variant `lenient`"),
            ("[[model]]\nlimits = { memry = 1 }", "memry"),
            ("[[model]]\ninstances = 0", "nonzero"),
            ("[limits]\nbody = 1", "unknown field `body`"),
            ("[limits]\nconnections = 0", "`connections` is 0, expected more"),
            ("[limits]\nbody_pause = 0", "`body_pause` is 0, expected more"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
