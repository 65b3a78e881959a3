//! What a connection, and everything that it hands out, keeps open.

use std::sync::Arc;

use super::CloseReason;
use super::shared::Shared;

/// Closes the connection when dropped; the threads of the connection hold only what it points to.
pub(super) struct Handle {
    pub(super) shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close(CloseReason::Requested("the connection was dropped".to_owned()));
    }
}
