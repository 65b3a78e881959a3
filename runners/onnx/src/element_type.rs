//! The element types of ONNX tensors (`TensorProto.DataType`) and the dtypes of Carton's tensors.

use std::fmt;

use carton_tensor::DataType;

/// The element type of an ONNX tensor, by its number in `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ElementType(pub(crate) i64);

impl ElementType {
    pub(crate) const FLOAT: Self = Self(1);
    pub(crate) const STRING: Self = Self(8);
    pub(crate) const INT64: Self = Self(7);
    pub(crate) const DOUBLE: Self = Self(11);

    /// Returns the dtype of Carton's tensors with these elements, which has the same layout in memory; `None` where Carton has no such dtype,
    /// or where ONNX Runtime has no such elements, as complex numbers.
    pub(crate) fn carton(self) -> Option<DataType> {
        Some(match self.0 {
            1 => DataType::Float32,
            2 => DataType::Uint8,
            3 => DataType::Int8,
            4 => DataType::Uint16,
            5 => DataType::Int16,
            6 => DataType::Int32,
            7 => DataType::Int64,
            8 => DataType::String,
            9 => DataType::Bool,
            10 => DataType::Float16,
            11 => DataType::Float64,
            12 => DataType::Uint32,
            13 => DataType::Uint64,
            16 => DataType::BFloat16,
            17 => DataType::Float8E4m3Fn,
            18 => DataType::Float8E4m3Fnuz,
            19 => DataType::Float8E5m2,
            20 => DataType::Float8E5m2Fnuz,
            _ => return None,
        })
    }

    /// Returns why no tensor of a call can have these elements, to follow the name of an input or output; `None` if tensors can.
    pub(crate) fn problem(self) -> Option<String> {
        let who = match self.0 {
            14 | 15 => "ONNX Runtime does",
            _ => "Carton's tensors do",
        };
        self.carton().is_none().then(|| format!("is {self}, which {who} not have"))
    }

    /// Whether an element has less than a byte.
    pub(crate) fn is_narrow(self) -> bool {
        matches!(self.0, 21..=23 | 25 | 26)
    }

    /// Returns the element type of tensors of this dtype. Bytes are strings, which ONNX Runtime does not read.
    pub(crate) fn of(dtype: DataType) -> Self {
        match dtype {
            DataType::Bytes => Self::STRING,
            dtype => (1..=20).map(Self).find(|element| element.carton() == Some(dtype)).unwrap_or_default(),
        }
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
