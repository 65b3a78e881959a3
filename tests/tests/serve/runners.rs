//! Runners that die or hang, deadlines, and clients that leave.

use std::io::Write;
use std::time::{Duration, Instant};

use carton_server::{ModelSpec, Server};
use carton_tests::place::TestPlace;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::setting::{BATCHED, RUNNER, Serving, connect, data, leave, post_request, request, until};

const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_dies_is_replaced() {
    let options = json!({ "crash": true, "only_above": 100.0 });
    let serving = Serving::noop(BATCHED, options, |spec| spec.max_batch(1.try_into().unwrap())).await;
    let reply = serving.call(&[[1000.0, 0.0]]).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(reply.headers["retry-after"], "1");
    serving.assert_answers().await;
    until(async || serving.metric("carton_runner_restarts").await == 1.0).await;
    assert!(serving.handle.is_ready());
}

/// Serves a model whose runners can be killed, and cannot be started while there is a file [`broken`], which grows with each attempt.
async fn mortal(spec: impl FnOnce(ModelSpec) -> ModelSpec) -> Serving {
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop(BATCHED).await;
    let mut config = place.counting_config();
    let broken = broken(&place);
    config.sandbox.wrapper[2].insert_str(0, &format!("[ ! -e {broken:?} ] || {{ echo >> {broken:?}; exit 1; }}; "));
    let spec = spec(ModelSpec::of_load("m", place.load(carton).config(config)));
    Serving::start(place, Server::builder().model(spec)).await
}

fn broken(place: &TestPlace) -> std::path::PathBuf {
    place.path().join("broken")
}

/// Kills the first runner of a server that was started by [`mortal`].
fn kill_first(serving: &Serving) {
    kill(std::fs::read_to_string(serving.place.starts()).unwrap().lines().next().unwrap());
}

