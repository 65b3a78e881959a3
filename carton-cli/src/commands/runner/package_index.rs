//! Finds the package index for Python that the user has configured, for `uv` or for `pip`.

use std::env;
use std::fs;
use std::path::PathBuf;

/// The index of wheels unless another one is configured.
const PYPI: &str = "https://pypi.org/simple";
/// The variables that name it. Those of uv come first.
const VARIABLES: [&str; 3] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"];

/// Returns the URL of the package index.
pub(super) fn package_index() -> String {
    let variable =
        |name: &str| env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let named = VARIABLES.iter().find_map(|name| variable(name));
    // `UV_DEFAULT_INDEX` may be `NAME=URL`.
    let named = named.map(|value| match value.split_once('=') {
        Some((name, url)) if !name.contains([':', '/', '?']) => url.to_owned(),
        _ => value,
    });
    named.or_else(of_pip).unwrap_or_else(|| PYPI.to_owned())
}

/// Returns the `index-url` of pip's configuration. A user's file comes before one of the machine.
fn of_pip() -> Option<String> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let configuration = env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    let named = env::var_os("PIP_CONFIG_FILE").map(PathBuf::from);
    let files = [configuration.join("pip/pip.conf"), home.join(".pip/pip.conf"), PathBuf::from("/etc/pip.conf")];
    named.into_iter().chain(files).find_map(|file| index_url(&fs::read_to_string(file).ok()?))
}

/// Returns `index-url` of the section `install`, or else of `global`.
fn index_url(text: &str) -> Option<String> {
    let mut section = "";
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
        }
        let Some((key, value)) = line.split_once(['=', ':']) else { continue };
        let is_index = matches!(key.trim().replace('_', "-").as_str(), "index-url");
        match section {
            "install" if is_index => return Some(value.trim().to_owned()),
            "global" if is_index => found = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    found.filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_pip_s_configuration() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(index_url(text).as_deref(), expected, "{text}");
        check("[global]\nindex-url = https://host/simple\n", Some("https://host/simple"));
        check("[global]\nindex_url: https://host/simple\ntimeout = 5\n", Some("https://host/simple"));
        check("[global]\nindex-url = https://a/\n[install]\nindex-url = https://b/", Some("https://b/"));
        check("[freeze]\nindex-url = https://host/simple\n", None);
        check("index-url = https://host/simple\n", None);
        check("[global]\nextra-index-url = https://host/simple\n", None);
        check("", None);
    }
}
