//! What the two sides tell each other when a model is packed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::os::unix::net::UnixStream;

use carton_runner_interface::host::{CallOptions, Connection, ConnectionOptions};
use carton_runner_interface::runner::{
    Call, Description, LoadRequest, PackRequest, PackResponse, Runner, RunnerError, ServeOptions, serve,
};
use carton_runner_interface::{DeclaredTensor, Tensors};
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
