//! Reads the parts of the configuration that come from the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use carton_format::url::Url;
use carton_network::http::{HostToken, Secret, TOKEN_PREFIX};

use super::ConfigError;

/// The environment variables of this process that are not empty.
pub(super) fn variables() -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<_, _> = std::env::vars_os().filter(|(_, value)| !value.is_empty()).collect();
    // A service often runs without HOME; its user has a home directory nevertheless.
    if let (false, Some(home)) = (variables.contains_key("HOME".as_ref() as &std::ffi::OsStr), std::env::home_dir()) {
        variables.insert("HOME".into(), home.into_os_string());
    }
    variables
}

/// The tokens, by the names of their variables.
pub(super) fn tokens(variables: &BTreeMap<OsString, OsString>) -> BTreeMap<String, Secret> {
    let mut tokens = BTreeMap::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(TOKEN_PREFIX)) else { continue };
        match value.to_str() {
            Some(value) => {
                tokens.insert(name.to_owned(), Secret::new(value));
            }
            None => tracing::warn!("{name} is not valid UTF-8 and is not used"),
        }
    }
    tokens
}

/// The files in which Docker and Podman keep logins at registries, in the order to look at them.
pub(super) fn registry_files(variable: &dyn Fn(&str) -> Option<PathBuf>, home: Option<&Path>) -> Vec<PathBuf> {
    let docker = variable("DOCKER_CONFIG").or_else(|| Some(home?.join(".docker")));
    let configuration = variable("XDG_CONFIG_HOME").or_else(|| Some(home?.join(".config")));
    let in_folder = |folder: Option<PathBuf>, file: &str| folder.map(|folder| folder.join(file));
    [
        in_folder(docker, "config.json"),
        in_folder(variable("XDG_RUNTIME_DIR"), "containers/auth.json"),
        in_folder(configuration, "containers/auth.json"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The token for the Hub, from the places in which its own programs look for one. A token of the configuration for the same host counts
/// first.
pub(super) fn hub_token(
    variable: &dyn Fn(&str) -> Option<OsString>,
    home: Option<&Path>,
    server: &Url,
) -> Option<HostToken> {
    let named = |name| Some((Secret::new(variable(name)?.to_str()?), name.to_owned()));
    let stored = || {
        let folder = variable("HF_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cache/huggingface")));
        let path = variable("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(folder?.join("token")))?;
        let text = std::fs::read_to_string(&path).ok().filter(|text| !text.trim().is_empty())?;
        Some((Secret::new(text), path.display().to_string()))
    };
    let (token, from) = named("HF_TOKEN").or_else(|| named("HUGGING_FACE_HUB_TOKEN")).or_else(stored)?;
    let host = server.host_str()?;
    let host = server.expose().port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let mut token = HostToken::new(host, token);
    token.variable = Some(from);
    Some(token)
}

/// Parses a variable that switches something on or off. `None` if it is not set.
pub(super) fn flag(variable: &'static str, value: Option<OsString>) -> Result<Option<bool>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let text = value.to_string_lossy();
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(Some(true)),
        "0" | "false" | "no" | "off" => Ok(Some(false)),
        _ => Err(ConfigError::Variable { variable, found: text.into_owned() }),
    }
}
