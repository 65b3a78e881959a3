//! The environment variables of models: those that options set, and those of the host that the user passes.
//!
//! They reach the process that runs the model and no other: `runner::launch` keeps them from the programs that start and confine it, and from
//! processes that make preparations.

use std::collections::BTreeMap;
use std::fmt;

use carton_format::error_kind::ErrorKind;
use carton_format::variables::{check_name, check_value};
use carton_runner_interface::{OptionValue, Options};

use crate::error::{Advice, Failure};

/// What the names of options begin with that are variables, and no options of the runner.
const OPTION_PREFIX: &str = "env.";

/// Why a model cannot get an environment variable. No value is shown, because it may be a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VariableError {
    /// The host has no such variable.
    #[error("the environment variable `{name}` is not set")]
    NotSet {
        /// Its name.
        name: String,
    },
    /// The host's value cannot be passed on.
    #[error("the value of the environment variable `{name}` is not UTF-8")]
    NotUtf8 {
        /// Its name.
        name: String,
    },
    /// The host takes credentials from this variable.
    #[error("the environment variable `{name}` is not passed on: the configuration takes credentials from it")]
    Withheld {
        /// Its name.
        name: String,
    },
    /// No model gets a variable of this name.
    #[error("a model cannot get the environment variable `{}`: expected {expected}", name.escape_debug())]
    Name {
        /// The name.
        name: String,
        /// The names that are allowed.
        expected: &'static str,
    },
    /// The value is none that a variable can have.
    #[error("a model cannot get the environment variable `{name}`: expected {expected}")]
    Value {
        /// Its name.
        name: String,
        /// The values that are allowed.
        expected: &'static str,
    },
}

impl Failure for VariableError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::NotSet { name } => Some(format!("set it, or give its value: `{name}=VALUE`").into()),
            Self::Withheld { name } => Some(format!("give its value: `{name}=VALUE`").into()),
            Self::NotUtf8 { .. } | Self::Name { .. } | Self::Value { .. } => None,
        }
    }
}

/// Takes the options that are variables, `env.NAME`, out of the options of a runner.
pub(crate) fn take_from_options(options: &mut Options) -> Result<BTreeMap<String, String>, VariableError> {
    let names: Vec<String> = options.keys().filter(|key| key.starts_with(OPTION_PREFIX)).cloned().collect();
    let mut variables = BTreeMap::new();
    for key in names {
        let name = key[OPTION_PREFIX.len()..].to_owned();
        let value = match options.remove(&key) {
            Some(OptionValue::String(text)) => text,
            Some(OptionValue::Number(number)) if !number.is_f64() => number.to_string(),
            // Other values have several forms as a text.
            _ => return Err(VariableError::Value { name, expected: "a text or an integer" }),
        };
        check_name(&name).map_err(|expected| VariableError::Name { name: name.clone(), expected })?;
        check_value(&value).map_err(|expected| VariableError::Value { name: name.clone(), expected })?;
        variables.insert(name, value);
    }
    Ok(variables)
}

/// A variable that the user passes to a model: one of the host's, `NAME`, or `NAME=VALUE`.
#[derive(Clone)]
pub(crate) struct PassedVariable {
    name: String,
    value: Option<String>,
}

impl From<String> for PassedVariable {
    fn from(text: String) -> Self {
        match text.split_once('=') {
            Some((name, value)) => Self { name: name.to_owned(), value: Some(value.to_owned()) },
            None => Self { name: text, value: None },
        }
    }
}

impl PassedVariable {
    /// Returns its name and value. Those that are called as one of `withheld` are not taken from the host.
    pub(crate) fn resolve(&self, withheld: &[String]) -> Result<(String, String), VariableError> {
        let name = self.name.clone();
        check_name(&name).map_err(|expected| VariableError::Name { name: name.clone(), expected })?;
        let value = match &self.value {
            Some(value) => value.clone(),
            None if withheld.contains(&name) => return Err(VariableError::Withheld { name }),
            None => match std::env::var(&name) {
                Ok(value) => value,
                Err(std::env::VarError::NotPresent) => return Err(VariableError::NotSet { name }),
                Err(std::env::VarError::NotUnicode(_)) => return Err(VariableError::NotUtf8 { name }),
            },
        };
        check_value(&value).map_err(|expected| VariableError::Value { name: name.clone(), expected })?;
        Ok((name, value))
    }
}

impl fmt::Debug for PassedVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The variables of one process. `Debug` shows their names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Variables(pub(crate) BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn options_that_are_variables() {
        let mut options = Options::new();
        options.extend(
            [("threads", 1.into()), ("env.A", 2.into()), ("env.B", "x".into())].map(|(k, v)| (k.to_owned(), v)),
        );
        let variables = take_from_options(&mut options).unwrap();
        assert_eq!(variables, BTreeMap::from([("A", "2"), ("B", "x")].map(|(k, v)| (k.to_owned(), v.to_owned()))));
        assert_eq!(options.keys().collect::<Vec<_>>(), ["threads"]);
        for (name, value) in [("A", OptionValue::from(1.5)), ("A", true.into()), ("HOME", "x".into()), ("", "x".into())]
        {
            let mut options = Options::new();
            options.insert(format!("env.{name}"), value);
            assert!(take_from_options(&mut options).is_err(), "{name}");
        }
    }

    #[test]
    fn the_user_passes_what_is_set() {
        let resolve = |text: &str| PassedVariable::from(text.to_owned()).resolve(&["TOKEN".to_owned()]);
        assert_eq!(resolve("PATH").unwrap().1, std::env::var("PATH").unwrap());
        assert_eq!(resolve("A=b=c").unwrap(), ("A".to_owned(), "b=c".to_owned()));
        assert_eq!(resolve("A=").unwrap().1, "");
        let missing = resolve("CERTAINLY_NOT_SET").unwrap_err();
        assert!(missing.advice().unwrap().to_string().contains("CERTAINLY_NOT_SET=VALUE"), "{missing}");
        assert!(matches!(resolve("TOKEN"), Err(VariableError::Withheld { .. })));
        assert!(resolve("TOKEN=x").is_ok());
        for text in ["", "=x", "HOME", "TMPDIR=/x", "CARTON_CACHE_DIR", "A=\0"] {
            assert!(resolve(text).is_err(), "{text}");
        }
        let secret = PassedVariable::from("PASSWORD=1234".to_owned());
        assert_eq!(format!("{secret:?}"), "PASSWORD");
        assert_eq!(format!("{:?}", Variables([secret.resolve(&[]).unwrap()].into())), "{\"PASSWORD\"}");
    }
}
