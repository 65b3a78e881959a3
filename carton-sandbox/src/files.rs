//! Landlock: which files a process may use, and that it reaches no process outside of the sandbox by TCP, signals or abstract sockets.
//!
//! What Landlock does not govern is refused by [`crate::syscalls`]: changing modes, owners and times, other sockets, tracing. In namespaces,
//! the rest is hidden by a root folder of its own ([`crate::root`]): sockets in the file system, the names and properties of files (`stat`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    PathFdError, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use crate::Policy;
use crate::gap::Gap;
use crate::grants::{Access, Grants};
use crate::namespaces::Inside;

/// The newest version of Landlock whose rights are known here. Older kernels enforce those that they have.
const NEWEST: ABI = ABI::V7;

/// The rules of a policy, whose files are open already, to be applied to a thread.
pub(crate) struct FileRules(RulesetCreated);

impl FileRules {
    /// Opens the files of `policy`.
    ///
    /// # Errors
    /// Landlock does not take a rule, or the process has no descriptors or memory left.
    pub(crate) fn new(policy: &Policy, inside: Option<&Inside>) -> Result<Self, FileRulesError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?;
        if !policy.network && inside.is_none() {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
        }
        let mut rules = Self(ruleset.create()?);
        let of_system;
        let grants = if let Some(inside) = inside {
            &inside.root.grants
        } else {
            let mut grants = Grants::new(policy);
            policy.scratch.iter().for_each(|scratch| grants.add(scratch, Access::Write));
            of_system = grants;
            &of_system
        };
        if let Some(scratch) = inside.map_or(&policy.scratch, |inside| &inside.root.scratch) {
            // Without its scratch folder a program cannot make temporary files, and its errors would not say why.
            fs::metadata(scratch).map_err(|source| FileRulesError::Open { path: scratch.clone(), source })?;
        }
        for (path, access) in grants.iter() {
            let rights = access.iter().map(|&access| rights(access, inside.is_some())).collect();
            rules.allow(path, rights)?;
        }
        Ok(rules)
    }

    /// Allows `rights` to what is at `path`, and below it, if anything is.
    fn allow(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), FileRulesError> {
        let file = match PathFd::new(path) {
            Ok(file) => file,
            // The path is not left out without a word, as one is where nothing is.
            Err(PathFdError::OpenCall { source, .. }) if is_exhaustion(&source) => {
                return Err(FileRulesError::Open { path: path.to_path_buf(), source });
            }
            Err(_) => return Ok(()),
        };
        let Ok(status) = fstat(&file) else { return Ok(()) };
        let is_folder = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        let rights = if is_folder { rights } else { rights & AccessFs::from_file(NEWEST) };
        (&mut self.0).add_rule(PathBeneath::new(file, rights))?;
        Ok(())
    }

    /// Confines the calling thread and all processes that it starts.
    ///
    /// # Errors
    /// The kernel has Landlock and refuses.
    pub(crate) fn confine(self) -> Result<Enforced, RulesetError> {
        let status = self.0.restrict_self()?;
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

/// The rights that Landlock has for `access`.
fn rights(access: Access, has_namespaces: bool) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    match access {
        Access::Read => read,
        Access::Execute => read | AccessFs::Execute,
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
