//! Reading without holding what was read.

use std::ops::ControlFlow;

/// Gets the bytes of a tensor piece by piece, from the first to the last, and says whether it wants more.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8]) -> ControlFlow<()>;
