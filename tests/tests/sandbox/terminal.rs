//! The terminal of the user who runs the host.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::host::{self, End, parse};
use crate::setting::Confinement;

/// Runs a host in a terminal of its own, by `script`. Returns what the terminal shows.
fn in_terminal(host: &Command) -> Option<String> {
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', "'\\''"));
    let words: Vec<String> = std::iter::once(host.get_program()).chain(host.get_args()).map(quoted).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &words.join(" "), "/dev/null"]).stdin(Stdio::null()).stderr(Stdio::null());
    script.envs(host.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(String::from_utf8_lossy(&script.output().ok()?.stdout).into_owned())
}

#[test]
fn nothing_is_typed_or_printed_into_the_terminal() {
    if crate::sources::Sources::find().is_none() {
        return;
    }
    for confinement in Confinement::ALL {
        let attempts = [
            ("type_into_terminal", json!({"text": "escaped\n"})),
            ("print_to_terminal", json!({"text": "\r\nhost: printed it\r\n"})),
            ("child", json!({"attempt": "type_into_terminal", "text": "again\n"})),
            ("program", json!({"attempt": "print_to_terminal", "text": "\r\nhost: printed again\r\n"})),
        ];
        let Some(shown) = in_terminal(&host::command(confinement, &attempts, End::ReadsTerminal)) else {
            eprintln!("skipped: there is no program `script` that makes a terminal");
            return;
        };
        let lines: Vec<(&str, &str)> = shown.lines().map(parse).collect();
        assert!(lines.contains(&("ready", "")), "sandbox {confinement:?}: {shown}");
        let has = |kind: &str, text: &str| lines.iter().any(|(found, rest)| *found == kind && rest.contains(text));
        let is_escape = confinement == Confinement::Off;
        assert_eq!(has("printed", ""), is_escape, "sandbox {confinement:?}: {shown}");
        // Some systems refuse to type into terminals altogether.
        let is_possible = std::fs::read("/proc/sys/dev/tty/legacy_tiocsti").is_ok_and(|value| value.starts_with(b"1"));
        if confinement != Confinement::Off || is_possible {
            assert_eq!(has("typed", "escaped"), is_escape, "sandbox {confinement:?}: {shown}");
        }
    }
}
