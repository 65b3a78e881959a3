//! The handle that keeps a connection open. The connection, its turns, streams and sealed inputs share it.

use std::sync::Arc;

use super::CloseReason;
use super::shared::Shared;

/// Closes the connection when it is dropped. The threads of the connection hold only the `Shared` behind it.
pub(super) struct Handle {
    pub(super) shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close(CloseReason::Requested("the connection was dropped".to_owned()));
    }
}
