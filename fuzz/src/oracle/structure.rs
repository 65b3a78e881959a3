//! Arbitrary names and tensors as the leaves of a value.

use carton_runner_interface::Tensors;
use carton_runner_interface::structure::{flatten_declared, gather};
use carton_tensor::Tensor;

use crate::generate::pieces::text_of;

/// Reads a name for each line, with the number of the elements of a nested tensor behind a tab; without one, the leaf is a number. A number
/// with `,` in it is a list of lengths.
pub fn tensors_of(input: &[u8]) -> Tensors {
    text_of(input)
        .lines()
        .map(|line| {
            let (name, tensor) = line.split_once('\t').unwrap_or((line, ""));
            (name.to_owned(), tensor_of(tensor))
        })
        .collect()
}

fn tensor_of(text: &str) -> Tensor {
    if text.contains(',') {
        let lengths: Vec<i64> = text.split(',').filter_map(|length| length.parse().ok()).collect();
        let shape = vec![lengths.len()];
        return Tensor::from_vec(lengths, shape).expect("the shape is that of the vector");
    }
    match text.parse::<usize>() {
        Ok(n_elements) => {
            let elements = (0..n_elements.min(1000)).map(|index| Tensor::scalar(index as i64));
            Tensor::nested(elements.collect()).expect("the elements have one dtype")
        }
        Err(_) => Tensor::scalar(0_i64),
    }
}

/// Makes the value of these leaves. Those that the value has are the ones that it was made of. Returns whether they are a value.
pub fn check(bytes: &[u8]) -> bool {
    let tensors = tensors_of(bytes);
    let Some(name) = tensors.keys().next().and_then(|first| first.split(['.', '[']).next()) else { return false };
    let value = match gather(name, &tensors) {
        Ok(Some(value)) => value,
        Ok(None) => return false,
        Err(error) => {
            let _ = error.to_string();
            return false;
        }
    };
    let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
    // An empty list has fewer leaves than it may have been made of, so that others in the same list need not fit it.
    let Ok(leaves) = flatten_declared(name, value.clone(), &names) else { return true };
    let leaves: Tensors = leaves.into_iter().collect();
    if leaves.keys().all(|leaf| tensors.contains_key(leaf)) {
        let again = gather(name, &leaves).expect("the leaves of a value are a value");
        assert_eq!(again, Some(value));
    }
    true
}
