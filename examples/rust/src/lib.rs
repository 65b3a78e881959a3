//! Example programs of `carton-core`, in `examples`.

/// Runs the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/start/rust.md")]
struct StartInRust;
