//! What `carton runner install` says when it is done.

use std::path::Path;

use carton_core::runner::Installed;
use serde::Serialize;

use super::library::Linked;
use super::{onnx_runtime, uv};
use crate::failure::Failure;
use crate::output::Output;
use crate::text::one_line;

/// The output of `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    runner_name: &'a str,
    framework_version: String,
    path: &'a Path,
    /// The source: an index, an archive, a folder, or `this program`; for `python` the interpreter.
    source: &'a str,
    /// The library of ONNX Runtime that the runner onnx will use, if it was installed or already present.
    #[serde(skip_serializing_if = "Option::is_none")]
    onnxruntime: Option<PartAnswer<'a>>,
    /// The library of this machine that the runner uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    library: Option<LibraryAnswer<'a>>,
    /// The `uv` that was installed with the runner python.
    #[serde(skip_serializing_if = "Option::is_none")]
    uv: Option<PartAnswer<'a>>,
}

#[derive(Serialize)]
struct PartAnswer<'a> {
    version: &'a str,
    path: &'a Path,
    /// `uv`, `pip`, the index or file that it is from, or `null` for what was there before.
    source: Option<&'a str>,
}

#[derive(Serialize)]
struct LibraryAnswer<'a> {
    name: &'a str,
    version: String,
    path: &'a Path,
    source: &'a str,
}

/// An installed runner, and where it is from.
pub(super) struct Done {
    pub(super) installed: Installed,
    pub(super) source: String,
    pub(super) linked: Option<Linked>,
}

/// What was installed with a runner.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) onnx_runtime: Option<onnx_runtime::Library>,
    pub(super) uv: Option<uv::Uv>,
}

impl Done {
    pub(super) fn new(installed: Installed, source: impl Into<String>) -> Self {
        Self { installed, source: source.into(), linked: None }
    }

    /// Prints what was installed.
    pub(super) fn report(&self, parts: &Parts, output: &Output) -> Result<(), Failure> {
        if output.is_json() {
            self.json(parts, output)
        } else {
            output.text(&format!("{}{}", self.text(), parts.text()))
        }
    }

    /// Says that the runner is installed, for people.
    pub(super) fn text(&self) -> String {
        let Installed { descriptor, folder, .. } = &self.installed;
        let source = one_line(&self.source);
        let mut text = format!("installed {descriptor} from {source} in {}\n", one_line(&folder.display().to_string()));
        if let Some(Linked { name, library, origin }) = &self.linked {
            let folder = one_line(&library.folder.display().to_string());
            text.push_str(&format!("it uses {name} {} of {}: {folder}\n", library.version, one_line(origin)));
        }
        text
    }

    fn json(&self, parts: &Parts, output: &Output) -> Result<(), Failure> {
        let Installed { descriptor, folder, .. } = &self.installed;
        output.json(&Answer {
            runner_name: &descriptor.runner_name,
            framework_version: descriptor.framework_version.to_string(),
            path: folder,
            source: &self.source,
            onnxruntime: parts.onnx_runtime.as_ref().map(|library| PartAnswer {
                version: &library.version,
                path: &library.path,
                source: library.source.as_deref(),
            }),
            library: self.linked.as_ref().map(|linked| LibraryAnswer {
                name: &linked.name,
                version: linked.library.version.to_string(),
                path: &linked.library.folder,
                source: &linked.origin,
            }),
            uv: parts.uv.as_ref().map(|uv| PartAnswer {
                version: uv::VERSION,
                path: &uv.path,
                source: Some(&uv.source),
            }),
        })
    }
}

impl Parts {
    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(onnx_runtime::Library { version, path, source }) = &self.onnx_runtime {
            let path = one_line(&path.display().to_string());
            text.push_str(&match source {
                Some(source) => format!("installed ONNX Runtime {version} from {} as {path}\n", one_line(source)),
                None => format!("ONNX Runtime {version} is there already: {path}\n"),
            });
        }
        if let Some(uv::Uv { path, source }) = &self.uv {
            let path = one_line(&path.display().to_string());
            text.push_str(&format!("installed uv {} from {source} as {path}\n", uv::VERSION));
        }
        text
    }
}
