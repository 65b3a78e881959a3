//! Arbitrary bytes as a call over HTTP: the first two are the length of its JSON, which is 0 for all of the rest. Tensors that are accepted are
//! the same after they were answered in bytes and sent again, and in JSON, too, where JSON has all their values.

use carton_core::{Tensor, Tensors};
use carton_server::fuzzing::{http_answer, http_request, is_trace_context};

/// Checks these bytes. Returns whether they are a request.
pub fn check(bytes: &[u8]) -> bool {
    let Some((length, body)) = bytes.split_first_chunk::<2>() else { return false };
    let length = Some(usize::from(u16::from_le_bytes(*length))).filter(|length| *length > 0);
    is_trace_context(&String::from_utf8_lossy(body));
    let Some(inputs) = http_request(length, body) else { return false };
    let (json, behind) = http_answer(inputs.clone(), true).expect("tensors can be answered");
    let request = as_request(&json);
    let again = http_request(Some(request.len()), &[request, behind].concat()).expect("an answer can be sent again");
    same(&inputs, &again);
    let (json, _) = http_answer(inputs.clone(), false).expect("tensors can be answered in JSON");
    let again = http_request(None, &as_request(&json)).expect("an answer in JSON can be sent again");
    if !inputs.values().any(has_nan) {
        same(&inputs, &again);
    }
    true
}

/// A request with the outputs of an answer as its inputs.
fn as_request(answer: &[u8]) -> Vec<u8> {
    let mut answer: serde_json::Map<_, _> = serde_json::from_slice(answer).expect("an answer is JSON");
    let outputs = answer.remove("outputs").expect("an answer has outputs");
    serde_json::to_vec(&serde_json::json!({ "inputs": outputs })).expect("it is JSON")
}

fn same(first: &Tensors, second: &Tensors) {
    assert!(first.keys().eq(second.keys()));
    for (first, second) in first.values().zip(second.values()) {
        assert_eq!((first.dtype(), first.shape()), (second.dtype(), second.shape()));
        assert!(match (first, second) {
            (Tensor::Numeric(first), Tensor::Numeric(second)) => first.bytes() == second.bytes(),
            (first, second) => first == second,
        });
    }
}

/// JSON has one NaN, and floats have many.
fn has_nan(tensor: &Tensor) -> bool {
    let Some(numbers) = tensor.as_numeric() else { return false };
    numbers.to_vec::<f32>().is_ok_and(|values| values.iter().any(|value| value.is_nan()))
        || numbers.to_vec::<f64>().is_ok_and(|values| values.iter().any(|value| value.is_nan()))
}
