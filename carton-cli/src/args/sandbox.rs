//! What a confined model may use.

use carton_core::sandbox::{Limits, Permissions, SandboxMode};
use clap::Args;

use super::values::size;

/// Options of the commands that start runners.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct SandboxArgs {
    /// How the model is confined: `on`, as far as this system can; `strict`, or not run at all; `off` [default: on]
    ///
    /// A confined model has its own files, a scratch folder, and nothing else: no other files, no network, no other processes.
    #[arg(long, value_name = "MODE")]
    pub(crate) sandbox: Option<SandboxMode>,

    /// Let the model use `network`, or `read=PATH`: a file or folder; `build` builds Python packages from their sources
    ///
    /// A path that has your home folder, the configuration or the cache in it also needs `private`.
    ///
    /// What a carton asks for is shown by `carton info`, and has to be allowed here or in the configuration.
    #[arg(long, value_name = "WHAT", value_parser = permission)]
    pub(crate) allow: Vec<Permissions>,

    /// Give the model an environment variable: `NAME`, one of yours, or `NAME=VALUE`
    ///
    /// It replaces one that the carton sets. Of your other variables, the model gets only those on a fixed list, such as `PATH` and `OMP_NUM_THREADS`.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,

    /// Limit the runner: `memory=4GiB`, `processes=N`, `open_files=N`, `file_size=1GB`, `cpu_seconds=N`
    #[arg(long, value_name = "LIMIT", value_parser = limit)]
    pub(crate) limit: Vec<Limits>,
}

impl SandboxArgs {
    /// All limits that were given. Of two of one kind the last one counts.
    pub(crate) fn limits(&self) -> Limits {
        self.limit.iter().rev().fold(Limits::default(), |later, earlier| later.or(*earlier))
    }
}

fn permission(text: &str) -> Result<Permissions, String> {
    let mut permissions = Permissions::default();
    // A relative path is one of the working folder, as everywhere on the command line.
    let text = match text.strip_prefix("read=") {
        Some(path) if !path.is_empty() => {
            let path = std::path::absolute(path).map_err(|error| error.to_string())?;
            format!("read={}", path.display())
        }
        _ => text.to_owned(),
    };
    permissions
        .add(&text)
        .map_err(|_| format!("expected `network`, `build`, `private` or `read=PATH`, found `{text}`"))?;
    Ok(permissions)
}

fn limit(text: &str) -> Result<Limits, String> {
    let (name, value) = text.split_once('=').ok_or("expected LIMIT=VALUE, such as `memory=4GiB`")?;
    let value = match Limits::is_size(name) {
        true => size(value),
        false => value.parse().map_err(|_| format!("expected a number, found `{value}`")),
    };
    let mut limits = Limits::default();
    // An unknown name is a better reason than the value behind it.
    limits.set(name, 0).map_err(|error| error.to_string())?;
    limits.set(name, value?).map_err(|error| error.to_string())?;
    Ok(limits)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn limits_and_permissions() {
        let args = SandboxArgs {
            limit: ["memory=1KiB", "processes=7", "memory=2KiB"].map(|text| limit(text).unwrap()).to_vec(),
            ..SandboxArgs::default()
        };
        assert_eq!((args.limits().memory, args.limits().processes), (Some(2048), Some(7)));
        for text in ["memory", "memory=", "cpu=1", "processes=many", ""] {
            assert!(limit(text).is_err(), "{text}");
        }
        assert!(permission("read=data").unwrap().read[0].is_absolute());
        assert!(permission("read=").is_err() && permission("all").is_err());
    }
}
