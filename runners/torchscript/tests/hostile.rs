//! Files that are not models, or damaged ones: loading each of them is an error, and the runner keeps running.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use carton_runner_interface::host::CallError;
use serde_json::json;

use support::{Served, bytes_as_file, models, one_file, request};

/// Loads each file, and at the end a good one in the same runner.
async fn check_each(files: impl IntoIterator<Item = Vec<u8>>, judge: impl Fn(usize, Result<(), CallError>)) {
    let mut served = Served::new().await;
    for (index, bytes) in files.into_iter().enumerate() {
        let result = served.load(request(bytes_as_file("model.pt", &bytes), json!({"num_threads": 1}))).await;
        let loaded = result.is_ok();
        judge(index, result);
        if loaded {
            // A runner holds one model.
            served = Served::new().await;
        }
    }
    served.load(request(one_file(&models("1.13").join("mlp.pt")), json!({}))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_anywhere() {
    for name in ["mlp", "words"] {
        let whole = std::fs::read(models("1.13").join(format!("{name}.pt"))).unwrap();
        let step = (whole.len() / 150).max(1);
        let cuts: Vec<usize> = (0..whole.len()).step_by(step).chain(whole.len() - 30..whole.len()).collect();
        let files = cuts.iter().map(|&length| whole[..length].to_vec()).collect::<Vec<_>>();
        check_each(files, |index, result| {
            let error = result.expect_err(&format!("{name} cut off at {} loaded", cuts[index]));
            assert!(error.to_string().contains("model.pt"), "{error}");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn single_bits_flipped() {
    let whole = std::fs::read(models("1.13").join("mlp.pt")).unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let files = (0..400).map(|_| {
        let mut bytes = whole.clone();
        let position = random.usize(..bytes.len());
        bytes[position] ^= 1 << random.u32(..8);
        bytes
    });
    let files: Vec<_> = files.collect();
    // Some bits belong to elements of tensors or to padding; such a file loads.
    check_each(files, |_, _| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_at_random() {
    let mut random = fastrand::Rng::with_seed(12);
    let files = (0..100).map(|index| {
        let mut bytes: Vec<u8> = (0..index * 13).map(|_| random.u8(..)).collect();
        if index % 3 == 0 {
            bytes.splice(0..0, *b"PK\x03\x04");
        }
        bytes
    });
    let files: Vec<_> = files.collect();
    check_each(files, |index, result| assert!(result.is_err(), "{index}")).await;
}
