//! The common part of the fuzz targets. Each target is one line that calls an [`oracle`]: a function that passes arbitrary bytes to a
//! parser and asserts properties of the result, beyond the absence of crashes. [`seeds`] are the inputs with which fuzzing starts, made
//! by our own writers; `src/bin/seeds.rs` writes them to files. [`generate`] derives from bytes what a parser needs in addition to
//! them: files with a path, or the frames of a peer.

pub mod generate;
pub mod oracle;
pub mod panics;
pub mod seeds;

// Includes only the modules that read a model file, because their crate depends on the bindings of ONNX Runtime, which take longer to build with the
// sanitizer than everything else together.
#[allow(dead_code, unused_imports, reason = "the crate that they are in uses the rest")]
#[path = "../../runners/onnx/src/element_type.rs"]
mod element_type;
#[allow(dead_code, unused_imports, reason = "the crate that they are in uses the rest")]
#[path = "../../runners/onnx/src/model_file/mod.rs"]
mod model_file;
