//! What the values of a column become.

use arrow_schema::TimeUnit;
use carton_tensor::files::ElementType;

/// The dtype and shape of the tensors.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) dtype: ElementType,
    /// The shape of a sample, if the options give one.
    pub(super) shape: Option<Vec<usize>>,
    /// Whether missing numbers become NaN. The dtype is then one of floats.
    pub(super) null_is_nan: bool,
    /// The unit in which dates and times are counted. There are none if it is `None`.
    pub(super) time_unit: Option<TimeUnit>,
}
