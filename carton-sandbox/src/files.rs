//! Landlock: which files a process may use, and that it reaches no process outside of the sandbox by TCP, signals or abstract sockets.
//!
//! What Landlock does not govern is refused by [`crate::syscalls`]: changing modes, owners and times, other sockets, tracing. In namespaces,
//! the rest is hidden by a root folder of its own ([`crate::root`]): sockets in the file system, the names and properties of files (`stat`).

use std::borrow::Cow;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    PathFdError, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::gap::Gap;
use crate::grants::{Access, Grants};
use crate::root::Root;
use crate::{Policy, privileges};

/// The newest version of Landlock whose rights are known here. Older kernels enforce those that they have.
const NEWEST: ABI = ABI::V7;

/// The rules of a policy, whose files are open already, to be applied by the process that becomes the program.
pub(crate) struct FileRules {
    ruleset: RulesetCreated,
    /// The process's own files in the system's `/proc`, which it opens itself.
    own_proc: &'static [(&'static str, Access)],
}

/// What NVIDIA's driver needs of `/proc/self`: it reads its mappings and its state, and names its threads. The rest of `/proc/self` would show
/// the system's network and mounts.
const OWN_PROC_WITH_GPUS: &[(&str, Access)] =
    &[("/proc/self/maps", Access::Read), ("/proc/self/status", Access::Read), ("/proc/self/task", Access::Change)];

impl FileRules {
    /// Opens the files of `policy`.
    ///
    /// # Errors
    /// Landlock does not take a rule, or the process has no descriptors or memory left.
    pub(crate) fn new(policy: &Policy, root: Option<&Root>) -> Result<Self, FileRulesError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?;
        if !policy.network && root.is_none() {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
        }
        let shares_proc = root.is_none_or(|root| !root.has_processes);
        let shares_network = root.is_none() || policy.network;
        let own_proc: &[_] = match policy.gpus && shares_proc {
            // The names of threads are not all that is below their folder.
            true if shares_network && privileges::administers_network() => &[],
            true => OWN_PROC_WITH_GPUS,
            false => &[],
        };
        let mut rules = Self { ruleset: ruleset.create()?, own_proc };
        let grants = root.map_or_else(|| Cow::Owned(Grants::with_scratch(policy)), |root| Cow::Borrowed(&root.grants));
        if let Some(scratch) = root.map_or(&policy.scratch, |root| &root.scratch) {
            // Without its scratch folder a program cannot make temporary files, and its errors would not say why.
            fs::metadata(scratch).map_err(|source| FileRulesError::Open { path: scratch.clone(), source })?;
        }
        for (path, access) in grants.iter() {
            let rights = access.iter().map(|&access| rights(access, root.is_some())).collect();
            rules.allow(path, rights)?;
        }
        Ok(rules)
    }

    /// Allows `rights` to what is at `path`, and below it, if anything is.
    fn allow(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), FileRulesError> {
        match open(path)? {
            Some(file) => Ok(self.allow_open(file.as_fd(), rights)?),
            None => Ok(()),
        }
    }

    fn allow_open(&mut self, file: BorrowedFd<'_>, rights: BitFlags<AccessFs>) -> Result<(), RulesetError> {
        let Ok(status) = fstat(file) else { return Ok(()) };
        let is_folder = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        let rights = if is_folder { rights } else { rights & AccessFs::from_file(NEWEST) };
        (&mut self.ruleset).add_rule(PathBeneath::new(file, rights))?;
        Ok(())
    }

    /// Confines the calling thread, which must be the only one, and all that it starts.
    ///
    /// # Errors
    /// The kernel has Landlock and refuses, or the process has no descriptors or memory left.
    pub(crate) fn confine(mut self) -> Result<Enforced, FileRulesError> {
        for &(path, access) in self.own_proc {
            let Some(file) = open(Path::new(path))? else { continue };
            // Landlock attaches a rule to an inode. Without an open descriptor, the kernel may drop the inode of a file in `/proc`, and make
            // another one for which the rule does not hold. So the program inherits a descriptor (`O_PATH`), which can neither read nor write.
            fcntl_setfd(&file, FdFlags::empty())
                .map_err(|error| FileRulesError::Open { path: path.into(), source: error.into() })?;
            self.allow_open(file.as_fd(), rights(access, false))?;
            std::mem::forget(file);
        }
        let status = self.ruleset.restrict_self()?;
        let abi = match status.landlock {
            LandlockStatus::Available { effective_abi, .. } => effective_abi,
            _ => ABI::Unsupported,
        };
        let mut gaps = Vec::new();
        if abi == ABI::Unsupported {
            gaps.push(Gap::Files);
        }
        if abi < ABI::V6 {
            gaps.push(Gap::Signals);
        }
        Ok(Enforced { gaps, governs_truncating: abi >= ABI::V3, governs_abstract_sockets: abi >= ABI::V6 })
    }
}

/// Opens what is at `path`, for rules about it; `None` if nothing is there for this process.
fn open(path: &Path) -> Result<Option<PathFd>, FileRulesError> {
    match PathFd::new(path) {
        Ok(file) => Ok(Some(file)),
        // The path is not left out without a word, as one is where nothing is.
        Err(PathFdError::OpenCall { source, .. }) if is_exhaustion(&source) => {
            Err(FileRulesError::Open { path: path.to_path_buf(), source })
        }
        Err(_) => Ok(None),
    }
}

/// The rights that Landlock has for `access`.
fn rights(access: Access, has_namespaces: bool) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    match access {
        Access::Read => read,
        Access::Execute => read | AccessFs::Execute,
        Access::Change => AccessFs::WriteFile | AccessFs::Truncate,
        Access::Write => {
            // Devices are made by root alone, who has no capabilities here. Without namespaces, sockets are refused by the filters of system calls.
            let mut refused = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
            if !has_namespaces {
                refused |= AccessFs::MakeSock;
            }
            AccessFs::from_all(NEWEST) & !refused
        }
        Access::Device => device,
        Access::Devices => device | AccessFs::ReadDir,
    }
}

/// Whether the process lacks descriptors or memory, so that an error says nothing about the file.
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// Why rules cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileRulesError {
    #[error(transparent)]
    Landlock(#[from] RulesetError),
    #[error("cannot open `{}`: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
}

/// What the kernel enforces of the rules.
pub(crate) struct Enforced {
    pub(crate) gaps: Vec<Gap>,
    /// Whether the rules decide about `truncate`.
    pub(crate) governs_truncating: bool,
    /// Whether the sockets of other programs that have abstract names are out of reach.
    pub(crate) governs_abstract_sockets: bool,
}
