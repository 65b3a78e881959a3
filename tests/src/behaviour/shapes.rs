//! Shapes and sizes.

use carton_tensor::{DataType, Tensor};

use super::stage::{check_echo, check_echo_or, floats, numbers};
use super::{Stage, Unusual};

pub async fn ranks_and_empty_dimensions(stage: &Stage) {
    for dtype in [DataType::Float32, DataType::Int64] {
        let model = stage.subject.echo(dtype);
        let carton = stage.load(&model).await;
        for rank in 0..=8 {
            check_echo(&carton, &model, numbers(dtype, &vec![2; rank])).await;
        }
        for shape in [&[0][..], &[0, 3], &[3, 0], &[2, 0, 5], &[0, 0], &[1, 1, 0], &[7, 1, 3]] {
            check_echo(&carton, &model, numbers(dtype, shape)).await;
        }
    }
}

pub async fn large_ranks(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    let carton = stage.load(&model).await;
    for rank in [9, 16, 25, 32, 33, 64] {
        let mut shape = vec![1; rank];
        (shape[0], shape[rank - 1]) = (2, 3);
        check_echo_or(&carton, &model, numbers(DataType::Float32, &shape), stage.subject.refuses(Unusual::Rank(rank)))
            .await;
    }
    // Beside a dimension of 0 the others may have any size.
    check_echo(&carton, &model, numbers(DataType::Float32, &[0, 1 << 31])).await;
    check_echo(&carton, &model, floats(5, 0)).await;
}

/// Around 16 KiB tensors move from the frame to shared memory. Each side decides this for its own tensors.
pub async fn sizes_around_what_is_sent_inline(stage: &Stage) {
    for dtype in [DataType::Uint8, DataType::Float32] {
        let model = stage.subject.echo(dtype);
        let carton = stage.load(&model).await;
        let size = dtype.size().unwrap();
        for n_bytes in [1, 63, 64, 65, 4095, 4097, 16_383, 16_384, 16_385, 16_388, 20_003, 65_536, 1_000_001] {
            check_echo(&carton, &model, numbers(dtype, &[n_bytes / size])).await;
        }
        // A tensor in shared memory, however small it is.
        for n_elements in [1, 16_385] {
            let mut tensor = carton.alloc_dtype(dtype, &[n_elements]).await.unwrap();
            let Tensor::Numeric(values) = numbers(dtype, &[n_elements]) else { panic!("numbers are numeric") };
            tensor.bytes_mut().unwrap().copy_from_slice(values.bytes());
            check_echo(&carton, &model, tensor.into()).await;
        }
    }
}
