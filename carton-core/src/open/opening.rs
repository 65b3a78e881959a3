//! What opening needs from its caller.

use std::sync::Arc;

use carton_format::context::Context;

use crate::cache::Cache;

/// What opening a carton needs besides its location, whether it is local or on a server.
pub(crate) struct Opening {
    /// Without a cache nothing can be fetched, and nothing is remembered.
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) context: Context,
}
