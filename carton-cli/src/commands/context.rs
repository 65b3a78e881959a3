//! What every command needs.

use carton_core::Config;

use crate::output::{Output, one_line};

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
