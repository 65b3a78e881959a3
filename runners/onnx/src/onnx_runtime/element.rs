//! ONNX Runtime's numbers of element types (onnxruntime_c_api.h, `ONNXTensorElementDataType`).

use ort::sys::ONNXTensorElementDataType as ElementNumber;

use crate::element_type::ElementType;

/// The element types that tensors of Carton have, with ONNX's number and the runtime's.
const ELEMENTS: [(i64, ElementNumber); 18] = [
    (1, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT),
    (2, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8),
    (3, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8),
    (4, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16),
    (5, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16),
    (6, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32),
    (7, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
    (8, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING),
    (9, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL),
    (10, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16),
    (11, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE),
    (12, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32),
    (13, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64),
    (16, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16),
    (17, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN),
    (18, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ),
    (19, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2),
    (20, ElementNumber::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ),
];

/// The runtime's number of an element type.
pub(super) fn number(element: ElementType) -> Option<ElementNumber> {
    ELEMENTS.iter().find(|(known, _)| *known == element.0).map(|(_, number)| *number)
}

/// The element type of a runtime's number.
pub(super) fn element(number: ElementNumber) -> Option<ElementType> {
    ELEMENTS.iter().find(|(_, known)| *known == number).map(|(element, _)| ElementType(*element))
}
