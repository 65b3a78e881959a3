//! Any text as the description of a model: it is refused, or says how many tensors there are to be, in no more time and memory than the
//! specification allows (spec/weights.md §4).

use carton_tensor::weights::Description;

use crate::generate::pieces::text_of;

/// Checks these bytes, and says whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(description) = text_of(bytes).parse::<Description>() else { return false };
    assert_eq!(description.tensors().len(), description.n_tensors());
    let mut n_parameters = 0_u64;
    for (name, tensor) in description.tensors() {
        assert_eq!(description.tensor(name), Some(tensor));
        n_parameters += tensor.shape().iter().map(|&size| size as u64).product::<u64>();
        let _ = description.dtypes(tensor);
    }
    assert_eq!(n_parameters, description.n_parameters());
    true
}
