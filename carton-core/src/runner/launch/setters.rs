//! The setters of operations that start runners.

/// Defines the setters of an operation that starts runners under the [`LaunchPolicy`](crate::runner::LaunchPolicy) in the field `$field`.
macro_rules! launch_setters {
    ($($field:ident).+) => {
        /// Sets the environment and the limits of the runner's process, and what confines it. The setters below change parts of it.
        pub fn policy(mut self, policy: $crate::runner::LaunchPolicy) -> Self {
            self.$($field).+ = policy;
            self
        }

        /// Sets how strictly the runner is confined. By default the configuration decides, and without it the runner is confined as far as
        /// this system can.
        pub fn sandbox(mut self, mode: $crate::sandbox::SandboxMode) -> Self {
            self.$($field).+.sandbox = Some(mode);
            self
        }

        /// Whether the model may use the network, which a confined model may not by default.
        pub fn allow_network(mut self, allow: bool) -> Self {
            self.$($field).+.allow.network = allow;
            self
        }

        /// Lets a confined model read a file, or a folder with all that it contains. A relative path is one of the working folder.
        pub fn allow_read(mut self, path: impl Into<std::path::PathBuf>) -> Self {
            self.$($field).+.allow.read.push(path.into());
            self
        }

        /// Lets a confined model use all of this, beside what it is allowed already.
        pub fn allow(mut self, permissions: $crate::sandbox::Permissions) -> Self {
            self.$($field).+.allow.add_all(&permissions);
            self
        }

        /// Passes an environment variable to the model: one of this process's, as in `NAME`, or `NAME=VALUE`. It replaces one that the carton
        /// sets. Processes that make preparations for the model do not get it.
        ///
        /// Loading fails if this process has no such variable, or if the name is one that no
        /// model gets: `HOME`, `TMPDIR`, and those that begin with `CARTON_`.
        pub fn env(mut self, variable: impl Into<String>) -> Self {
            self.$($field).+.passed.push(variable.into().into());
            self
        }

        /// Sets the resource limits of the runner. Those that are `None` are the configuration's.
        pub fn limits(mut self, limits: $crate::sandbox::Limits) -> Self {
            self.$($field).+.limits = limits;
            self
        }

        /// Whether packages of Python models may be built from their sources, which runs code of the packages before the model is loaded.
        /// By default only packages that are built already are used.
        pub fn allow_build(mut self, allow: bool) -> Self {
            self.$($field).+.allow.build = allow;
            self
        }
    };
}

pub(crate) use launch_setters;
