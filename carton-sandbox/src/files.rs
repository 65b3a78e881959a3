//! Landlock: which files a process may use, and that it reaches no process outside of the sandbox by TCP, signals or abstract sockets.
//!
//! What Landlock does not govern is refused by [`crate::syscalls`]: changing modes, owners and times, other sockets, tracing. In namespaces,
//! the rest is hidden by a root folder of its own ([`crate::root`]): sockets in the file system, the names and properties of files (`stat`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    PathFdError, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use rustix::io::Errno;

use crate::gap::Gap;
use crate::namespaces::Inside;
use crate::{Policy, root, system};

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
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let execute = read | AccessFs::Execute;
        // Devices are made by root alone, who has no capabilities here. Without namespaces, sockets are refused by the filters of system calls.
        let mut write = AccessFs::from_all(NEWEST)
            & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::IoctlDev);
        if inside.is_some() {
            write |= AccessFs::MakeSock;
        }
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;

        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?;
        if !policy.network && inside.is_none() {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
        }
        let mut rules = Self(ruleset.create()?);
        rules.allow(system::PROGRAMS, execute)?;
        rules.allow(system::FILES, read)?;
        rules.allow(system::DEVICES, device)?;
        rules.allow(&policy.execute, execute)?;
        rules.allow(&policy.read, read)?;
        rules.allow(&policy.write, write | read)?;
        let scratch = inside.map_or(&policy.scratch, |inside| &inside.root.scratch);
        if let Some(scratch) = scratch {
            // Without its scratch folder a program cannot make temporary files, and its errors would not say why.
            fs::metadata(scratch).map_err(|source| FileRulesError::Open { path: scratch.clone(), source })?;
        }
        rules.allow(scratch.as_slice(), write | read)?;
        if let Some(inside) = inside {
            rules.allow(&[root::SHARED_MEMORY], write | read)?;
            rules.allow(&root::WRITTEN, read)?;
            if inside.root.has_processes {
                rules.allow(&["/proc"], read)?;
            }
        }
        if policy.network {
            rules.allow(system::NETWORK, read)?;
        }
        if policy.gpus {
            rules.allow(system::GPU_FILES, read)?;
            rules.allow(system::GPU_DEVICES, device | AccessFs::ReadDir)?;
            rules.allow(&system::numbered_devices(), device)?;
        }
        Ok(rules)
    }

    /// Allows `access` to each of `paths` that exists, and below it.
    fn allow(&mut self, paths: &[impl AsRef<Path>], access: BitFlags<AccessFs>) -> Result<(), FileRulesError> {
        for path in paths {
            let path = path.as_ref();
            let (file, metadata) = match PathFd::new(path) {
                Ok(file) => (file, fs::metadata(path)),
                // The path is not left out without a word, as one is where nothing is.
                Err(PathFdError::OpenCall { source, .. }) if is_exhaustion(&source) => {
                    return Err(FileRulesError::Open { path: path.to_path_buf(), source });
                }
                Err(_) => continue,
            };
            let Ok(metadata) = metadata else { continue };
            let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
            (&mut self.0).add_rule(PathBeneath::new(file, access))?;
        }
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
