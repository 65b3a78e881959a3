//! The loops over elements: statistics, the largest absolute value, int8 quantization and its error. Bytes in, numbers out. Files and
//! threads are left to the callers.

mod block;
mod deviation;
mod float;
mod lanes;
mod level;
mod moments;
mod quantize;
mod rounding;
mod turns;
pub(crate) mod widen;

pub(crate) use block::{LARGE_BLOCK, Source};
pub(crate) use deviation::{Deviation, Integers, deviation};
pub(crate) use float::Float;
pub(crate) use level::Level;
pub(crate) use moments::{Moments, moments};
pub(crate) use quantize::{Largest, Quantized, largest, n_off_grid, quantize, smallest};
pub(crate) use rounding::Scale;

/// Evaluates an expression with `$source` as the encoding of an element type. Evaluates `$other` for complex numbers, which have no
/// order, and whose absolute value is not one of their parts.
macro_rules! with_encoding {
    ($dtype:expr, $source:ident => $body:expr, $other:expr) => {{
        use $crate::files::ElementType;
        use $crate::weights::kernels::widen;
        macro_rules! with {
            ($encoding:ident) => {{
                type $source = widen::$encoding;
                $body
            }};
        }
        match $dtype {
            ElementType::Bool => with!(Bool),
            ElementType::Uint8 => with!(U8),
            ElementType::Int8 => with!(I8),
            ElementType::Uint16 => with!(U16),
            ElementType::Int16 => with!(I16),
            ElementType::Uint32 => with!(U32),
            ElementType::Int32 => with!(I32),
            ElementType::Uint64 => with!(U64),
            ElementType::Int64 => with!(I64),
            ElementType::Float16 => with!(F16),
            ElementType::BFloat16 => with!(Bf16),
            ElementType::Float32 => with!(F32),
            ElementType::Float64 => with!(F64),
            ElementType::Float8E4m3Fn => with!(F8E4m3),
            ElementType::Float8E5m2 => with!(F8E5m2),
            ElementType::Float8E4m3Fnuz => with!(F8E4m3Fnuz),
            ElementType::Float8E5m2Fnuz => with!(F8E5m2Fnuz),
            ElementType::Float8E8m0Fnu => with!(F8E8m0),
            ElementType::Float6E2m3Fn => with!(F6E2m3),
            ElementType::Float6E3m2Fn => with!(F6E3m2),
            ElementType::Float4E2m1 => with!(F4),
            ElementType::Complex64 | ElementType::Complex128 => $other,
        }
    }};
}
pub(crate) use with_encoding;

#[cfg(test)]
mod tests;
