//! Completion candidates for shells. The scripts that `carton completions` prints call this program with the words typed so far; it
//! prints candidates and ends. Nothing here uses the network or starts a runner.
//!
//! A shell inserts a candidate into the command that the user is about to run, and names of inputs come from an untrusted carton. So only
//! names without any special meaning to a shell are offered.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use carton_core::cache::{Cache, CachedCarton};
use carton_core::runner::AvailableRunners;
use carton_core::{Carton, Config, Package};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use crate::args::Cli;

/// The environment variable that the scripts set to the name of the shell.
const VARIABLE: &str = "CARTON_COMPLETE";
/// The environment variable in which some scripts pass the index of the word being completed.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";
/// The program that the scripts call and complete.
const PROGRAM: &str = "carton";
/// Longer names of inputs are not offered.
const MAX_NAME: usize = 256;
/// The number of digits of a manifest hash that are offered for a carton.
const HASH_DIGITS: usize = 12;

const SHELLS: Shells<'static> = Shells(&[&WholeWordBash, &Elvish, &Fish, &Powershell, &Zsh]);

/// If a completion script started the process, prints candidates and ends the process. Must be called before any thread is started.
pub(crate) fn answer() {
    CompleteEnv::with_factory(command).var(VARIABLE).shells(SHELLS).complete();
}

/// Returns the completion script for a shell.
pub(crate) fn script(shell: Shell) -> io::Result<String> {
    let name = shell.to_string();
    let known = SHELLS.completer(&name);
    let shell = known.ok_or_else(|| io::Error::other(format!("there is no script for the shell `{name}`")))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    String::from_utf8(script).map_err(io::Error::other)
}

