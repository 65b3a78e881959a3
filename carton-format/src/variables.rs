//! The environment variables that a carton may set (spec/carton-format-extensions.md, "Environment variables"). Pure.

use std::collections::BTreeMap;

/// The most variables that a carton sets.
const MAX_VARIABLES: usize = 64;
/// The most bytes that their names and values have.
const MAX_BYTES: usize = 32 << 10;

/// What the names of the host's own variables begin with.
const OWN_PREFIX: &str = "CARTON_";
/// The variables that are part of the sandbox.
const OF_THE_SANDBOX: [&str; 2] = ["HOME", "TMPDIR"];

/// Why a carton cannot set its variables.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidVariables {
    /// The variable; `None` if all of them are too many.
    pub name: Option<String>,
    /// The names or values that are allowed.
    pub expected: String,
    /// The name or value that was found.
    pub found: String,
}

/// Checks the variables that a carton sets.
///
/// # Errors
/// A name or a value is not allowed, or the variables are too many or too long.
pub fn check(variables: &BTreeMap<String, String>) -> Result<(), InvalidVariables> {
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

/// Checks the name of a variable for a model.
///
/// # Errors
/// No model gets a variable of this name; says which names are allowed.
pub fn check_name(name: &str) -> Result<(), &'static str> {
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

/// Checks the value of a variable.
///
/// # Errors
/// No variable can have this value; says which values are allowed.
pub fn check_value(value: &str) -> Result<(), &'static str> {
    if value.contains('\0') { Err("a value without NUL") } else { Ok(()) }
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
}
