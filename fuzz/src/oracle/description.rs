//! Arbitrary text as the description of a model. It is refused, or lists the expected tensors, within the limits of the specification
//! on time and memory (spec/weights.md §3.4).

use carton_tensor::element_count;
use carton_tensor::weights::Description;

use crate::generate::pieces::text_of;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let text = text_of(bytes);
    let Ok(description) = text.parse::<Description>() else { return false };
    assert_eq!(description.tensors().len(), description.n_tensors());
    let mut n_parameters = 0_u64;
    for (name, tensor) in description.tensors() {
        assert_eq!(description.tensor(name), Some(tensor));
        n_parameters += element_count(tensor.shape()).expect("descriptions with more are refused") as u64;
        let _ = description.dtypes(tensor);
    }
    // A description may state another number.
    if !text.contains("n_parameters") {
        assert_eq!(n_parameters, description.n_parameters());
    }
    true
}
