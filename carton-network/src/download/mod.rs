//! Downloads a remote file, or a range of it, into a local file: with several ranges at once, and resumable.
//!
//! A download has its own folder:
//!
//! ```text
//! folder/data      the bytes, each at its offset; sparse until complete
//! folder/journal   which file they belong to, and which of them are present
//! ```
//!
//! A process can leave the folder at any moment, also by being killed; the next [`Download::start`] continues where the journal ends, if
//! the server still has the same version. Nothing is verified here: the caller hashes the bytes while they arrive, with
//! [`Download::reader`].
//!
//! From a server without ranges the file is read in one stream, which a later attempt cannot continue. If a range was requested, such a
//! server is an error: reading everything before the range may take arbitrarily long, and a caller that needs it can request the whole
//! file.

mod error;
mod fetch;
mod handle;
mod journal;
mod ledger;
mod pace;
mod reader;
mod start;
mod store;
mod target;
#[cfg(test)]
mod tests;

pub use error::DownloadError;
pub use handle::Download;
pub use reader::DownloadReader;
pub use target::Target;
