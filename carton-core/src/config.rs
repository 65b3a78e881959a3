//! The folders, sources and permissions of Carton: `~/.carton/config.toml`, overridden by the environment.
//!
//! | key | environment | default | |
//! | --- | --- | --- | --- |
//! | `runner_dir` | `CARTON_RUNNER_DIR` | `~/.carton/runners` | installed runners |
//! | `runner_data_dir` | `CARTON_RUNNER_DATA_DIR` | `~/.carton/runner_data` | the runners' own data |
//! | `cache_dir` | `CARTON_CACHE_DIR` | `~/.carton/cache` | verified model files |
//! | `runner_index` | `CARTON_RUNNER_INDEX` | none | the index from which runners are installed: a URL or a file |
//! | `auto_install` | | `false` | whether loading a carton may install the runner it needs from that index |
//! | `offline` | `CARTON_OFFLINE` | `false` | whether Carton must not use the network; models are not restricted |
//! | `allow_file_links` | | `false` | whether the links of a local carton may lead to files of this machine |
//! | `allow_private_links` | | `false` | whether the links of a carton from a server may lead to private addresses |
//! | `network.idle_timeout` | | 30 | seconds in which a server has to answer, and to send each further 1 KiB |
//! | `network.max_retries` | | 5 | how many times a failed request is retried |
//! | `network.n_ranges` | | 4 | how many parts of a file are fetched at once, 1 to 64 |
//! | `network.proxy` | | that of the environment | the proxy of all requests, or `false` for none; `network.no_proxy` lists hosts that are reached without it |
//! | `netrc` | `NETRC` | `~/.netrc` | logins by host; `false` in the file disables it |
//! | `sandbox` | | `"on"` | what confines runners: `"strict"`, `"on"`, `"off"`, or a section, see below |
//! | `[[trust]]` | | none | who may sign the cartons of which places, see [`TrustRule`] |
//! | `[[credentials]]` | `CARTON_TOKEN_<host>` | none | bearer tokens by host, see below |
//! | `hub` | `HF_ENDPOINT` | `https://huggingface.co` | the server of `hf://` names; its token is `HF_TOKEN`, or that of `hf auth login` |
//! | `[[registries]]` | | none | registries that are not reached as usual, see [`RegistryConfig`] |
//! | `registry_auth` | `REGISTRY_AUTH_FILE` | those of Docker and Podman | files of logins at registries |
//!
//! `CARTON_CONFIG_PATH` names another file than `~/.carton/config.toml`. Relative paths in the file are relative to its folder, those in
//! the environment to the working folder. `~` and `~/…` stand for the home directory in both; `~name`, the home of another user, is
//! refused. Unknown keys are ignored, because a later version may know them, and logged as warnings, because most are mistakes.
//! `CARTON_OFFLINE` is `1`, `true`, `yes` or `on`, or one of `0`, `false`, `no` and `off`.
//!
//! ```toml
//! [[credentials]]
//! host = "models.example.com"     # on every port; or "models.example.com:8443"
//! token_env = "EXAMPLE_TOKEN"     # or token = "…"
//! # allow_http = true             # without it, the token is sent over https, and over http only to this machine
//! ```
//!
//! ```toml
//! [[trust]]
//! for = ["https://models.example.com/**", "/srv/models/**"]
//! keys = ["example.pub.pem"]          # public keys
//! certificates = ["example-ca.pem"]   # roots; identities says whose certificates from them are trusted
//! identities = ["release@example.com"]
//! # require = false                   # by default, cartons that none of these signed are refused
//! ```
//!
//! ```toml
//! [[registries]]
//! host = "registry.example.com:5000"
//! plain_http = true                   # without it, only a registry on this machine is asked without encryption
//! mirrors = ["https://mirror.example.com"]   # reading asks them first
//! ```
//!
//! ```toml
//! [sandbox]
//! mode = "strict"                     # refuses to run models where the system cannot confine them completely
//! allow = ["network", "read=/srv/data"]   # what cartons get if they ask for it; also "build": packages from their sources
//! memory = 8_000_000_000              # limits of each runner: bytes; further processes, open_files, file_size, cpu_seconds
//! cgroup = "/sys/fs/cgroup/user.slice/…"  # a cgroup of yours, for limits that hold for all processes of a runner together
//! wrapper = ["nice", "-n", "10"]       # a program that is started around each runner
//! ```
//!
//! [`Credentials`] documents the order in which credentials are searched. Errors about the file do not show its values, because one of
//! them may be a token.

mod environment;
mod error;
mod file;
mod home;

use crate::error::Error;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use carton_format::unknown_keys::UnknownKey;
use carton_format::url::{ShownUrl, Url};
use carton_network::http::{Network, NetworkOptions};
use carton_network::hub;

pub use carton_network::http::{Credentials, HostToken, NetrcFile, ProxyConfig, Secret};
pub use carton_network::oci::RegistryConfig;

pub use crate::sandbox::SandboxConfig;
pub use crate::trust::TrustRule;
pub(crate) use error::ConfigError;
use file::{Netrc, RawConfig};

