//! SavedModels of TensorFlow: folders with `saved_model.pb`. Of that file only the names of signatures and the version are read, wherever they
//! are in it, and the graph is skipped.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::text::{printable, release};
use crate::{Recognized, Template, TemplateError};

const FILE: &str = "saved_model.pb";
/// The folder of the model beside `main.py`.
const FOLDER: &str = "saved_model";
/// What a SavedModel consists of.
const PARTS: [&str; 6] = [FILE, "fingerprint.pb", "keras_metadata.pb", "variables", "assets", "assets.extra"];
/// The signature that TensorFlow Serving uses.
const DEFAULT: &str = "serving_default";
/// A signature that TensorFlow itself adds.
const OF_TENSORFLOW: &str = "__saved_model_init_op";
const MAX_SIGNATURES: usize = 1000;
const MAX_NAME: u64 = 1024;

/// Recognizes a folder with `saved_model.pb` that begins as a SavedModel does, with the version of its schema.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    if candidate.has("saved_model.pbtxt") && !candidate.has(FILE) {
        return Ok(Some(Recognized::NotRun {
            kind: "a TensorFlow SavedModel as text".to_owned(),
            hint: "load it with `tf.saved_model.load`, and save it with `tf.saved_model.save`, which writes `saved_model.pb`".to_owned(),
        }));
    }
    let path = candidate.path().join(FILE);
    if !candidate.has(FILE) || !path.is_file() {
        return Ok(None);
    }
    let malformed = |problem: String| TemplateError::Malformed {
        path: candidate.path().to_path_buf(),
        kind: "a TensorFlow SavedModel",
        problem,
        hint: Some(
            "save it again with `tf.saved_model.save`, or download the folder again, with all of its files".to_owned(),
        ),
    };
    let found = match Contents::read(&path) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
            return Err(malformed(format!("its `{FILE}` is broken: {error}")));
        }
        Err(error) => return Err(TemplateError::io("read", &path)(error)),
    };
    let version = found.version.as_deref().and_then(release);
    let shown = version.as_ref().map_or_else(String::new, |version| format!(" (TensorFlow {version})"));
    let kind = format!("a TensorFlow SavedModel{shown}");
    let mut names: Vec<&str> =
        found.signatures.iter().map(String::as_str).filter(|name| *name != OF_TENSORFLOW).collect();
    names.sort_unstable();
    let signature = match names[..] {
        _ if names.contains(&DEFAULT) => DEFAULT,
        [one] => one,
        _ => {
            let shown = if names.is_empty() { "none".to_owned() } else { printable(&names.join(", ")) };
            return Ok(Some(Recognized::NotRun {
                kind,
                hint: format!(
                    "it has no signature `{DEFAULT}`, and several or none to choose from ({shown}): save it with \
                     `tf.saved_model.save(model, FOLDER, signatures={{\"{DEFAULT}\": FUNCTION}})`"
                ),
            }));
        }
    };
    if found.has_variables && !candidate.has("variables") {
        return Err(malformed("its folder `variables` is missing".to_owned()));
    }
    let parts = PARTS.iter().filter(|part| candidate.has(part));
    let requirement =
        version.map_or_else(|| "tensorflow-cpu".to_owned(), |version| format!("tensorflow-cpu>={version}"));
    Ok(Some(Recognized::Template(Template {
        name: "tensorflow",
        kind,
        source: include_str!("../templates/tensorflow/main.py"),
        constants: vec![("MODEL", python_text(FOLDER)), ("SIGNATURE", python_text(signature))],
        requirements: vec![requirement],
        python: None,
        files: parts.map(|part| (format!("{FOLDER}/{part}"), candidate.path().join(part))).collect(),
        warnings: Vec::new(),
    })))
}

/// What `saved_model.pb` says of a model.
#[derive(Default)]
struct Contents {
    signatures: Vec<String>,
    version: Option<String>,
    has_variables: bool,
}

impl Contents {
    /// Reads a message `SavedModel` of protocol buffers.
    fn read(path: &Path) -> io::Result<Self> {
        const META_GRAPHS: u64 = 2;
        let mut file = Fields::open(path)?;
        let mut contents = Self::default();
        let end = file.length;
        while file.position < end {
            match file.field(end)? {
                (META_GRAPHS, Some(message)) => contents.read_meta_graph(&mut file, message)?,
                (_, Some(message)) => file.skip_to(message)?,
                (_, None) => {}
            }
        }
        Ok(contents)
    }

