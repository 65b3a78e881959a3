//! The ways to call a model.

use carton_core::Inputs;
use carton_core::signature::SignatureMode;
use carton_tensor::{DataType, Tensor};

use super::stage::{chain, check_echo, check_refusal, check_same, floats};
use super::{Misfit, Stage, Trouble, log_capture};

pub async fn sixty_four_calls_at_once(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    let carton = stage.load(&model).await;
    let calls: Vec<_> = (0..64)
        .map(|number| {
            let (carton, model) = (carton.clone(), model.clone());
            tokio::spawn(async move {
                for round in 0..5 {
                    // In frames and in shared memory alternately.
                    let n_elements = if (number + round) % 2 == 0 { 100 } else { 20_000 };
                    check_echo(&carton, &model, floats(n_elements, number * 100 + round)).await;
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

pub async fn two_models_at_once(stage: &Stage) {
    let models = [stage.subject.echo(DataType::Float32), stage.subject.echo(DataType::Uint8)];
    let mut tasks = Vec::new();
    for (model, tensor) in
        models.into_iter().zip([floats(9000, 1), Tensor::from_vec(vec![7_u8; 9000], vec![9000]).unwrap()])
    {
        let carton = stage.load(&model).await;
        tasks.push(tokio::spawn(async move {
            for _ in 0..50 {
                check_echo(&carton, &model, tensor.clone()).await;
            }
            carton
        }));
    }
    let mut cartons = Vec::new();
    for task in tasks {
        cartons.push(task.await.unwrap());
    }
    assert_eq!(stage.processes().len(), 2, "each model has a process of its own");
}

pub async fn sealed_inputs(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    // There is room for only a few sealed inputs, so the memory of dropped ones has to be given back.
    let loading = stage.loading(&model).await.pool_bytes(8 << 20);
    let carton = loading.await.unwrap_or_else(|error| panic!("{}", chain(&error)));
    let (small, large) = (floats(3, 1), floats(100_000, 2));
    let sealed = match carton.seal([("x", small.clone())]).await {
        Ok(sealed) => sealed,
        Err(error) => panic!("{}", chain(&error)),
    };
    let sealed_large = carton.seal([("x", large.clone())]).await.unwrap();
    for _ in 0..20 {
        check_same(&carton.infer(&sealed).await.unwrap().as_tensors()[model.output], &small);
        check_same(&carton.infer(&sealed_large).await.unwrap().as_tensors()[model.output], &large);
    }
    drop(sealed);
    for seed in 0..100 {
        let tensor = floats(250_000, seed);
        let sealed = carton.seal([("x", tensor.clone())]).await.unwrap();
        if seed % 10 == 0 {
            check_same(&carton.infer(&sealed).await.unwrap().as_tensors()[model.output], &tensor);
        }
    }
    // Sealed inputs outlive the process that they were sent to.
    stage.kill();
    let _ = carton.infer(&sealed_large).await;
    check_same(&carton.infer(&sealed_large).await.unwrap().as_tensors()[model.output], &large);
    check_echo(&carton, &model, small).await;
}

pub async fn streams_to_the_end(stage: &Stage) {
    let streamed = stage.subject.stream();
    let carton = stage.load(&streamed.model).await;
    for tensor in [floats(10, 0), floats(50_000, 1)] {
        let mut stream = carton.infer([("x", tensor.clone())]).stream().await.unwrap();
        for number in 0..streamed.n_items {
            let outputs = match stream.next().await {
                Some(Ok(outputs)) => outputs,
                Some(Err(error)) => panic!("item {number}: {}", chain(&error)),
                None => panic!("the stream ended after {number} items"),
            };
            check_same(&outputs.as_tensors()[streamed.model.output], &tensor);
            if streamed.is_numbered {
                check_same(&outputs.as_tensors()["number"], &Tensor::scalar(i64::try_from(number).unwrap()));
            }
        }
        assert!(stream.next().await.is_none());
    }
}

pub async fn abandoned_streams(stage: &Stage) {
    let streamed = stage.subject.stream();
    let carton = stage.load(&streamed.model).await;
    let tensor = floats(50_000, 1);
    for round in 0..20 {
        let mut stream = carton.infer([("x", tensor.clone())]).stream().await.unwrap();
        for _ in 0..round % 3 {
            if let Some(outputs) = stream.next().await {
                check_same(&outputs.unwrap().as_tensors()[streamed.model.output], &tensor);
            }
        }
    }
    // The rest of the dropped streams does not block the next one.
    let mut stream = carton.infer([("x", tensor.clone())]).stream().await.unwrap();
    check_same(&stream.next().await.unwrap().unwrap().as_tensors()[streamed.model.output], &tensor);
}

pub async fn streams_that_fail(stage: &Stage) {
    let Some(troubled) = stage.subject.troubled(Trouble::FailInStream) else {
        return stage.skip("a stream that fails in its middle");
    };
    let carton = stage.load(&troubled.model).await;
    for _ in 0..2 {
        let mut stream = carton.infer(inputs(&troubled.bad)).stream().await.unwrap();
        for _ in 0..3 {
            assert!(stream.next().await.unwrap().is_ok());
        }
        check_refusal(&stream.next().await.unwrap().unwrap_err(), troubled.words);
        assert!(stream.next().await.is_none());
    }
    let process = stage.process();
    let mut stream = carton.infer(inputs(&troubled.good)).stream().await.unwrap();
    stream.next().await.unwrap().unwrap();
    assert_eq!(stage.process(), process);
}

/// The runner has to check inputs that pass the host's check of the signature.
pub async fn inputs_that_do_not_fit(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    let carton = stage.loading(&model).await.signature(SignatureMode::Off).await.unwrap();
    check_echo(&carton, &model, floats(2, 0)).await;
    let process = stage.process();
    for misfit in [Misfit::Missing, Misfit::Surplus, Misfit::Dtype] {
        let inputs: Inputs = match misfit {
            Misfit::Missing => Inputs::none(),
            Misfit::Surplus => [("x", floats(2, 0)), ("surplus", floats(1, 0))].into(),
            Misfit::Dtype => [("x", Tensor::from_vec(vec![1_i32, 2], vec![2]).unwrap())].into(),
        };
        match (carton.infer(inputs).await, stage.subject.complains_about(misfit)) {
            (Err(error), Some(words)) => check_refusal(&error, words),
            (Ok(_), None) => {}
            (Ok(_), Some(words)) => panic!("{misfit:?} was to be refused with `{words}`"),
            (Err(error), None) => panic!("{misfit:?}: {}", chain(&error)),
        }
        check_echo(&carton, &model, floats(2, 0)).await;
    }
    assert_eq!(stage.process(), process);
}

pub async fn unknown_options_are_warned_about(stage: &Stage) {
    let option = format!("frobnicate_{}", stage.subject.name().replace(|c: char| !c.is_alphanumeric(), "_"));
    let model = stage.subject.echo(DataType::Float32).with(&option, 3);
    let carton = stage.load(&model).await;
    check_echo(&carton, &model, floats(2, 0)).await;
    let warnings = log_capture::warnings_with(&option);
    assert_eq!(warnings.len(), 1, "expected one warning that names `{option}`, found {warnings:?}");
    assert!(warnings[0].contains("WARN"), "{warnings:?}");
}

/// Inputs of a call.
pub(super) fn inputs(tensors: &[(&'static str, Tensor)]) -> Inputs {
    let tensors: std::collections::BTreeMap<String, Tensor> =
        tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
    tensors.into()
}
