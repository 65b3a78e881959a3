//! What can be wrong with a quantized group (spec/ztensor.md §5.4).

use crate::files::ElementType;
use crate::ztensor::Place;

/// A rule that a quantized group breaks, or a request that it cannot meet. As in [`ZTensorError`](crate::ztensor::ZTensorError), each rule has a
/// variant, whose text ends in the section of `spec/ztensor.md` that states it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizedGroupError {
    /// §5.4: an attribute of a quantized group that is missing, or not what it must be.
    #[error("the attribute `{attribute}` of {at} is {found}, expected {expected} [spec/ztensor.md §5.4]")]
    Attribute {
        /// The object.
        at: Box<Place>,
        /// Its attribute.
        attribute: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// §5.4: a component that does not have as many elements as shape and attributes ask for.
    #[error("{at} has {found} elements, expected {expected} for its shape and attributes [spec/ztensor.md §5.4]")]
    Size {
        /// The component.
        at: Box<Place>,
        /// How many shape and attributes ask for.
        expected: String,
        /// How many there are.
        found: u64,
    },
    /// §5.4: a component of a type that it cannot have.
    #[error("{at} has elements of {found}, expected {expected} [spec/ztensor.md §5.4]")]
    Type {
        /// The component.
        at: Box<Place>,
        /// What it may have.
        expected: &'static str,
        /// What it has.
        found: ElementType,
    },
    /// §5.4: a shape that cannot be quantized in groups.
    #[error("{at} has the shape {found:?}, expected {expected} [spec/ztensor.md §5.4]")]
    Shape {
        /// The object.
        at: Box<Place>,
        /// What it may be.
        expected: String,
        /// What it is.
        found: Vec<usize>,
    },
    /// §5.4: an integer that is to be packed, and does not fit its bits.
    #[error(
        "{at} has the integer {found} at position {position}, which {bits} bits cannot hold [spec/ztensor.md §5.4]"
    )]
    Integer {
        /// The object.
        at: Box<Place>,
        /// Which element.
        position: usize,
        /// The integer.
        found: i8,
        /// The bits.
        bits: u32,
    },
}

impl QuantizedGroupError {
    /// Whether the file breaks a rule of the format. Other packings are allowed to it, and integers come from the caller.
    pub(in crate::ztensor) fn is_malformed(&self) -> bool {
        !matches!(self, Self::Attribute { .. } | Self::Integer { .. })
    }
}
