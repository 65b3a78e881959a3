//! Tensors to their wire form and back (spec/runner-protocol.md, "Tensors").
//!
//! Sending takes two steps, because a call may have to wait for room in a full pool, and the two sides wait in different ways:
//! [`Plan`] says which buffers are needed, and [`encode`] fills them. Each looks at every tensor once. Receiving ([`decode`])
//! trusts nothing: it checks every range, shape and string, and copies strings before it looks at them.

mod decode;
mod encode;
mod strings;

#[cfg(feature = "host")]
pub(crate) use decode::copy_out;
pub(crate) use decode::decode;
pub(crate) use encode::{Encoded, Plan, encode};
