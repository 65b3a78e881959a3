//! What this runner calls itself, and which libtorch it has.

use carton_tensor::DataType;

/// The name of this runner, for `runner_name` of a carton.
pub const RUNNER_NAME: &str = "torchscript";

/// The version of libtorch that this runner was built with.
pub const LIBTORCH_VERSION: &str = env!("CARTON_LIBTORCH_VERSION");

/// The dtypes beyond format v1 that tensors of this libtorch have.
pub(crate) const DTYPES: &[DataType] = &[
    DataType::Bool,
    DataType::Float16,
    DataType::BFloat16,
    DataType::Complex64,
    DataType::Complex128,
    #[cfg(libtorch_float8)]
    DataType::Float8E4m3Fn,
    #[cfg(libtorch_float8)]
    DataType::Float8E5m2,
    #[cfg(libtorch_float8_fnuz)]
    DataType::Float8E4m3Fnuz,
    #[cfg(libtorch_float8_fnuz)]
    DataType::Float8E5m2Fnuz,
];
