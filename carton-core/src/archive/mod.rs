//! The zip file that a carton is: its entries, where their bytes lie, and how a new one is laid out
//! (spec/carton-format.md, "The zip file").
//!
//! Knows nothing of what the entries mean: MANIFEST is only written here, never checked.

mod error;
pub mod name;
mod reader;
mod writer;

pub use error::ArchiveError;
pub use reader::{Archive, Entry, EntryKind, EntryReader, Method};
pub use writer::{Compression, Content, Progress, Tail, WriteProgress, write};
