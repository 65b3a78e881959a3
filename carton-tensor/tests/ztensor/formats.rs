//! Sparse and quantized tensors.
