//! The runner behind the protocol, in this process: loads from a folder and from ranges of a file, runs, and packs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use carton_runner_interface::host::{CallOptions, Connection, ConnectionOptions, Event, FileRange, Files, LoadRequest};
use carton_runner_interface::runner::{ServeOptions, serve};
use carton_runner_interface::{Options, Tensors};
use carton_runner_onnx::Onnx;
use carton_tensor::{NumericTensor, Tensor, Tolerance, allclose};

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models")
}

/// Returns a connection to a runner, and its log.
async fn connect() -> (Connection, Arc<Mutex<Vec<String>>>) {
    let (host_end, runner_end) = UnixStream::pair().unwrap();
    std::thread::spawn(move || serve::<Onnx>(runner_end.into(), ServeOptions::default()));
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
    (Connection::open(host_end.into(), options).await.unwrap(), logged)
}

/// Whether this process finds a library; prints if it does not.
fn has_onnx_runtime() -> bool {
    let is_there = std::env::var_os("ORT_DYLIB_PATH").is_some();
    if !is_there {
        eprintln!("skipped: ORT_DYLIB_PATH does not name a library of ONNX Runtime");
    }
    is_there
}

fn request(files: Files, options: serde_json::Value) -> LoadRequest {
    let options: Options = serde_json::from_value(options).unwrap();
    LoadRequest { files, options, device: None, inputs: vec![], outputs: vec![] }
}

/// Writes the files of a folder one after another into one file, each at an odd offset.
fn as_ranges(folder: &Path) -> Files {
    let mut whole = tempfile::tempfile().unwrap();
    let mut offset = 0;
    let mut places = Vec::new();
    for entry in folder.read_dir().unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            let padding = 1 + offset % 2;
            whole.write_all(&vec![0xee; padding]).unwrap();
            whole.write_all(&bytes).unwrap();
            offset += padding;
            places.push((entry.file_name().into_string().unwrap(), offset, bytes.len()));
            offset += bytes.len();
        }
    }
    let file: Arc<File> = Arc::new(whole);
    let range = |(path, offset, length): (String, usize, usize)| FileRange {
        path,
        file: Arc::clone(&file),
        location: None,
        offset: offset as u64,
        length: length as u64,
    };
    Files::Ranges(places.into_iter().map(range).collect())
}

fn floats(json: &serde_json::Value) -> Tensor {
    let elements: Vec<f32> = serde_json::from_value(json["data"].clone()).unwrap();
    NumericTensor::from_vec(elements, serde_json::from_value(json["shape"].clone()).unwrap()).unwrap().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn external_data_from_a_folder_and_from_ranges() {
    let cases = std::fs::read_to_string(models().join("cases.json")).unwrap();
    let cases: Vec<serde_json::Value> = serde_json::from_str(&cases).unwrap();
    if !has_onnx_runtime() {
        return;
    }
    for name in ["external", "external_unaligned", "external_whole"] {
        let model = format!("{name}/model.onnx");
        let case = cases.iter().find(|case| case["model"] == model.as_str()).unwrap();
        let folder = models().join(name);
        for files in [Files::Directory(folder.clone()), as_ranges(&folder)] {
            let (connection, logged) = connect().await;
            let options = serde_json::json!({"num_threads": 1, "colour": "red"});
            connection.load(request(files, options), CallOptions::default()).await.unwrap();
            let inputs = Tensors::from([("x".to_owned(), floats(&case["inputs"]["x"]))]);
            let outputs = connection.infer(inputs, CallOptions::default()).await.unwrap();
            let comparison = allclose(&outputs["y"], &floats(&case["outputs"]["y"]), Tolerance::default());
            assert!(comparison.passed, "{name}: {comparison:?}");
            let logged = logged.lock().unwrap();
            assert!(logged[0].starts_with("the onnx runner has no option `colour`"), "{logged:?}");
            assert!(logged[1].starts_with("running the model with ONNX Runtime 1."), "{logged:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_tensors() {
    if !has_onnx_runtime() {
        return;
    }
    let (connection, _) = connect().await;
    let files = Files::Directory(models().join("external"));
    connection.load(request(files, serde_json::json!({})), CallOptions::default()).await.unwrap();
    let rows = 1 << 18;
    let x = NumericTensor::from_vec((0..rows * 4).map(|i| (i % 97) as f32 / 97.0).collect(), vec![rows, 4]).unwrap();
    let whole = connection.infer(Tensors::from([("x".to_owned(), x.clone().into())]), CallOptions::default());
    let whole = whole.await.unwrap();
    assert_eq!(whole["y"].shape(), Some(&[rows, 3][..]));
    let elements = x.as_slice::<f32>().unwrap();
    let tail = NumericTensor::from_vec(elements[elements.len() - 8..].to_vec(), vec![2, 4]).unwrap();
    let part = connection.infer(Tensors::from([("x".to_owned(), tail.into())]), CallOptions::default()).await.unwrap();
    let whole = whole["y"].as_numeric().unwrap().as_slice::<f32>().unwrap();
    let part = part["y"].as_numeric().unwrap().as_slice::<f32>().unwrap();
    for (one, other) in whole[whole.len() - 6..].iter().zip(part) {
        assert!((one - other).abs() < 1e-6, "{one} {other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_leave_the_runner_alive() {
    if !has_onnx_runtime() {
        return;
    }
    let (connection, _) = connect().await;
    let files = || Files::Directory(models().join("external"));
    let wrong = serde_json::json!({"num_threads": 0});
    let error = connection.load(request(files(), wrong), CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("option `num_threads` should be"), "{error}");
    let error = connection
        .load(request(Files::Directory(models()), serde_json::json!({})), CallOptions::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains(".onnx files: "), "{error}");
    let options = serde_json::json!({});
    connection.load(request(files(), options), CallOptions::default()).await.unwrap();
    let error = connection.infer(Tensors::new(), CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("input `x` is missing"), "{error}");
    let x = NumericTensor::from_vec(vec![0.0_f32; 4], vec![1, 4]).unwrap();
    let inputs = Tensors::from([("x".to_owned(), x.into())]);
    assert!(connection.infer(inputs, CallOptions::default()).await.is_ok());
}
