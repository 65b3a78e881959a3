//! The result of one step of a decoder.

/// How many encoded bytes a step consumed, and how many decoded bytes it produced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) consumed: usize,
    pub(super) produced: usize,
}
