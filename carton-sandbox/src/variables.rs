//! The environment variables of a program, on their way through its launcher.
//!
//! Variables decide what a process loads and does (`LD_PRELOAD`, `PATH`). Those of the program must not do so in the launcher, nor in a program
//! that starts the launcher, because neither is confined. So they travel as the value of one variable, which means nothing to any program, and
//! the launcher sets them for the program alone. They are no part of the policy: every user of a system can read command lines, and a value
//! may be a password.

use std::collections::BTreeMap;
use std::io;
#[cfg(target_os = "linux")]
use std::process::Command;

/// The variable of a launcher that has the variables of its program ([`encode_variables`]).
pub const VARIABLES: &str = "CARTON_LAUNCHER_VARIABLES";

/// The largest value of that variable in bytes. The kernel takes 128 KiB.
const MAX_BYTES: usize = 120 << 10;

/// Returns the value of [`VARIABLES`] by which a launcher sets `variables` for its program, beside those that it passes on.
///
/// # Errors
/// The variables are larger than the environment of a process may be.
pub fn encode_variables(variables: &BTreeMap<String, String>) -> io::Result<String> {
    let text = serde_json::to_string(variables).map_err(io::Error::other)?;
    if text.len() > MAX_BYTES {
        let message = format!("environment variables of {} bytes are too large: at most {MAX_BYTES}", text.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(text)
}

/// Gives the program of `command` its variables, and not the one that they have come by.
#[cfg(target_os = "linux")]
pub(crate) fn pass(command: &mut Command) -> Result<(), String> {
    let Some(text) = std::env::var_os(VARIABLES) else { return Ok(()) };
    command.env_remove(VARIABLES).envs(decode(text.to_str())?);
    Ok(())
}

#[cfg(target_os = "linux")]
fn decode(text: Option<&str>) -> Result<BTreeMap<String, String>, String> {
    let text = text.ok_or("the variables of the program are not UTF-8")?;
    // The error would show a part of the values.
    serde_json::from_str(text).map_err(|_| "the variables of the program are invalid".to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn variables_arrive_as_they_were_given() {
        let variables: BTreeMap<String, String> = [("A", ""), ("LD_PRELOAD", "/x.so"), ("B", "\"two\nlines\" \\ é")]
            .map(|(n, v)| (n.into(), v.into()))
            .into();
        assert_eq!(decode(Some(&encode_variables(&variables).unwrap())).unwrap(), variables);
        assert!(!decode(Some("{\"PASSWORD\": 1234}")).unwrap_err().contains("1234"));
        assert!(decode(None).is_err());
        let large = BTreeMap::from([("A".to_owned(), "x".repeat(MAX_BYTES))]);
        assert!(encode_variables(&large).is_err());
    }
}
