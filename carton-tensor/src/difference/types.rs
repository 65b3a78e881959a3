//! The types of the elements of tensors in files.

use crate::DataType;
use crate::any_file::Entry;
use crate::files::ElementType;

/// The name of the type of elements, or that of a logical type that is not known.
pub(super) fn dtype_name(entry: &Entry<'_>) -> Option<String> {
    if entry.unsupported().is_some() {
        return None;
    }
    let named = |dtype: ElementType| dtype.name().to_owned();
    match unknown_type(entry) {
        Some(unknown) => Some(unknown.to_owned()),
        None if entry.ggml_blocks().is_some() => entry.ggml_blocks().map(|of| of.name().to_owned()),
        None if entry.as_ztensor().is_none() && entry.as_ztensor2().is_none() && entry.dtype().is_none() => {
            Some(DataType::String.name().to_owned())
        }
        None => element_type(entry).map(named),
    }
}

/// The name of a logical type that is not known.
pub(super) fn unknown_type<'a>(entry: &Entry<'a>) -> Option<&'a str> {
    match entry.as_ztensor2() {
        Some(object) => object.values()?.unknown_type(),
        None => entry.as_ztensor()?.component("data")?.unknown_type(),
    }
}

/// The type of the numbers that reading the tensor gives. A quantized tensor represents `float32` numbers.
pub(super) fn element_type(entry: &Entry<'_>) -> Option<ElementType> {
    entry.dtype().or(entry.is_quantized().then_some(ElementType::Float32))
}
