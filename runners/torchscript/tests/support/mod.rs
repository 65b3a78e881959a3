//! Shared by the tests: a runner served in this process, the models that Python's torch made, and their recorded outputs.
#![allow(clippy::unwrap_used, clippy::panic, dead_code, unreachable_pub)]

use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use carton_runner_interface::host::{
    CallError, CallOptions, Connection, ConnectionOptions, Event, FileRange, Files, LoadRequest,
};
use carton_runner_interface::runner::{ServeOptions, serve};
use carton_runner_interface::{DeclaredTensor, Options, Tensors};
use carton_runner_torchscript::TorchScript;
use carton_tensor::{BoolByte, Complex, DataType, Element, Tensor, cast};
use serde_json::{Value, json};

/// The folder with the models that the torch of a series made.
pub fn models(series: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(series)
}

/// A runner served in this process.
pub struct Served {
    pub connection: Connection,
    logged: Arc<Mutex<Vec<String>>>,
}

impl Served {
    pub async fn new() -> Self {
        let (host_end, runner_end) = UnixStream::pair().unwrap();
        std::thread::spawn(move || serve::<TorchScript>(runner_end.into(), ServeOptions::default()));
        let logged = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&logged);
        let options = ConnectionOptions {
            on_event: Some(Arc::new(move |event| {
                if let Event::Log { message, .. } = event {
                    sink.lock().unwrap().push(message);
                }
            })),
            ..ConnectionOptions::default()
        };
        Self { connection: Connection::open(host_end.into(), options).await.unwrap(), logged }
    }

    /// Starts a runner and loads the model of that name, which Debian's torch made.
    pub async fn with(name: &str) -> Self {
        Self::with_options(name, json!({})).await
    }

    pub async fn with_options(name: &str, options: Value) -> Self {
        let served = Self::new().await;
        served.load(request(one_file(&models("1.13").join(format!("{name}.pt"))), options)).await.unwrap();
        served
    }

    pub async fn load(&self, request: LoadRequest) -> Result<(), CallError> {
        self.connection.load(request, CallOptions::default()).await.map(drop)
    }

    pub async fn infer<const N: usize>(&self, inputs: [(&str, Tensor); N]) -> Result<Tensors, CallError> {
        let inputs = inputs.map(|(name, tensor)| (name.to_owned(), tensor));
        self.connection.infer(Tensors::from(inputs), CallOptions::default()).await
    }

    pub fn logged(&self, text: &str) -> bool {
        self.logged.lock().unwrap().iter().any(|line| line.contains(text))
    }
}

/// A request without a signature.
pub fn request(files: Files, options: Value) -> LoadRequest {
    let options: Options = serde_json::from_value(options).unwrap();
    LoadRequest { files, options, device: None, inputs: vec![], outputs: vec![] }
}

/// Declared tensors: `NAME` or `NAME=INTERNAL`, of any shape.
pub fn specs(names: &[&str]) -> Vec<DeclaredTensor> {
    let spec = |text: &&str| {
        let (name, internal) = text.split_once('=').map_or((*text, None), |(name, internal)| (name, Some(internal)));
        let json = json!({"name": name, "dtype": "float32", "shape": "*", "internal_name": internal});
        serde_json::from_value(json).unwrap()
    };
    names.iter().map(spec).collect()
}

/// One file as the whole model, at an odd offset of a larger one.
pub fn one_file(path: &Path) -> Files {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    bytes_as_file(&name, &std::fs::read(path).unwrap())
}

/// Bytes as the only file of a model, at an odd offset of a larger file.
pub fn bytes_as_file(name: &str, bytes: &[u8]) -> Files {
    let mut whole = tempfile::tempfile().unwrap();
    whole.write_all(&[0xee; 4097]).unwrap();
    whole.write_all(bytes).unwrap();
    whole.write_all(&[0xee; 100]).unwrap();
    let file: Arc<File> = Arc::new(whole);
    let length = bytes.len() as u64;
    Files::Ranges(vec![FileRange { path: name.to_owned(), file, location: None, offset: 4097, length }])
}