fn kill(runner: &str) {
    kill_process(Pid::from_raw(runner.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// A runner that dies while no call is running is replaced before the next one comes.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_runner_that_dies_is_replaced() {
    for max_batch in [1, 32] {
        let serving = mortal(|spec| spec.max_batch(max_batch.try_into().unwrap())).await;
        kill_first(&serving);
        until(async || serving.metric("carton_runner_restarts").await == 1.0).await;
        assert_eq!(std::fs::read_to_string(serving.place.starts()).unwrap().lines().count(), 2);
        serving.assert_answers().await;
    }
}

/// A call that comes before a death is noticed starts a runner itself. The model is ready with that one, however long it would have paused.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_faster_than_the_notice_of_a_death() {
    let serving = mortal(|spec| spec).await;
    let starts = || -> Vec<String> {
        std::fs::read_to_string(serving.place.starts()).unwrap().lines().map(str::to_owned).collect()
    };
    for _ in 1..6 {
        kill(starts().last().unwrap());
        serving.call(&[[1.0, 2.0]]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        // A runner that was started again makes the model ready, without a further call.
        until(async || serving.get("/v2/models/m/ready").await.status == 200).await;
        serving.assert_answers().await;
    }
}

/// A model whose runner cannot be started again is not ready, also if nobody calls it. It comes back by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_cannot_be_started_again() {
    for max_batch in [1, 32] {
        let serving = mortal(|spec| spec.max_batch(max_batch.try_into().unwrap())).await;
        std::fs::write(broken(&serving.place), "").unwrap();
        kill_first(&serving);
        // Also calls that come before the model is known to be broken, which wait for the start.
        until(async || serving.call(&[[1.0, 2.0]]).await.status == 503).await;
        until(async || serving.get("/v2/models/m/ready").await.status == 503).await;
        let reply = serving.call(&[[1.0, 2.0]]).await;
        assert_eq!((reply.status, reply.headers.contains_key("retry-after")), (503, true), "{reply:?}");
        std::fs::remove_file(broken(&serving.place)).unwrap();
        until(async || serving.get("/v2/models/m/ready").await.status == 200).await;
        serving.assert_answers().await;
    }
}

/// A call that kills the runner of its batch costs the others nothing, also if that runner cannot be started again: another one runs them.
#[tokio::test(flavor = "multi_thread")]
async fn another_runner_takes_the_rest_of_a_batch() {
    let (place, crash) = (TestPlace::new(RUNNER), json!({ "crash": true, "only_above": 100.0 }));
    let carton = place.pack_noop(BATCHED).await;
    let mut config = place.counting_config();
    // Two runners start, and no third.
    let starts = place.starts();
    config.sandbox.wrapper[2].insert_str(0, &format!("[ $(wc -l < {starts:?} || echo 0) -lt 2 ] || exit 1; "));
    let load = place.load(carton).config(config).options(crash.as_object().unwrap().clone());
    let spec = ModelSpec::of_load("m", load).instances(2.try_into().unwrap()).max_batch(4.try_into().unwrap());
    let spec = spec.max_delay(DEADLINE);
    let serving = Serving::start(place, Server::builder().model(spec)).await;
    let waits = async |n_calls: f64| {
        until(async || serving.metric("nv_inference_pending_request_count").await == n_calls).await;
    };
    let row = [[1.0, 2.0]];
    let (first, second) = (serving.call(&row), serving.call(&row));
    // Comes last: run again by itself, it kills the other runner, too.
    let others = async {
        waits(2.0).await;
        let (third, fourth) = (serving.call(&row), async {
            waits(3.0).await;
            serving.call(&[[1000.0, 0.0]]).await
        });
        tokio::join!(third, fourth)
    };
    let (first, second, (third, fourth)) = tokio::join!(first, second, others);
    assert_eq!([first.status, second.status, third.status, fourth.status], [200, 200, 200, 503]);
}

/// While a runner cannot be started again, the other one answers all calls, and none of them waits for the dead one.
#[tokio::test(flavor = "multi_thread")]
async fn another_runner_goes_on() {
    for max_batch in [1, 32] {
        let serving =
            mortal(|spec| spec.instances(2.try_into().unwrap()).max_batch(max_batch.try_into().unwrap())).await;
        std::fs::write(broken(&serving.place), "").unwrap();
        kill_first(&serving);
        until(async || std::fs::read(broken(&serving.place)).unwrap().len() >= 2).await;
        for _ in 0..20 {
            serving.assert_answers().await;
        }
        assert!(serving.handle.is_ready());
    }
}

/// A model that keeps dying is not ready, and others go on. It comes back by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_keeps_dying_pauses() {
    let options = json!({ "crash": true, "only_above": 100.0 });
    let serving = Serving::noop(BATCHED, options, |spec| spec.max_batch(1.try_into().unwrap())).await;
    let mut statuses = Vec::new();
    // Long enough for all requests that follow.
    until(async || {
        let reply = serving.call(&[[1000.0, 0.0]]).await;
        statuses.push(reply.status);
        reply.headers.get("retry-after").is_some_and(|pause| pause.parse::<u64>().unwrap() >= 4)
    })
    .await;
    assert!(statuses.iter().all(|status| *status == 503), "{statuses:?}");
    let reply = serving.call(&[[1.0, 2.0]]).await;
    assert_eq!((reply.status, reply.error().as_str()), (503, "the model is not ready: its runners keep dying"));
    assert_eq!(serving.get("/v2/health/ready").await.status, 503);
    assert_eq!(serving.get("/v2/health/live").await.status, 200);
    assert_eq!(serving.metric("carton_model_ready").await, 0.0);
    until(async || serving.get("/v2/models/m/ready").await.status == 200).await;
    serving.assert_answers().await;
}

/// The deadline of a client ends its wait, and not the runner: another client's call goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_leaves_the_runner_alone() {
    let serving =
        Serving::noop(BATCHED, json!({ "delay_ms": 500 }), |spec| spec.max_batch(1.try_into().unwrap())).await;
    let body = request(&[[1.0, 2.0]]).to_string();
    let patient = serving.call(&[[1.0, 2.0]]);
    let hasty = serving.post("/v2/models/m/infer", &[("x-request-timeout-ms", "50")], body);
    let mut with_parameter = request(&[[1.0, 2.0]]);
    with_parameter["parameters"] = json!({ "timeout": 50_000 });
    let hasty_too = serving.post("/v2/models/m/infer", &[], with_parameter.to_string());
    let (patient, hasty, hasty_too) = tokio::join!(patient, hasty, hasty_too);
    assert_eq!((patient.status, hasty.status, hasty_too.status), (200, 504, 504));
    assert_eq!(serving.metric("carton_runner_restarts").await, 0.0);
}

