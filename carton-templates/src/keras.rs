//! Models of Keras: the zip archives of Keras 3 (`.keras`), and the HDF5 files of versions before it (`.h5`), which are only named.

use std::collections::BTreeSet;

use carton_tensor::content::Content;
use memchr::memmem;
use serde_json::{Map, Value};

use crate::candidate::{Candidate, MAX_TEXT};
use crate::template::python_text;
use crate::text::{printable, release, with_suffix};
use crate::{Recognized, Template, TemplateError};

/// Layers that Keras computes with TensorFlow, whatever the backend.
const OF_TENSORFLOW: [&str; 5] = ["TextVectorization", "StringLookup", "IntegerLookup", "Hashing", "HashedCrossing"];
/// How a Python model with code of its own is packed.
const WITH_CODE: &str = "write a module `main.py` with a function `get_model`, which imports that code and loads the model, into a \
                         folder with the model's file, and pack the folder: `carton pack FOLDER --runner python`";

/// Recognizes a `.keras` file by its entries, and an HDF5 file by the names of the attributes that Keras writes.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    if Content::of_start(candidate.start()) == Some(Content::Hdf5) {
        return Ok(of_hdf5(candidate.start()));
    }
    let Some(archive) = candidate.archive() else { return Ok(None) };
    let names = archive.entries().iter().map(|entry| entry.name());
    if Content::of_zip(names) != Content::Keras {
        return Ok(None);
    }
    // The names alone are those of many archives.
    let metadata = candidate.read_entry_json("metadata.json");
    let Some(version) = metadata.as_ref().and_then(|metadata| metadata.get("keras_version")?.as_str()) else {
        return Ok(None);
    };
    let malformed = |problem: String| TemplateError::Malformed {
        path: candidate.path().to_path_buf(),
        kind: "a Keras model",
        problem,
        hint: Some("save it again with `model.save(\"NAME.keras\")`".to_owned()),
    };
    let Some(config) = candidate.read_entry_json("config.json") else {
        return Err(malformed(format!(
            "its `config.json` is missing, no JSON object, or larger than {MAX_TEXT} bytes"
        )));
    };
    if archive.get("model.weights.h5").is_none() {
        return Err(malformed("its `model.weights.h5` is missing".to_owned()));
    }
    let Some(release) = release(version) else {
        return Err(malformed(format!("its version of Keras is no version: `{}`", printable(version))));
    };
    let classes = Classes::of(&config);
    let n_layers = config.get("config").and_then(|inner| inner.get("layers")?.as_array()).map_or(0, Vec::len);
    let layers = if n_layers > 0 { format!(", {n_layers} layers") } else { String::new() };
    let kind = format!("a Keras model ({release}{layers})");
    if let Some(hint) = not_run(&release, &classes) {
        return Ok(Some(Recognized::NotRun { kind, hint }));
    }
    let backend = classes.backend();
    let name = with_suffix(candidate.name_beside_module(), ".keras");
    let mut requirements = vec![format!("keras>={release},<4")];
    requirements.push(if backend == "tensorflow" { "tensorflow-cpu".to_owned() } else { backend.to_owned() });
    Ok(Some(Recognized::Template(Template {
        name: "keras",
        kind,
        source: include_str!("../templates/keras/main.py"),
        constants: vec![("MODEL", python_text(&name)), ("BACKEND", python_text(backend))],
        requirements,
        python: None,
        files: vec![(name, candidate.path().to_path_buf())],
        warnings: vec![format!(
            "a .keras file does not say with which backend it was made: it runs on {backend}, and the last digits may differ from another's"
        )],
    })))
}

