//! What confines runners (spec/sandbox.md): the user's settings, and what a carton asks for. Pure.
//!
//! Three sides have a say. A runner's descriptor says what its framework needs, a carton what its model asks for, and the user what is
//! allowed. `runner::launch` makes a policy of all three; the crate `carton-sandbox` enforces it.

mod denial;
mod suspicion;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use carton_format::metadata::SandboxRequest;
use serde::{Deserialize, Serialize};

pub use carton_sandbox::Limits;
pub(crate) use denial::{Denial, Reach};
pub use suspicion::SuspectedLimit;
pub(crate) use suspicion::{hint as limits_hint, suspected_limits};

/// How strictly runners are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    /// A runner is started only if this system enforces everything.
    Strict,
    /// A runner is confined as far as this system can. What it cannot enforce is logged as a warning.
    #[default]
    On,
    /// A runner has all rights of its user.
    Off,
}

impl SandboxMode {
    /// The name in the configuration and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not a [`SandboxMode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `strict`, `on` or `off`, found `{0}`")]
pub struct UnknownSandboxMode(pub String);

impl FromStr for SandboxMode {
    type Err = UnknownSandboxMode;

    fn from_str(text: &str) -> Result<Self, UnknownSandboxMode> {
        let modes = [Self::Strict, Self::On, Self::Off];
        modes.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownSandboxMode(text.to_owned()))
    }
}

/// What a confined model may use beyond its own files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permissions {
    /// The network.
    pub network: bool,
    /// Files, and folders with all that they contain, to be read. Absolute paths.
    pub read: Vec<PathBuf>,
    /// Building packages of Python models from their sources, which runs code of the packages. It happens before the model is loaded, in a
    /// process that can use the network.
    pub build: bool,
    /// That `read` also reaches the home folder as a whole, the configuration and the cache. Without this, a path that has one of them in it
    /// grants nothing.
    pub private: bool,
}

/// A text that is not a permission.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `network`, `build`, `private`, or `read=` and an absolute path, found `{0}`")]
pub struct UnknownPermission(pub String);

impl Permissions {
    /// Adds a permission: `network`, `build`, `private`, or `read=PATH`.
    ///
    /// # Errors
    /// The text is none of these, or the path is not absolute.
    pub fn add(&mut self, text: &str) -> Result<(), UnknownPermission> {
        match text.split_once('=') {
            None if text == "network" => self.network = true,
            None if text == "build" => self.build = true,
            None if text == "private" => self.private = true,
            Some(("read", path)) if Path::new(path).is_absolute() => self.read.push(path.into()),
            _ => return Err(UnknownPermission(text.to_owned())),
        }
        Ok(())
    }

    /// Adds all permissions of `other`.
    pub fn add_all(&mut self, other: &Self) {
        self.network |= other.network;
        self.build |= other.build;
        self.private |= other.private;
        self.read.extend(other.read.iter().cloned());
    }

    /// Divides what a carton asks for by these permissions: first what the model gets, then what it does not get.
    ///
    /// `resolve` returns a path without links, or `None` if nothing is there. Links are followed before paths are compared, because the kernel
    /// follows them when it makes a rule of a path.
    pub(crate) fn divide(
        &self,
        request: &SandboxRequest,
        resolve: &dyn Fn(&Path) -> Option<PathBuf>,
    ) -> (Permissions, SandboxRequest) {
        let folders: Vec<PathBuf> = self.read.iter().filter_map(|folder| resolve(folder)).collect();
        let mut granted = Permissions { network: request.network && self.network, ..Permissions::default() };
        let mut refused = Vec::new();
        for text in &request.read {
            let path = Some(Path::new(text)).filter(|path| path.is_absolute()).and_then(resolve);
            match path.filter(|path| folders.iter().any(|folder| path.starts_with(folder))) {
                Some(path) => granted.read.push(path),
                None => refused.push(text.clone()),
            }
        }
        (granted, SandboxRequest::new(request.network && !self.network, refused))
    }
}

/// What `read` alone does not reach ([`Permissions::private`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct PrivatePlaces {
    /// The home folder, and the folders of Carton's own: whatever has one of them in it would grant all of it.
    whole: Vec<PathBuf>,
    /// Folders of which nothing is reached: the cache has the files of other models.
    inside: Vec<PathBuf>,
}

