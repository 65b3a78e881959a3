//! Each rule of the signature checks, case by case.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use carton_tensor::{BoolByte, NestedTensor, NumericTensor, StringTensor, Tensors};

use super::*;

/// A tensor of zeros of this shape.
fn float(shape: &[usize]) -> Tensor {
    NumericTensor::from_vec(vec![0.0_f32; shape.iter().product()], shape.to_vec()).unwrap().into()
}

fn string(shape: &[usize]) -> Tensor {
    StringTensor::new(vec![String::new(); shape.iter().product()], shape.to_vec()).unwrap().into()
}

fn nested(shapes: &[&[usize]]) -> Tensor {
    NestedTensor::new(shapes.iter().map(|shape| float(shape)).collect()).unwrap().into()
}

fn specs(declared: &[(&str, &str)]) -> Vec<TensorSpec> {
    let text: String = declared
        .iter()
        .map(|(name, shape)| format!("[[input]]\nname = '{name}'\ndtype = 'float32'\nshape = {shape}\n"))
        .collect();
    let text = format!(
        "spec_version = 1\noutput = []\n{}{text}[runner]\nrunner_name = 'r'\nrequired_framework_version = '*'",
        if declared.is_empty() { "input = []\n" } else { "" }
    );
    crate::metadata::Metadata::parse(&text).unwrap().inputs().to_vec()
}

/// Names and shapes.
type Declared<'text> = &'text [(&'text str, &'text str)];

/// Checks `inputs` and `outputs`, declared as name and shape in TOML, and compares all violations.
fn check_call(
    declared: (Declared<'_>, Declared<'_>),
    inputs: &[(&str, Tensor)],
    outputs: &[(&str, Tensor)],
    expected: &[&str],
) {
    let signature = Signature { inputs: Some(specs(declared.0)), outputs: Some(specs(declared.1)) };
    let mut bindings = Bindings::default();
    let mut found = Vec::new();
    let given = inputs.iter().map(|(name, tensor)| (*name, tensor));
    if let Err(error) = check_inputs(&signature, &mut bindings, given) {
        found.extend(error.violations);
    }
    let given = outputs.iter().map(|(name, tensor)| (*name, tensor));
    if let Err(error) = check_outputs(&signature, &mut bindings, given) {
        found.extend(error.violations);
    }
    let found: Vec<_> = found.iter().map(Violation::to_string).collect();
    assert_eq!(found, expected, "declared {declared:?}");
}

/// Checks one input `x` against one declared shape.
fn check_shape(declared: &str, tensor: Tensor, expected: &[&str]) {
    check_call((&[("x", declared)], &[]), &[("x", tensor)], &[], expected);
}

#[test]
fn names() {
    let expected = ["input `x`: expected a tensor of float32, shape [n, 2, *], found nothing"];
    check_call((&[("x", "['n', 2, '*']")], &[]), &[], &[], &expected);
    let expected = [
        "input `x`: expected a tensor of float32, any shape, found nothing",
        "input `z`: expected only `x`, `y`, found a tensor of float32, shape [1]",
    ];
    let given = [("y", float(&[1])), ("z", float(&[1]))];
    check_call((&[("x", "'*'"), ("y", "'*'")], &[]), &given, &[], &expected);
    let expected = ["output `y`: expected no outputs, found a list of 1 tensors of float32"];
    check_call((&[], &[]), &[], &[("y", nested(&[&[1]]))], &expected);
    let expected = ["output `y`: expected a tensor of float32, shape `s`, found nothing"];
    check_call((&[], &[("y", "'s'")]), &[], &[], &expected);
    check_call((&[], &[]), &[], &[], &[]);
}

#[test]
fn dtypes() {
    check_shape("'*'", string(&[2]), &["input `x`: expected float32, found string"]);
    check_shape(
        "'*'",
        NestedTensor::new(vec![string(&[])]).unwrap().into(),
        &["input `x`: expected float32, found string"],
    );
    check_shape("'*'", nested(&[]), &[]);
}

#[test]
fn ranks_and_sizes() {
    check_shape("[]", float(&[]), &[]);
    check_shape("[]", float(&[1]), &["input `x`: expected a scalar, found 1 dimension (shape [1])"]);
    check_shape("[3, 4]", float(&[3, 4]), &[]);
    check_shape("[3, 4]", float(&[4, 4]), &["input `x`, dimension 0: expected 3, found 4"]);
    check_shape("[3, 4]", float(&[3]), &["input `x`: expected 2 dimensions, found 1 dimension (shape [3])"]);
    check_shape("['*', 4]", float(&[0, 4]), &[]);
    check_shape(
        "[5, 5]",
        float(&[1, 2]),
        &["input `x`, dimension 0: expected 5, found 1", "input `x`, dimension 1: expected 5, found 2"],
    );
}

