//! Example programs of `carton-core`, in `examples`.
