//! Whatever is written is read again.
