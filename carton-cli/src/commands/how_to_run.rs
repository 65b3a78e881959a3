//! Builds the command lines that run a model, for copying from `carton info`. Pure.

use std::collections::BTreeSet;

use carton_core::metadata::TensorSpec;
use carton_core::package::Info;
use carton_core::{DataType, Dimension, SymbolicShape};
use carton_tensor::npy;

use crate::args::ModelArgs;
use crate::text::{printable, shell_word};

/// Returns a command line with files for the declared inputs, and one for the self-tests if there are any. `None` if the model's location
/// cannot be written as text, or may be secret.
pub(super) fn lines(info: &Info, model: &ModelArgs) -> Option<String> {
    let place = place(model)?;
    // Other writers give several inputs one name, which then means the first of them.
    let mut names = BTreeSet::new();
    let inputs = info.inputs.iter().filter(|input| names.insert(input.name.as_str()));
    let inputs: Vec<_> = inputs.map(|input| (input.name.as_str(), form(input), input.is_optional())).collect();
    // Without declarations, the names are not known. A model may also declare that it has no inputs.
    let arguments = match info.inputs.is_empty() && info.outputs.is_empty() {
        true => " -i NAME=FILE.npy".to_owned(),
        false => arguments(&inputs),
    };
    let mut lines = format!("  carton run {place}{arguments}\n");
    if !info.self_tests.is_empty() {
        lines.push_str(&format!("  carton run {place} --self-test\n"));
    }
    Some(lines)
}

/// Returns the model's location as it was given. `None` for a URL with a user, a password or a query: they may be secret, and the command
/// would not work without them.
fn place(model: &ModelArgs) -> Option<String> {
    let location = model.location();
    let mut place = match location.url() {
        Some(url) if url.has_hidden_parts() => return None,
        Some(_) => location.to_string(),
        None => model.path.to_str()?.to_owned(),
    };
    if printable(&place) != place || place.contains(['\n', '\t']) {
        return None;
    }
    if place.starts_with('-') {
        place.insert_str(0, "./");
    }
    place = shell_word(&place);
    if let Some(hash) = &model.expect {
        place.push_str(&format!(" --expect {hash}"));
    }
    if model.allow_file_links {
        place.push_str(" --allow-file-links");
    }
    for key in &model.trust.key {
        place.push_str(&format!(" --key {}", shell_word(key.to_str()?)));
    }
    Some(place)
}

/// The kind of file that an input is read from.
#[derive(Clone, Copy)]
enum FileForm {
    /// A tensor in NumPy's format.
    Npy,
    /// A tensor of a safetensors file, for types that NumPy lacks.
    Safetensors,
    /// Any file, whose bytes are the one element.
    Contents,
}

fn form(input: &TensorSpec) -> FileForm {
    let takes_one = match &input.shape {
        SymbolicShape::Dimensions(dimensions) => {
            dimensions.iter().all(|dimension| !matches!(dimension, Dimension::Fixed(size) if *size != 1))
        }
        _ => true,
    };
    match input.dtype {
        DataType::Bytes if takes_one => FileForm::Contents,
        dtype if npy::holds(dtype) => FileForm::Npy,
        _ => FileForm::Safetensors,
    }
}

/// Returns ` -i image=image.npy` for each input, which is given by its name, its file and whether it is optional. Optional inputs are left
/// out. If a name cannot be written in this form, all inputs are given without names, in the declared order.
fn arguments(inputs: &[(&str, FileForm, bool)]) -> String {
    let by_name = inputs.iter().all(|(name, _, is_optional)| *is_optional || can_be_named(name));
    let argument = |(position, (name, form, _)): (usize, &(&str, FileForm, bool))| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let stem = match name.chars().all(is_plain) && !name.starts_with(['-', '.']) && !name.is_empty() {
            true => (*name).to_owned(),
            false => format!("input_{position}"),
        };
        let file = match form {
            FileForm::Contents => format!("@{stem}"),
            FileForm::Npy => format!("{stem}.npy"),
            FileForm::Safetensors => format!("{stem}.safetensors#{stem}"),
        };
        match by_name {
            true => format!(" -i {}", shell_word(&format!("{name}={file}"))),
            false => format!(" -i {file}"),
        }
    };
    let given = inputs.iter().enumerate().filter(|(_, (.., is_optional))| !(by_name && *is_optional));
    given.map(argument).collect()
}

/// Whether `NAME=FILE` means the input of this name, both to [`InputArgument`](crate::args::InputArgument) and on a terminal, which must
/// show the text as it is.
fn can_be_named(name: &str) -> bool {
    !name.is_empty()
        && printable(name) == name
        && !name.contains(['=', '\n', '\t'])
        && !name.starts_with(['-', '@'])
        && !name.trim_start().starts_with(['[', '{', '"'])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::args::InputArgument;

    #[test]
    fn names_are_read_back_or_left_out() {
        let check = |inputs: &[&'static str], expected: &str| {
            let input = |input: &&'static str| (input.trim_end_matches('?'), FileForm::Npy, input.ends_with('?'));
            assert_eq!(arguments(&inputs.iter().map(input).collect::<Vec<_>>()), expected);
        };
        check(&[], "");
        check(&["image", "size"], " -i image=image.npy -i size=size.npy");
        check(&["serving_default/x:0"], " -i serving_default/x:0=input_0.npy");
        check(&["it's $(id)"], r" -i 'it'\''s $(id)=input_0.npy'");
        check(&["mask?", "x"], " -i x=x.npy");
        check(&["mask?", "a=b"], " -i mask.npy -i input_1.npy");
        check(&["x", "a=b"], " -i x.npy -i input_1.npy");
        check(&["x", "a\nb"], " -i x.npy -i input_1.npy");
        check(&["\u{202e}x"], " -i input_0.npy");
        check(&["-x"], " -i input_0.npy");
        check(&["@x"], " -i input_0.npy");
        let of_spec = |dtype, shape: &str| {
            let spec = TensorSpec::new("x", dtype, serde_json::from_str(shape).unwrap());
            arguments(&[("x", form(&spec), false)])
        };
        assert_eq!(of_spec(DataType::Bytes, r#"["n"]"#), " -i x=@x");
        assert_eq!(of_spec(DataType::Bytes, "\"*\""), " -i x=@x");
        assert_eq!(of_spec(DataType::Bytes, r#"["n", 3]"#), " -i x=x.npy");
        assert_eq!(of_spec(DataType::BFloat16, r#"["n"]"#), " -i 'x=x.safetensors#x'");
        for name in ["image", "serving_default/x:0", " x", "日本"] {
            assert!(can_be_named(name));
            let argument: InputArgument = format!("{name}=x.npy").parse().unwrap();
            assert_eq!(argument.name.as_deref(), Some(name));
        }
    }
}
