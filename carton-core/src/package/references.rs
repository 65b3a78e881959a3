//! Checks that everything that carton.toml refers to exists. Used both for opening and for packing a carton.

use carton_format::metadata::{Metadata, Reference};

use super::PackageError;

/// Looks up every reference of `metadata`: tensors by name, files by their path in the carton. The first one that leads nowhere
/// is the error.
pub(super) fn check(
    metadata: &Metadata,
    has_tensor: impl Fn(&str) -> bool,
    has_file: impl Fn(&str) -> bool,
) -> Result<(), PackageError> {
    let dangling =
        |owner: String, field: String, reference: String| Err(PackageError::Dangling { owner, field, reference });
    for (index, input) in metadata.inputs().iter().enumerate() {
        if let Some(tensor) = input.default_tensor().filter(|tensor| !has_tensor(tensor)) {
            let reference = Reference::TensorData(tensor.to_owned()).to_string();
            return dangling(format!("input `{}`, default", input.name), format!("input[{index}].default"), reference);
        }
    }
    for (index, test) in metadata.self_tests().iter().enumerate() {
        let inputs = test.inputs.iter().map(|reference| ("inputs", reference));
        let outputs = test.expected_out.iter().flatten().map(|reference| ("expected_out", reference));
        for (map, (name, tensor)) in inputs.chain(outputs) {
            if !has_tensor(tensor) {
                let reference = Reference::TensorData(tensor.clone()).to_string();
                let owner = owner("self-test", test.name.as_deref(), index, map, name);
                return dangling(owner, format!("self_test[{index}].{map}.{name}"), reference);
            }
        }
    }
    for (index, example) in metadata.examples().iter().enumerate() {
        let inputs = example.inputs.iter().map(|reference| ("inputs", reference));
        let outputs = example.sample_out.iter().map(|reference| ("sample_out", reference));
        for (map, (name, reference)) in inputs.chain(outputs) {
            let found = match reference {
                Reference::TensorData(tensor) => has_tensor(tensor),
                Reference::Misc(path) => has_file(&format!("misc/{path}")),
            };
            if !found {
                let owner = owner("example", example.name.as_deref(), index, map, name);
                return dangling(owner, format!("example[{index}].{map}.{name}"), reference.to_string());
            }
        }
    }
    Ok(())
}

/// Describes the owner of a reference for people: "self-test `two digits`, input `x`". An owner without a name has the name that
/// reports give it.
fn owner(what: &str, name: Option<&str>, index: usize, map: &str, tensor: &str) -> String {
    let name = name.map_or_else(|| format!("{}_{index}", what.replace('-', "_")), str::to_owned);
    let side = if map == "inputs" { "input" } else { "output" };
    format!("{what} `{name}`, {side} `{tensor}`")
}