/// Folders, sources and permissions for loading and running models.
///
/// Its `Debug` form shows no secrets. Build it from [`load`](Self::load) or [`in_folder`](Self::in_folder).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Installed runners, one folder each.
    pub runner_dir: PathBuf,
    /// The runners' own data: environments, libraries.
    pub runner_data_dir: PathBuf,
    /// Verified model files, and the records of their verification.
    pub cache_dir: PathBuf,
    /// The index from which runners are installed: a URL or a file.
    pub runner_index: Option<String>,
    /// Whether loading a carton may install the runner it needs.
    pub auto_install: bool,
    /// Whether Carton must not use the network. Models are not restricted: they run in their own processes.
    pub offline: bool,
    /// Whether the links of a local carton may lead to files of this machine.
    pub allow_file_links: bool,
    /// Whether the links of a carton from a server may lead to private addresses: to this machine, or into its network.
    pub allow_private_links: bool,
    /// How long a server may take; `None` for the default.
    pub idle_timeout: Option<Duration>,
    /// How many times a request is retried; `None` for the default.
    pub max_retries: Option<u32>,
    /// How many parts of a file are fetched at once; `None` for the default.
    pub n_ranges: Option<usize>,
    /// The proxy that requests go through.
    pub proxy: ProxyConfig,
    /// The credentials for servers.
    pub credentials: Credentials,
    /// The server of `hf://` names: a URL. `None` for the usual one.
    pub hub: Option<String>,
    /// Registries that are not reached as usual.
    pub registries: Vec<RegistryConfig>,
    /// Who may sign the cartons of which places. The first rule that is for a place decides.
    pub trust: Vec<TrustRule>,
    /// What confines runners.
    pub sandbox: SandboxConfig,
}

impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password, or a signature in its query.
        let index = self.runner_index.as_deref().map(ShownUrl::of_text);
        formatter
            .debug_struct("Config")
            .field("runner_dir", &self.runner_dir)
            .field("runner_data_dir", &self.runner_data_dir)
            .field("cache_dir", &self.cache_dir)
            .field("runner_index", &index)
            .field("auto_install", &self.auto_install)
            .field("offline", &self.offline)
            .field("allow_file_links", &self.allow_file_links)
            .field("allow_private_links", &self.allow_private_links)
            .field("idle_timeout", &self.idle_timeout)
            .field("max_retries", &self.max_retries)
            .field("n_ranges", &self.n_ranges)
            .field("proxy", &self.proxy)
            .field("credentials", &self.credentials)
            .field("hub", &self.hub.as_deref().map(ShownUrl::of_text))
            .field("registries", &self.registries)
            .field("trust", &self.trust)
            .field("sandbox", &self.sandbox)
            .finish()
    }
}

impl Config {
    /// Reads `path`, or the file that `CARTON_CONFIG_PATH` names, or `~/.carton/config.toml` if it exists. The environment takes
    /// precedence over the file. Unknown keys of the file are logged as warnings.
    ///
    /// # Errors
    /// A named file cannot be read, or a file is invalid; a variable has an invalid value; a default needs a home directory and there is
    /// none.
    pub fn load(path: Option<&Path>) -> Result<Self, Error> {
        Self::load_reporting(path, &mut |path, key| tracing::warn!("configuration `{}`, {key}", path.display()))
    }