#[test]
fn dimension_symbols() {
    check_shape("['n', 'n']", float(&[2, 2]), &[]);
    let expected = ["input `x`, dimension 1: expected 2 (`n` in input `x`), found 3"];
    check_shape("['n', 'n']", float(&[2, 3]), &expected);
    check_shape("['*', '*']", float(&[2, 3]), &[]);
    let across: (&[_], &[_]) = (&[("x", "['n']"), ("y", "[1, 'n']")], &[("z", "['n', 'm']"), ("w", "['m']")]);
    let given = [("x", float(&[7])), ("y", float(&[1, 7]))];
    check_call(across, &given, &[("z", float(&[7, 2])), ("w", float(&[2]))], &[]);
    let expected = [
        "output `z`, dimension 0: expected 7 (`n` in input `x`), found 6",
        "output `w`, dimension 0: expected 2 (`m` in output `z`), found 3",
    ];
    check_call(across, &given, &[("z", float(&[6, 2])), ("w", float(&[3]))], &expected);
}

#[test]
fn whole_shape_symbols() {
    let declared: (&[_], &[_]) = (&[("x", "'s'")], &[("y", "'s'")]);
    check_call(declared, &[("x", float(&[2, 3]))], &[("y", float(&[2, 3]))], &[]);
    let expected = ["output `y`: expected shape [2, 3] (`s` in input `x`), found shape [3, 2]"];
    check_call(declared, &[("x", float(&[2, 3]))], &[("y", float(&[3, 2]))], &expected);
    check_call(declared, &[("x", nested(&[&[1], &[2]]))], &[("y", nested(&[&[1], &[2]]))], &[]);
    let expected = ["output `y`: expected a list of shapes [[1], [2]] (`s` in input `x`), found shape [2, 2]"];
    check_call(declared, &[("x", nested(&[&[1], &[2]]))], &[("y", nested(&[&[2], &[2]]))], &expected);
    // A symbol for a dimension is another symbol, even if it has the same name.
    check_call((&[("x", "'s'"), ("y", "['s']")], &[]), &[("x", float(&[2])), ("y", float(&[9]))], &[], &[]);
}

#[test]
fn nested_tensors() {
    check_shape("[2, '*']", nested(&[&[1], &[5]]), &[]);
    check_shape("['n', '*', 3]", nested(&[&[1, 3], &[5, 3], &[0, 3]]), &[]);
    check_shape("[3, '*']", nested(&[&[1], &[5]]), &["input `x`, dimension 0: expected 3, found 2"]);
    let expected = ["input `x`, tensor 1 of the list, dimension 0: expected 1 (`n` in input `x`), found 5"];
    check_shape("['*', 'n']", nested(&[&[1], &[5]]), &expected);
    let expected = ["input `x`, tensor 0 of the list: expected a scalar, found 1 dimension (shape [1])"];
    check_shape("['*']", nested(&[&[1]]), &expected);
    check_shape("[]", nested(&[&[1]]), &["input `x`: expected a scalar, found a list of 1 tensors of float32"]);
    check_shape("['*', 'n', 4]", nested(&[]), &[]);
}

#[test]
fn positional() {
    let signature = Signature { inputs: Some(specs(&[("b", "'*'"), ("a", "'*'")])), outputs: Some(Vec::new()) };
    let names = |tensors| {
        name_positional(Some(&signature), tensors)
            .map(|named| named.into_iter().map(|(name, tensor)| (name, tensor.shape().unwrap().len())).collect())
    };
    assert_eq!(names(vec![]), Ok(vec![]));
    assert_eq!(names(vec![float(&[])]), Ok(vec![("b".to_owned(), 0)]));
    assert_eq!(names(vec![float(&[]), float(&[1])]), Ok(vec![("b".to_owned(), 0), ("a".to_owned(), 1)]));
    let too_many = vec![float(&[]); 3];
    assert_eq!(names(too_many), Err(TooManyPositional { expected: 2, found: 3 }));
    assert!(name_positional(None, vec![float(&[])]).is_err());
    assert!(name_positional(None, vec![]).is_ok());
}