    fn read_meta_graph(&mut self, file: &mut Fields, end: u64) -> io::Result<()> {
        const META_INFO: u64 = 1;
        const SAVER: u64 = 3;
        const SIGNATURE: u64 = 5;
        while file.position < end {
            match file.field(end)? {
                (META_INFO, Some(message)) => self.read_meta_info(file, message)?,
                (SIGNATURE, Some(message)) => self.read_signature(file, message)?,
                (field, Some(message)) => {
                    // What loads variables. A model without them may have no folder for them.
                    self.has_variables |= field == SAVER && message > file.position;
                    file.skip_to(message)?;
                }
                (_, None) => {}
            }
        }
        Ok(())
    }

    fn read_meta_info(&mut self, file: &mut Fields, end: u64) -> io::Result<()> {
        const VERSION: u64 = 5;
        while file.position < end {
            match file.field(end)? {
                (VERSION, Some(text)) => self.version = Some(file.text(text)?),
                (_, Some(message)) => file.skip_to(message)?,
                (_, None) => {}
            }
        }
        Ok(())
    }

    fn read_signature(&mut self, file: &mut Fields, end: u64) -> io::Result<()> {
        const KEY: u64 = 1;
        while file.position < end {
            match file.field(end)? {
                (KEY, Some(text)) => {
                    let name = file.text(text)?;
                    if self.signatures.len() == MAX_SIGNATURES {
                        return Err(invalid("it has too many signatures"));
                    }
                    self.signatures.push(name);
                }
                (_, Some(message)) => file.skip_to(message)?,
                (_, None) => {}
            }
        }
        Ok(())
    }
}

/// Reads the fields of messages of protocol buffers one after the other. What is skipped is not read.
struct Fields {
    file: BufReader<File>,
    position: u64,
    length: u64,
}

impl Fields {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { file: BufReader::new(file), position: 0, length })
    }

    /// Reads the number of the next field of a message that ends at `end`, and the value if it is a number, which is passed over. Returns where
    /// the value ends if it is a text or message.
    fn field(&mut self, end: u64) -> io::Result<(u64, Option<u64>)> {
        let key = self.number(end)?;
        let field = key >> 3;
        match key & 7 {
            0 => {
                self.number(end)?;
            }
            1 => self.pass(8, end)?,
            2 => {
                let length = self.number(end)?;
                let value_end = self.position.checked_add(length).filter(|value_end| *value_end <= end);
                return Ok((field, Some(value_end.ok_or_else(|| invalid("a message is longer than what holds it"))?)));
            }
            5 => self.pass(4, end)?,
            _ => return Err(invalid("a field has a type that protocol buffers do not have")),
        }
        Ok((field, None))
    }

    fn number(&mut self, end: u64) -> io::Result<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            if self.position >= end {
                return Err(invalid("a number is cut off"));
            }
            let mut byte = [0];
            self.file.read_exact(&mut byte)?;
            self.position += 1;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(invalid("a number has too many bytes"))
    }

    fn pass(&mut self, n_bytes: u64, end: u64) -> io::Result<()> {
        let to = self.position + n_bytes;
        if to > end { Err(invalid("a number is cut off")) } else { self.skip_to(to) }
    }

    fn skip_to(&mut self, position: u64) -> io::Result<()> {
        let distance = i64::try_from(position - self.position).map_err(|_| invalid("a message is too long"))?;
        self.file.seek_relative(distance)?;
        self.position = position;
        Ok(())
    }

    fn text(&mut self, end: u64) -> io::Result<String> {
        let length = end - self.position;
        if length > MAX_NAME {
            return Err(invalid("a name is too long"));
        }
        let mut text = Vec::new();
        (&mut self.file).take(length).read_to_end(&mut text)?;
        if text.len() as u64 != length {
            return Err(invalid("a name is cut off"));
        }
        self.position = end;
        String::from_utf8(text).map_err(|_| invalid("a name is no UTF-8"))
    }
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
