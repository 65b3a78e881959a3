//! The files that a policy lets a program use: one list, which the rules of Landlock ([`crate::files`]) and the root folder ([`crate::root`])
//! both follow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{Policy, system};

/// What a program may do with a file, or with all that is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Read and execute.
    Execute,
    /// Write to and truncate files that are there; neither read nor make any.
    Change,
    /// Read, write, make, rename and delete.
    Write,
    /// Read, write and control a device.
    Device,
    /// The same for the devices in a folder, which may be listed.
    Devices,
}

impl Access {
    /// Whether `self` includes `other`.
    fn includes(self, other: Self) -> bool {
        use Access::{Change, Device, Devices, Execute, Read, Write};
        self == other || matches!((self, other), (Execute | Write, Read) | (Write, Change) | (Devices, Device))
    }
}

/// Paths, with what a program may do there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants(BTreeMap<PathBuf, Vec<Access>>);

impl Grants {
    /// What every program needs, and what `policy` adds. The scratch folder is not among it, because it may get another path.
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut grants = Self::default();
        grants.add_all(system::PROGRAMS, Access::Execute);
        grants.add_all(system::FILES, Access::Read);
        grants.add_all(system::DEVICES, Access::Device);
        grants.add_all(&policy.execute, Access::Execute);
        grants.add_all(&policy.read, Access::Read);
        grants.add_all(&policy.write, Access::Write);
        if policy.network {
            grants.add_all(system::NETWORK, Access::Read);
        }
        if policy.gpus {
            grants.add_all(system::GPU_FILES, Access::Read);
            grants.add_all(system::GPU_DEVICES, Access::Devices);
            grants.add_all(&system::numbered_devices(), Access::Device);
        }
        grants
    }

    /// The same with the scratch folder of `policy`, under its own path.
    pub(crate) fn with_scratch(policy: &Policy) -> Self {
        let mut grants = Self::new(policy);
        policy.scratch.iter().for_each(|scratch| grants.add(scratch, Access::Write));
        grants
    }

    fn add_all(&mut self, paths: &[impl AsRef<Path>], access: Access) {
        paths.iter().for_each(|path| self.add(path.as_ref(), access));
    }

    /// Adds `access` to what is at `path`.
    pub(crate) fn add(&mut self, path: &Path, access: Access) {
        let given = self.0.entry(path.to_path_buf()).or_default();
        if !given.contains(&access) {
            given.push(access);
        }
    }

    /// Adds `access` to what is at `path`, which must be canonical, unless it or a folder above it has that access already.
    pub(crate) fn add_canonical(&mut self, path: &Path, access: Access) {
        let mut given = path.ancestors().filter_map(|folder| self.0.get(folder)).flatten();
        if !given.any(|given| given.includes(access)) {
            self.add(path, access);
        }
    }

    /// Whether `path` is named here, or is in a folder that is.
    pub(crate) fn has(&self, path: &Path) -> bool {
        path.ancestors().any(|folder| self.0.contains_key(folder))
    }

    /// The paths and what may be done there. Folders come before what is in them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &[Access])> {
        self.0.iter().map(|(path, access)| (path.as_path(), access.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn access_at(grants: &Grants, path: &str) -> Vec<Access> {
        grants.0.get(Path::new(path)).cloned().unwrap_or_default()
    }

    #[test]
    fn what_a_folder_grants_is_not_granted_again_in_it() {
        let mut grants = Grants::default();
        let mut add = |path: &str, access| grants.add_canonical(path.as_ref(), access);
        add("/a", Access::Execute);
        add("/a/b", Access::Read);
        add("/a/b", Access::Execute);
        // Each of these gives something more.
        add("/a/b", Access::Write);
        add("/a/b/c", Access::Device);
        add("/ab", Access::Read);
        assert_eq!(grants.iter().count(), 4);
        assert_eq!(access_at(&grants, "/a/b"), [Access::Write]);
        assert_eq!(access_at(&grants, "/a/b/c"), [Access::Device]);
        assert!(grants.has("/ab/x".as_ref()) && !grants.has("/".as_ref()));
    }

    #[test]
    fn one_path_may_have_more_than_one_access() {
        let mut policy = Policy::new();
        policy.execute.push("/x".into());
        policy.write.push("/x".into());
        policy.read.extend(["/x/y".into(), "/x/y".into()]);
        let grants = Grants::new(&policy);
        assert_eq!(access_at(&grants, "/x"), [Access::Execute, Access::Write]);
        // `/x` gives it only if this is no link, which is not known here.
        assert_eq!(access_at(&grants, "/x/y"), [Access::Read]);
    }
}
