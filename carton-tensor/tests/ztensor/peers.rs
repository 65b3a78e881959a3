//! Beside other implementations.
