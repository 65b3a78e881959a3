//! The kinds of files that an index may name.

use std::fmt;

/// A kind of file that an index may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardKind {
    /// safetensors.
    Safetensors,
    /// A PyTorch checkpoint (`torch.save`).
    Torch,
}

impl fmt::Display for ShardKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safetensors => "a safetensors file",
            Self::Torch => "a PyTorch checkpoint (`torch.save`)",
        })
    }
}
