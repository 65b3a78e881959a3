//! The configuration file: TOML in, values with the right types and within their limits out.

use std::fmt;
use std::path::{Path, PathBuf};

use carton_format::invalid_toml::InvalidToml;
use carton_format::unknown_keys::{Known, UnknownKey};
use carton_format::url::Url;
use carton_network::http::{HostToken, ProxyConfig, Secret};
use carton_network::oci::{Reference, RegistryConfig};
use carton_network::place::Place;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use toml::Spanned;

use super::{ConfigError, home};
use crate::sandbox::{Limits, SandboxConfig, SandboxMode};
use crate::trust::{TrustRule, check_pattern};

/// The accepted seconds. A server cannot answer faster than the minimum; above the maximum, the limit would be useless.
const IDLE_TIMEOUT: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// A larger number would keep other clients from the same server.
const N_RANGES: std::ops::RangeInclusive<usize> = 1..=64;

/// A larger number would keep a user waiting for a request that cannot succeed.
const MAX_RETRIES: u32 = 1000;

/// The documentation of the fields becomes the reference of the configuration (`docs/generate.py`): first what the key means, then
/// the default and the environment variable that overrides it.
#[derive(Default, Deserialize)]
pub(super) struct RawConfig {
    /// The folder of installed runners. Default: `~/.carton/runners`. Environment: `CARTON_RUNNER_DIR`.
    pub(super) runner_dir: Option<PathBuf>,
    /// The folder of the runners' own data, such as environments of Python models. Default: `~/.carton/runner_data`. Environment:
    /// `CARTON_RUNNER_DATA_DIR`.
    pub(super) runner_data_dir: Option<PathBuf>,
    /// The folder of verified model files. Default: `~/.carton/cache`. Environment: `CARTON_CACHE_DIR`.
    pub(super) cache_dir: Option<PathBuf>,
    /// The index that runners are installed from, a URL or a file. Default: none. Environment: `CARTON_RUNNER_INDEX`.
    pub(super) runner_index: Option<String>,
    /// Whether loading a carton may install the runner that it needs from that index. Default: `false`.
    pub(super) auto_install: Option<bool>,
    /// Whether Carton uses only files in the cache, and models get no network. Default: `false`. Environment: `CARTON_OFFLINE`.
    pub(super) offline: Option<bool>,
    /// Whether LINKS of a local carton may name files of this machine. Default: `false`.
    pub(super) allow_file_links: Option<bool>,
    /// Whether LINKS of a carton from a server may lead to private addresses, such as 127.0.0.1. Default: `false`.
    pub(super) allow_private_links: Option<bool>,
    /// The file with logins by host, or `false` for none. Default: `~/.netrc`. Environment: `NETRC`.
    pub(super) netrc: Option<Netrc>,
    /// How requests are sent.
    pub(super) network: Option<Spanned<RawNetwork>>,
    /// Bearer tokens for hosts. Default: none. Environment: `CARTON_TOKEN_<host>`.
    #[serde(default)]
    pub(super) credentials: Vec<Spanned<RawCredential>>,
    /// Registries that are not reached as usual. Default: none.
    #[serde(default)]
    pub(super) registries: Vec<Spanned<RawRegistry>>,
    /// A file with logins at registries. Default: those of Docker and Podman. Environment: `REGISTRY_AUTH_FILE`.
    pub(super) registry_auth: Option<PathBuf>,
    /// The server of `hf://` names. Default: `https://huggingface.co`. Environment: `HF_ENDPOINT`; `HF_TOKEN` for its token.
    pub(super) hub: Option<String>,
    /// Who may sign the cartons of which places. The first rule that is for a place decides. Default: none.
    #[serde(default)]
    pub(super) trust: Vec<Spanned<RawTrust>>,
    /// What confines models: the mode alone, as in `sandbox = "strict"`, or a section. Default: `"on"`.
    sandbox: Option<Spanned<RawSandbox>>,
    /// `sandbox` as it is meant. Its paths are resolved where those of other keys are.
    #[serde(skip)]
    pub(super) resolved_sandbox: SandboxConfig,
}

/// The mode alone, or the whole section.
pub(super) enum RawSandbox {
    Mode(SandboxMode),
    Section(Box<RawSandboxSection>),
}

