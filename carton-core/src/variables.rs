//! The environment variables of models: which ones a carton may set (spec/carton-format-extensions.md, "Environment variables"), and which of
//! the host's the user passes.
//!
//! They reach the process that runs the model and no other: `runner::launch` keeps them from the programs that start and confine it, and from
//! processes that make preparations.

use std::collections::BTreeMap;
use std::fmt;

use carton_runner_protocol::{OptionValue, Options};

/// What the names of options begin with that are variables, and no options of the runner.
const OPTION_PREFIX: &str = "env.";

/// The most variables that a carton sets.
const MAX_VARIABLES: usize = 64;
/// The most bytes that their names and values have.
const MAX_BYTES: usize = 32 << 10;

/// What the names of the host's own variables begin with.
const OWN_PREFIX: &str = "CARTON_";
/// The variables that are part of the sandbox.
const OF_THE_SANDBOX: [&str; 2] = ["HOME", "TMPDIR"];

/// Why a model cannot get an environment variable. No value is shown, because it may be a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
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

impl VariableError {
    /// What the user can do about the error, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotSet { name } => Some(format!("set it, or give its value: `{name}=VALUE`")),
            Self::Withheld { name } => Some(format!("give its value: `{name}=VALUE`")),
            Self::NotUtf8 { .. } | Self::Name { .. } | Self::Value { .. } => None,
        }
    }
}

/// Why a carton cannot set its variables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidVariables {
    /// The variable; `None` if all of them are too many.
    pub(crate) name: Option<String>,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Checks the variables that a carton sets.
pub(crate) fn check(variables: &BTreeMap<String, String>) -> Result<(), InvalidVariables> {
    for (name, value) in variables {
        let invalid = |expected: &str, found: &str| InvalidVariables {
            name: Some(name.clone()),
            expected: expected.to_owned(),
            found: format!("`{found}`"),
        };
        check_name(name).map_err(|expected| invalid(expected, name))?;
        check_value(value).map_err(|expected| invalid(expected, value))?;
    }
    let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
    let all = |expected, found| Err(InvalidVariables { name: None, expected, found });
    match variables.len() {
        n if n > MAX_VARIABLES => all(format!("at most {MAX_VARIABLES} variables"), n.to_string()),
        _ if bytes > MAX_BYTES => all(format!("at most {MAX_BYTES} bytes of names and values"), bytes.to_string()),
        _ => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_portable =
        name.bytes().next().is_some_and(is_letter) && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit());
    if !is_portable {
        return Err("a name of letters, digits and `_` that begins with no digit");
    }
    if name.starts_with(OWN_PREFIX) || OF_THE_SANDBOX.contains(&name) {
        return Err("another name, because `HOME`, `TMPDIR` and those that begin with `CARTON_` are the host's to set");
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), &'static str> {
    if value.contains('\0') { Err("a value without NUL") } else { Ok(()) }
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
    fn names_that_a_carton_may_set() {
        let check = |name: &str, expected: bool| assert_eq!(check_name(name).is_ok(), expected, "{name}");
        check("OMP_NUM_THREADS", true);
        check("LD_PRELOAD", true);
        check("_x1", true);
        check("CARTON", true);
        for name in
            ["", "1A", "A=B", "A\0", "A B", "A-B", "Ä", "BASH_FUNC_x%%", "HOME", "TMPDIR", "CARTON_SANDBOX", "CARTON_"]
        {
            check(name, false);
        }
    }

    #[test]
    fn variables_of_a_carton_are_bounded() {
        let many = |n: usize, value: &str| (0..n).map(|i| (format!("V{i:02}"), value.to_owned())).collect();
        assert_eq!(check(&many(64, "")), Ok(()));
        assert_eq!(check(&many(65, "")).unwrap_err().expected, "at most 64 variables");
        assert_eq!(check(&many(32, &"x".repeat(1021))), Ok(()));
        assert_eq!(check(&many(32, &"x".repeat(1022))).unwrap_err().name, None);
        assert_eq!(check(&BTreeMap::from([("A".to_owned(), "\0".to_owned())])).unwrap_err().name.unwrap(), "A");
    }

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
        assert!(missing.hint().unwrap().contains("CERTAINLY_NOT_SET=VALUE"), "{missing}");
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
