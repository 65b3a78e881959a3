//! Describes the files of a model to a runner.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{CallError, FileRange, Files};
use crate::message::{WireEntry, WireFiles, WireSource};

/// Returns the wire form of `files`, and the descriptors that the message carries. Without `descriptors`, files are named by path.
pub(super) fn describe_files(files: &Files, descriptors: bool) -> Result<(WireFiles, Vec<OwnedFd>), CallError> {
    let ranges = match files {
        Files::Directory(path) => return Ok((WireFiles::Directory { path: path.clone() }, Vec::new())),
        Files::Ranges(ranges) => ranges,
    };
    let mut known: HashMap<*const File, usize> = HashMap::new();
    let mut sources = Vec::new();
    let mut passed = Vec::new();
    let mut entries = Vec::with_capacity(ranges.len());
    for FileRange { path, file, location, offset, length } in ranges {
        let source = match known.get(&Arc::as_ptr(file)) {
            Some(&index) => index,
            None => {
                sources.push(match (descriptors, location) {
                    (true, _) => {
                        let io_error = |source| CallError::Io {
                            what: "duplicating the descriptor of a model file",
                            source: Arc::new(source),
                        };
                        passed.push(file.try_clone().map_err(io_error)?.into());
                        WireSource::Descriptor(index(passed.len() - 1)?)
                    }
                    (false, Some(location)) => WireSource::Path(location.clone()),
                    (false, None) => {
                        let source = std::io::Error::new(
                            std::io::ErrorKind::Unsupported,
                            format!("the runner cannot receive descriptors, and `{path}` lies in no file with a path"),
                        );
                        return Err(CallError::Io { what: "passing a model file", source: Arc::new(source) });
                    }
                });
                known.insert(Arc::as_ptr(file), sources.len() - 1);
                sources.len() - 1
            }
        };
        entries.push(WireEntry { path: path.clone(), source: index(source)?, offset: *offset, length: *length });
    }
    Ok((WireFiles::Ranges { sources, entries }, passed))
}

fn index(index: usize) -> Result<u32, CallError> {
    let error = |source| CallError::Io {
        what: "counting the files of a model",
        source: Arc::new(std::io::Error::other(source)),
    };
    u32::try_from(index).map_err(error)
}
