//! Calls that are run together.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::setting::{BATCHED, Serving, connect, data, leave, post_request, request, until};

const DELAY: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_come_together_become_one_run() {
    let delay = Duration::from_secs(20);
    let serving =
        Serving::noop(BATCHED, json!({}), |spec| spec.max_delay(delay).max_batch(12.try_into().unwrap())).await;
    let calls = (0..8_u8).map(|number| {
        let (serving, value) = (&serving, f32::from(number));
        async move {
            // Calls of one and of two rows.
            let rows = vec![[value, -value]; 1 + usize::from(number % 2)];
            let reply = serving.call(&rows).await;
            assert_eq!(data(&reply), json!(rows.as_flattened()), "{reply:?}");
        }
    });
    futures(calls).await;
    assert_eq!(serving.metric("nv_inference_request_success").await, 8.0);
    assert_eq!(serving.metric("nv_inference_count").await, 12.0);
    assert_eq!(serving.metric("nv_inference_exec_count").await, 1.0);
}

/// A full batch does not wait for the delay, and no batch is larger than the limit.
#[tokio::test(flavor = "multi_thread")]
async fn batches_are_bounded() {
    let delay = Duration::from_secs(20);
    let serving =
        Serving::noop(BATCHED, json!({}), |spec| spec.max_delay(delay).max_batch(4.try_into().unwrap())).await;
    let start = std::time::Instant::now();
    futures((0..4).map(|_| serving.call(&[[1.0, 2.0], [3.0, 4.0]]))).await;
    assert!(start.elapsed() < delay / 2);
    assert_eq!(serving.metric("nv_inference_exec_count").await, 2.0);
    // A call that is larger by itself is run alone, and at once.
    let reply = serving.call(&[[1.0, 2.0]; 9]).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(start.elapsed() < delay / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn shapes_that_differ_are_not_mixed() {
    let metadata = BATCHED.replace("[\"n\", 2]", "[\"n\", \"width\"]");
    let serving = Serving::noop(&metadata, json!({}), |spec| spec.max_delay(DELAY)).await;
    let call = async |width: usize| {
        let values: Vec<usize> = (0..width).collect();
        let body = json!({ "inputs": [{ "name": "x", "shape": [1, width], "datatype": "FP32", "data": values }] });
        let reply = serving.post("/v2/models/m/infer", &[], body.to_string()).await;
        assert_eq!(reply.json()["outputs"][0]["shape"], json!([1, width]));
    };
    futures([2, 3, 2, 3, 2, 3].map(call)).await;
    assert_eq!(serving.metric("nv_inference_count").await, 6.0);
    let runs = serving.metric("nv_inference_exec_count").await;
    assert!((2.0..=4.0).contains(&runs), "{runs} runs");
}

/// A call that makes its batch fail costs the others nothing, whether the model reports an error or the runner dies.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_does_not_fail_the_others() {
    for (options, status) in
        [(json!({ "fail": "above", "only_above": 100.0 }), 500), (json!({ "crash": true, "only_above": 100.0 }), 503)]
    {
        let delay = Duration::from_secs(20);
        let serving =
            Serving::noop(BATCHED, options, |spec| spec.max_delay(delay).max_batch(4.try_into().unwrap())).await;
        let calls = [1.0, 2.0, 1000.0, 3.0].map(|value| {
            let serving = &serving;
            async move { (value, serving.call(&[[value, 0.0]]).await) }
        });
        for (value, reply) in futures(calls).await {
            match value > 100.0 {
                true => assert_eq!(reply.status, status, "{reply:?}"),
                false => assert_eq!(data(&reply), json!([value, 0.0]), "{reply:?}"),
            }
        }
        serving.assert_answers().await;
    }
}

/// Without a batch dimension, and with a largest batch of 1, each call is a run of its own.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_joined() {
    let single = BATCHED.replace("[\"n\", 2]", "[1, 2]");
    for (metadata, max_batch) in [(single.as_str(), 32), (BATCHED, 1)] {
        let serving =
            Serving::noop(metadata, json!({}), |spec| spec.max_delay(DELAY).max_batch(max_batch.try_into().unwrap()))
                .await;
        futures((0..4).map(|_| serving.call(&[[1.0, 2.0]]))).await;
        assert_eq!(serving.metric("nv_inference_exec_count").await, 4.0);
        assert_eq!(serving.get("/v2/models/m/config").await.json()["max_batch_size"], json!(0));
    }
}

/// Times are those of calls: four that share a run of a tenth of a second took four of them.
#[tokio::test(flavor = "multi_thread")]
async fn each_call_takes_the_time_of_its_batch() {
    let serving = Serving::noop(BATCHED, json!({ "delay_ms": 100 }), |spec| spec.max_delay(DELAY)).await;
    futures((0..4).map(|_| serving.call(&[[1.0, 2.0]]))).await;
    assert!(serving.metric("nv_inference_exec_count").await < 4.0);
    let took = serving.metric("nv_inference_compute_infer_duration_us").await;
    assert!((400_000.0..2_000_000.0).contains(&took), "{took}");
}

/// What clients sent counts until the run that it was joined to is over, also if they have left.
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_clients_that_left() {
    let (options, delay) = (json!({ "delay_ms": 5000 }), Duration::from_secs(20));
    let serving =
        Serving::noop(BATCHED, options, |spec| spec.max_delay(delay).max_batch(8000.try_into().unwrap())).await;
    let body = request(&vec![[1.0, 2.0]; 4000]).to_string();
    let streams: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = connect(&serving.http);
            stream.write_all(&post_request("/v2/models/m/infer", &[], body.as_bytes())).unwrap();
            stream
        })
        .collect();
    // The two run joined when their inputs exist twice.
    let joined = 2 * 2 * 4000 * 2 * 4;
    until(async || serving.metric("carton_call_bytes").await >= f64::from(joined) + 2.0 * body.len() as f64).await;
    streams.iter().for_each(leave);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(serving.metric("carton_call_bytes").await >= f64::from(joined));
    assert_eq!(serving.metric("nv_inference_pending_request_count").await, 2.0);
    until(async || serving.metric("carton_call_bytes").await <= 0.0).await;
    assert_eq!(serving.metric("nv_inference_pending_request_count").await, 0.0);
}

/// Waits for all futures, which make progress side by side.
async fn futures<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures_util::future::join_all(futures).await
}
