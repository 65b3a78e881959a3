//! The resource limits of a process. Pure: [`crate::limiting`] sets them.

use serde::{Deserialize, Serialize};

/// Calls a macro with the names of all limits. This is the only list of them.
#[macro_export]
macro_rules! limit_names {
    ($callback:ident) => {
        $callback! {
            /// Memory in bytes. With a cgroup, of all processes together (`memory.max`); else the address space of each (`RLIMIT_AS`).
            memory,
            /// The number of processes and threads. With a cgroup, of the runner alone (`pids.max`); else of all processes of the user
            /// together (`RLIMIT_NPROC`), which does not bind root.
            processes,
            /// The number of open descriptors of each process (`RLIMIT_NOFILE`).
            open_files,
            /// The size in bytes that each written file may reach (`RLIMIT_FSIZE`), shared memory included.
            file_size,
            /// The seconds of CPU time that each process may use (`RLIMIT_CPU`).
            cpu_seconds,
        }
    };
}

macro_rules! define {
    ($($(#[$documentation:meta])* $name:ident,)*) => {
        /// Resource limits; `None` keeps the host's. spec/sandbox.md says what each means with and without a cgroup.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[non_exhaustive]
        pub struct Limits {
            $($(#[$documentation])* pub $name: Option<u64>,)*
        }

        impl Limits {
            /// The names of all limits.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// These limits, and those of `other` where there is none.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self { $($name: self.$name.or(other.$name),)* }
            }

            /// Returns a limit by the name of its field; `None` if it is not set, or if there is no such limit.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => self.$name,)*
                    _ => None,
                }
            }

            /// Sets a limit by the name of its field.
            ///
            /// # Errors
            /// There is no such limit.
            pub fn set(&mut self, name: &str, value: u64) -> Result<(), UnknownLimit> {
                let limit = match name {
                    $(stringify!($name) => &mut self.$name,)*
                    _ => return Err(UnknownLimit(name.to_owned())),
                };
                *limit = Some(value);
                Ok(())
            }
        }
    };
}

limit_names!(define);

impl Limits {
    /// Whether a limit is a number of bytes.
    #[must_use]
    pub fn is_size(name: &str) -> bool {
        ["memory", "file_size"].contains(&name)
    }
}

/// A text that names no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no limit `{0}`: expected {list}", list = Limits::NAMES.join(", "))]
pub struct UnknownLimit(pub String);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn limits_have_names() {
        let mut limits = Limits::default();
        for (value, name) in (1..).zip(Limits::NAMES) {
            assert_eq!(limits.get(name), None);
            limits.set(name, value).unwrap();
            assert_eq!(limits.get(name), Some(value));
        }
        assert_eq!((limits.memory, limits.cpu_seconds), (Some(1), Some(5)));
        let error = limits.set("disk", 1).unwrap_err().to_string();
        assert_eq!(error, "no limit `disk`: expected memory, processes, open_files, file_size, cpu_seconds");
    }

    #[test]
    fn missing_limits_are_those_of_another() {
        let one = Limits { memory: Some(1), ..Limits::default() };
        let other = Limits { memory: Some(2), processes: Some(3), ..Limits::default() };
        assert_eq!(one.or(other), Limits { memory: Some(1), processes: Some(3), ..Limits::default() });
    }
}
