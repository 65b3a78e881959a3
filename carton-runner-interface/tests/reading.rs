//! Who reads what a runner sends: callers and the thread of the connection, in turns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use carton_runner_interface::Tensors;
use carton_runner_interface::host::{CallError, CloseReason, Connection, ConnectionOptions, Phase};
use serde_json::json;
use support::raw::{RawPeer, frame, hello};
use support::{Kind, floats, load, loaded, tensors, within};

/// A caller that waits for its answer reads what the runner sends. Neither half a message nor endless ones keep it beyond its deadline.
#[tokio::test]
async fn no_message_keeps_a_caller_beyond_its_deadline() {
    let half = |raw: &RawPeer, id: &serde_json::Value| {
        let answer = frame(&json!({"id": id, "message": {"inferred": {"outputs": []}}}).to_string(), &[]);
        raw.send_bytes(&answer[..answer.len() / 2], &[]);
        raw.is_closed_by_peer();
    };
    let endless = |raw: &RawPeer, id: &serde_json::Value| {
        let log = json!({"id": id, "message": {"log": {"level": "debug", "message": "x"}}});
        while raw.send(&log) {}
    };
    for act in [half as fn(&RawPeer, &serde_json::Value), endless] {
        let (raw, socket) = RawPeer::pair();
        let runner = std::thread::spawn(move || {
            raw.send(&hello());
            let (message, ..) = raw.receive_named("load");
            raw.send(&json!({"id": message["id"], "message": {"loaded": {"max_concurrency": 1}}}));
            let (message, ..) = raw.receive_named("infer");
            act(&raw, &message["id"]);
        });
        let connection = Connection::open(socket.into(), ConnectionOptions::default()).await.unwrap();
        load(&connection, json!({})).await.unwrap();
        let begin = Instant::now();
        let error = connection.infer(Tensors::new(), within(Duration::from_millis(200))).await.unwrap_err();
        assert!(matches!(error, CallError::DeadlineExceeded { phase: Phase::Running }), "{error:?}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        drop(connection);
        runner.join().unwrap();
    }
}

/// Callers and the thread of the connection take turns at reading. No message may be left unread between two turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_answer_is_left_unread_between_turns() {
    let pair = loaded(Kind::Socket, json!({"max_concurrency": 8})).await;
    let tasks = (0..8_u64).map(|task| {
        let connection = pair.connection.clone();
        tokio::spawn(async move {
            for call in 0..1500_u64 {
                connection.infer(tensors([("x", floats(3))]), within(Duration::from_secs(20))).await.unwrap();
                // So that calls are made alone, together, and while others spin.
                if (call * 7 + task) % 5 == 0 {
                    tokio::time::sleep(Duration::from_micros(50 * (call % 7))).await;
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_callback_that_panics_ends_the_connection() {
    let (raw, socket) = RawPeer::pair();
    let runner = std::thread::spawn(move || {
        raw.send(&hello());
        let (message, ..) = raw.receive_named("ping");
        raw.send(&json!({"message": {"log": {"level": "info", "message": "x"}}}));
        raw.send(&json!({"id": message["id"], "message": {"pong": {}}}));
        raw.is_closed_by_peer()
    });
    let options = ConnectionOptions {
        on_event: Some(Arc::new(|_| std::panic::resume_unwind(Box::new("the test's own")))),
        ..ConnectionOptions::default()
    };
    let connection = Connection::open(socket.into(), options).await.unwrap();
    let calling = connection.clone();
    // The panic is the caller's own if it reads the message, and else that of the thread that does.
    let called = tokio::spawn(async move { calling.ping(within(Duration::from_secs(20))).await }).await;
    assert!(!matches!(called, Ok(Ok(()))), "{called:?}");
    let reason = connection.closed().await;
    assert!(matches!(&*reason, CloseReason::Io(error) if error.to_string().contains("panicked")), "{reason:?}");
    assert!(runner.join().unwrap());
}
