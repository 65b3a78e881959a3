//! Many calls leave no memory behind. Measured in a separate process.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use carton_tensor::Tensor;
use serde_json::json;

use support::{Served, floats};

/// The resident memory of this process in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_leave_nothing_behind() {
    let conv = Served::with_options("conv", json!({"num_threads": 1})).await;
    let raises = Served::with("raises").await;
    let echo = Served::with("echo").await;
    let image = floats(vec![0.5; 3 * 64 * 64], vec![1, 3, 64, 64]);
    let round = async || {
        conv.infer([("image", image.clone())]).await.unwrap();
        raises.infer([("x", floats(vec![-1.0; 10_000], vec![10_000]))]).await.unwrap_err();
        echo.infer([("x", image.clone()), ("text", Tensor::from_strings(["a"; 1000], vec![1000]).unwrap())])
            .await
            .unwrap();
    };
    for _ in 0..300 {
        round().await;
    }
    let before = resident();
    for _ in 0..1500 {
        round().await;
    }
    let grown = resident().saturating_sub(before);
    // A single tensor that leaked in each call would exceed this.
    assert!(grown < 30 << 20, "{grown} bytes more after 1500 rounds");
}