impl<'de> Deserialize<'de> for RawSandbox {
    /// By hand, because an untagged enum has one error for everything that is wrong in either.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = RawSandbox;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`strict`, `on`, `off`, or a table `[sandbox]`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawSandbox, E> {
                text.parse().map(RawSandbox::Mode).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawSandbox, A::Error> {
                RawSandboxSection::deserialize(MapAccessDeserializer::new(map)).map(Box::new).map(RawSandbox::Section)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

macro_rules! define_section {
    ($($(#[$documentation:meta])* $limit:ident,)*) => {
        /// Unknown keys are errors here: one that is ignored could be a restriction that the user relies on.
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct RawSandboxSection {
            /// `"strict"` refuses to run models where the system cannot confine them completely, `"on"` confines them as far as it can,
            /// `"off"` does not. Default: `"on"`.
            mode: Option<SandboxMode>,
            /// What cartons get if they ask for it: `"network"`, `"read=PATH"`, and `"build"`, which allows to build Python packages from
            /// their sources. Default: nothing.
            #[serde(default)]
            allow: Vec<String>,
            $($limit: Option<u64>,)*
            /// A cgroup of yours, below which each runner gets one for its limits. Default: none.
            cgroup: Option<PathBuf>,
            /// A program with its arguments, which is started around each runner. Default: none.
            #[serde(default)]
            wrapper: Vec<String>,
        }

        impl RawSandboxSection {
            fn limits(&self) -> Limits {
                let mut limits = Limits::default();
                $(limits.$limit = self.$limit;)*
                limits
            }
        }
    };
}

carton_sandbox::limit_names!(define_section);

impl RawSandbox {
    /// Converts the section. `~` in it stands for `home`.
    pub(super) fn resolve(self, home: Option<&Path>) -> Result<SandboxConfig, String> {
        let section = match self {
            Self::Mode(mode) => return Ok(SandboxConfig { mode, ..SandboxConfig::default() }),
            Self::Section(section) => *section,
        };
        let mut config = SandboxConfig { mode: section.mode.unwrap_or_default(), ..SandboxConfig::default() };
        for text in &section.allow {
            let text = match (text.strip_prefix("read=~/"), home) {
                (Some(rest), Some(home)) => format!("read={}", home.join(rest).display()),
                _ => text.clone(),
            };
            config.allow.add(&text).map_err(|error| format!("`allow`: {error}"))?;
        }
        config.limits = section.limits();
        config.cgroup = section.cgroup;
        config.wrapper = section.wrapper;
        Ok(config)
    }
}

#[derive(Default, Deserialize)]
pub(super) struct RawTrust {
    /// The places that the rule is for: patterns of paths and URLs. Required.
    #[serde(rename = "for")]
    places: Vec<String>,
    /// Files with public keys whose signatures are accepted.
    #[serde(default)]
    keys: Vec<PathBuf>,
    /// Files with root certificates that vouch for signers. Needs `identities`.
    #[serde(default)]
    certificates: Vec<PathBuf>,
    /// A file with the root of an instance of Sigstore, which vouches for signers. Needs `issuer` and `identities`.
    trusted_root: Option<PathBuf>,
    /// The provider that knows `identities`, for `trusted_root`.
    issuer: Option<String>,
    /// Patterns of the names that signers may have.
    #[serde(default)]
    identities: Vec<String>,
    /// Whether cartons that none of these signed are refused. Default: `true`.
    require: Option<bool>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawNetwork {
    /// The seconds in which a server must answer, and send each further KiB: 0.1 to 3600. Default: 30.
    pub(super) idle_timeout: Option<f64>,
    /// How often a failed request is sent again, with growing pauses: at most 1000. Default: 5.
    pub(super) max_retries: Option<u32>,
    /// How many parts of a file are fetched at once: 1 to 64. Default: 4.
    pub(super) n_ranges: Option<usize>,
    /// The proxy that all requests go through, but those to this machine: an `http` or `https` URL, which may have a user and a password;
    /// or `false` for none. Default: those of the environment, `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`.
    pub(super) proxy: Option<Proxy>,
    /// The hosts that are reached without `proxy`: names, which stand for the names below them as well, addresses, and networks such as
    /// `10.0.0.0/8`. Default: none.
    #[serde(default)]
    pub(super) no_proxy: Vec<String>,
}

/// Whether the netrc file is used, or its path.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a path, or `false`")]
pub(super) enum Netrc {
    Use(bool),
    Path(PathBuf),
}

/// Whether a proxy is used, or its URL.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a URL, or `false`")]
pub(super) enum Proxy {
    Use(bool),
    Url(String),
}

#[derive(Deserialize)]
pub(super) struct RawCredential {
    /// The host, on every port, or `host:port`. Required.
    host: String,
    /// The token. Either this or `token_env` is required.
    token: Option<String>,
    /// The environment variable that holds the token.
    token_env: Option<String>,
    /// Whether the token is sent over http to other machines than this one. Default: `false`.
    #[serde(default)]
    allow_http: bool,
}

#[derive(Deserialize)]
pub(super) struct RawRegistry {
    /// The host, with its port if references have one. Required.
    host: String,
    /// Whether the registry is asked without encryption. Default: only one on this machine that offers no encryption.
    plain_http: Option<bool>,
    /// URLs of servers that have the same repositories, which are asked first, in this order. Default: none.
    #[serde(default)]
    mirrors: Vec<String>,
    /// The servers that may receive the login in return for tokens, beside the registry's own host: hosts, with ports if they are not 443.
    /// Default: none.
    #[serde(default)]
    token_servers: Vec<String>,
}

impl RawConfig {
    /// Reads a file, and calls `unknown` with its unknown keys. Relative paths in the file are resolved against its folder.
    pub(super) fn read(
        path: &Path,
        home: Option<&Path>,
        unknown: &mut dyn FnMut(&Path, &UnknownKey),
    ) -> Result<RawConfig, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
        let mut raw = Self::parse(&text).map_err(|source| ConfigError::Parse { path: path.to_path_buf(), source })?;
        for key in Self::known().unknown_in(&text) {
            unknown(path, &key);
        }
        if let Some(sandbox) = raw.sandbox.take() {
            let position = sandbox.span().start;
            raw.resolved_sandbox = sandbox.into_inner().resolve(home).map_err(|reason| ConfigError::Parse {
                path: path.to_path_buf(),
                source: InvalidToml::at(&text, position, reason),
            })?;
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let resolve = |key, path: &mut PathBuf| -> Result<(), ConfigError> {
            *path = folder.join(home::expanded(std::mem::take(path), home, key)?);
            Ok(())
        };
        let directories = [
            ("runner_dir", &mut raw.runner_dir),
            ("runner_data_dir", &mut raw.runner_data_dir),
            ("cache_dir", &mut raw.cache_dir),
            ("registry_auth", &mut raw.registry_auth),
        ];
        for (key, directory) in directories {
            directory.as_mut().map(|directory| resolve(key, directory)).transpose()?;
        }
        if let Some(cgroup) = &mut raw.resolved_sandbox.cgroup {
            resolve("sandbox.cgroup", cgroup)?;
        }
        if let Some(Netrc::Path(path)) = &mut raw.netrc {
            resolve("netrc", path)?;
        }
        for rule in raw.trust.iter_mut().map(Spanned::as_mut) {
            let files = rule.keys.iter_mut().chain(&mut rule.certificates).chain(&mut rule.trusted_root);
            files.into_iter().try_for_each(|path| resolve("trust", path))?;
            for place in rule.places.iter_mut().filter(|place| place.starts_with('~')) {
                *place = home::expanded(PathBuf::from(&*place), home, "trust.for")?.to_string_lossy().into_owned();
            }
        }
        if let Some(index) = raw.runner_index.as_mut().filter(|index| !Place::is_url(index)) {
            let expanded = home::expanded_index(std::mem::take(index), home, "runner_index")?;
            *index = folder.join(expanded).to_string_lossy().into_owned();
        }
        Ok(raw)
    }

    /// The keys that a configuration may have.
    fn known() -> Known {
        Known::fields::<Self>()
            .table("network", Known::fields::<RawNetwork>())
            .table("credentials", Known::fields::<RawCredential>())
            .table("registries", Known::fields::<RawRegistry>())
            .table("trust", Known::fields::<RawTrust>())
            .table("sandbox", Known::fields::<RawSandboxSection>())
    }

    fn parse(text: &str) -> Result<RawConfig, InvalidToml> {
        let mut raw: RawConfig = toml::from_str(text).map_err(|error| InvalidToml::new(text, &error))?;
        let invalid = |position: usize, reason: &str| InvalidToml::at(text, position, reason);
        for entry in &mut raw.credentials {
            let position = entry.span().start;
            entry.as_mut().check().map_err(|reason| invalid(position, reason))?;
        }
        for entry in &raw.registries {
            entry.as_ref().check().map_err(|reason| invalid(entry.span().start, &reason))?;
        }
        for rule in &raw.trust {
            rule.as_ref().check().map_err(|reason| invalid(rule.span().start, &reason))?;
        }
        if let Some(network) = &raw.network {
            network.as_ref().check().map_err(|reason| invalid(network.span().start, &reason))?;
        }
        Ok(raw)
    }
}

impl RawNetwork {
    fn check(&self) -> Result<(), String> {
        if self.idle_timeout.is_some_and(|seconds| !IDLE_TIMEOUT.contains(&seconds)) {
            return Err(format!("`idle_timeout` must be {} to {} seconds", IDLE_TIMEOUT.start(), IDLE_TIMEOUT.end()));
        }
        if self.max_retries.is_some_and(|retries| retries > MAX_RETRIES) {
            return Err(format!("`max_retries` must be at most {MAX_RETRIES}"));
        }
        if self.n_ranges.is_some_and(|n_ranges| !N_RANGES.contains(&n_ranges)) {
            return Err(format!("`n_ranges` must be {} to {}", N_RANGES.start(), N_RANGES.end()));
        }
        match &self.proxy {
            Some(Proxy::Url(text)) if !Url::parse(text).is_ok_and(|url| ProxyConfig::is_proxy(&url)) => Err(
                "`proxy` must be an `http` or `https` URL with a host alone, such as \"http://proxy.example.com:3128\""
                    .to_owned(),
            ),
            Some(Proxy::Url(_)) => match self.no_proxy.iter().find(|host| !is_exception(host)) {
                Some(_) => {
                    Err("each of `no_proxy` must be a name, an address or a network, such as \"example.com\""
                        .to_owned())
                }
                None => Ok(()),
            },
            _ if !self.no_proxy.is_empty() => Err("`no_proxy` needs `proxy`".to_owned()),
            _ => Ok(()),
        }
    }

    pub(super) fn proxy(&self) -> ProxyConfig {
        match &self.proxy {
            None | Some(Proxy::Use(true)) => ProxyConfig::Environment,
            Some(Proxy::Use(false)) => ProxyConfig::Direct,
            // The file has been checked.
            Some(Proxy::Url(text)) => Url::parse(text).map_or(ProxyConfig::Environment, |proxy| ProxyConfig::Through {
                proxy,
                except: self.no_proxy.clone(),
            }),
        }
    }
}

/// Whether text can be in a list of hosts that are reached without a proxy: the libraries ignore what they do not understand.
fn is_exception(text: &str) -> bool {
    let (host, length) = text.split_once('/').map_or((text, None), |(host, length)| (host, Some(length)));
    let address = host.parse::<std::net::IpAddr>();
    match length {
        Some(length) => {
            length.parse().is_ok_and(|length: u8| address.is_ok_and(|a| length <= if a.is_ipv4() { 32 } else { 128 }))
        }
        None => {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            address.is_ok() || (!host.is_empty() && host.bytes().all(is_of_name))
        }
    }
}

impl RawRegistry {
    fn check(&self) -> Result<(), String> {
        let named = format!("oci://{}/a", self.host).parse::<Reference>();
        if !named.is_ok_and(|reference| reference.host().eq_ignore_ascii_case(&self.host)) {
            return Err("expected `host` to be a host, or a host and a port".to_owned());
        }
        let is_server = |text: &String| {
            Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && !url.has_hidden_parts())
        };
        if self.mirrors.iter().any(|mirror| !is_server(mirror)) {
            let message = "each of `mirrors` must be an `http` or `https` URL without a login, a query or a fragment";
            return Err(message.to_owned());
        }
        let is_host = |text: &String| {
            let url = Url::parse(&format!("https://{text}/"));
            url.is_ok_and(|url| url.expose().path() == "/" && !url.has_hidden_parts()) && !text.contains('/')
        };
        match self.token_servers.iter().find(|server| !is_host(server)) {
            Some(_) => Err("each of `token_servers` must be a host, or a host and a port".to_owned()),
            None => Ok(()),
        }
    }
}

impl From<RawRegistry> for RegistryConfig {
    fn from(raw: RawRegistry) -> Self {
        let RawRegistry { host, plain_http, mirrors, token_servers } = raw;
        let mut config = Self::new(host);
        config.plain_http = plain_http;
        config.mirrors = mirrors;
        config.token_servers = token_servers;
        config
    }
}

impl RawTrust {
    fn check(&self) -> Result<(), String> {
        if self.places.is_empty() {
            return Err("`for` must name at least one place".to_owned());
        }
        for place in self.places.iter().filter(|place| !place.starts_with('~')) {
            check_pattern(place).map_err(|reason| format!("`for` has `{place}`: {reason}"))?;
        }
        let authority = match (self.certificates.as_slice(), &self.trusted_root) {
            ([], None) => None,
            ([], Some(_)) => Some("trusted_root"),
            _ => Some("certificates"),
        };
        match authority {
            // An authority vouches for many, of whom one is meant.
            Some(key) if self.identities.is_empty() => Err(format!("`{key}` needs `identities`; `[\"*\"]` trusts all")),
            None if !self.identities.is_empty() => {
                Err("`identities` needs `certificates` or `trusted_root`, the roots that vouch for them".to_owned())
            }
            None if self.keys.is_empty() && self.require != Some(false) => Err("expected whom to trust: `keys`, \
                `certificates` and `identities`, or `trusted_root`, `issuer` and `identities`; or `require = false`"
                .to_owned()),
            _ => match (&self.trusted_root, &self.issuer) {
                (Some(_), None) => Err("`trusted_root` needs `issuer`, the provider that knows `identities`, such as \
                    \"https://token.actions.githubusercontent.com\""
                    .to_owned()),
                (None, Some(_)) => Err("`issuer` needs `trusted_root`, the root of Sigstore".to_owned()),
                _ => Ok(()),
            },
        }
    }
}

impl From<RawTrust> for TrustRule {
    fn from(raw: RawTrust) -> Self {
        Self {
            places: raw.places,
            keys: raw.keys,
            certificates: raw.certificates,
            trusted_root: raw.trusted_root,
            issuer: raw.issuer,
            identities: raw.identities,
            required: raw.require.unwrap_or(true),
        }
    }
}

impl RawCredential {
    /// Checks the entry, and normalizes the host to the form that it has in URLs.
    fn check(&mut self) -> Result<(), &'static str> {
        match (&self.token, &self.token_env) {
            (Some(_), Some(_)) => return Err("`token` and `token_env` exclude each other"),
            (None, None) => return Err("expected `token` or `token_env`"),
            (Some(token), None) if token.trim().is_empty() => return Err("`token` is empty"),
            _ => {}
        }
        let is_port = |port: &str| port.parse::<u16>().is_ok() && port.bytes().all(|byte| byte.is_ascii_digit());
        let (name, port) = match self.host.rsplit_once(':') {
            Some((name, port)) if is_port(port) && !name.is_empty() => (name, Some(port)),
            _ => (self.host.as_str(), None),
        };
        let is_name = !name.contains(['/', '@', '?', '#', '\\']) && (name.starts_with('[') || !name.contains(':'));
        let url = Url::parse(&format!("https://{name}/")).ok().filter(|_| is_name);
        let name = url.as_ref().and_then(Url::host_str).ok_or("expected `host` to be a host, or a host and a port")?;
        self.host = port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        Ok(())
    }

    pub(super) fn resolve(self, variable: &dyn Fn(&str) -> Option<String>) -> HostToken {
        let token = self.token.or_else(|| variable(self.token_env.as_ref()?));
        let mut host = HostToken::new(self.host, token.map(Secret::new));
        host.variable = self.token_env;
        host.allow_http = self.allow_http;
        host
    }
}
