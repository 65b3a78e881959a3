//! Oddities in a carton.toml of other writers.

use carton_tensor::Dimension;

use super::*;
use crate::side::Side;

fn spec(list: &str, name: &str) -> String {
    format!("[[{list}]]\nname = '{name}'\ndtype = 'int8'\nshape = []\n")
}

fn odd(text: &str, expected: &[Oddity]) -> Metadata {
    let metadata = accepted(text);
    assert_eq!(metadata.oddities(), expected, "{text}");
    // A draft with this oddity is refused.
    assert!(Draft::from(metadata.clone()).validate().is_err(), "{text}");
    metadata
}

#[test]
fn one_list_alone() {
    let metadata = odd(&file(&spec("input", "x"), ""), &[Oddity::OutputsNotDeclared]);
    let signature = metadata.signature().unwrap();
    assert_eq!((signature.inputs.as_ref().map(Vec::len), &signature.outputs), (Some(1), &None));
    assert_eq!((metadata.inputs().len(), metadata.outputs()), (1, &[][..]));
    let metadata = odd(&file("input = []", ""), &[Oddity::OutputsNotDeclared]);
    assert_eq!(metadata.signature().unwrap().inputs, Some(Vec::new()));
    let metadata = odd(
        &file(&spec("output", "y"), "[[self_test]]\ninputs = { x = '@tensor_data/x' }"),
        &[Oddity::InputsNotDeclared],
    );
    assert_eq!(metadata.signature().unwrap().inputs, None);
    let example = "[[example]]\ninputs = { x = '@misc/x' }";
    odd(&file(&spec("output", "y"), example), &[Oddity::InputsNotDeclared]);
    // Without any input, declared outputs alone mean that there are no inputs.
    let metadata = accepted(&file(&spec("output", "y"), "[[self_test]]\ninputs = {}"));
    assert_eq!(metadata.signature().unwrap().inputs, Some(Vec::new()));
    assert_eq!(metadata.oddities(), []);
}

#[test]
fn tests_without_a_signature() {
    let test = "[[self_test]]\ninputs = { x = '@tensor_data/x' }\n";
    let metadata = odd(&file("", test), &[Oddity::SelfTestsWithoutSignature]);
    assert_eq!((metadata.signature(), metadata.self_tests().len()), (None, 1));
    odd(&file("", "[[example]]\n"), &[Oddity::ExamplesWithoutSignature]);
    let both = format!("{test}[[example]]\n");
    odd(&file("", &both), &[Oddity::SelfTestsWithoutSignature, Oddity::ExamplesWithoutSignature]);
}

#[test]
fn names() {
    let repeated = |side, name: &str, count| Oddity::RepeatedName { side, name: name.to_owned(), count };
    let inputs = |names: &[&str]| names.iter().map(|name| spec("input", name)).collect::<String>();
    let text = format!("output = []\n{}", inputs(&["x", "y", "x", "x"]));
    let metadata = odd(&file(&text, ""), &[repeated(Side::Input, "x", 3)]);
    assert_eq!(metadata.inputs().len(), 4);
    let names: Vec<_> = metadata.signature().unwrap().positional_inputs().iter().map(|spec| &spec.name).collect();
    assert_eq!(names, ["x", "y"]);
    let text = format!("output = []\n{}", inputs(&["a", "", ""]));
    odd(&file(&text, ""), &[Oddity::EmptyName { side: Side::Input, index: 1 }]);
    let text = [spec("input", "x"), spec("output", "z"), spec("output", "z")].concat();
    odd(&file(&text, ""), &[repeated(Side::Output, "z", 2)]);
}

#[test]
fn empty_symbols() {
    let with =
        |shape: &str| file(&format!("output = []\ninput = [{{ name = 'x', dtype = 'int8', shape = {shape} }}]"), "");
    let empty = [Oddity::EmptySymbol { side: Side::Input, index: 0 }];
    let metadata = odd(&with("['', 3, '']"), &empty);
    let empty_dimension = || Dimension::Symbol(String::new());
    let shape = SymbolicShape::Dimensions(vec![empty_dimension(), Dimension::Fixed(3), empty_dimension()]);
    assert_eq!(metadata.inputs()[0].shape, shape);
    odd(&with("''"), &empty);
}

#[test]
fn back_slashes() {
    let text = file(SIGNATURE, "[[example]]\nsample_out = { y = '@misc/in\\cat.png' }");
    let metadata = accepted(&text);
    assert_eq!(metadata.examples()[0].sample_out["y"], Reference::Misc(r"in\cat.png".to_owned()));
    not_written(&text, "`example[0].sample_out.y`: expected a path without back slashes after `@misc/`");
}

#[test]
fn oddities_as_text() {
    let check = |oddity: Oddity, expected: &str| assert_eq!(oddity.to_string(), expected);
    check(Oddity::OutputsNotDeclared, "inputs are declared and outputs are not: outputs are not checked");
    check(
        Oddity::RepeatedName { side: Side::Input, name: "x".to_owned(), count: 2 },
        "2 inputs have the name `x`: dtype and shape of that input are not checked",
    );
    check(
        Oddity::BackSlash { path: r"misc/a\b".to_owned(), count: 1 },
        r"the name `misc/a\b` has a back slash, which some systems take for a slash",
    );
}