/// Returns why a model is not run, and what to do.
fn not_run(release: &str, classes: &Classes) -> Option<String> {
    if !release.starts_with("3.") {
        return Some(format!(
            "it was saved by Keras {release}, before the format of Keras 3: load it there, and save it with `model.export(FOLDER)` or \
             `tf.saved_model.save`; the folder can be packed"
        ));
    }
    if let Some(name) = ["Lambda", "__lambda__"].into_iter().find(|name| classes.names.contains(*name)) {
        let what = if name == "Lambda" { "a layer `Lambda`" } else { "a lambda" };
        return Some(format!(
            "it has {what}, which is code of Python inside the file, and Keras refuses to load it (`safe_mode`): replace it by a \
             layer of Keras, or by a class of your own. For a class, {WITH_CODE}"
        ));
    }
    if let Some(name) = ["TFSMLayer", "JaxLayer", "FlaxLayer"].into_iter().find(|name| classes.names.contains(*name)) {
        return Some(format!(
            "it has a layer `{name}`, whose code is not in the file: pack what the layer was made of, or {WITH_CODE}"
        ));
    }
    if let Some((module, name)) = classes.custom.first() {
        return Some(format!(
            "it needs `{}` of the module `{}`, whose code is not in the file: {WITH_CODE}",
            printable(name),
            printable(module)
        ));
    }
    None
}

/// The classes that a model's configuration names.
#[derive(Default)]
struct Classes {
    names: BTreeSet<String>,
    /// Those that are not of Keras, each with its module.
    custom: BTreeSet<(String, String)>,
}

impl Classes {
    fn of(config: &Map<String, Value>) -> Self {
        let mut classes = Self::default();
        // The depth is bounded by the parser of JSON.
        // The loss and the metrics, which may be code, are not loaded.
        let mut rest: Vec<&Value> =
            config.iter().filter(|(key, _)| *key != "compile_config").map(|(_, value)| value).collect();
        classes.add(config);
        while let Some(value) = rest.pop() {
            match value {
                Value::Object(object) => {
                    classes.add(object);
                    rest.extend(object.values());
                }
                Value::Array(array) => rest.extend(array),
                _ => {}
            }
        }
        classes
    }

    fn add(&mut self, object: &Map<String, Value>) {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let Some(name) = text("class_name") else { return };
        // A class of Keras is found by its module. Another one was registered, with or without the name of a package, or was in the script.
        let package =
            |registered: &str| registered.split_once('>').map_or("__main__", |(package, _)| package).to_owned();
        match (text("module"), text("registered_name")) {
            (Some("builtins"), _) if name == "function" => {
                self.custom.insert(("__main__".to_owned(), text("config").unwrap_or(name).to_owned()));
            }
            (Some(module), _) if module == "keras" || module.starts_with("keras.") || module == "builtins" => {}
            (Some(module), _) => {
                self.custom.insert((module.to_owned(), name.to_owned()));
            }
            (None, Some(registered)) if !name.starts_with("__") => {
                self.custom.insert((package(registered), name.to_owned()));
            }
            _ => {}
        }
        self.names.insert(name.to_owned());
    }

    fn backend(&self) -> &'static str {
        if self.names.contains("TorchModuleWrapper") {
            "torch"
        } else if OF_TENSORFLOW.iter().any(|name| self.names.contains(*name)) {
            "tensorflow"
        } else {
            "jax"
        }
    }
}

/// Recognizes an HDF5 file of Keras. Attributes of the root are at the start of a file, and only their names are looked for.
fn of_hdf5(start: &[u8]) -> Option<Recognized> {
    let has = |name: &[u8]| memmem::find(start, name).is_some();
    if has(b"model_config\0") {
        return Some(Recognized::NotRun {
            kind: "a Keras model in the format before Keras 3 (HDF5)".to_owned(),
            hint: "Keras loads this format without its protection against code in models: convert it on a machine where you trust it, with \
                   `keras.saving.load_model(\"NAME.h5\").save(\"NAME.keras\")`, and pack NAME.keras"
                .to_owned(),
        });
    }
    // Attributes of the format before Keras 3, and the groups of Keras 3.
    (has(b"layer_names\0") || has(b"layers\0") && has(b"vars\0")).then(|| Recognized::NotRun {
        kind: "weights of Keras (HDF5)".to_owned(),
        hint: "the layers are missing: build the model in Keras, load these weights into it with `model.load_weights`, save it with \
               `model.save(\"NAME.keras\")`, and pack NAME.keras"
            .to_owned(),
    })
}
