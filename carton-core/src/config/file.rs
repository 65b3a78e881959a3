//! The configuration file: TOML in, values with the right types and within their limits out.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use toml::Spanned;

use super::{ConfigError, home};
use crate::invalid_toml::InvalidToml;
use crate::network::{HostToken, Secret, Url};
use crate::place::Place;
use crate::sandbox::{SandboxConfig, SandboxMode};
use crate::trust::{TrustRule, check_pattern};
use crate::unknown_keys::{Known, UnknownKey};

/// The accepted seconds. A server cannot answer faster than the minimum; above the maximum, the limit would be useless.
const IDLE_TIMEOUT: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// A larger number would keep other clients from the same server.
const N_RANGES: std::ops::RangeInclusive<usize> = 1..=64;

/// A larger number would keep a user waiting for a request that cannot succeed.
const MAX_RETRIES: u32 = 1000;

#[derive(Default, Deserialize)]
pub(super) struct RawConfig {
    pub(super) runner_dir: Option<PathBuf>,
    pub(super) runner_data_dir: Option<PathBuf>,
    pub(super) cache_dir: Option<PathBuf>,
    pub(super) runner_index: Option<String>,
    pub(super) auto_install: Option<bool>,
    pub(super) offline: Option<bool>,
    pub(super) allow_file_links: Option<bool>,
    pub(super) allow_private_links: Option<bool>,
    pub(super) netrc: Option<Netrc>,
    pub(super) network: Option<Spanned<RawNetwork>>,
    #[serde(default)]
    pub(super) credentials: Vec<Spanned<RawCredential>>,
    #[serde(default)]
    pub(super) trust: Vec<Spanned<RawTrust>>,
    sandbox: Option<Spanned<RawSandbox>>,
    /// `sandbox` with its paths resolved.
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

/// Unknown keys are errors here: one that is ignored could be a restriction that the user relies on.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSandboxSection {
    mode: Option<SandboxMode>,
    #[serde(default)]
    allow: Vec<String>,
    memory: Option<u64>,
    processes: Option<u64>,
    open_files: Option<u64>,
    file_size: Option<u64>,
    cpu_seconds: Option<u64>,
    cgroup: Option<PathBuf>,
    #[serde(default)]
    wrapper: Vec<String>,
}

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
        config.limits.memory = section.memory;
        config.limits.processes = section.processes;
        config.limits.open_files = section.open_files;
        config.limits.file_size = section.file_size;
        config.limits.cpu_seconds = section.cpu_seconds;
        config.cgroup = section.cgroup;
        config.wrapper = section.wrapper;
        Ok(config)
    }
}

#[derive(Default, Deserialize)]
pub(super) struct RawTrust {
    #[serde(rename = "for")]
    places: Vec<String>,
    #[serde(default)]
    keys: Vec<PathBuf>,
    #[serde(default)]
    certificates: Vec<PathBuf>,
    trusted_root: Option<PathBuf>,
    issuer: Option<String>,
    #[serde(default)]
    identities: Vec<String>,
    require: Option<bool>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawNetwork {
    pub(super) idle_timeout: Option<f64>,
    pub(super) max_retries: Option<u32>,
    pub(super) n_ranges: Option<usize>,
}

/// Whether the netrc file is used, or its path.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a path, or `false`")]
pub(super) enum Netrc {
    Use(bool),
    Path(PathBuf),
}

#[derive(Deserialize)]
pub(super) struct RawCredential {
    host: String,
    token: Option<String>,
    token_env: Option<String>,
    #[serde(default)]
    allow_http: bool,
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
        ];
        for (key, directory) in directories {
            directory.as_mut().map(|directory| resolve(key, directory)).transpose()?;
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
        Ok(())
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
        HostToken {
            host: self.host,
            token: token.map(Secret::new),
            variable: self.token_env,
            allow_http: self.allow_http,
        }
    }
}
