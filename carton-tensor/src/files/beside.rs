//! The files in the folder of another one.

use std::io;

use super::FileBytes;

/// Opens the file of a name in the folder of a file that lists its parts. It is called from several threads.
pub type Beside<'b> = &'b (dyn Fn(&str) -> io::Result<FileBytes> + Sync);