/// Returns the command line, with the completions that are looked up.
fn command() -> clap::Command {
    let runner = |argument: clap::Arg| argument.add(ArgValueCandidates::new(|| runners(RunnerScope::All)));
    Cli::command()
        .mut_subcommand("run", |run| {
            run.mut_arg("runner", runner)
                .mut_arg("inputs", |argument| argument.add(ArgValueCompleter::new(complete_input)))
                .mut_arg("example", |argument| argument.add(ArgValueCandidates::new(examples)))
        })
        .mut_subcommand("pack", |pack| pack.mut_arg("runner", runner))
        .mut_subcommand("cache", |command| {
            command.mut_subcommand("rm", |rm| {
                rm.mut_arg("cartons", |argument| argument.add(ArgValueCandidates::new(cached_cartons)))
            })
        })
        .mut_subcommand("runner", |command| {
            command.mut_subcommand("rm", |rm| {
                rm.mut_arg("runner", |argument| {
                    argument.add(ArgValueCandidates::new(|| runners(RunnerScope::Installed)))
                })
            })
        })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunnerScope {
    /// Installed runners and those in this program.
    All,
    Installed,
}

/// Returns the names of runners.
fn runners(scope: RunnerScope) -> Vec<CompletionCandidate> {
    let typed = Typed::from_process();
    let Some(runners) =
        Config::load(typed.config.as_deref()).ok().and_then(|config| AvailableRunners::read(&config).ok())
    else {
        return Vec::new();
    };
    let embedded = if scope == RunnerScope::All { runners.embedded() } else { &[] };
    let mut names: Vec<&str> = embedded
        .iter()
        .chain(runners.installed().map(|(runner, _)| runner))
        .map(|runner| runner.runner_name.as_str())
        .filter(|name| is_plain(name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the names of the model's examples.
fn examples() -> Vec<CompletionCandidate> {
    let Some(package) = Typed::from_process().package() else { return Vec::new() };
    let examples = package.metadata().examples().iter().enumerate();
    let names = examples.map(|(index, example)| example.name.clone().unwrap_or_else(|| format!("example_{index}")));
    names.filter(|name| is_plain(name)).map(CompletionCandidate::new).collect()
}

/// Returns the cartons in the cache: the names of their models, or else the first digits of their manifest hashes.
fn cached_cartons() -> Vec<CompletionCandidate> {
    let config = Config::load(Typed::from_process().config.as_deref()).ok();
    let cache = config.and_then(|config| Cache::open(&config.cache_dir).ok());
    let Some(listing) = cache.and_then(|cache| cache.list().ok()) else { return Vec::new() };
    let name = |carton: CachedCarton| match carton.model_name.filter(|name| is_plain(name)) {
        Some(name) => name,
        None => carton.manifest.to_string().chars().take(HASH_DIGITS).collect(),
    };
    let names: BTreeSet<String> = listing.cartons.into_iter().map(name).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Completes an input: `NAME=` for each input of the model, and after that files with arrays.
fn complete_input(current: &OsStr) -> Vec<CompletionCandidate> {
    let is_array = |path: &Path| {
        path.extension()
            .is_some_and(|extension| ["npy", "npz"].iter().any(|known| extension.eq_ignore_ascii_case(known)))
    };
    let files = PathCompleter::any().filter(is_array);
    let text = current.to_string_lossy();
    if let Some((name, path)) = text.split_once('=') {
        let prefix = format!("{name}=");
        let files = files.complete(OsStr::new(path)).into_iter();
        return files.map(|candidate| candidate.add_prefix(prefix.clone())).collect();
    }
    let mut candidates: Vec<CompletionCandidate> = Typed::from_process()
        .inputs()
        .into_iter()
        .filter(|(name, _)| name.starts_with(&*text))
        .map(|(name, dtype)| CompletionCandidate::new(format!("{name}=")).help(Some(dtype.into())))
        .collect();
    // Without any text, the names of all files would hide the few names of inputs.
    if candidates.is_empty() || !text.is_empty() {
        candidates.extend(files.complete(current));
    }
    candidates
}

/// The options of the command that is being typed.
#[derive(Debug, Default)]
struct Typed {
    config: Option<PathBuf>,
    model: Option<PathBuf>,
}

impl Typed {
    /// Parses the command that this process was started to complete.
    fn from_process() -> Self {
        let words = std::env::args_os().skip_while(|argument| argument != "--").skip(1).collect();
        let index = std::env::var(INDEX).ok().and_then(|index| index.parse().ok());
        Self::parse(words, index)
    }

    /// Parses these words. The word at `index`, or else the last one, is being completed.
    fn parse(mut words: Vec<OsString>, index: Option<usize>) -> Self {
        let index = index.unwrap_or(words.len().saturating_sub(1));
        // If that word were empty, the next one would be taken as the value of the option before it.
        if let Some(word) = words.get_mut(index).filter(|word| word.is_empty()) {
            word.push("x");
        }
        let Ok(matches) = Cli::command().ignore_errors(true).try_get_matches_from(words) else {
            return Self::default();
        };
        let path = |matches: &clap::ArgMatches, id| matches.try_get_one::<PathBuf>(id).ok().flatten().cloned();
        let (config, model) = match matches.subcommand() {
            Some((_, command)) => (path(command, "config"), path(command, "path")),
            None => (None, None),
        };
        Self { config: config.or_else(|| path(&matches, "config")), model }
    }

    /// Opens the model, if it is a carton on this machine.
    fn package(&self) -> Option<Package> {
        // Anything but a file or folder, such as a pipe, could block the shell; a URL is neither.
        let path = self.model.as_deref().filter(|path| path.is_file() || path.is_dir())?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().ok()?;
        runtime.block_on(Carton::open(path).into_future()).ok()
    }

    /// Returns the inputs of the model with their types, if it is a carton on this machine.
    fn inputs(&self) -> Vec<(String, String)> {
        let Some(package) = self.package() else { return Vec::new() };
        let inputs = package.metadata().inputs().iter().filter(|input| is_plain(&input.name));
        inputs.map(|input| (input.name.clone(), input.dtype.to_string())).collect()
    }
}

/// Whether a name is one word without special meaning in every shell.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    (1..=MAX_NAME).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_plain)
}

/// Bash splits words at `=` and `:`, and would complete `--runner=on` and `-i x=da` as if the parts had been typed alone. This script
/// joins them again. It also quotes the candidates, which may be names of files.
struct WholeWordBash;

const BASH: &str = r#"
_clap_complete_carton() {
    local rest=${COMP_LINE:0:COMP_POINT} words=() word i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        [[ $i -lt $COMP_CWORD ]] || word=
        if [[ $i -gt 0 && $rest != [[:space:]]* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        rest=${rest#"${rest%%[![:space:]]*}"}
        [[ $i -eq $COMP_CWORD ]] || rest=${rest#"$word"}
    done
    local last=$((${#words[@]} - 1))
    words[last]+=$rest
    # What is typed between quotes is completed as it is meant.
    local typed=${words[last]#[\"\']}
    words[last]=$typed
    words+=("${COMP_WORDS[@]:COMP_CWORD+1}")
    local prefix=
    if [[ $COMP_WORDBREAKS == *=* && $typed == *=* || $COMP_WORDBREAKS == *:* && $typed == *:* ]]; then
        prefix=${typed%"${typed##*[=:]}"}
    fi
    local IFS=$'\013'
    COMPREPLY=($(_CLAP_IFS=$IFS _CLAP_COMPLETE_INDEX=$last VARIABLE=bash PROGRAM -- "${words[@]}" 2>/dev/null)) || COMPREPLY=()
    for i in "${!COMPREPLY[@]}"; do
        word=${COMPREPLY[i]#"$prefix"}
        [[ $word == *[!a-zA-Z0-9_./=:@%+,-]* && $rest != [\"\']* ]] && printf -v word %q "$word"
        COMPREPLY[i]=$word
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -o nosort -F _clap_complete_carton PROGRAM 2>/dev/null ||
    complete -o bashdefault -o default -F _clap_complete_carton PROGRAM
"#;

impl EnvCompleter for WholeWordBash {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        _name: &str,
        _bin: &str,
        completer: &str,
        buffer: &mut dyn io::Write,
    ) -> io::Result<()> {
        let script = BASH.trim_start().replace("VARIABLE", variable).replace("PROGRAM", completer);
        buffer.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        arguments: Vec<OsString>,
        current_dir: Option<&Path>,
        buffer: &mut dyn io::Write,
    ) -> io::Result<()> {
        Bash.write_complete(command, arguments, current_dir, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_in_what_is_typed() {
        let check = |text: &str, index, model: Option<&str>| {
            let words = text.split(' ').map(OsString::from).collect();
            assert_eq!(Typed::parse(words, index).model.as_deref(), model.map(Path::new), "{text}");
        };
        check("carton run m.carton -i ", None, Some("m.carton"));
        check("carton run -i  m.carton", Some(3), Some("m.carton"));
        check("carton --offline run m.carton --self-test -i x=a.npy -i ", None, Some("m.carton"));
        check("carton run m.carton --no-such-option -i ", None, Some("m.carton"));
        check("carton run m.carton --input=", None, Some("m.carton"));
        check("carton run -i ", None, None);
        check("carton ", None, None);
        check("", Some(7), None);
    }

    #[test]
    fn only_plain_names_are_offered() {
        for name in ["x", "layer.0/input_ids", "größe", "a-b"] {
            assert!(is_plain(name), "{name}");
        }
        for name in
            ["", "-x", "$(touch x)", "a b", "a;b", "a`b`", "a\nb", "a=b", "~", "*", "\u{202e}x", &"x".repeat(300)]
        {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
