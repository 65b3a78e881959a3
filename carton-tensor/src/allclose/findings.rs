//! What a comparison finds as it goes, and the words for it.

/// The result of comparing some or all elements.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) max_abs_diff: Option<f64>,
    pub(super) max_rel_diff: Option<f64>,
    pub(super) worst: Option<Worst>,
}

/// The element, or the difference of type, that decides that the tensors differ.
pub(super) struct Worst {
    /// The absolute difference; infinite if it cannot be measured.
    pub(super) severity: f64,
    pub(super) detail: String,
}

impl Findings {
    /// Nothing was compared, for this reason.
    pub(super) fn incomparable(detail: String) -> Self {
        Self { worst: Some(Worst { severity: f64::INFINITY, detail }), ..Self::default() }
    }
}

/// Returns the larger of two differences. NaN counts as larger than every number, so that it is never lost.
fn larger(left: f64, right: f64) -> f64 {
    if left.is_nan() || left > right { left } else { right }
}

/// Keeps the larger difference.
pub(super) fn merge(into: &mut Option<f64>, difference: Option<f64>) {
    if let Some(difference) = difference {
        *into = Some(into.map_or(difference, |found| larger(found, difference)));
    }
}

pub(super) fn how_many(differing: usize, total: usize) -> String {
    format!("{differing} of {total} {}", if total == 1 { "element differs" } else { "elements differ" })
}
