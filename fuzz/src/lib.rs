//! What the fuzz targets share. Each target is one line that calls one [`oracle`]: a function that gives any bytes to a parser and says
//! more of what comes out than that nothing crashed. [`seeds`] are where fuzzing starts, made by our own writers; `src/bin/seeds.rs`
//! writes them to files. [`generate`] makes of bytes what a parser needs beside them: files with a path, a peer's side of a talk.

pub mod generate;
pub mod oracle;
pub mod panics;
pub mod seeds;

// The modules that read a model file, by themselves: the crate that they are in brings the engines with it, which take longer to build with the
// sanitizer than everything else together.
#[allow(dead_code, unused_imports, reason = "the crate that they are in uses the rest")]
#[path = "../../runners/onnx/src/element_type.rs"]
mod element_type;
#[allow(dead_code, unused_imports, reason = "the crate that they are in uses the rest")]
#[path = "../../runners/onnx/src/model_file/mod.rs"]
mod model_file;
#[allow(dead_code, unused_imports, reason = "the crate that they are in uses the rest")]
#[path = "../../runners/onnx/src/protobuf.rs"]
mod protobuf;
