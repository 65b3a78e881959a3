//! What this runner calls itself, and which libtorch it has.

/// The name of this runner, for `runner_name` of a carton.
pub const RUNNER_NAME: &str = "torchscript";

/// The version of libtorch that this runner was built with.
pub const LIBTORCH_VERSION: &str = env!("CARTON_LIBTORCH_VERSION");
