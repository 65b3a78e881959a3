//! Reads the parts of the configuration that come from the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::ConfigError;
use crate::network::{Secret, TOKEN_PREFIX};

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