impl PrivatePlaces {
    /// Links are followed here, as they are in the paths that are compared.
    pub(crate) fn new(whole: impl IntoIterator<Item = PathBuf>, inside: impl IntoIterator<Item = PathBuf>) -> Self {
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        Self { whole: whole.into_iter().map(real).collect(), inside: inside.into_iter().map(real).collect() }
    }

    /// Whether a path, after links were followed in it, has a private folder in it, or lies in one.
    pub(crate) fn are_reached_by(&self, path: &Path) -> bool {
        let real = path.canonicalize();
        let path = real.as_deref().unwrap_or(path);
        let has = |folder: &PathBuf| folder.starts_with(path);
        self.whole.iter().any(has) || self.inside.iter().any(|folder| has(folder) || path.starts_with(folder))
    }
}

/// The section `[sandbox]` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxConfig {
    /// How strictly runners are confined.
    pub mode: SandboxMode,
    /// What cartons get if they ask for it.
    pub allow: Permissions,
    /// The resource limits of runners.
    pub limits: Limits,
    /// A cgroup (version 2) of this user, below which each runner gets one of its own for its limits.
    pub cgroup: Option<PathBuf>,
    /// A program and its arguments, which starts the command line that follows them: another layer around each runner.
    pub wrapper: Vec<String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_carton_gets_what_it_asks_for_and_the_user_allows() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["data/a/b", "database", "secret"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::os::unix::fs::symlink("../secret", root.join("data/link")).unwrap();
        std::os::unix::fs::symlink("data", root.join("alias")).unwrap();
        let resolve = |path: &Path| path.canonicalize().ok();
        let allowed = Permissions { read: vec![root.join("data")], build: true, ..Permissions::default() };
        let check = |asked: &str, granted: bool| {
            let asked = if asked.starts_with("./") { asked.to_owned() } else { root.join(asked).display().to_string() };
            let (permissions, refused) = allowed.divide(&SandboxRequest::new(false, vec![asked.clone()]), &resolve);
            assert_eq!(permissions.read.len(), usize::from(granted), "{asked}");
            assert_eq!(refused.read.len(), usize::from(!granted), "{asked}");
        };
        check("data", true);
        check("data/a/b", true);
        check("alias/a", true);
        check("database", false);
        check("", false);
        check("data/../secret", false);
        check("data/link", false);
        check("data/missing", false);
        check("./data", false);
        let network = |allowed: &Permissions| allowed.divide(&SandboxRequest::new(true, Vec::new()), &resolve);
        let (permissions, refused) = network(&allowed);
        assert!(!permissions.network && !permissions.build && refused.network);
        let all = Permissions { network: true, ..allowed };
        assert!(network(&all).0.network);
        assert!(!all.divide(&SandboxRequest::default(), &resolve).0.network);
    }

    #[test]
    fn private_places_are_reached_from_above_and_the_cache_from_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["home/.cache/carton/models", "home/data", "srv"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::os::unix::fs::symlink("home", root.join("alias")).unwrap();
        let places = PrivatePlaces::new([root.join("alias")], [root.join("home/.cache/carton")]);
        let check =
            |path: &str, expected: bool| assert_eq!(places.are_reached_by(&root.join(path)), expected, "{path}");
        check("", true);
        check("home", true);
        check("alias", true);
        check("srv/../home", true);
        check("home/.cache", true);
        check("alias/.cache/carton/models", true);
        check("home/data", false);
        check("srv", false);
        check("hom", false);
        assert!(places.are_reached_by(Path::new("/")));
    }

    #[test]
    fn permissions_are_read_from_text() {
        let mut permissions = Permissions::default();
        for text in ["network", "read=/srv", "build", "private"] {
            permissions.add(text).unwrap();
        }
        assert_eq!(permissions, Permissions { network: true, read: vec!["/srv".into()], build: true, private: true });
        for text in ["net", "read", "read=", "read=a", "network=yes", ""] {
            assert!(permissions.add(text).is_err(), "{text}");
        }
    }
}
