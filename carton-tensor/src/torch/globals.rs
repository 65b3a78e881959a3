//! The classes and functions that a checkpoint may name (spec/torch.md §3). None of them is looked up anywhere: a name is a value here.

use super::error::{Problem, quoted, refused};
use crate::files::ElementType;

/// A class, function or dtype that a pickle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    OrderedDict,
    Counter,
    Set,
    ByteArray,
    Complex,
    /// `_codecs.encode`, by which protocol 2 writes bytes.
    Encode,
    Size,
    Device,
    /// `torch.Tensor` or `torch.nn.parameter.Parameter`, as the class of a tensor.
    TensorClass,
    Dtype(Dtype),
    Storage(StorageClass),
    Rebuild(Rebuild),
}

/// A dtype of PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    pub(super) name: &'static str,
    /// `None` for one that tensor files do not have.
    pub(super) element_type: Option<ElementType>,
}

/// The class of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StorageClass {
    pub(super) name: &'static str,
    /// The type of its elements: bytes if it has none. `None` for quantized numbers.
    pub(super) element_type: Option<ElementType>,
}

/// A function that makes a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rebuild {
    Tensor,
    TensorV2,
    TensorV3,
    Parameter,
    ParameterWithState,
    FromTypeV2,
}

/// What is named in messages only, because it makes tensors that are not read.
const KINDS: [(&str, &str, &str); 11] = [
    ("torch._utils", "_rebuild_sparse_tensor", "a sparse tensor"),
    ("torch._utils", "_rebuild_sparse_csr_tensor", "a sparse tensor"),
    ("torch._utils", "_rebuild_nested_tensor", "a nested tensor"),
    ("torch._utils", "_rebuild_qtensor", "a quantized tensor"),
    ("torch._utils", "_rebuild_meta_tensor_no_storage", "a tensor without elements (meta)"),
    ("torch._utils", "_rebuild_wrapper_subclass", "a tensor of another class"),
    ("torch._utils", "_rebuild_device_tensor_from_numpy", "a tensor of a device without storages"),
    ("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", "a tensor of a device without storages"),
    ("torch._utils", "_rebuild_xla_tensor", "a tensor of a device without storages"),
    ("torch.serialization", "_get_layout", "a sparse tensor"),
    ("torch.storage", "_load_from_bytes", "a checkpoint in a checkpoint"),
];

const STORAGES: [(&str, Option<ElementType>); 17] = [
    ("DoubleStorage", Some(ElementType::Float64)),
    ("FloatStorage", Some(ElementType::Float32)),
    ("HalfStorage", Some(ElementType::Float16)),
    ("BFloat16Storage", Some(ElementType::BFloat16)),
    ("LongStorage", Some(ElementType::Int64)),
    ("IntStorage", Some(ElementType::Int32)),
    ("ShortStorage", Some(ElementType::Int16)),
    ("CharStorage", Some(ElementType::Int8)),
    ("ByteStorage", Some(ElementType::Uint8)),
    ("BoolStorage", Some(ElementType::Bool)),
    ("ComplexFloatStorage", Some(ElementType::Complex64)),
    ("ComplexDoubleStorage", Some(ElementType::Complex128)),
    ("QInt8Storage", None),
    ("QInt32Storage", None),
    ("QUInt8Storage", None),
    ("QUInt4x2Storage", None),
    ("QUInt2x4Storage", None),
];

const DTYPES: [(&str, Option<ElementType>); 26] = [
    ("float64", Some(ElementType::Float64)),
    ("float32", Some(ElementType::Float32)),
    ("float16", Some(ElementType::Float16)),
    ("bfloat16", Some(ElementType::BFloat16)),
    ("uint8", Some(ElementType::Uint8)),
    ("uint16", Some(ElementType::Uint16)),
    ("uint32", Some(ElementType::Uint32)),
    ("uint64", Some(ElementType::Uint64)),
    ("int8", Some(ElementType::Int8)),
    ("int16", Some(ElementType::Int16)),
    ("int32", Some(ElementType::Int32)),
    ("int64", Some(ElementType::Int64)),
    ("bool", Some(ElementType::Bool)),
    ("complex64", Some(ElementType::Complex64)),
    ("complex128", Some(ElementType::Complex128)),
    ("float8_e4m3fn", Some(ElementType::Float8E4m3Fn)),
    ("float8_e5m2", Some(ElementType::Float8E5m2)),
    ("float8_e4m3fnuz", Some(ElementType::Float8E4m3Fnuz)),
    ("float8_e5m2fnuz", Some(ElementType::Float8E5m2Fnuz)),
    ("float8_e8m0fnu", Some(ElementType::Float8E8m0Fnu)),
    ("float4_e2m1fn_x2", None),
    ("complex32", None),
    ("bits8", None),
    ("bits16", None),
    ("qint8", None),
    ("quint8", None),
];

/// Returns what a pickle names at byte `offset`. `torch.load` knows both the modules of Python 3 and, as protocol 2 writes them, those of
/// Python 2.
pub(super) fn global(module: &str, name: &str, offset: usize) -> Result<Global, Problem> {
    let module = if module == "__builtin__" { "builtins" } else { module };
    let known = match (module, name) {
        ("collections", "OrderedDict") => Some(Global::OrderedDict),
        ("collections", "Counter") => Some(Global::Counter),
        ("builtins", "set") => Some(Global::Set),
        ("builtins", "bytearray") => Some(Global::ByteArray),
        ("builtins", "complex") => Some(Global::Complex),
        ("_codecs", "encode") => Some(Global::Encode),
        ("torch", "Size") => Some(Global::Size),
        ("torch", "device") => Some(Global::Device),
        ("torch", "Tensor") | ("torch.nn.parameter", "Parameter") => Some(Global::TensorClass),
        ("torch.storage", "UntypedStorage") => {
            Some(Global::Storage(StorageClass { name: "UntypedStorage", element_type: Some(ElementType::Uint8) }))
        }
        ("torch._utils", "_rebuild_tensor") => Some(Global::Rebuild(Rebuild::Tensor)),
        ("torch._utils", "_rebuild_tensor_v2") => Some(Global::Rebuild(Rebuild::TensorV2)),
        ("torch._utils", "_rebuild_tensor_v3") => Some(Global::Rebuild(Rebuild::TensorV3)),
        ("torch._utils", "_rebuild_parameter") => Some(Global::Rebuild(Rebuild::Parameter)),
        ("torch._utils", "_rebuild_parameter_with_state") => Some(Global::Rebuild(Rebuild::ParameterWithState)),
        ("torch._tensor", "_rebuild_from_type_v2") => Some(Global::Rebuild(Rebuild::FromTypeV2)),
        ("torch", name) => {
            let storage = STORAGES.iter().find(|(known, _)| *known == name);
            let storage = storage.map(|&(name, element_type)| Global::Storage(StorageClass { name, element_type }));
            let dtype = DTYPES.iter().find(|(known, _)| *known == name);
            storage.or(dtype.map(|&(name, element_type)| Global::Dtype(Dtype { name, element_type })))
        }
        _ => None,
    };
    if let Some(known) = known {
        return Ok(known);
    }
    let full = format!("{module}.{name}");
    match KINDS.iter().find(|(of, kind, _)| (*of, *kind) == (module, name)) {
        Some((.., kind)) => refused(format!("it has {kind} (`{full}` at byte {offset} of its pickle)")),
        None => refused(format!("its pickle names {} at byte {offset}, which is not loaded", quoted(&full))),
    }
}
