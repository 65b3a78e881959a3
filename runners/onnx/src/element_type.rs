//! The element types of ONNX tensors (`TensorProto.DataType`) and how Carton's tensors carry them.

use std::fmt;

use carton_tensor::DataType;

/// The element type of an ONNX tensor, by its number in `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ElementType(pub(crate) i64);

impl ElementType {
    pub(crate) const FLOAT: Self = Self(1);
    pub(crate) const FLOAT16: Self = Self(10);
    pub(crate) const BFLOAT16: Self = Self(16);
    pub(crate) const STRING: Self = Self(8);
    pub(crate) const INT64: Self = Self(7);
    pub(crate) const BOOL: Self = Self(9);

    /// Returns the dtype of the Carton tensor that carries these elements, or `None` where format version 1 has no such dtype.
    ///
    /// Booleans are carried as `uint8` with the values 0 and 1, which is also their layout in NumPy and ONNX Runtime. float16 and
    /// bfloat16 are carried as `float32`, which holds each of their values.
    pub(crate) fn carton(self) -> Option<DataType> {
        Some(match self.0 {
            1 | 10 | 16 => DataType::Float32,
            2 | 9 => DataType::Uint8,
            3 => DataType::Int8,
            4 => DataType::Uint16,
            5 => DataType::Int16,
            6 => DataType::Int32,
            7 => DataType::Int64,
            8 => DataType::String,
            11 => DataType::Float64,
            12 => DataType::Uint32,
            13 => DataType::Uint64,
            _ => return None,
        })
    }

    /// Returns the element type with the same memory layout as this dtype.
    pub(crate) fn of(dtype: DataType) -> Self {
        (1..=13).map(Self).find(|element| element.carton() == Some(dtype)).unwrap_or_default()
    }

    /// Returns the size of an element in the data of a tensor, in bytes; `None` for strings, for types narrower than a byte and
    /// for unknown types.
    pub(crate) fn size(self) -> Option<u64> {
        Some(match self.0 {
            2 | 3 | 9 | 17..=20 | 24 => 1,
            4 | 5 | 10 | 16 => 2,
            1 | 6 | 12 => 4,
            7 | 11 | 13 | 14 => 8,
            15 => 16,
            _ => return None,
        })
    }

    fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "float32",
            2 => "uint8",
            3 => "int8",
            4 => "uint16",
            5 => "int16",
            6 => "int32",
            7 => "int64",
            8 => "string",
            9 => "bool",
            10 => "float16",
            11 => "float64",
            12 => "uint32",
            13 => "uint64",
            14 => "complex64",
            15 => "complex128",
            16 => "bfloat16",
            17 => "float8e4m3fn",
            18 => "float8e4m3fnuz",
            19 => "float8e5m2",
            20 => "float8e5m2fnuz",
            21 => "uint4",
            22 => "int4",
            23 => "float4e2m1",
            24 => "float8e8m0",
            25 => "uint2",
            26 => "int2",
            _ => return None,
        })
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "element type {}", self.0),
        }
    }
}