#[test]
fn modes() {
    for mode in [SignatureMode::Strict, SignatureMode::Warn, SignatureMode::Off] {
        assert_eq!(mode.name().parse(), Ok(mode));
    }
    assert!("Strict".parse::<SignatureMode>().is_err());
    assert_eq!(SignatureMode::default(), SignatureMode::Strict);
}

#[test]
fn the_error_has_a_line_for_each_violation() {
    let signature = Signature { inputs: Some(specs(&[("x", "[1]"), ("y", "[1]")])), outputs: Some(Vec::new()) };
    let (x, y) = (float(&[2]), float(&[3]));
    let error = check_inputs(&signature, &mut Bindings::default(), [("x", &x), ("y", &y)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensors do not match the model's signature\n  input `x`, dimension 0: expected 1, found 2\n  input `y`, \
         dimension 0: expected 1, found 3"
    );
}

#[test]
fn violations_are_capped() {
    check_count("['*', 7]", nested(&vec![&[1_usize][..]; 1000]), MAX_VIOLATIONS);
}

fn check_count(declared: &str, tensor: Tensor, expected: usize) {
    let signature = Signature { inputs: Some(specs(&[("x", declared)])), outputs: Some(Vec::new()) };
    let error = check_inputs(&signature, &mut Bindings::default(), [("x", &tensor)]).unwrap_err();
    assert_eq!(error.violations.len(), expected);
}

#[test]
fn optional_inputs() {
    let mut inputs = specs(&[("x", "['n']"), ("y", "['n']")]);
    inputs[1].optional = Some(true);
    let signature = Signature { inputs: Some(inputs), outputs: None };
    let check = |tensors: &[(&str, &Tensor)]| {
        check_inputs(&signature, &mut Bindings::default(), tensors.iter().copied())
            .map_err(|error| (error.lacks_inputs(), error.violations[0].to_string()))
    };
    let (two, three) = (float(&[2]), float(&[3]));
    assert_eq!(check(&[("x", &two)]), Ok(()));
    assert_eq!(check(&[("x", &two), ("y", &two)]), Ok(()));
    // An optional input that is given is checked.
    let expected = "input `y`, dimension 0: expected 2 (`n` in input `x`), found 3";
    assert_eq!(check(&[("x", &two), ("y", &three)]), Err((false, expected.to_owned())));
    let expected = "input `x`: expected a tensor of float32, shape [n], found nothing";
    assert_eq!(check(&[("y", &two)]), Err((true, expected.to_owned())));
}

#[test]
fn what_is_not_declared_is_not_checked() {
    let (tensor, other) = (float(&[2]), string(&[]));
    let only_inputs = Signature { inputs: Some(specs(&[("x", "[1]")])), outputs: None };
    let mut bindings = Bindings::default();
    assert_eq!(check_outputs(&only_inputs, &mut bindings, [("anything", &tensor), ("at all", &other)]), Ok(()));
    assert!(check_inputs(&only_inputs, &mut bindings, [("x", &tensor)]).is_err());
    let only_outputs = Signature { inputs: None, outputs: Some(specs(&[("y", "[1]")])) };
    assert_eq!(check_inputs(&only_outputs, &mut bindings, [("anything", &other)]), Ok(()));
    assert!(check_outputs(&only_outputs, &mut bindings, []).is_err());
    let error = name_positional(Some(&only_outputs), vec![tensor]).unwrap_err();
    assert_eq!(error, TooManyPositional { expected: 0, found: 1 });
}

#[test]
fn names_that_are_empty_or_repeated() {
    let check = |declared: &[(&str, &str)], tensors: &[(&str, Tensor)], expected: &[&str]| {
        check_call((declared, &[]), tensors, &[], expected);
    };
    let repeated = [("x", "[1]"), ("y", "[1]"), ("x", "[2]")];
    // It is unknown which declared `x` this is, and which name one of them should have had. `y` is checked as declared.
    for x in [float(&[1]), float(&[2]), float(&[3]), string(&[])] {
        check(&repeated, &[("x", x.clone()), ("y", float(&[1]))], &[]);
        check(&repeated, &[("x", x.clone()), ("y", float(&[1])), ("z", x)], &[]);
    }
    check(&repeated, &[("x", float(&[1])), ("y", float(&[2]))], &["input `y`, dimension 0: expected 1, found 2"]);
    let missing = "input `x`: expected a tensor of float32, shape [1], found nothing";
    check(&repeated, &[("y", float(&[1]))], &[missing]);
    let unnamed = [("", "[1]"), ("y", "[1]")];
    check(&unnamed, &[("y", float(&[1]))], &[]);
    check(&unnamed, &[("y", float(&[1])), ("other", string(&[]))], &[]);
    check(&unnamed, &[("", float(&[2])), ("y", float(&[1]))], &["input ``, dimension 0: expected 1, found 2"]);
    let names = |declared: &[(&str, &str)], n| {
        let signature = Signature { inputs: Some(specs(declared)), outputs: None };
        name_positional(Some(&signature), vec![float(&[]); n])
            .map(|named| named.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
            .map_err(|error| error.expected)
    };
    assert_eq!(names(&repeated, 2), Ok(vec!["x".to_owned(), "y".to_owned()]));
    assert_eq!(names(&repeated, 3), Err(2));
    assert_eq!(names(&unnamed, 2), Ok(vec![String::new(), "y".to_owned()]));
}

#[test]
fn an_empty_symbol_stands_for_anything() {
    check_shape("''", float(&[2, 3]), &[]);
    check_shape("['', '', 3]", float(&[2, 1, 3]), &[]);
    check_shape("['', '', 3]", float(&[2, 1, 4]), &["input `x`, dimension 2: expected 3, found 4"]);
    check_call((&[("x", "''"), ("y", "''")], &[]), &[("x", float(&[1])), ("y", float(&[2]))], &[], &[]);
}

fn bools(elements: &[u8]) -> Tensor {
    let elements: Vec<_> = elements.iter().map(|&element| BoolByte(element)).collect();
    let shape = vec![elements.len()];
    Tensor::from_vec(elements, shape).unwrap()
}

fn bytes(elements: &[u8]) -> Tensor {
    Tensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap()
}

fn vector_of(name: &str, dtype: DataType) -> TensorSpec {
    TensorSpec::new(name, dtype, SymbolicShape::Dimensions(vec![Dimension::Any]))
}

/// The tensor `x` as its declared dtype, or the violations.
fn declared(side: Side, dtype: DataType, tensor: &Tensor) -> Result<Tensor, String> {
    let mut tensors = Tensors::from([("x".to_owned(), tensor.clone())]);
    let specs = [vector_of("x", dtype)];
    let giver = if side == Side::Input { Giver::User } else { Giver::Runner };
    let converted = as_declared(side, giver, Some(&specs), &mut tensors);
    converted.map_err(|error| error.to_string().replace("tensors do not match the model's signature\n  ", ""))?;
    Ok(tensors.remove("x").unwrap())
}

#[test]
fn carriers_become_what_is_declared() {
    let input = |dtype, tensor: &Tensor, expected: Result<&Tensor, &str>| {
        let expected = expected.cloned().map_err(str::to_owned);
        assert_eq!(declared(Side::Input, dtype, tensor), expected, "{dtype} of {tensor:?}");
    };
    input(DataType::Bool, &bytes(&[1, 0]), Ok(&bools(&[1, 0])));
    input(DataType::Bool, &bools(&[1, 0]), Ok(&bools(&[1, 0])));
    input(DataType::Bool, &bytes(&[1, 0, 2]), Err("input `x`, element [2]: expected 0 or 1 (bool), found 2"));
    let list = Tensor::nested(vec![bytes(&[1]), bytes(&[0, 3])]).unwrap();
    let refused = "input `x`, tensor 1 of the list, element [1]: expected 0 or 1 (bool), found 3";
    input(DataType::Bool, &list, Err(refused));
    let half = |value: f32| Tensor::scalar(carton_tensor::f16::from_f32(value));
    input(DataType::Float16, &Tensor::scalar(0.5_f32), Ok(&half(0.5)));
    let refused = "input `x`, element []: expected a value of float16, found 70000.0";
    input(DataType::Float16, &Tensor::scalar(70000_f32), Err(refused));
    let refused = "input `x`, element []: expected a value of float16, found 0.1";
    input(DataType::Float16, &Tensor::scalar(0.1_f32), Err(refused));
    let text = Tensor::from_strings(["é"], vec![1]).unwrap();
    input(DataType::Bytes, &text, Ok(&Tensor::from_bytes([vec![0xc3, 0xa9]], vec![1]).unwrap()));
    // The check of dtypes refuses these, unless it is switched off.
    input(DataType::Bool, &Tensor::scalar(0.5_f32), Ok(&Tensor::scalar(0.5_f32)));
    input(DataType::Uint8, &bools(&[1]), Ok(&bools(&[1])));
    input(DataType::Float32, &half(0.5), Ok(&half(0.5)));
}

#[test]
fn outputs_become_what_is_declared() {
    // Outputs of a runner are copied, because it could write to them later.
    let sent = bytes(&[0, 1]);
    let output = declared(Side::Output, DataType::Bool, &sent).unwrap();
    assert_eq!(output, bools(&[0, 1]));
    assert_ne!(output.as_numeric().unwrap().bytes().as_ptr(), sent.as_numeric().unwrap().bytes().as_ptr());
    // A carton of a writer that knows version 1 alone declares the carriers.
    assert_eq!(declared(Side::Output, DataType::Uint8, &bools(&[0, 1])), Ok(sent));
    let half = Tensor::scalar(carton_tensor::f16::from_f32(0.1));
    assert_eq!(declared(Side::Output, DataType::Float32, &half), Ok(Tensor::scalar(0.099_975_586_f32)));
    let refused = declared(Side::Output, DataType::Float16, &Tensor::scalar(0.1_f32)).unwrap_err();
    assert_eq!(refused, "output `x`, element []: expected a value of float16, found 0.1");
    let base64 = Tensor::from_strings(["AP8="], vec![1]).unwrap();
    let raw = Tensor::from_bytes([vec![0_u8, 255]], vec![1]).unwrap();
    assert_eq!(declared(Side::Output, DataType::Bytes, &base64), Ok(raw.clone()));
    // A model that gives bytes where texts are declared gives their UTF-8, never what carries them.
    let hello = Tensor::from_bytes([b"hello"], vec![1]).unwrap();
    assert_eq!(declared(Side::Output, DataType::String, &hello), Ok(Tensor::from_strings(["hello"], vec![1]).unwrap()));
    let refused = declared(Side::Output, DataType::String, &raw).unwrap_err();
    assert!(refused.starts_with("output `x`, element 0: expected text in UTF-8, found other bytes"), "{refused}");
    let pairs = declared(Side::Input, DataType::Complex64, &Tensor::from_vec(vec![0.5_f32; 3], vec![3]).unwrap());
    let expected =
        "input `x`: expected a last dimension of 2, the real and the imaginary part of complex64, found shape [3]";
    assert_eq!(pairs, Err(expected.to_owned()));
}

/// Of several declarations with one name, none says what the tensor is.
#[test]
fn what_is_declared_twice_stays_as_it_is() {
    let mut tensors = Tensors::from([("x".to_owned(), bytes(&[1]))]);
    let twice = [vector_of("x", DataType::Bool), vector_of("x", DataType::Uint8)];
    as_declared(Side::Input, Giver::User, Some(&twice), &mut tensors).unwrap();
    as_declared(Side::Input, Giver::User, None, &mut tensors).unwrap();
    assert_eq!(tensors["x"], bytes(&[1]));
}

/// The error names the declared type, and its hint says how to declare the input as a mask.
#[test]
fn booleans_for_other_inputs() {
    let inputs = Some(vec![vector_of("mask", DataType::Bool), vector_of("counts", DataType::Uint8)]);
    let signature = Signature { inputs, outputs: None };
    let error = |name: &str, tensor: Tensor| {
        let others = [("mask", bools(&[1])), ("counts", bytes(&[7]))].into_iter().filter(|(other, _)| *other != name);
        let tensors: Vec<_> = others.chain([(name, tensor)]).collect();
        check_inputs(&signature, &mut Bindings::default(), tensors.iter().map(|(name, tensor)| (*name, tensor)))
    };
    assert_eq!(error("mask", bools(&[1])), Ok(()));
    let found = error("mask", Tensor::from_vec(vec![1.0_f32], vec![1]).unwrap()).unwrap_err();
    assert!(found.to_string().ends_with("input `mask`: expected bool, found float32"), "{found}");
    assert_eq!((found.castable(), found.undeclared_bool_hint()), (Some(("mask", DataType::Bool)), None));
    let found = error("counts", bools(&[1])).unwrap_err();
    assert!(found.to_string().ends_with("input `counts`: expected uint8, found bool"), "{found}");
    let hint = found.undeclared_bool_hint().unwrap();
    assert!(hint.starts_with("if `counts` is a mask to the model, declare it in the metadata"), "{hint}");
    assert_eq!(found.castable(), None);
    let x = Signature { inputs: Some(vec![vector_of("x", DataType::Float32)]), outputs: None };
    let found = check_inputs(&x, &mut Bindings::default(), [("x", &bools(&[1]))]).unwrap_err();
    assert_eq!((found.castable(), found.undeclared_bool_hint()), (Some(("x", DataType::Float32)), None));
}