/// The timeout of the model is the operator's, and kills the runner.
#[tokio::test(flavor = "multi_thread")]
async fn the_operators_timeout_stops_a_runner() {
    let options = json!({ "delay_ms": 60_000, "ignore_cancel": true, "only_above": 100.0 });
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop(BATCHED).await;
    let load = place.load(carton).options(options.as_object().unwrap().clone()).timeout(Duration::from_millis(500));
    let serving = Serving::start(place, Server::builder().model(ModelSpec::of_load("m", load))).await;
    assert_eq!(serving.call(&[[1000.0, 0.0]]).await.status, 504);
    // The start has no such limit, and a runner that takes longer to start is no further death.
    until(async || serving.metric("carton_runner_restarts").await == 1.0).await;
    serving.assert_answers().await;
}

/// A client that leaves cancels its call, joined or not: the runner is free for the next one long before it would be.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_cancels_its_call() {
    let options = json!({ "delay_ms": 60_000, "only_above": 100.0, "max_concurrency": 1 });
    let serving = Serving::noop(BATCHED, options, |spec| spec.max_batch(1.try_into().unwrap())).await;
    let mut stream = connect(&serving.http);
    stream
        .write_all(&post_request("/v2/models/m/infer", &[], request(&[[1000.0, 0.0]]).to_string().as_bytes()))
        .unwrap();
    until(async || serving.metric("nv_inference_pending_request_count").await == 1.0).await;
    leave(&stream);
    until(async || serving.metric("nv_inference_pending_request_count").await == 0.0).await;
    serving.assert_answers().await;
    let metrics = serving.get("/metrics").await.text();
    let counted = r#"nv_inference_request_failure{model="m",reason="client_left",version="1"} 1"#;
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
}

/// A deadline that passes in the queue is one, and not a fault of the server.
#[tokio::test(flavor = "multi_thread")]
async fn short_deadlines() {
    let serving = Serving::noop(BATCHED, json!({}), |spec| spec).await;
    for microseconds in [1, 10, 50, 100] {
        for _ in 0..10 {
            let mut body = request(&[[1.0, 2.0]]);
            body["parameters"] = json!({ "timeout": microseconds });
            let reply = serving.post("/v2/models/m/infer", &[], body.to_string()).await;
            assert!([200, 504].contains(&reply.status), "{reply:?}");
        }
    }
}

/// A call that was joined to no other is cancelled when its client leaves, and one that waits leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_a_queue() {
    let options = json!({ "delay_ms": 60_000, "only_above": 100.0, "max_concurrency": 1 });
    let serving = Serving::noop(BATCHED, options, |spec| spec).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = connect(&serving.http);
        let body = request(&[[1000.0, 0.0]]).to_string();
        stream.write_all(&post_request("/v2/models/m/infer", &[], body.as_bytes())).unwrap();
        streams.push(stream);
        let n_calls = streams.len() as f64;
        until(async || serving.metric("nv_inference_pending_request_count").await == n_calls).await;
    }
    streams.iter().for_each(leave);
    until(async || serving.metric("nv_inference_pending_request_count").await == 0.0).await;
    until(async || serving.metric("carton_call_bytes").await == 0.0).await;
    serving.assert_answers().await;
}

/// Instances share the calls: two slow calls take the time of one.
#[tokio::test(flavor = "multi_thread")]
async fn instances_share_calls() {
    let options = json!({ "delay_ms": 2000, "max_concurrency": 1 });
    for max_batch in [1, 32] {
        // With batches, calls of two shapes, which cannot be joined.
        let metadata = BATCHED.replace("[\"n\", 2]", "[\"n\", \"width\"]");
        let serving = Serving::noop(&metadata, options.clone(), |spec| {
            spec.instances(2.try_into().unwrap()).max_batch(max_batch.try_into().unwrap())
        })
        .await;
        let start = Instant::now();
        let other = json!({ "inputs": [{ "name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1] }] });
        let (first, second) =
            tokio::join!(serving.call(&[[1.0, 2.0]]), serving.post("/v2/models/m/infer", &[], other.to_string()));
        assert_eq!((data(&first), data(&second)), (json!([1.0, 2.0]), json!([1.0])));
        assert!(start.elapsed() < Duration::from_millis(3500), "{max_batch}: {:?}", start.elapsed());
    }
}
