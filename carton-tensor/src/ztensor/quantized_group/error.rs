//! The errors of quantized groups (spec/ztensor.md §5.4).

use crate::files::ElementType;
use crate::ztensor::FilePart;

/// A rule that a quantized group breaks, or a request that it cannot meet. As in [`ZTensorError`](crate::ztensor::ZTensorError), each
/// rule has its own variant, whose text ends in the section of `spec/ztensor.md` that states it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantizedGroupError {
    /// §5.4: a required attribute is missing or invalid.
    #[error("the attribute `{attribute}` of {at} is {found}, expected {expected} [spec/ztensor.md §5.4]")]
    Attribute {
        /// The object.
        at: Box<FilePart>,
        /// The attribute.
        attribute: &'static str,
        /// The valid values.
        expected: &'static str,
        /// The value that was found.
        found: String,
    },
    /// §5.4: the number of elements of a component does not fit shape and attributes.
    #[error("{at} has {found} elements, expected {expected} for its shape and attributes [spec/ztensor.md §5.4]")]
    Size {
        /// The component.
        at: Box<FilePart>,
        /// The number that shape and attributes need.
        expected: String,
        /// The number of elements.
        found: u64,
    },
    /// §5.4: a component has an invalid element type.
    #[error("{at} has elements of {found}, expected {expected} [spec/ztensor.md §5.4]")]
    Type {
        /// The component.
        at: Box<FilePart>,
        /// The valid types.
        expected: &'static str,
        /// The type that was found.
        found: ElementType,
    },
    /// §5.4: the shape cannot be quantized in groups.
    #[error("{at} has the shape {found:?}, expected {expected} [spec/ztensor.md §5.4]")]
    Shape {
        /// The object.
        at: Box<FilePart>,
        /// The valid shapes.
        expected: String,
        /// The shape that was found.
        found: Vec<usize>,
    },
    /// §5.4: an integer that is to be packed does not fit into the bits of a weight.
    #[error(
        "{at} has the integer {found} at position {position}, which {bits} bits cannot hold [spec/ztensor.md §5.4]"
    )]
    Integer {
        /// The object.
        at: Box<FilePart>,
        /// The position of the element.
        position: usize,
        /// The integer.
        found: i8,
        /// The bits of a weight.
        bits: u32,
    },
}

impl QuantizedGroupError {
    /// Whether the file breaks a rule of the format. Unsupported packings do not, because the format allows them, and integers come
    /// from the caller.
    pub(in crate::ztensor) fn is_malformed(&self) -> bool {
        !matches!(self, Self::Attribute { .. } | Self::Integer { .. })
    }
}
