//! What the two sides tell each other when a model is packed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::os::unix::net::UnixStream;

use carton_runner_interface::host::{self, CallOptions, Connection, ConnectionOptions};
use carton_runner_interface::runner::{
    Call, Description, LoadRequest, PackRequest, PackResponse, Runner, RunnerError, ServeOptions, Statement, serve,
};
use carton_runner_interface::{DeclaredTensor, Options, Tensors};
use carton_tensor::{NumericTensor, Tensor};
use serde_json::json;

/// Says back what it was told of inputs and outputs.
struct Repeats;

impl Runner for Repeats {
    fn describe() -> Description {
        Description { name: "repeats".to_owned(), framework_version: "1.0.0".to_owned() }
    }

    fn load(_: LoadRequest, _: &Call) -> Result<Self, RunnerError> {
        Err(RunnerError::new("it only packs"))
    }

    fn pack(request: PackRequest, _: &Call) -> Result<PackResponse, RunnerError> {
        let mismatches = [("inputs", &request.inputs), ("outputs", &request.outputs)]
            .into_iter()
            .filter_map(|(what, specs)| Some(format!("{what}: {}", serde_json::to_string(specs.as_ref()?).unwrap())));
        Ok(PackResponse { path: request.path, mismatches: mismatches.collect(), ..PackResponse::default() })
    }

    fn infer(&self, inputs: Tensors, _: &Call) -> Result<Tensors, RunnerError> {
        Ok(inputs)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runner_is_told_what_is_declared_and_its_mismatches_come_back() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let runner = std::thread::spawn(move || serve::<Repeats>(theirs.into(), ServeOptions::default()));
    let connection = Connection::open(ours.into(), ConnectionOptions::default()).await.unwrap();
    let check = async |inputs: Option<Vec<DeclaredTensor>>, outputs, expected: &[&str]| {
        let request = PackRequest { path: "/model".into(), inputs, outputs, ..PackRequest::default() };
        let packed = connection.pack(request, CallOptions::default()).await.unwrap();
        assert_eq!(packed.mismatches, expected);
    };
    check(None, None, &[]).await;
    check(Some(Vec::new()), None, &["inputs: []"]).await;
    let spec = r#"{"name":"x","dtype":"uint8","shape":["n",3],"internal_name":"x:0"}"#;
    let specs = || serde_json::from_value(json!([serde_json::from_str::<serde_json::Value>(spec).unwrap()])).unwrap();
    check(Some(specs()), Some(specs()), &[&format!("inputs: [{spec}]"), &format!("outputs: [{spec}]")]).await;
    drop(connection);
    runner.join().unwrap().unwrap();
}

/// States a signature, and an example in shared memory, if its option says so.
struct States(bool);

impl Runner for States {
    fn describe() -> Description {
        Description { name: "states".to_owned(), framework_version: "1.0.0".to_owned() }
    }

    fn load(request: LoadRequest, _: &Call) -> Result<Self, RunnerError> {
        Ok(Self(request.options.contains_key("states")))
    }

    fn state(&self, _: &Call) -> Result<Statement, RunnerError> {
        if !self.0 {
            return Ok(Statement::default());
        }
        let example = NumericTensor::from_vec(vec![1.5_f32; 100_000], vec![100_000]).unwrap();
        Ok(Statement { inputs: vec![x()], example: [("x".to_owned(), example.into())].into(), ..Statement::default() })
    }

    fn infer(&self, inputs: Tensors, _: &Call) -> Result<Tensors, RunnerError> {
        Ok(inputs)
    }
}

fn x() -> DeclaredTensor {
    serde_json::from_value(json!({"name": "x", "dtype": "float32", "shape": ["n"]})).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loaded_model_states_its_signature_and_an_example() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |options: Options, inputs: &[DeclaredTensor], n_elements: usize| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let runner = std::thread::spawn(move || serve::<States>(theirs.into(), ServeOptions::default()));
        let connection = Connection::open(ours.into(), ConnectionOptions::default()).await.unwrap();
        let files = host::Files::Directory(folder.path().to_path_buf());
        let request = host::LoadRequest { files, options, device: None, inputs: Vec::new(), outputs: Vec::new() };
        connection.load(request, CallOptions::default()).await.unwrap();
        let turn = connection.turn(&CallOptions::default()).await.unwrap();
        let statement = turn.describe().await.unwrap();
        assert_eq!(statement.inputs, inputs);
        let n_found = match statement.example.get("x") {
            Some(Tensor::Numeric(tensor)) => tensor.shape().iter().product(),
            _ => 0,
        };
        assert_eq!(n_found, n_elements);
        drop((statement, connection));
        runner.join().unwrap().unwrap();
    };
    check(Options::new(), &[], 0).await;
    check([("states".to_owned(), json!(true))].into(), &[x()], 100_000).await;
}
