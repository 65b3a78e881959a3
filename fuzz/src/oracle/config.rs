//! Arbitrary bytes as a configuration and as a netrc file. No secret value appears in an error or a `Debug` form.

use carton_core::config::Config;
use carton_network::http::fuzzing::netrc;

use crate::generate::file::MemoryFile;

/// The secret in the seeds.
pub const SECRET: &str = "xyzzy-secret";

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let file = MemoryFile::new(bytes);
    let has_logins = netrc(file.path()) != 0;
    // The text is a secret as the value of a token, but not if it also occurs in a key, a host name or a path.
    let text = String::from_utf8_lossy(bytes);
    let is_token = |line: &str| line.trim_start().starts_with("token = \"") && line.contains(SECRET);
    let has_secret = text.lines().any(is_token) && text.matches(SECRET).count() == 1;
    let config = Config::load_reporting(Some(&file.path()), &mut |_, _| {});
    let shown = match &config {
        Ok(config) => format!("{config:?}"),
        Err(error) => {
            let mut shown = format!("{error} {error:?}");
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                shown.push_str(&cause.to_string());
                source = cause.source();
            }
            shown
        }
    };
    assert!(!has_secret || !shown.contains(SECRET), "{shown}");
    config.is_ok() || has_logins
}
