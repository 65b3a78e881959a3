//! Brings the environment variables of a model to its process, past the programs that start and confine it. Pure.

use std::io;
use std::process::Command;

use crate::variables::Variables;

/// Returns the command line that starts what `command` does with `variables`, and the variables to be set for the first program of it. That may
/// be a launcher or a wrapper, in which those of a model would have an effect, and which nothing confines.
pub(super) fn through(
    command: Command,
    variables: &Variables,
    is_confined: bool,
    is_wrapped: bool,
) -> io::Result<(Command, Vec<(String, String)>)> {
    if variables.0.is_empty() {
        return Ok((command, Vec::new()));
    }
    let carried = |text| vec![(carton_sandbox::VARIABLES.to_owned(), text)];
    if is_confined {
        return Ok((command, carried(carton_sandbox::encode_variables(&variables.0)?)));
    }
    if !is_wrapped {
        return Ok((command, variables.0.clone().into_iter().collect()));
    }
    // Without a launcher, the shell sets them behind the wrapper.
    let mut shell = Command::new("/bin/sh");
    let script = format!("eval \"${0}\"; unset {0}; exec \"$0\" \"$@\"", carton_sandbox::VARIABLES);
    shell.arg("-c").arg(script).arg(command.get_program()).args(command.get_args());
    Ok((shell, carried(exports(variables))))
}

/// The text by which a shell sets `variables`. Their names have letters, digits and `_` alone.
fn exports(variables: &Variables) -> String {
    variables.0.iter().map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', r"'\''"))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::*;

    fn variables() -> Variables {
        let variables = [("LD_PRELOAD", "/x.so"), ("V", "it's\n$(false) `false` \\")];
        Variables(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }

    fn runner() -> Command {
        let mut command = Command::new("/runner");
        command.arg("a b");
        command
    }

    #[test]
    fn the_first_program_gets_the_variables_only_if_it_is_the_runner() {
        for (is_confined, is_wrapped, expected) in [
            (true, false, &[carton_sandbox::VARIABLES][..]),
            (true, true, &[carton_sandbox::VARIABLES]),
            (false, true, &[carton_sandbox::VARIABLES]),
            (false, false, &["LD_PRELOAD", "V"]),
        ] {
            let (command, set) = through(runner(), &variables(), is_confined, is_wrapped).unwrap();
            assert_eq!(set.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), expected);
            assert_eq!(command.get_envs().count(), 0);
            let line: Vec<_> = command.get_args().chain([command.get_program()]).collect();
            assert!(!format!("{line:?}").contains("x.so"), "every user can read {line:?}");
            let (same, none) = through(runner(), &Variables::default(), is_confined, is_wrapped).unwrap();
            assert_eq!((same.get_program(), none.len()), ("/runner".as_ref(), 0));
        }
    }

    #[test]
    fn a_shell_sets_them_behind_a_wrapper() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", r#"printf '%s' "$1$V""#, "sh", "a b"]);
        let only = Variables(BTreeMap::from([("V".to_owned(), variables().0["V"].clone())]));
        let (mut command, set) = through(command, &only, false, true).unwrap();
        let output = command.env_clear().envs(set).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("a b{}", variables().0["V"]));
        let mut command = Command::new("/usr/bin/env");
        command.arg("-0");
        let (mut command, set) = through(command, &only, false, true).unwrap();
        let output = command.env_clear().envs(set).output().unwrap();
        assert!(!String::from_utf8(output.stdout).unwrap().contains(carton_sandbox::VARIABLES));
    }
}
