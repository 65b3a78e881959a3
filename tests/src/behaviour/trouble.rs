//! Models that fail, crash, or take too long.

use std::time::{Duration, Instant};

use carton_core::{Carton, ErrorKind};
use carton_tensor::DataType;

use super::calls::inputs;
use super::stage::{chain, check_echo, check_refusal, check_same, floats};
use super::{Stage, Trouble, Troubled};

/// The time that an immediate answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn check_good(carton: &Carton, troubled: &Troubled) {
    match carton.infer(inputs(&troubled.good)).await {
        Ok(outputs) => {
            let (_, expected) = troubled.good.iter().find(|(name, _)| *name == "x").unwrap();
            if let Ok(found) = outputs.tensor(troubled.model.output) {
                check_same(found, expected);
            }
        }
        Err(error) => panic!("{}", chain(&error)),
    }
}

pub async fn an_error_costs_one_call(stage: &Stage) {
    let Some(troubled) = stage.subject.troubled(Trouble::Fail) else { return stage.skip("a model that fails") };
    let carton = stage.load(&troubled.model).await;
    check_good(&carton, &troubled).await;
    let process = stage.process();
    for _ in 0..3 {
        let error = carton.infer(inputs(&troubled.bad)).await.unwrap_err();
        check_refusal(&error, troubled.words);
        assert_eq!(error.kind(), ErrorKind::Model);
        check_good(&carton, &troubled).await;
    }
    // Bad and good calls at the same time: each gets its own answer.
    let calls: Vec<_> = (0..32)
        .map(|number| {
            let (carton, troubled) = (carton.clone(), troubled.clone());
            tokio::spawn(async move {
                if number % 2 == 0 {
                    return check_good(&carton, &troubled).await;
                }
                check_refusal(&carton.infer(inputs(&troubled.bad)).await.unwrap_err(), troubled.words);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(stage.process(), process, "the runner that failed is the one that goes on");
}

pub async fn a_crash_costs_one_call(stage: &Stage) {
    let Some(troubled) = stage.subject.troubled(Trouble::Crash) else { return stage.skip("a model that crashes") };
    let carton = stage.load(&troubled.model).await;
    for _ in 0..2 {
        check_good(&carton, &troubled).await;
        let process = stage.process();
        let start = Instant::now();
        let error = carton.infer(inputs(&troubled.bad)).await.unwrap_err();
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{}", chain(&error));
        assert!(chain(&error).contains(troubled.words), "expected `{}` in: {}", troubled.words, chain(&error));
        check_good(&carton, &troubled).await;
        assert_ne!(stage.process(), process);
    }
}

pub async fn a_killed_runner_is_replaced(stage: &Stage) {
    let Some(troubled) = stage.subject.troubled(Trouble::Slow(Duration::from_secs(60))) else {
        return stage.skip("a slow model");
    };
    let carton = stage.load(&troubled.model).await;
    check_good(&carton, &troubled).await;
    let call = tokio::spawn({
        let (carton, inputs) = (carton.clone(), inputs(&troubled.bad));
        async move { carton.infer(inputs).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    // If the runner runs one call at a time, these wait for their turn, and get it from the fresh runner.
    let waiting = spawn_good(&carton, &troubled);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let start = Instant::now();
    stage.kill();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RunnerCrashed, "{}", chain(&error));
    assert!(chain(&error).contains("killed by signal 9"), "{}", chain(&error));
    for call in waiting {
        call.await.unwrap();
    }
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    check_good(&carton, &troubled).await;
}

/// Starts good calls on separate tasks.
fn spawn_good(carton: &Carton, troubled: &Troubled) -> Vec<tokio::task::JoinHandle<()>> {
    let call = |_| {
        let (carton, troubled) = (carton.clone(), troubled.clone());
        tokio::spawn(async move { check_good(&carton, &troubled).await })
    };
    (0..3).map(call).collect()
}

pub async fn a_timeout_kills(stage: &Stage) {
    let Some(troubled) = stage.subject.troubled(Trouble::Slow(Duration::from_secs(60))) else {
        return stage.skip("a slow model");
    };
    let carton = stage.load(&troubled.model).await;
    check_good(&carton, &troubled).await;
    let process = stage.process();
    let start = Instant::now();
    let call = tokio::spawn({
        let (carton, inputs) = (carton.clone(), inputs(&troubled.bad));
        async move { carton.infer(inputs).timeout(Duration::from_millis(600)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waiting = spawn_good(&carton, &troubled);
    let error = call.await.unwrap().unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && error.is_runner_lost(), "{}", chain(&error));
    assert_eq!(error.kind(), ErrorKind::Timeout);
    // Only the slow call fails.
    for call in waiting {
        call.await.unwrap();
    }
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    check_good(&carton, &troubled).await;
    assert_ne!(stage.process(), process);
}

pub async fn a_dropped_call_costs_nothing_else(stage: &Stage) {
    let Some(troubled) = stage.subject.troubled(Trouble::Slow(Duration::from_secs(2))) else {
        return stage.skip("a slow model");
    };
    let carton = stage.load(&troubled.model).await;
    check_good(&carton, &troubled).await;
    let process = stage.process();
    for wait in [1, 50] {
        let call = carton.infer(inputs(&troubled.bad));
        let dropped = tokio::time::timeout(Duration::from_millis(wait), call).await;
        assert!(dropped.is_err(), "the slow call was answered after {wait} ms");
        // The next call is answered, whether the runner could stop the dropped one or not.
        check_good(&carton, &troubled).await;
    }
    assert_eq!(stage.process(), process, "nothing is killed because a call is dropped");
}

pub async fn a_device_that_cannot_be_used_is_an_error(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    let load = async |device: &str| stage.loading(&model).await.device(device).await;
    // No machine has a thousand GPUs, or one of that name.
    for device in ["foo", "", "cuda:0", "-1", "1000", "GPU-00000000-0000-0000-0000-000000000000", "MIG-0"] {
        let error = load(device).await.err().unwrap_or_else(|| panic!("loaded for the device `{device}`"));
        assert_eq!(error.kind(), ErrorKind::NoRunner, "{device}: {}", chain(&error));
        assert!(chain(&error).contains(&format!("`{device}`")), "{device}: {}", chain(&error));
        assert!(error.hint().is_some(), "{device}: {}", chain(&error));
    }
    let carton = load("cpu").await.unwrap_or_else(|error| panic!("{}", chain(&error)));
    check_echo(&carton, &model, floats(3, 0)).await;
}
