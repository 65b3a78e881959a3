//! What the fuzz targets share. Each target is one line that calls one [`oracle`]: a function that gives any bytes to a parser and says
//! more of what comes out than that nothing crashed. [`seeds`] are where fuzzing starts, made by our own writers; `src/bin/seeds.rs`
//! writes them to files. [`generate`] makes of bytes what a parser needs beside them: files with a path, a peer's side of a talk.

pub mod generate;
pub mod oracle;
pub mod panics;
pub mod seeds;
