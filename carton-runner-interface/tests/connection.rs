//! The behaviour of a connection, the same over every transport.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carton_runner_interface::host::{
    CallError, CallOptions, CloseReason, Connection, ConnectionOptions, Event, FileRange, Files, LoadRequest, LogLevel,
    Phase, code,
};
use carton_runner_interface::runner::ServeOptions;
use carton_runner_interface::{Options, PrivateBytes, Tensors};
use carton_tensor::{BoolByte, DataType, NestedTensor, NumericTensor, Tensor};
use serde_json::json;
use support::{
    KINDS, Kind, connect, eventually, floats, load, loaded, loaded_with, same_all, strings, tensors, within,
};

fn every_dtype() -> Tensors {
    let mut all = Tensors::new();
    for dtype in DataType::ALL {
        let Some(size) = dtype.size() else { continue };
        for shape in [vec![], vec![3], vec![2, 0, 5], vec![7, 11], vec![100, 1000]] {
            let n_bytes = shape.iter().product::<usize>() * size;
            // Every bit pattern is an element, except of booleans.
            let values = if dtype == DataType::Bool { 2 } else { 256 };
            let bytes: Vec<u8> = (0..n_bytes).map(|index| ((index * 31 + size) % values) as u8).collect();
            let tensor = NumericTensor::copy_from_bytes(dtype, shape.clone(), &bytes).unwrap();
            all.insert(format!("{dtype} {shape:?}"), tensor.into());
        }
    }
    all.insert("text".to_owned(), strings(&["", "a\0b", "🦀é", "plain"], &[2, 2]));
    all.insert("no text".to_owned(), strings(&[], &[0, 4]));
    all.insert("scalar text".to_owned(), strings(&["one"], &[]));
    let long = "long ".repeat(10_000);
    all.insert("long text".to_owned(), strings(&[&long, "", &long], &[3]));
    all.insert("bytes".to_owned(), Tensor::from_bytes([&b"\xff\0"[..], b"", &[7; 50_000]], vec![3]).unwrap());
    all.insert("no bytes".to_owned(), Tensor::from_bytes(Vec::<Vec<u8>>::new(), vec![2, 0]).unwrap());
    let ragged = vec![Tensor::from_bytes([b"\xff"], vec![]).unwrap(), Tensor::from_bytes([b"a"], vec![1]).unwrap()];
    all.insert("ragged bytes".to_owned(), NestedTensor::new(ragged).unwrap().into());
    let ragged = vec![floats(3), floats(0), floats(10_000)];
    all.insert("ragged".to_owned(), NestedTensor::new(ragged).unwrap().into());
    let ragged = vec![strings(&["x"], &[1]), strings(&["y", "z"], &[2])];
    all.insert("ragged text".to_owned(), NestedTensor::new(ragged).unwrap().into());
    all.insert("nothing nested".to_owned(), NestedTensor::new(vec![]).unwrap().into());
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tensor_comes_back_as_it_was() {
    for kind in KINDS {
        for options in [json!({}), json!({"copy": true})] {
            let pair = loaded(kind, options.clone()).await;
            let inputs = every_dtype();
            for _ in 0..3 {
                let outputs = pair.connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
                assert!(same_all(&inputs, &outputs), "{kind:?} {options}");
                // Tensors of the runner can be passed back to it.
                let again = pair.connection.infer(outputs.clone(), CallOptions::default()).await.unwrap();
                assert!(same_all(&inputs, &again), "{kind:?} {options}");
            }
            let nothing = pair.connection.infer(Tensors::new(), CallOptions::default()).await.unwrap();
            assert!(nothing.is_empty());
        }
    }
}

/// A runner would read it as another boolean than NumPy, or end the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_boolean_that_is_neither_0_nor_1_fails_its_call_alone() {
    let pair = loaded(Kind::Socket, json!({})).await;
    let mask = Tensor::from_vec(vec![BoolByte(1), BoolByte(7)], vec![2]).unwrap();
    let error = pair.connection.infer(tensors([("x", mask)]), CallOptions::default()).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Cast(error) if error.name == "x" && error.source.to_string() == "element [1]: 7 is out of range for bool"),
        "{error:?}"
    );
    pair.connection.infer(tensors([("x", floats(2))]), CallOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_can_be_copied_out_of_shared_memory() {
    let host = ConnectionOptions { copy_outputs: true, ..ConnectionOptions::default() };
    let pair = loaded_with(Kind::Socket, json!({"copy": true}), host, ServeOptions::default()).await;
    let inputs = every_dtype();
    let outputs = pair.connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
    assert!(same_all(&inputs, &outputs));
}

/// Writing to private bytes changes neither the output nor other private bytes of it, and a large output is not copied for them.
#[tokio::test(flavor = "multi_thread")]
async fn private_bytes_of_an_output_can_be_written() {
    let pair = loaded(Kind::Socket, json!({"copy": true})).await;
    // The second tensor shares a page with the first.
    let inputs = tensors([("large", floats(100_001)), ("next", floats(50_000)), ("small", floats(10))]);
    let outputs = pair.connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
    for (name, is_mapped) in [("large", true), ("next", true), ("small", false)] {
        let output = outputs[name].as_numeric().unwrap();
        let mut private = PrivateBytes::of(output);
        assert_eq!(private.is_mapped(), is_mapped, "{name}");
        assert_eq!(private.as_slice(), output.bytes());
        private.as_mut_slice().fill(0xff);
        assert_eq!(PrivateBytes::of(output).as_slice(), output.bytes());
        assert!(private.as_slice().iter().all(|&byte| byte == 0xff));
    }
    assert!(same_all(&inputs, &outputs));
    // The runner does not use a buffer again while private bytes of it exist.
    let kept = PrivateBytes::of(outputs["large"].as_numeric().unwrap());
    drop(outputs);
    for _ in 0..5 {
        let others = tensors([("large", Tensor::from_vec(vec![7.0_f32; 100_001], vec![100_001]).unwrap())]);
        pair.connection.infer(others, CallOptions::default()).await.unwrap();
    }
    assert_eq!(kept.as_slice(), inputs["large"].as_numeric().unwrap().bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tensor_in_the_pool_is_echoed_without_a_copy() {
    for kind in [Kind::Socket, Kind::InMemory] {
        let pair = loaded(kind, json!({})).await;
        let mut tensor = pair.connection.alloc(DataType::Float32, &[4, 1 << 20]).await.unwrap();
        tensor.bytes_mut().unwrap()[5] = 7;
        let address = tensor.bytes().as_ptr();
        let inputs = tensors([("x", tensor.into())]);
        let outputs = pair.connection.infer(inputs, CallOptions::default()).await.unwrap();
        let output = outputs["x"].as_numeric().unwrap();
        assert_eq!(output.bytes().as_ptr(), address, "{kind:?}");
        assert_eq!(output.bytes()[5], 7);
        // The runner gave the buffer back with its answer: it can be written to again.
        let Some(Tensor::Numeric(mut output)) = outputs.into_values().next() else { panic!("one output") };
        assert!(eventually_mutable(&mut output), "{kind:?}");
        drop(output);
        assert_eq!(pair.connection.pool_usage().0, 0);
    }
}

fn eventually_mutable(tensor: &mut NumericTensor) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while tensor.bytes_mut().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    tensor.bytes_mut().is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_calls_at_once_get_their_own_answers() {
    for kind in KINDS {
        let pair = loaded(kind, json!({"copy": true, "max_concurrency": 8})).await;
        let calls: Vec<_> = (0..64_usize)
            .map(|call| {
                let connection = pair.connection.clone();
                tokio::spawn(async move {
                    for round in 0..20_usize {
                        let inputs = tensors([
                            ("small", floats(call + round)),
                            ("large", floats(8192 + call * 100 + round)),
                            ("text", strings(&[&format!("{call} {round}")], &[1])),
                        ]);
                        let outputs = connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
                        assert!(same_all(&inputs, &outputs));
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        assert!(eventually(|| pair.connection.pool_usage().0 == 0), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_call_cancels_it_and_brings_its_buffers_back() {
    for kind in KINDS {
        let pair = loaded(kind, json!({"delay_ms": 60_000, "max_concurrency": 1})).await;
        let started = Instant::now();
        for _ in 0..3 {
            let inputs = tensors([("x", floats(100_000))]);
            let call = pair.connection.infer(inputs, CallOptions::default());
            assert!(tokio::time::timeout(Duration::from_millis(30), call).await.is_err());
        }
        // Long enough for the calls before it to leave the only slot.
        let error = pair.connection.infer(Tensors::new(), within(Duration::from_secs(2))).await.unwrap_err();
        assert!(matches!(error, CallError::DeadlineExceeded { phase: Phase::Running }), "{error:?}");
        assert!(eventually(|| pair.connection.pool_usage().0 == 0));
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(!pair.connection.is_closed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_ignores_cancelling_keeps_its_slot_until_it_is_done() {
    let options = json!({"delay_ms": 2000, "ignore_cancel": true, "max_concurrency": 1});
    let pair = loaded(Kind::Socket, options).await;
    let error = pair.connection.infer(Tensors::new(), within(Duration::from_millis(20))).await.unwrap_err();
    assert!(matches!(error, CallError::DeadlineExceeded { phase: Phase::Running }), "{error:?}");
    let error = pair.connection.infer(Tensors::new(), within(Duration::from_millis(20))).await.unwrap_err();
    assert!(matches!(error, CallError::DeadlineExceeded { phase: Phase::Queued }), "{error:?}");
    pair.connection.ping(within(Duration::from_secs(5))).await.unwrap();
    pair.connection.infer(Tensors::new(), within(Duration::from_secs(20))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_has_a_cap() {
    let host = ConnectionOptions { queue_cap: 2, ..ConnectionOptions::default() };
    let options = json!({"delay_ms": 200, "max_concurrency": 1});
    let pair = loaded_with(Kind::Socket, options, host, ServeOptions::default()).await;
    let calls: Vec<_> = (0..6)
        .map(|_| {
            let connection = pair.connection.clone();
            tokio::spawn(async move { connection.infer(Tensors::new(), CallOptions::default()).await })
        })
        .collect();
    let (mut answered, mut refused) = (0, 0);
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(CallError::QueueFull { cap: 2 }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((answered, refused), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_runner_cost_one_call() {
    for kind in KINDS {
        let pair = connect(kind, ConnectionOptions::default(), ServeOptions::default()).await;
        let connection = &pair.connection;
        let before = connection.infer(Tensors::new(), CallOptions::default()).await.unwrap_err();
        assert!(matches!(&before, CallError::Runner { code, .. } if code == code::NOT_LOADED), "{before:?}");
        let refused = load(connection, json!({"fail_load": "no such model"})).await.unwrap_err();
        assert_eq!(refused.to_string(), "no such model");
        load(connection, json!({"fail": "bad weather"})).await.unwrap();
        let twice = load(connection, json!({})).await.unwrap_err();
        assert!(matches!(&twice, CallError::Runner { code, .. } if code == code::ALREADY_LOADED), "{twice:?}");
        for _ in 0..3 {
            let error = connection.infer(Tensors::new(), CallOptions::default()).await.unwrap_err();
            assert!(matches!(&error, CallError::Runner { code, .. } if code == code::FAILED), "{error:?}");
            assert_eq!(error.to_string(), "bad weather");
        }
        let pair = loaded(kind, json!({"panic": true})).await;
        let error = pair.connection.infer(Tensors::new(), CallOptions::default()).await.unwrap_err();
        assert!(matches!(&error, CallError::Runner { code, .. } if code == code::PANICKED), "{error:?}");
        pair.connection.ping(CallOptions::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_inputs_run_again_and_again() {
    for kind in KINDS {
        let pair = loaded(kind, json!({})).await;
        let inputs = every_dtype();
        let sealed = pair.connection.seal(inputs.clone(), CallOptions::default()).await.unwrap();
        for _ in 0..3 {
            let outputs = pair.connection.infer_sealed(&sealed, CallOptions::default()).await.unwrap();
            assert!(same_all(&inputs, &outputs), "{kind:?}");
        }
        let other = loaded(kind, json!({})).await;
        let error = other.connection.infer_sealed(&sealed, CallOptions::default()).await.unwrap_err();
        assert!(matches!(&error, CallError::Runner { code, .. } if code == code::UNKNOWN_HANDLE), "{error:?}");
        drop(sealed);
        assert!(eventually(|| pair.connection.pool_usage().0 == 0), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_send_no_more_than_they_have_credits_for() {
    for kind in KINDS {
        for credits in [1, 3, 16] {
            let host = ConnectionOptions { stream_credits: credits, ..ConnectionOptions::default() };
            let options = json!({"stream_items": 50, "copy": true});
            let pair = loaded_with(kind, options, host, ServeOptions::default()).await;
            let inputs = tensors([("x", floats(5000))]);
            let mut stream = pair.connection.infer_stream(inputs.clone(), CallOptions::default()).await.unwrap();
            let mut n_items = 0;
            while let Some(item) = stream.recv().await {
                assert!(same_all(&inputs, &item.unwrap()));
                n_items += 1;
            }
            assert_eq!(n_items, 50, "{kind:?} {credits}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_stream_cancels_it() {
    let options = json!({"stream_items": 1_000_000_000_u64, "max_concurrency": 1});
    for kind in KINDS {
        let pair = loaded(kind, options.clone()).await;
        for _ in 0..3 {
            let inputs = tensors([("x", floats(50_000))]);
            let mut stream = pair.connection.infer_stream(inputs, CallOptions::default()).await.unwrap();
            assert!(stream.recv().await.unwrap().is_ok());
        }
        assert!(eventually(|| pair.connection.pool_usage().0 == 0), "{kind:?}");
        let mut stream = pair.connection.infer_stream(Tensors::new(), within(Duration::from_millis(50))).await.unwrap();
        let error = loop {
            match stream.recv().await {
                Some(Ok(_)) => {}
                other => break other,
            }
        };
        assert!(matches!(error, Some(Err(CallError::DeadlineExceeded { .. }))), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_fails_ends_with_the_error() {
    let pair = loaded(Kind::Socket, json!({"fail": "no more"})).await;
    let mut stream = pair.connection.infer_stream(Tensors::new(), CallOptions::default()).await.unwrap();
    assert_eq!(stream.recv().await.unwrap().unwrap_err().to_string(), "no more");
    assert!(stream.recv().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_waits_and_then_fails() {
    let host =
        ConnectionOptions { pool_cap: 4 << 20, pool_wait: Duration::from_millis(100), ..ConnectionOptions::default() };
    let pair = loaded_with(Kind::Socket, json!({}), host, ServeOptions::default()).await;
    let held = pair.connection.alloc(DataType::Uint8, &[3 << 20]).await.unwrap();
    let error = pair.connection.alloc(DataType::Uint8, &[2 << 20]).await.unwrap_err();
    assert!(matches!(error, CallError::PoolFull { bytes, .. } if bytes == 2 << 20), "{error:?}");
    let inputs = tensors([("x", floats(1 << 19))]);
    let error = pair.connection.infer(inputs.clone(), CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::PoolFull { .. }), "{error:?}");
    let error = pair.connection.alloc(DataType::Uint8, &[5 << 20]).await.unwrap_err();
    assert!(matches!(error, CallError::PoolFull { .. }), "{error:?}");
    drop(held);
    pair.connection.infer(inputs, CallOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_when_the_pool_has_room() {
    let host = ConnectionOptions { pool_cap: 4 << 20, ..ConnectionOptions::default() };
    let pair = loaded_with(Kind::Socket, json!({}), host, ServeOptions::default()).await;
    let held = pair.connection.alloc(DataType::Uint8, &[3 << 20]).await.unwrap();
    let connection = pair.connection.clone();
    let inputs = tensors([("x", floats(1 << 19))]);
    let waiting = tokio::spawn(async move { connection.infer(inputs, CallOptions::default()).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(held);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_several_tensors_do_not_wait_for_each_other_with_half_of_them() {
    let host = ConnectionOptions { pool_cap: 4 << 20, ..ConnectionOptions::default() };
    let pair = loaded_with(Kind::Socket, json!({"max_concurrency": 8}), host, ServeOptions::default()).await;
    // Three of a megabyte each fit once, and half of them twice.
    let inputs = || tensors([("x", floats(1 << 18)), ("y", floats(1 << 18)), ("z", floats(1 << 18))]);
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let (connection, inputs) = (pair.connection.clone(), inputs());
            tokio::spawn(async move { connection.infer(inputs, CallOptions::default()).await.map(drop) })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // What can never fit does not wait at all.
    let names = ["a", "b", "c", "d", "e"].map(|name| (name, floats(1 << 18)));
    let started = Instant::now();
    let error = pair.connection.infer(tensors(names), CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::PoolFull { bytes, .. } if bytes == 5 << 20), "{error:?}");
    assert!(started.elapsed() < ConnectionOptions::default().pool_wait);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_limit_is_too_large_to_be_set() {
    for kind in KINDS {
        let forever = Duration::MAX;
        let host = ConnectionOptions { hello_timeout: forever, pool_wait: forever, ..ConnectionOptions::default() };
        let runner = ServeOptions { pool_wait: forever, ..ServeOptions::default() };
        let pair = loaded_with(kind, json!({"copy": true}), host, runner).await;
        let inputs = tensors([("x", floats(100_000))]);
        let outputs = pair.connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
        assert!(same_all(&inputs, &outputs));
        let impossible = [usize::try_from(isize::MAX).unwrap()];
        let error = pair.connection.alloc(DataType::Uint8, &impossible).await.unwrap_err();
        assert!(matches!(error, CallError::Tensor(_) | CallError::PoolFull { .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_of_the_runner_fails_the_call() {
    let runner = ServeOptions { pool_cap: 4 << 20, pool_wait: Duration::from_millis(100), ..ServeOptions::default() };
    let pair = loaded_with(Kind::Socket, json!({"copy": true}), ConnectionOptions::default(), runner).await;
    let inputs = tensors([("x", floats(3 << 18))]);
    let held = pair.connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
    let error = pair.connection.infer(inputs.clone(), CallOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("no room"), "{error:?}");
    drop(held);
    pair.connection.infer(inputs, CallOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_above_the_limit_fails_the_call_alone() {
    let host = ConnectionOptions { frame_cap: 1 << 20, ..ConnectionOptions::default() };
    let pair = loaded_with(Kind::SocketWithoutSharedMemory, json!({}), host, ServeOptions::default()).await;
    let inputs = tensors([("small", floats(1 << 10)), ("x", floats(1 << 20)), ("y", floats(1 << 12))]);
    let error = pair.connection.infer(inputs, CallOptions::default()).await.unwrap_err();
    assert!(matches!(error, CallError::InputsTooLarge { .. }), "{error:?}");
    assert!(error.to_string().starts_with("the input `x` has 4194304 bytes, all inputs 4214784; "), "{error}");
    pair.connection.infer(tensors([("x", floats(1 << 10))]), CallOptions::default()).await.unwrap();
}

/// Neither does one of the runner's, which the host would have to refuse together with the connection.
#[tokio::test(flavor = "multi_thread")]
async fn outputs_above_the_limit_fail_the_call_alone() {
    let runner = ServeOptions { frame_cap: 1 << 20, ..ServeOptions::default() };
    let host = ConnectionOptions::default();
    let pair = loaded_with(Kind::SocketWithoutSharedMemory, json!({"copy": true}), host, runner).await;
    let inputs = tensors([("x", floats(1 << 20))]);
    let error = pair.connection.infer(inputs, CallOptions::default()).await.unwrap_err();
    assert!(matches!(&error, CallError::Runner { code, .. } if code == "too_large"), "{error:?}");
    pair.connection.infer(tensors([("x", floats(1 << 10))]), CallOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn large_tensors_cross_in_both_directions_at_once() {
    for kind in KINDS {
        let pair = loaded(kind, json!({"copy": true})).await;
        let calls: Vec<_> = (0..4)
            .map(|call| {
                let connection = pair.connection.clone();
                tokio::spawn(async move {
                    let inputs = tensors([("x", floats((4 << 20) + call))]);
                    let outputs = connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
                    assert!(same_all(&inputs, &outputs));
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_records_and_unknown_options_reach_the_host() {
    for kind in KINDS {
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let host = ConnectionOptions {
            on_event: Some(Arc::new(move |event| seen.lock().unwrap().push(event))),
            ..ConnectionOptions::default()
        };
        let options = json!({"log": "hello", "colour": "blue"});
        let pair = loaded_with(kind, options, host, ServeOptions::default()).await;
        pair.connection.infer(Tensors::new(), CallOptions::default()).await.unwrap();
        let events = events.lock().unwrap();
        let logs: Vec<_> = events
            .iter()
            .map(|event| match event {
                Event::Log { level, message, call: Some(_) } => (*level, message.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        let warning = (LogLevel::Warn, "the noop runner has no option `colour`");
        assert_eq!(logs, [warning, (LogLevel::Info, "hello")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_fails_every_pending_call_with_the_reason() {
    for kind in KINDS {
        let pair = loaded(kind, json!({"delay_ms": 60_000})).await;
        let connection = pair.connection.clone();
        let call = tokio::spawn(async move { connection.infer(Tensors::new(), CallOptions::default()).await });
        let mut stream = pair.connection.infer_stream(Tensors::new(), CallOptions::default()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        pair.connection.close(CloseReason::Requested("killed by signal 9".to_owned()));
        let errors = [call.await.unwrap().unwrap_err(), stream.recv().await.unwrap().unwrap_err()];
        for error in errors {
            let CallError::Closed(reason) = error else { panic!("{error:?}") };
            assert_eq!(reason.to_string(), "killed by signal 9");
        }
        assert!(pair.connection.is_closed());
        pair.connection.ping(CallOptions::default()).await.unwrap_err();
        assert!(pair.runner.join().unwrap().is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_may_lie_in_more_files_than_one_message_passes() {
    let file = tempfile::tempfile().unwrap();
    for kind in [Kind::Socket, Kind::InMemory] {
        let pair = connect(kind, ConnectionOptions::default(), ServeOptions::default()).await;
        let ranges = (0..1000)
            .map(|index| FileRange {
                path: format!("{index}"),
                file: Arc::new(file.try_clone().unwrap()),
                location: None,
                offset: 0,
                length: 0,
            })
            .collect();
        let request = LoadRequest {
            files: Files::Ranges(ranges),
            options: Options::new(),
            device: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        pair.connection.load(request, CallOptions::default()).await.unwrap();
    }
}

/// The threads of a runner that take turns at reading lose no message, whether it comes while one of them is still awake or not.
#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_whenever_they_come() {
    for kind in KINDS {
        for n_callers in [1, 4] {
            let pair = loaded(kind, json!({"max_concurrency": 3})).await;
            let callers: Vec<_> = (0..n_callers)
                .map(|caller| {
                    let connection = pair.connection.clone();
                    tokio::spawn(async move {
                        for call in 0..600_u64 {
                            std::thread::sleep(Duration::from_micros((call * 37 + caller * 101) % 300));
                            let inputs = tensors([("x", floats(3))]);
                            let outputs =
                                connection.infer(inputs.clone(), within(Duration::from_secs(10))).await.unwrap();
                            assert!(same_all(&inputs, &outputs));
                            if call % 5 == 0 {
                                connection.ping(within(Duration::from_secs(10))).await.unwrap();
                            }
                        }
                    })
                })
                .collect();
            for caller in callers {
                caller.await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_lets_running_calls_finish() {
    for kind in KINDS {
        let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
        let host = ConnectionOptions {
            on_event: Some(Arc::new(move |_| {
                let _ = started.send(());
            })),
            ..ConnectionOptions::default()
        };
        let pair = loaded_with(kind, json!({"delay_ms": 100, "log": "started"}), host, ServeOptions::default()).await;
        let connection = pair.connection.clone();
        let call = tokio::spawn(async move { connection.infer(Tensors::new(), CallOptions::default()).await });
        has_started.recv().await.unwrap();
        pair.connection.shutdown(within(Duration::from_secs(10))).await.unwrap();
        call.await.unwrap().unwrap();
        assert!(matches!(*pair.connection.close_reason().unwrap(), CloseReason::EndOfFile));
        assert!(pair.runner.join().unwrap().is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_never_reads_blocks_no_task() {
    let (host, runner) = std::os::unix::net::UnixStream::pair().unwrap();
    let options = ConnectionOptions { hello_timeout: Duration::from_millis(200), ..ConnectionOptions::default() };
    let started = Instant::now();
    let error = Connection::open(host.into(), options).await.err().unwrap();
    assert!(matches!(*error, CloseReason::HelloTimeout(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    drop(runner);
}