    /// As [`load`](Self::load), but calls `unknown` with the file and each of its unknown keys instead of logging them.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_reporting(path: Option<&Path>, unknown: &mut dyn FnMut(&Path, &UnknownKey)) -> Result<Self, Error> {
        Ok(Self::from_environment(path, environment::variables(), unknown)?)
    }

    /// A configuration with all folders inside `folder` and without permissions. Reads neither a file nor the environment.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            runner_dir: folder.join("runners"),
            runner_data_dir: folder.join("runner_data"),
            cache_dir: folder.join("cache"),
            runner_index: None,
            auto_install: false,
            offline: false,
            allow_file_links: false,
            allow_private_links: false,
            idle_timeout: None,
            max_retries: None,
            n_ranges: None,
            proxy: ProxyConfig::default(),
            credentials: Credentials::default(),
            hub: None,
            registries: Vec::new(),
            trust: Vec::new(),
            sandbox: SandboxConfig::default(),
        }
    }

    /// The limits, permissions and credentials of requests.
    #[must_use]
    pub(crate) fn network_options(&self) -> NetworkOptions {
        let usual = NetworkOptions::default();
        NetworkOptions {
            offline: self.offline,
            idle_timeout: self.idle_timeout.unwrap_or(usual.idle_timeout),
            max_retries: self.max_retries.unwrap_or(usual.max_retries),
            n_ranges: self.n_ranges.unwrap_or(usual.n_ranges).max(1),
            credentials: self.credentials.clone(),
            proxy: self.proxy.clone(),
            ..usual
        }
    }

    /// The server of `hf://` names.
    pub(crate) fn hub_endpoint(&self) -> Result<Url, ConfigError> {
        let text = self.hub.as_deref().unwrap_or(hub::ENDPOINT);
        let is_server = |url: &Url| matches!(url.scheme(), "http" | "https") && !url.has_hidden_parts();
        let url = Url::parse(text).ok().filter(is_server);
        url.ok_or_else(|| ConfigError::Hub { found: ShownUrl::of_text(text) })
    }

    /// Access to the network as this configuration allows it. Opens no connection yet.
    #[must_use]
    pub(crate) fn network(&self) -> Network {
        Network::new(self.network_options())
    }

    fn from_environment(
        path: Option<&Path>,
        variables: BTreeMap<OsString, OsString>,
        unknown: &mut dyn FnMut(&Path, &UnknownKey),
    ) -> Result<Self, ConfigError> {
        let variable = |name: &str| variables.get(OsStr::new(name)).filter(|value| !value.is_empty()).cloned();
        let home = variable("HOME").map(PathBuf::from);
        let path_in = |name: &'static str| {
            variable(name).map(|value| home::expanded(PathBuf::from(value), home.as_deref(), name)).transpose()
        };
        let asked = match path {
            Some(path) => Some(path.to_path_buf()),
            None => path_in("CARTON_CONFIG_PATH")?,
        };
        let mut read = |path: &Path| RawConfig::read(path, home.as_deref(), unknown);
        let raw = match (&asked, &home) {
            (Some(path), _) => read(path)?,
            (None, Some(home)) => match read(&home.join(".carton/config.toml")) {
                Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    RawConfig::default()
                }
                other => other?,
            },
            (None, None) => RawConfig::default(),
        };
        let directory = |key, name: &'static str, from_file: Option<PathBuf>, default: &str| {
            path_in(name)?
                .or(from_file)
                .or_else(|| home.as_ref().map(|home| home.join(".carton").join(default)))
                .ok_or(ConfigError::NoHome { key, variable: name })
        };
        let netrc = match (path_in("NETRC")?, raw.netrc) {
            (Some(path), _) => Some(NetrcFile::new(path)),
            (None, Some(Netrc::Path(path))) => Some(NetrcFile::new(path)),
            (None, Some(Netrc::Use(false))) => None,
            (None, Some(Netrc::Use(true)) | None) => home.as_ref().map(|home| NetrcFile::optional(home.join(".netrc"))),
        };
        let registry_files = match (path_in("REGISTRY_AUTH_FILE")?, raw.registry_auth) {
            (Some(path), _) => vec![path],
            (None, Some(path)) => vec![path],
            (None, None) => environment::registry_files(&|name| variable(name).map(PathBuf::from), home.as_deref()),
        };
        let network = raw.network.map(toml::Spanned::into_inner).unwrap_or_default();
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let mut tokens: Vec<_> = raw.credentials.into_iter().map(|entry| entry.into_inner().resolve(&text)).collect();
        let hub = text("HF_ENDPOINT").or(raw.hub);
        if let Ok(server) = Url::parse(hub.as_deref().unwrap_or(hub::ENDPOINT)) {
            tokens.extend(environment::hub_token(&|name| variable(name), home.as_deref(), &server));
        }
        let mut credentials = Credentials::default();
        credentials.variables = environment::tokens(&variables);
        credentials.tokens = tokens;
        credentials.netrc = netrc;
        credentials.registry_files = registry_files;
        Ok(Self {
            runner_dir: directory("runner_dir", "CARTON_RUNNER_DIR", raw.runner_dir, "runners")?,
            runner_data_dir: directory(
                "runner_data_dir",
                "CARTON_RUNNER_DATA_DIR",
                raw.runner_data_dir,
                "runner_data",
            )?,
            cache_dir: directory("cache_dir", "CARTON_CACHE_DIR", raw.cache_dir, "cache")?,
            runner_index: match variable("CARTON_RUNNER_INDEX").map(|value| value.to_string_lossy().into_owned()) {
                Some(index) => Some(home::expanded_index(index, home.as_deref(), "CARTON_RUNNER_INDEX")?),
                None => raw.runner_index,
            },
            auto_install: raw.auto_install.unwrap_or(false),
            offline: environment::flag("CARTON_OFFLINE", variable("CARTON_OFFLINE"))?.or(raw.offline).unwrap_or(false),
            allow_file_links: raw.allow_file_links.unwrap_or(false),
            allow_private_links: raw.allow_private_links.unwrap_or(false),
            idle_timeout: network.idle_timeout.map(Duration::from_secs_f64),
            max_retries: network.max_retries,
            n_ranges: network.n_ranges,
            proxy: network.proxy(),
            credentials,
            hub,
            registries: raw.registries.into_iter().map(|entry| entry.into_inner().into()).collect(),
            trust: raw.trust.into_iter().map(|rule| rule.into_inner().into()).collect(),
            sandbox: raw.resolved_sandbox,
        })
    }
}

#[cfg(test)]
mod tests;
