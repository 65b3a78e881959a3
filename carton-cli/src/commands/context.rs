//! What every command needs.

use carton_core::Config;

use crate::output::Output;
use crate::text::one_line;

/// The context that every command gets.
pub(super) struct Context<'a> {
    pub(super) config: Config,
    pub(super) output: &'a Output,
}

/// Calls a setter of an operation if there is a value for it.
pub(super) fn set<B, V>(operation: B, value: Option<V>, setter: impl FnOnce(B, V) -> B) -> B {
    match value {
        Some(value) => setter(operation, value),
        None => operation,
    }
}

/// Calls the setters for the arguments of the sandbox, which loading and packing have.
macro_rules! confined {
    ($operation:expr, $arguments:expr) => {{
        let (mut operation, arguments) = ($operation, &$arguments);
        if let Some(mode) = arguments.sandbox {
            operation = operation.sandbox(mode);
        }
        for permissions in &arguments.allow {
            operation = operation.allow(permissions.clone());
        }
        for variable in &arguments.env {
            operation = operation.env(variable);
        }
        operation.limits(arguments.limits())
    }};
}

pub(super) use confined;

/// Prints each warning, up to a limit, and then the number of the remaining ones.
pub(super) fn warn_each(warnings: impl ExactSizeIterator<Item = String>, output: &Output) {
    const LIMIT: usize = 20;
    let n_left = warnings.len().saturating_sub(LIMIT);
    for warning in warnings.take(LIMIT) {
        output.warning(&one_line(&warning));
    }
    if n_left > 0 {
        output.warning(&format!("and {n_left} more like these"));
    }
}
