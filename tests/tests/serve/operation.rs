//! Ending, reloading, self-tests, tokens, the repository API and the access log.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use carton_core::Config;
use carton_server::{AccessLog, LoadError, ModelConfig, ServeConfig, Server, ServerBuilder, ServerError};
use carton_tests::place::TestPlace;
use serde_json::{Value, json};

use super::setting::{BATCHED, RUNNER, Serving, data, model, request, until};

/// At the end the server is not ready at once, and answers the calls that run.
#[tokio::test(flavor = "multi_thread")]
async fn running_calls_are_answered_at_the_end() {
    let options = json!({ "delay_ms": 600 });
    let mut serving =
        Serving::noop_with(BATCHED, options, |spec| spec, |builder| builder.drain_delay(Duration::from_secs(3))).await;
    let (address, body) = (serving.http.clone(), request(&[[1.0, 2.0]]).to_string());
    let call = tokio::task::spawn_blocking(move || {
        use std::io::Write;
        let mut stream = super::setting::connect(&address);
        stream.write_all(&super::setting::post_request("/v2/models/m/infer", &[], body.as_bytes())).unwrap();
        super::setting::reply(&super::setting::read_all(&mut stream)).unwrap()
    });
    until(async || serving.metric("nv_inference_pending_request_count").await >= 1.0).await;
    serving.stop();
    until(async || !serving.handle.is_ready()).await;
    // Still served, and said to be not ready.
    assert_eq!(serving.get("/v2/health/ready").await.status, 503);
    assert_eq!(serving.get("/v2/health/live").await.status, 200);
    assert_eq!(call.await.unwrap().status, 200);
    let address = serving.http.clone();
    serving.ended().await.unwrap();
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// Calls that do not end are cut off after the timeout.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_does_not_wait_for_ever() {
    let options = json!({ "delay_ms": 60_000, "ignore_cancel": true });
    let mut serving =
        Serving::noop_with(BATCHED, options, |spec| spec, |builder| builder.drain_timeout(Duration::from_millis(300)))
            .await;
    let mut stream = super::setting::connect(&serving.http);
    let call = super::setting::post_request("/v2/models/m/infer", &[], request(&[[1.0, 2.0]]).to_string().as_bytes());
    std::io::Write::write_all(&mut stream, &call).unwrap();
    until(async || serving.metric("nv_inference_pending_request_count").await >= 1.0).await;
    let start = Instant::now();
    serving.stop();
    serving.ended().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// A model is swapped while calls come, and none of them fails.
#[tokio::test(flavor = "multi_thread")]
async fn models_are_swapped_without_a_failed_call() {
    let serving = Serving::noop(BATCHED, json!({ "delay_ms": 5 }), |spec| spec.identity("first")).await;
    let carton = serving.place.path().join("noop.carton");
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let calls = async {
        let mut n_calls = 0;
        while !*stopped.borrow_and_update() {
            assert_eq!(serving.call(&[[1.0, 2.0]]).await.status, 200);
            n_calls += 1;
        }
        n_calls
    };
    let swaps = async {
        for identity in ["second", "third"] {
            let spec = model(&serving.place, carton.clone(), json!({ "delay_ms": 4 })).identity(identity);
            assert!(serving.handle.serve(vec![spec]).await.is_empty());
        }
        // The same again loads nothing, and does not see that it could not be loaded.
        let spec = model(&serving.place, carton.clone(), json!({ "fail_load": "not loaded" })).identity("third");
        assert!(serving.handle.serve(vec![spec]).await.is_empty());
        // A model that cannot be loaded does not take the place of one that is.
        let spec = model(&serving.place, carton.clone(), json!({ "fail_load": "broken" })).identity("fourth");
        let errors = serving.handle.serve(vec![spec]).await;
        assert!(matches!(errors.as_slice(), [ServerError::Load(LoadError::Load { .. })]), "{errors:?}");
        stop.send(true).unwrap();
    };
    let (n_calls, ()) = tokio::join!(calls, swaps);
    assert!(n_calls > 0);
    serving.assert_answers().await;
    // A new version replaces the old one only when it is there, and what cannot be added makes nothing unready.
    let broken = model(&serving.place, carton.clone(), json!({ "fail_load": "broken" })).version("2");
    assert_eq!(serving.handle.serve(vec![broken]).await.len(), 1);
    serving.assert_answers().await;
    assert!(serving.handle.is_ready());
    let second = model(&serving.place, carton.clone(), json!({})).version("2");
    assert!(serving.handle.serve(vec![second]).await.is_empty());
    assert_eq!(serving.get("/v2/models/m").await.json()["versions"], json!(["2"]));
    // A model that is not named any more is gone, and so is what was counted of it.
    assert!(serving.get("/metrics").await.text().contains("model=\"m\""));
    assert!(serving.handle.serve(Vec::new()).await.is_empty());
    assert_eq!(serving.call(&[[1.0, 2.0]]).await.status, 404);
    assert!(!serving.get("/metrics").await.text().contains("model=\"m\""));
}

/// A stream that is running while its model is swapped is answered to its end.
#[tokio::test(flavor = "multi_thread")]
async fn streams_outlive_a_swap() {
    let options = json!({ "stream_items": 5, "delay_ms": 100 });
    let serving = Serving::noop(BATCHED, options, |spec| spec.identity("first")).await;
    let spec = model(&serving.place, serving.place.path().join("noop.carton"), json!({})).identity("second");
    let body = request(&[[1.0, 2.0]]).to_string();
    let stream = serving.post("/v2/models/m/infer", &[("accept", "text/event-stream")], body);
    let swap = async {
        until(async || serving.metric("nv_inference_pending_request_count").await >= 1.0).await;
        assert!(serving.handle.serve(vec![spec]).await.is_empty());
    };
    let (stream, ()) = tokio::join!(stream, swap);
    let text = stream.text();
    assert_eq!(text.matches("data: {\"model_name\"").count(), 5, "{text}");
    assert!(!text.contains("error"), "{text}");
}

/// A model from a URL is fetched once, and with a hash a reload does not load it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_from_a_url() {
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop(BATCHED).await;
    let hash = place.open(carton.clone()).await.unwrap().manifest_sha256().unwrap();
    let files = carton_test_server::Server::start();
    files.serve("/noop.carton", carton_test_server::File::new(carton_test_server::Content::open(&carton)));
    let url = files.url("/noop.carton");
    let mut config = ServeConfig::default();
    config.models.push(ModelConfig::at(format!("{url}#sha256={hash}")));
    config.models[0].name = Some("m".to_owned());
    let builder = config.models(&place.config()).unwrap().into_iter().fold(Server::builder(), ServerBuilder::model);
    let serving = Serving::start(place, builder).await;
    serving.assert_answers().await;
    let n_requests = files.requests().len();
    assert!(n_requests > 0);
    assert!(serving.handle.serve(config.models(&serving.place.config()).unwrap()).await.is_empty());
    serving.assert_answers().await;
    assert_eq!(files.requests().len(), n_requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn self_tests_decide_whether_a_model_is_served() {
    let place = TestPlace::new(RUNNER);
    let test = |expected: f32| {
        let tensor = |value: f32| carton_core::Tensor::from_vec(vec![value, 0.0], vec![1, 2]).unwrap();
        (tensor(1.0), tensor(expected))
    };
    for (expected, passes) in [(1.0, true), (2.0, false)] {
        let (input, output) = test(expected);
        write_npy(&place, "in.npy", &input);
        write_npy(&place, "out.npy", &output);
        let metadata = format!(
            "{BATCHED}[[self_test]]\nname = \"t\"\ninputs = {{ x = \"in.npy\" }}\nexpected_out = {{ x = \"out.npy\" }}\n"
        );
        let carton = place.pack_noop(&metadata).await;
        let spec = model(&place, carton, json!({})).self_test(true);
        let server = Server::builder().model(spec).http("127.0.0.1:0".parse().unwrap()).bind().await.unwrap();
        let handle = server.handle();
        let running = server.run(async {
            until(async || handle.is_ready()).await;
        });
        let ended = tokio::time::timeout(Duration::from_secs(30), running).await.unwrap();
        match passes {
            true => ended.unwrap(),
            false => assert!(ended.unwrap_err().to_string().contains("self-test `t`: output `x`")),
        }
    }
    let carton = place.pack_noop(BATCHED).await;
    let spec = model(&place, carton, json!({})).self_test(true);
    let server = Server::builder().model(spec).http("127.0.0.1:0".parse().unwrap()).bind().await.unwrap();
    let ended = server.run(std::future::pending()).await;
    assert_eq!(ended.unwrap_err().to_string(), "model `m` has no self-tests, which are required");
}

fn write_npy(place: &TestPlace, name: &str, tensor: &carton_core::Tensor) {
    let mut bytes = Vec::new();
    carton_tensor::npy::write(&mut bytes, tensor).unwrap();
    std::fs::write(place.path().join(name), bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens() {
    let build = |builder: carton_server::ServerBuilder| {
        builder.token("calls-calls-calls").admin_token("admin-admin-admin").repository_api(true)
    };
    let serving = Serving::noop_with(BATCHED, json!({}), |spec| spec, build).await;
    let status = async |path: &str, token: Option<&str>| {
        let value = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = value.iter().map(|value| ("authorization", value.as_str())).collect();
        serving.post(path, &headers, request(&[[1.0, 2.0]]).to_string()).await.status
    };
    assert_eq!(status("/v2/models/m/infer", None).await, 401);
    assert_eq!(status("/v2/models/m/infer", Some("wrong")).await, 401);
    assert_eq!(status("/v2/models/m/infer", Some("calls-calls-calls")).await, 200);
    assert_eq!(status("/v2/models/m/infer", Some("admin-admin-admin")).await, 200);
    assert_eq!(status("/v2/repository/models/m/unload", Some("calls-calls-calls")).await, 403);
    assert_eq!(status("/v2/repository/models/m/unload", None).await, 401);
    assert_eq!(status("/v2/repository/models/m/unload", Some("admin-admin-admin")).await, 200);
    for (path, expected) in [
        ("/v2/health/live", 200),
        ("/v2/health/ready", 200),
        ("/v2/models/m", 401),
        ("/metrics", 401),
        ("/v2", 401),
        ("/", 401),
    ] {
        assert_eq!(serving.get(path).await.status, expected, "{path}");
    }
    assert_eq!(serving.get("/v2").await.headers["www-authenticate"], "Bearer");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_repository_api() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec).await;
    for path in ["index", "models/m/load", "models/m/unload"] {
        let reply = serving.post(&format!("/v2/repository/{path}"), &[], "{}").await;
        assert_eq!((reply.status, reply.error().as_str()), (403, "the operator did not enable the model repository"));
    }
    let serving = Serving::noop_with(BATCHED, json!({}), |spec| spec, |builder| builder.repository_api(true)).await;
    let post = async |path: &str, body: &str| serving.post(&format!("/v2/repository/{path}"), &[], body).await;
    let line = |state: &str, reason: &str| json!([{ "name": "m", "version": "1", "state": state, "reason": reason }]);
    assert_eq!(post("index", "").await.json(), line("READY", ""));
    assert_eq!(post("models/m/unload", "{\"parameters\": {\"unload_dependents\": false}}").await.json(), json!({}));
    assert_eq!(post("index", "{}").await.json(), line("UNAVAILABLE", "unloaded"));
    assert_eq!(post("index", "{\"ready\": true}").await.json(), json!([]));
    assert_eq!(serving.call(&[[1.0, 2.0]]).await.status, 503);
    // Only what is configured is loaded, and from where that is configured.
    let foreign = json!({ "parameters": { "config": "{}", "file:1/model.carton": "AAAA" } }).to_string();
    assert_eq!(post("models/m/load", &foreign).await.status, 400);
    assert_eq!(post("models/m/load", "{}").await.status, 200);
    serving.assert_answers().await;
    assert_eq!(post("models/n/load", "").await.status, 404);
    assert_eq!(post("models/..%2fm/load", "").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(&path).unwrap();
    let serving = Serving::noop_with(BATCHED, json!({}), |spec| spec, |builder| builder.access_log(log)).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let body = request(&[[1.0, 2.0]]).to_string();
    serving.post("/v2/models/m/infer", &[("traceparent", trace)], body).await;
    serving.get("/v2/models/%0a").await;
    let start = Instant::now();
    let lines: Vec<Value> = loop {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.lines().count() >= 2 {
            break text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        }
        assert!(start.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let first = &lines[0];
    assert_eq!((&first["path"], &first["status"]), (&json!("/v2/models/m/infer"), &json!(200)));
    assert_eq!(first["trace_id"], json!("4bf92f3577b34da6a3ce929d0e0e4736"));
    assert!(first["seconds"].as_f64().unwrap() > 0.0 && first["client"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!((&lines[1]["status"], &lines[1]["failure"]), (&json!(404), &json!("not_found")));
}

/// The trace of a client is that of what the server logs about its request.
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_in_the_traces_of_their_clients() {
    static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

    struct Logged;

    impl std::io::Write for Logged {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            LOGGED.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let logger = tracing_subscriber::fmt().json().with_max_level(tracing::Level::DEBUG).with_writer(|| Logged);
    logger.try_init().unwrap();
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec).await;
    let (trace_id, parent_id) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let header = format!("00-{trace_id}-{parent_id}-01");
    let body = request(&[[1.0, 2.0]]).to_string();
    assert_eq!(serving.post("/v2/models/m/infer", &[("traceparent", &header)], body).await.status, 200);
    let text = String::from_utf8(LOGGED.lock().unwrap().clone()).unwrap();
    let mut records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let record = records.find(|record| record["span"]["trace_id"] == trace_id).unwrap_or_else(|| panic!("{text}"));
    assert_eq!((&record["fields"]["message"], &record["fields"]["status"]), (&json!("answered"), &json!(200)));
    let span = &record["span"];
    assert_eq!((&span["parent_id"], &span["sampled"]), (&json!(parent_id), &json!(true)));
    assert_eq!((&span["name"], &span["path"]), (&json!("request"), &json!("/v2/models/m/infer")));
}

/// What has no answer, or another end than its beginning, is recorded with it.
#[tokio::test(flavor = "multi_thread")]
async fn what_ends_badly_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(&path).unwrap();
    let options = json!({ "stream_items": 3, "fail_after_items": 1, "fail": "no more", "delay_ms": 2000 });
    let mut serving = Serving::noop_with(BATCHED, options, |spec| spec, |builder| builder.access_log(log)).await;
    let (body, events) = (request(&[[1.0, 2.0]]).to_string(), ("accept", "text/event-stream"));
    assert_eq!(serving.post("/v2/models/m/infer", &[events], body.clone()).await.status, 200);
    // The second is refused by the HTTP library, and has no line.
    for n_headers in [80, 150] {
        let headers: Vec<_> = (0..n_headers).map(|_| ("x-many", "1")).collect();
        assert_eq!(serving.post("/v2/models/m/infer", &headers, body.clone()).await.status, 431);
    }
    let mut stream = super::setting::connect(&serving.http);
    let call = super::setting::post_request("/v2/models/m/infer", &[], body.as_bytes());
    std::io::Write::write_all(&mut stream, &call).unwrap();
    until(async || serving.metric("nv_inference_pending_request_count").await >= 1.0).await;
    super::setting::leave(&stream);
    until(async || serving.metric("nv_inference_pending_request_count").await <= 0.0).await;
    // In the middle of its body.
    let mut stream = super::setting::connect(&serving.http);
    std::io::Write::write_all(&mut stream, &call[..call.len() - 10]).unwrap();
    until(async || serving.metric("carton_call_bytes").await > 0.0).await;
    super::setting::leave(&stream);
    until(async || serving.metric("carton_call_bytes").await <= 0.0).await;
    serving.stop();
    serving.ended().await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines = lines.iter().filter(|line| line["path"] == "/v2/models/m/infer");
    let ends: Vec<_> = lines.map(|line| (line["status"].clone(), line["failure"].clone())).collect();
    let expected = [(200, "model"), (431, "too_many_headers"), (499, "client_left"), (499, "client_left")];
    assert_eq!(ends, expected.map(|(status, failure)| (json!(status), json!(failure))), "{text}");
}

/// A log that was renamed is begun anew, and at the end of the server all lines are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_access_log_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, renamed) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let log = AccessLog::open(&path).unwrap();
    let mut serving = Serving::noop_with(BATCHED, json!({}), |spec| spec, |builder| builder.access_log(log)).await;
    serving.get("/v2/health/live").await;
    std::fs::rename(&path, &renamed).unwrap();
    serving.handle.reopen_access_log();
    for _ in 0..100 {
        serving.get("/v2").await;
    }
    serving.stop();
    serving.ended().await.unwrap();
    let count = |path, part| std::fs::read_to_string(path).unwrap().lines().filter(|line| line.contains(part)).count();
    assert_eq!((count(&renamed, "/v2/health/live"), count(&renamed, "\"/v2\"")), (1, 0));
    assert_eq!((count(&path, "/v2/health/live"), count(&path, "\"/v2\"")), (0, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_zero_is_refused() {
    let mut limits = carton_server::Limits::default();
    limits.headers = 0;
    let builder = Server::builder().http("127.0.0.1:0".parse().unwrap()).limits(limits);
    assert!(matches!(builder.bind().await, Err(ServerError::Limit("headers"))));
}

/// A folder of cartons, with versions.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_cartons() {
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop(BATCHED).await;
    let folder = place.path().join("models");
    for path in ["m/2.carton", "m/10.carton", "other.carton"] {
        std::fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        std::fs::copy(&carton, folder.join(path)).unwrap();
    }
    let mut config = ServeConfig::default();
    config.repository = Some(folder.clone());
    config.models.push(ModelConfig::at(carton.to_str().unwrap()));
    let models = config.models(&place_config(&place)).unwrap();
    let builder = models.into_iter().fold(Server::builder(), carton_server::ServerBuilder::model);
    let serving = Serving::start(place, builder).await;
    let metadata = serving.get("/v2/models/m").await.json();
    assert_eq!(metadata["versions"], json!(["2", "10"]));
    let answer = serving.call(&[[1.0, 2.0]]).await;
    assert_eq!((&answer.json()["model_version"], data(&answer)), (&json!("10"), json!([1.0, 2.0])));
    assert_eq!(serving.get("/v2/models/other").await.status, 200);
    assert_eq!(serving.get("/v2/models/noop").await.status, 200);
    // A reload sees what is new, and what is gone.
    std::fs::remove_file(folder.join("m/10.carton")).unwrap();
    std::fs::copy(&carton, folder.join("new.carton")).unwrap();
    let models = config.models(&place_config(&serving.place)).unwrap();
    assert!(serving.handle.serve(models).await.is_empty());
    assert_eq!(serving.get("/v2/models/m").await.json()["versions"], json!(["2"]));
    assert_eq!(serving.get("/v2/models/new").await.status, 200);
}

fn place_config(place: &TestPlace) -> Config {
    place.config()
}
