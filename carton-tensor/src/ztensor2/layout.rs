//! The layouts of objects (spec/ztensor2.md §5).

/// How the parts of an object combine into a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout<'m> {
    /// The elements, one after another.
    Dense,
    /// `zt.sparse_csr/1`: the values of a matrix that are not 0, row by row.
    SparseCsr,
    /// `zt.sparse_coo/1`: the values that are not 0, each with its position.
    SparseCoo,
    /// A layout that is not known.
    Other(&'m str),
}

impl<'m> Layout<'m> {
    pub(super) fn of(name: &'m str) -> Self {
        match name {
            "dense" => Self::Dense,
            "zt.sparse_csr/1" => Self::SparseCsr,
            "zt.sparse_coo/1" => Self::SparseCoo,
            other => Self::Other(other),
        }
    }

    /// The name in manifests.
    #[must_use]
    pub fn name(&self) -> &'m str {
        match self {
            Self::Dense => "dense",
            Self::SparseCsr => "zt.sparse_csr/1",
            Self::SparseCoo => "zt.sparse_coo/1",
            Self::Other(name) => name,
        }
    }
}
