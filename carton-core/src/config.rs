//! Where Carton keeps things and what it may do: `~/.carton/config.toml`, overridden by the environment.
//!
//! | key | environment | default |
//! | --- | --- | --- |
//! | `runner_dir` | `CARTON_RUNNER_DIR` | `~/.carton/runners` |
//! | `runner_data_dir` | `CARTON_RUNNER_DATA_DIR` | `~/.carton/runner_data` |
//! | `cache_dir` | `CARTON_CACHE_DIR` | `~/.carton/cache` |
//! | `runner_index` | `CARTON_RUNNER_INDEX` | none |
//!
//! `CARTON_CONFIG_PATH` names another file than `~/.carton/config.toml`. Relative paths in the file start at its folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Directories and sources that loading and running use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Installed runners, one folder each.
    pub runner_dir: PathBuf,
    /// What runners keep for themselves: environments, libraries.
    pub runner_data_dir: PathBuf,
    /// Verified model files and the record of what was verified.
    pub cache_dir: PathBuf,
    /// Where runners are installed from: a URL or a file.
    pub runner_index: Option<String>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is there and cannot be read, or was asked for and is not there.
    #[error("cannot read the configuration `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TOML, or a key has another type than expected.
    #[error("the configuration `{}` is not valid", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// There is no home directory to put the defaults in.
    #[error("no home directory: set HOME, or name `{key}` in the environment as {variable}")]
    NoHome {
        /// The key that has no value.
        key: &'static str,
        /// The variable that would set it.
        variable: &'static str,
    },
}

#[derive(Default, Deserialize)]
struct RawConfig {
    runner_dir: Option<PathBuf>,
    runner_data_dir: Option<PathBuf>,
    cache_dir: Option<PathBuf>,
    runner_index: Option<String>,
}

impl Config {
    /// Reads `path`, or the file that `CARTON_CONFIG_PATH` names, or `~/.carton/config.toml` if it exists; the
    /// environment wins over the file.
    ///
    /// # Errors
    /// A file that was asked for and cannot be read, or is not valid; no home directory for a default.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        Self::from_environment(path, &|name| match std::env::var_os(name).filter(|value| !value.is_empty()) {
            // A service often runs without HOME; its user still has one.
            None if name == "HOME" => std::env::home_dir().map(PathBuf::into_os_string),
            value => value,
        })
    }

    fn from_environment(
        path: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Self, ConfigError> {
        let home = variable("HOME").map(PathBuf::from);
        let asked = path.map(Path::to_path_buf).or_else(|| variable("CARTON_CONFIG_PATH").map(PathBuf::from));
        let raw = match (&asked, &home) {
            (Some(path), _) => read(path)?,
            (None, Some(home)) => {
                let path = home.join(".carton/config.toml");
                match read(&path) {
                    Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                        RawConfig::default()
                    }
                    other => other?,
                }
            }
            (None, None) => RawConfig::default(),
        };
        let directory = |key, name: &'static str, from_file: Option<PathBuf>, default: &str| {
            variable(name)
                .map(PathBuf::from)
                .or(from_file)
                .or_else(|| home.as_ref().map(|home| home.join(".carton").join(default)))
                .ok_or(ConfigError::NoHome { key, variable: name })
        };
        Ok(Self {
            runner_dir: directory("runner_dir", "CARTON_RUNNER_DIR", raw.runner_dir, "runners")?,
            runner_data_dir: directory(
                "runner_data_dir",
                "CARTON_RUNNER_DATA_DIR",
                raw.runner_data_dir,
                "runner_data",
            )?,
            cache_dir: directory("cache_dir", "CARTON_CACHE_DIR", raw.cache_dir, "cache")?,
            runner_index: variable("CARTON_RUNNER_INDEX")
                .map(|value| value.to_string_lossy().into_owned())
                .or(raw.runner_index),
        })
    }
}

fn read(path: &Path) -> Result<RawConfig, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
    let mut raw: RawConfig = toml::from_str(&text)
        .map_err(|source| ConfigError::Parse { path: path.to_path_buf(), source: Box::new(source) })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for directory in [&mut raw.runner_dir, &mut raw.runner_data_dir, &mut raw.cache_dir].into_iter().flatten() {
        *directory = folder.join(&*directory);
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn load(file: Option<&str>, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = file.map(|text| {
            let path = folder.path().join("config.toml");
            std::fs::write(&path, text).unwrap();
            path
        });
        Config::from_environment(path.as_deref(), &|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn environment_wins_over_file_over_default() {
        let file = "cache_dir = \"/file/cache\"\nrunner_dir = \"/file/runners\"\nfuture_key = 1\n";
        let config = load(Some(file), &[("HOME", "/home/me"), ("CARTON_CACHE_DIR", "/env/cache")]).unwrap();
        assert_eq!(config.cache_dir, Path::new("/env/cache"));
        assert_eq!(config.runner_dir, Path::new("/file/runners"));
        assert_eq!(config.runner_data_dir, Path::new("/home/me/.carton/runner_data"));
        assert_eq!(config.runner_index, None);
    }

    #[test]
    fn bad_configurations_are_errors() {
        assert!(matches!(load(Some("cache_dir = 3"), &[("HOME", "/h")]), Err(ConfigError::Parse { .. })));
        assert!(matches!(load(None, &[]), Err(ConfigError::NoHome { key: "runner_dir", .. })));
        let missing = Config::from_environment(Some(Path::new("/does/not/exist")), &|_| None);
        assert!(matches!(missing, Err(ConfigError::Read { .. })));
    }
}
