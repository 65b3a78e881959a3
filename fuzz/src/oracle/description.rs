//! Any text as the description of a model: it is refused, or says how many tensors there are to be, in no more time and memory than the
//! specification allows (spec/weights.md §4).

use carton_tensor::element_count;
use carton_tensor::weights::Description;

use crate::generate::pieces::text_of;

/// Checks these bytes, and says whether they are accepted.
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
