//! Makes the policy that confines a runner process (spec/sandbox.md): what its descriptor needs, what the model at hand needs, what the
//! carton asks for, and what the user allows.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use carton_sandbox::Policy;

use super::policy::{LaunchPolicy, matches};
use crate::runner::Descriptor;
use crate::sandbox::SandboxMode;
use crate::variables::Variables;

/// What the process at hand needs beyond what its runner needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Files and folders that it reads.
    pub(crate) read: Vec<PathBuf>,
    /// Files and folders that it reads and executes.
    pub(crate) execute: Vec<PathBuf>,
    /// Folders that it writes to.
    pub(crate) write: Vec<PathBuf>,
    /// Whether it uses the network.
    pub(crate) network: bool,
    /// Whether it uses GPUs.
    pub(crate) gpus: bool,
    /// Whether it makes preparations for models, and runs nothing of them.
    pub(crate) prepares: bool,
    /// The environment variables of the model. A process that makes preparations, which has credentials and the network, gets none.
    pub(crate) variables: Variables,
}

/// The variable by which a runner learns that it is confined. Its value is that of the mode.
pub(super) const SANDBOX_VARIABLE: &str = "CARTON_SANDBOX";

/// The variables that name folders of a user. A confined process has only its scratch folder.
const FOLDER_VARIABLES: &[&str] = &["HOME", "TMPDIR"];
/// The variables that name other folders of a user, in which programs look for files that a confined process cannot have.
const USELESS_VARIABLES: &[&str] = &["XDG_CACHE_HOME"];

/// Returns the policy for a process of `descriptor`, without its scratch folder.
pub(super) fn policy(descriptor: &Descriptor, launch: &LaunchPolicy, access: &Access) -> Policy {
    let mut policy = Policy::new();
    policy.strict = launch.mode() == SandboxMode::Strict;
    policy.limits = launch.all_limits();
    policy.cgroup = launch.configured.sandbox.cgroup.clone();
    policy.network = access.network;
    policy.gpus = access.gpus;
    // NVIDIA's driver writes to `/proc/self`. Without namespaces a rule can name these files of the first process only, and frameworks start
    // others that use the GPU.
    policy.namespaces = (descriptor.sandbox.namespaces || access.gpus) && !access.prepares;

    policy.execute.push(descriptor.runner_path.clone());
    policy.execute.extend(descriptor.folder.clone());
    policy.execute.extend(descriptor.sandbox.read.iter().map(|path| expanded(path)));
    policy
        .execute
        .extend(folders_of_variable("LD_LIBRARY_PATH").filter(|_| launch.passes(&[], "LD_LIBRARY_PATH".as_ref())));
    for name in &descriptor.sandbox.read_variables {
        let files = env::var_os(name).filter(|_| launch.passes(&descriptor.environment, name.as_ref()));
        let value = launch.variables.iter().rev().find(|(variable, _)| variable == name).map(|(_, value)| value.into());
        // A relative path is one of the working folder, which the process has too.
        let folder = value
            .or(files)
            .and_then(|file| fs::canonicalize(file).ok())
            .and_then(|file| Some(file.parent()?.to_path_buf()));
        policy.execute.extend(folder);
    }
    let data = |name: &String| launch.configured.data_dir.join(name);
    policy.execute.extend(descriptor.sandbox.data.iter().map(data));

    policy.read.extend(access.read.iter().cloned());
    policy.execute.extend(access.execute.iter().cloned());
    policy.write.extend(access.write.iter().cloned());
    if let Some(prepare) = descriptor.prepare.as_ref().filter(|_| access.prepares) {
        policy.execute.extend(prepare.programs.iter().flat_map(|program| places_of_program(program)));
        policy.execute.extend(prepare.read.iter().map(|path| expanded(path)));
        policy.execute.extend(prepare.read_data.iter().map(data));
        let given = env::vars_os().filter(|(name, _)| matches(&prepare.environment, name));
        policy.execute.extend(given.flat_map(|(_, value)| paths_in(&value)));
        for folder in prepare.data.iter().map(data) {
            // A rule can only be made for a folder that exists. A failure shows as an error of the runner that cannot write there.
            let _ = fs::create_dir_all(&folder);
            // What is prepared can be a program.
            policy.execute.push(folder.clone());
            policy.write.push(folder);
        }
    }
    policy
}

/// Returns the variables that a confined process gets instead of the host's, and the names of those that it does not get.
pub(super) fn variables(scratch: &Path, prepares: bool) -> (Vec<(&'static str, PathBuf)>, &'static [&'static str]) {
    if prepares {
        // The programs that make preparations find their configuration in the user's home.
        return (vec![("TMPDIR", scratch.to_path_buf())], &[]);
    }
    (FOLDER_VARIABLES.iter().map(|name| (*name, scratch.to_path_buf())).collect(), USELESS_VARIABLES)
}

/// Replaces `~` by the user's home.
fn expanded(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_path_buf(),
    }
}

/// Returns the absolute folders in a variable like `PATH`.
fn folders_of_variable(name: &str) -> impl Iterator<Item = PathBuf> {
    let folders: Vec<PathBuf> = env::var_os(name).map(|value| env::split_paths(&value).collect()).unwrap_or_default();
    folders.into_iter().filter(|folder| folder.is_absolute())
}

/// Returns the paths of a program in `PATH` and in the places where its installer puts it, without links.
pub(crate) fn places_of_program(program: &str) -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let usual = home.iter().flat_map(|home| [home.join(".local/bin"), home.join(".cargo/bin")]);
    let folders = folders_of_variable("PATH").chain(usual.collect::<Vec<_>>());
    folders
        .map(|folder| folder.join(program))
        .filter(|path| path.is_file())
        .flat_map(|path| [fs::canonicalize(&path).unwrap_or_default(), path])
        .collect()
}

/// Returns the absolute paths in a value, which may be a list of paths and URLs.
fn paths_in(value: &OsStr) -> Vec<PathBuf> {
    let text = value.to_string_lossy();
    let words = text.split(|c: char| c.is_whitespace() || c == ',');
    let path = |word: &str| {
        // uv names indexes: `name=URL`.
        let word = word.rsplit_once('=').map_or(word, |(_, word)| word);
        let path = PathBuf::from(word.strip_prefix("file://").unwrap_or(word));
        // The root would be everything.
        let is_plain = !path.components().any(|part| part == std::path::Component::ParentDir);
        (path.is_absolute() && is_plain && path.parent().is_some()).then_some(path)
    };
    words.filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_values() {
        let check = |value: &str, expected: &[&str]| {
            let paths: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(paths_in(OsStr::new(value)), paths, "{value}");
        };
        check("/etc/ssl/ca.pem", &["/etc/ssl/ca.pem"]);
        check("https://host/simple /srv/wheels,file:///srv/more", &["/srv/wheels", "/srv/more"]);
        check("mine=file:///srv/index", &["/srv/index"]);
        check("1", &[]);
        check("/", &[]);
        check("/..", &[]);
        check("", &[]);
    }
}
