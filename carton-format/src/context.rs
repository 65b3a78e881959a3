//! The context of an operation: its cancel token, and the callback for its progress.

pub use carton_tensor::context::{CancelGuard, CancelToken, Cancelled};

use crate::progress::Stage;

/// The context that an operation passes to its work, also on other threads. Clones share one state.
pub type Context = carton_tensor::context::Context<Stage>;

/// Counts the bytes of one stage of an operation, on any number of threads.
pub type Meter<'a> = carton_tensor::context::Meter<'a, Stage>;