/// A model `total.pt` with another method forward, as TorchScript's archives write it: its arguments behind `self`, and its indented body.
pub fn written(arguments: &str, body: &str) -> Files {
    let mut archive = zip::ZipArchive::new(File::open(models("1.13").join("total.pt")).unwrap()).unwrap();
    let mut changed = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for name in ["total/data.pkl", "total/code/__torch__.py", "total/constants.pkl", "total/version"] {
        let mut contents = Vec::new();
        archive.by_name(name).unwrap().read_to_end(&mut contents).unwrap();
        if name.ends_with(".py") {
            let text = String::from_utf8(contents).unwrap();
            let (head, _) = text.split_once("  def forward").unwrap();
            contents = format!("{head}  def forward(self: __torch__.Total,\n    {arguments}:\n{body}\n").into_bytes();
        }
        changed.start_file(name, stored).unwrap();
        changed.write_all(&contents).unwrap();
    }
    bytes_as_file("total.pt", &changed.finish().unwrap().into_inner())
}

/// The outputs that Python computed with the models of a series.
pub fn cases(series: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(models(series).join("cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub fn floats(elements: Vec<f32>, shape: Vec<usize>) -> Tensor {
    Tensor::from_vec(elements, shape).unwrap()
}

/// Returns the text of an error and its causes.
pub fn message(error: &CallError) -> String {
    match error {
        CallError::Runner { error, .. } => [vec![error.message.clone()], error.causes.clone()].concat().join("\n"),
        other => other.to_string(),
    }
}

/// Reads tensors in the format that `make.py` writes.
pub fn tensors(json: &Value) -> Tensors {
    json.as_object().unwrap().iter().map(|(name, value)| (name.clone(), tensor(value))).collect()
}

fn tensor(json: &Value) -> Tensor {
    if let Some(elements) = json["nested"].as_array() {
        return Tensor::nested(elements.iter().map(tensor).collect()).unwrap();
    }
    let dtype: DataType = json["dtype"].as_str().unwrap().parse().unwrap();
    match dtype {
        DataType::Float32 => numbers::<f32>(json),
        DataType::Float64 => numbers::<f64>(json),
        DataType::Int8 => numbers::<i8>(json),
        DataType::Int16 => numbers::<i16>(json),
        DataType::Int32 => numbers::<i32>(json),
        DataType::Int64 => numbers::<i64>(json),
        DataType::Uint8 => numbers::<u8>(json),
        DataType::Uint16 => numbers::<u16>(json),
        DataType::Uint32 => numbers::<u32>(json),
        DataType::Uint64 => numbers::<u64>(json),
        DataType::Bool => {
            let flags: Vec<bool> = serde_json::from_value(json["data"].clone()).unwrap();
            Tensor::from_vec(flags.into_iter().map(BoolByte::from).collect(), shape(json)).unwrap()
        }
        // They are written as numbers that the narrower types have exactly.
        DataType::Float16 | DataType::BFloat16 => cast(&numbers::<f32>(json), dtype).unwrap(),
        DataType::Complex64 => complex::<f32>(json),
        DataType::Complex128 => complex::<f64>(json),
        DataType::String => {
            let texts: Vec<String> = serde_json::from_value(json["data"].clone()).unwrap();
            Tensor::from_strings(texts, shape(json)).unwrap()
        }
        other => panic!("{other}"),
    }
}

fn numbers<T: Element + serde::de::DeserializeOwned>(json: &Value) -> Tensor {
    let elements: Vec<T> = serde_json::from_value(json["data"].clone()).unwrap();
    Tensor::from_vec(elements, shape(json)).unwrap()
}

fn complex<T: serde::de::DeserializeOwned>(json: &Value) -> Tensor
where
    Complex<T>: Element,
{
    let pairs: Vec<(T, T)> = serde_json::from_value(json["data"].clone()).unwrap();
    Tensor::from_vec(pairs.into_iter().map(|(re, im)| Complex { re, im }).collect(), shape(json)).unwrap()
}

fn shape(json: &Value) -> Vec<usize> {
    serde_json::from_value(json["shape"].clone()).unwrap()
}
