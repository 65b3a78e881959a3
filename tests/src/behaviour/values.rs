//! Every value of every dtype is returned unchanged.

use carton_core::signature::SignatureMode;
use carton_tensor::{DataType, NumericTensor, Tensor};

use super::stage::{chain, check_echo, check_echo_or, check_refusal, floats};
use super::{Stage, Unusual};

pub async fn every_dtype_is_returned_bit_for_bit(stage: &Stage) {
    let mut loaded = None;
    for dtype in DataType::ALL.into_iter().filter(|dtype| dtype.size().is_some() && stage.subject.takes(*dtype)) {
        let model = stage.subject.echo(dtype);
        let refusal = stage.subject.refuses(Unusual::Dtype(dtype));
        let carton = match loaded.take() {
            // A model for every dtype is tested in one process, also after dtypes that it refuses.
            Some((of, carton)) if of == model => Ok(carton),
            _ => stage.loading(&model).await.await,
        };
        let carton = match (carton, &refusal) {
            (Ok(carton), _) => carton,
            (Err(error), Some(words)) => {
                assert!(
                    error.kind() == carton_core::ErrorKind::Model && error.is_of_start(),
                    "{dtype}: {}",
                    chain(&error)
                );
                assert!(chain(&error).contains(words), "{dtype}: {}", chain(&error));
                continue;
            }
            (Err(error), None) => panic!("{dtype}: {}", chain(&error)),
        };
        let narrow = stage.subject.refuses(Unusual::WideInt64);
        for bytes in [limits(dtype), patterns(dtype)] {
            let shape = vec![bytes.len() / dtype.size().unwrap()];
            let tensor: Tensor = NumericTensor::copy_from_bytes(dtype, shape, &bytes).unwrap().into();
            let refusal = refusal.clone().or_else(|| narrow.clone().filter(|_| dtype == DataType::Int64));
            check_echo_or(&carton, &model, tensor, refusal).await;
        }
        if dtype == DataType::Int64 && narrow.is_some() {
            let tensor = Tensor::from_vec(vec![i64::from(i32::MIN), -1, 0, 1, i64::from(i32::MAX)], vec![5]).unwrap();
            check_echo(&carton, &model, tensor).await;
        }
        loaded = Some((model, carton));
    }
}

/// Returns the extreme values of the dtype and their neighbours.
fn limits(dtype: DataType) -> Vec<u8> {
    if dtype == DataType::Bool {
        return vec![0, 1, 1, 0];
    }
    if dtype.is_complex() {
        // Pairs of what their parts have.
        let parts = limits(dtype.carrier());
        let whole = parts.len() / dtype.size().unwrap() * dtype.size().unwrap();
        return parts[..whole].to_vec();
    }
    let bits = dtype.size().unwrap() * 8;
    let mut values: Vec<u64> = vec![0, u64::MAX];
    for bit in 0..bits {
        let power = 1_u64 << bit;
        values.extend([power, power - 1, !power, power.wrapping_neg()]);
    }
    match dtype {
        // Infinities, the largest and the least normal number, subnormal ones, quiet and signalling NaNs with payloads.
        DataType::Float32 => values.extend(
            [0x7f80_0000, 0xff80_0000, 0x7f7f_ffff, 0x0080_0000, 0x007f_ffff, 1, 0x7fc0_0000, 0x7fc1_2345, 0x7f80_0001]
                .into_iter()
                .chain([0xffc0_0000, 0xff80_0001, 0xffff_ffff, 0x8000_0000]),
        ),
        DataType::Float64 => values.extend([
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7fef_ffff_ffff_ffff,
            0x000f_ffff_ffff_ffff,
            0x7ff8_0000_0001_2345,
            0x7ff0_0000_0000_0001,
            0xfff0_0000_0000_0001,
            0x8000_0000_0000_0000,
        ]),
        _ => {}
    }
    values.iter().flat_map(|value| value.to_le_bytes()[..bits / 8].to_vec()).collect()
}

/// Returns every bit pattern of elements up to two bytes, and 65,536 patterns of larger ones.
fn patterns(dtype: DataType) -> Vec<u8> {
    if dtype == DataType::Bool {
        return (0..=255_u8).map(|number| number & 1).collect();
    }
    if dtype.is_complex() {
        return patterns(dtype.carrier());
    }
    let size = dtype.size().unwrap();
    let n_patterns = if size == 1 { 256_u64 } else { 65_536 };
    (0..n_patterns)
        .flat_map(|number| {
            let value = if size <= 2 { number } else { number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) };
            value.to_le_bytes()[..size].to_vec()
        })
        .collect()
}

pub async fn strings_of_every_kind(stage: &Stage) {
    let model = stage.subject.echo(DataType::String);
    if let Some(words) = stage.subject.refuses(Unusual::Dtype(DataType::String)) {
        match stage.loading(&model).await.await {
            Ok(carton) => {
                let error = carton.infer([("x", Tensor::from_strings(["a"], vec![1]).unwrap())]).await.unwrap_err();
                check_refusal(&error, &words);
            }
            Err(error) => assert!(chain(&error).contains(&words), "{}", chain(&error)),
        }
        return;
    }
    let carton = stage.load(&model).await;
    let strings = |elements: Vec<String>, shape: &[usize]| Tensor::from_strings(elements, shape.to_vec()).unwrap();
    let nul = stage.subject.refuses(Unusual::Nul);
    for (text, refusal) in [
        ("\0", &nul),
        ("a\0b\0", &nul),
        ("", &None),
        ("né 日本 🙂👩‍👩‍👧 \u{10ffff}", &None),
        ("\r\n\t\u{7f}\u{feff}", &None),
    ] {
        check_echo_or(&carton, &model, strings(vec![text.to_owned(); 3], &[3]), refusal.clone()).await;
    }
    check_echo(&carton, &model, strings(vec!["long 🙂 ".repeat(100_000), String::new()], &[2])).await;
    check_echo(&carton, &model, strings((0..50_000).map(|i| format!("{i}")).collect(), &[50_000])).await;
    check_echo(&carton, &model, strings(Vec::new(), &[0])).await;
    for shape in [&[][..], &[2, 3], &[2, 0, 3], &[1, 1, 1, 2]] {
        let elements = (0..shape.iter().product()).map(|i: usize| format!("{i} é")).collect();
        let refusal = stage.subject.refuses(Unusual::StringRank(shape.len()));
        check_echo_or(&carton, &model, strings(elements, shape), refusal).await;
    }
    check_echo(&carton, &model, strings(vec!["after all".to_owned()], &[1])).await;
}

pub async fn nested_tensors_or_a_clear_refusal(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    // A signature cannot declare a nested input, so the check is off; this tests what the runner does.
    let carton = stage.loading(&model).await.signature(SignatureMode::Off).await.unwrap();
    let refusal = stage.subject.refuses(Unusual::Nested);
    for elements in
        [vec![floats(1, 1), floats(30, 2)], vec![floats(50_000, 0)], vec![floats(0, 0), Tensor::scalar(1.5_f32)]]
    {
        check_echo_or(&carton, &model, Tensor::nested(elements).unwrap(), refusal.clone()).await;
    }
    check_echo(&carton, &model, floats(5, 0)).await;
}
