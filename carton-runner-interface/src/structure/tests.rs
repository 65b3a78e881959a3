#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;

fn number(value: i64) -> Tensor {
    Tensor::scalar(value)
}

fn leaf(value: i64) -> Value {
    Value::Tensor(number(value))
}

fn record(fields: Vec<(&str, Value)>) -> Value {
    Value::Record(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn list(values: &[i64]) -> Tensor {
    Tensor::nested(values.iter().map(|&value| number(value)).collect()).unwrap()
}

fn lengths(values: &[i64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), vec![values.len()]).unwrap()
}

/// Checks the leaves of a value, and that they make the value again.
fn check(value: Value, expected: &[(&str, Tensor)]) {
    let leaves = flatten("v", value.clone()).unwrap();
    let found: Vec<(&str, Tensor)> = leaves.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    assert_eq!(found, expected, "{value:?}");
    assert_eq!(gather("v", &leaves.into_iter().collect()).unwrap(), Some(value));
}

#[test]
fn the_examples_of_the_specification() {
    check(
        Value::Tuple(vec![leaf(1), Value::Tuple(vec![leaf(2), leaf(3)])]),
        &[("v.0", number(1)), ("v.1.0", number(2)), ("v.1.1", number(3))],
    );
    check(
        record(vec![("boxes", Value::List(vec![leaf(1), leaf(2)])), ("n", leaf(2))]),
        &[("v.boxes", list(&[1, 2])), ("v.n", number(2))],
    );
    let detection = |first, second| record(vec![("boxes", leaf(first)), ("scores", leaf(second))]);
    check(
        Value::List(vec![detection(1, 2), detection(3, 4)]),
        &[("v[].boxes", list(&[1, 3])), ("v[].scores", list(&[2, 4]))],
    );
    let lists = |lists: &[&[i64]]| {
        Value::List(lists.iter().map(|list| Value::List(list.iter().map(|&value| leaf(value)).collect())).collect())
    };
    check(lists(&[&[1, 2], &[3]]), &[("v[][]", list(&[1, 2, 3])), ("v[].#", lengths(&[2, 1]))]);
    let masks = |masks: &[i64]| record(vec![("masks", Value::List(masks.iter().map(|&mask| leaf(mask)).collect()))]);
    check(
        Value::List(vec![masks(&[1, 2]), masks(&[])]),
        &[("v[].masks[]", list(&[1, 2])), ("v[].masks.#", lengths(&[2, 0]))],
    );
    // Three levels of lists: the lengths of the innermost ones are a tensor of each element.
    check(
        Value::List(vec![lists(&[&[1], &[2, 3]]), lists(&[&[]])]),
        &[
            ("v[][][][]", list(&[1, 2, 3])),
            ("v[][][].#", lengths(&[3, 0])),
            ("v[][].#", Tensor::nested(vec![lengths(&[1, 2]), lengths(&[0])]).unwrap()),
        ],
    );
}

/// A tensor of `spec/conformance/structured-values.json`.
fn tensor_of(case: &Json) -> Tensor {
    let of = |key: &str| case[key].as_array().unwrap().iter();
    if case.get("nested").is_some() {
        return Tensor::nested(of("nested").map(tensor_of).collect()).unwrap();
    }
    let shape = of("shape").map(|dim| dim.as_u64().unwrap() as usize).collect::<Vec<_>>();
    match case["dtype"].as_str().unwrap() {
        "float64" => Tensor::from_vec(of("data").map(|value| value.as_f64().unwrap()).collect(), shape).unwrap(),
        "int64" => Tensor::from_vec(of("data").map(|value| value.as_i64().unwrap()).collect(), shape).unwrap(),
        other => panic!("a tensor of {other}"),
    }
}

/// A value of `spec/conformance/structured-values.json`.
fn value_of(case: &Json) -> Value {
    let Json::Object(form) = case else { return Value::None };
    let values = |parts: &Json| parts.as_array().unwrap().iter().map(value_of).collect();
    let (form, parts) = form.iter().next().unwrap();
    match (form.as_str(), parts) {
        ("list", parts) => Value::List(values(parts)),
        ("tuple", parts) => Value::Tuple(values(parts)),
        ("record", fields) => {
            let field = |field: &Json| (field[0].as_str().unwrap().to_owned(), value_of(&field[1]));
            Value::Record(fields.as_array().unwrap().iter().map(field).collect())
        }
        _ => Value::Tensor(tensor_of(case)),
    }
}

/// The table that the readers in Python go through too.
#[test]
fn the_table_of_the_specification() {
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/conformance/structured-values.json");
    let table: Json = serde_json::from_slice(&fs::read(table).unwrap()).unwrap();
    let cases = |section: &str| table[section].as_array().unwrap();
    let leaves_of = |leaves: &Json| -> Tensors {
        leaves.as_object().unwrap().iter().map(|(name, leaf)| (name.clone(), tensor_of(leaf))).collect()
    };
    for case in cases("values") {
        let declared = case.get("declared").map(|names| names.as_array().unwrap().as_slice()).unwrap_or_default();
        let declared: Vec<&str> = declared.iter().map(|name| name.as_str().unwrap()).collect();
        let value = value_of(&case["value"]);
        let leaves: Tensors = flatten_declared("v", value.clone(), &declared).unwrap().into_iter().collect();
        assert_eq!(leaves, leaves_of(&case["leaves"]), "{case}");
        if case["comes_back"] != false {
            assert_eq!(gather("v", &leaves).unwrap(), Some(value), "{case}");
        }
    }
    for case in cases("refused_values") {
        assert!(flatten("v", value_of(case)).is_err(), "{case}");
    }
    for case in cases("refused_leaves") {
        assert!(gather("v", &leaves_of(case)).is_err(), "{case}");
    }
}

#[test]
fn none_and_what_is_empty() {
    assert_eq!(flatten("v", Value::None), Ok(vec![]));
    assert_eq!(flatten("v", Value::Tuple(vec![])), Ok(vec![]));
    let second_only = flatten("v", Value::Tuple(vec![Value::None, leaf(1)])).unwrap();
    assert_eq!(second_only, [("v.1".to_owned(), number(1))]);
    assert_eq!(gather("v", &second_only.into_iter().collect()), Ok(Some(record(vec![("1", leaf(1))]))));
    check(Value::List(vec![]), &[("v", list(&[]))]);
    let declared = |value: Value, declared: &[&str]| flatten_declared("v", value, declared).unwrap();
    let named = |name: &str, tensor: Tensor| (name.to_owned(), tensor);
    assert_eq!(
        declared(Value::List(vec![]), &["v[].a", "v[].b[]", "v[].b.#", "w[].c"]),
        [named("v[].a", list(&[])), named("v[].b[]", list(&[])), named("v[].b.#", lengths(&[]))]
    );
    let three_levels = ["v[][][][]", "v[][][].#", "v[][].#"];
    let none = declared(Value::List(vec![]), &three_levels);
    assert_eq!(gather("v", &none.into_iter().collect()), Ok(Some(Value::List(vec![]))));
    let of_pairs = |pairs: Vec<Value>| record(vec![("b", Value::List(pairs))]);
    let pair = Value::Tuple(vec![leaf(1), leaf(2)]);
    let names = ["v[].b[].0[]", "v[].b[].0.#", "v[].b[].1[]", "v[].b[].1.#"];
    assert_eq!(
        declared(Value::List(vec![of_pairs(vec![]), of_pairs(vec![pair])]), &names),
        [
            named(names[0], list(&[1])),
            named(names[1], lengths(&[0, 1])),
            named(names[2], list(&[2])),
            named(names[3], lengths(&[0, 1])),
        ]
    );
}

#[test]
fn empty_lists_have_the_leaves_of_other_elements() {
    let one = || record(vec![("a", leaf(1))]);
    let (some, none) = (|| Value::List(vec![one(), one()]), || Value::List(vec![]));
    check(
        Value::List(vec![none(), some(), none()]),
        &[("v[][].a[]", list(&[1, 1])), ("v[][].a.#", lengths(&[0, 2, 0]))],
    );
    let field = |value: Value| record(vec![("f", value)]);
    check(
        Value::List(vec![field(some()), field(none())]),
        &[("v[].f[].a[]", list(&[1, 1])), ("v[].f[].a.#", lengths(&[2, 0]))],
    );
    let row = || Value::List(vec![leaf(1)]);
    check(
        Value::List(vec![Value::List(vec![row(), row()]), none()]),
        &[
            ("v[][][][]", list(&[1, 1])),
            ("v[][][].#", lengths(&[2, 0])),
            ("v[][].#", Tensor::nested(vec![lengths(&[1, 1]), lengths(&[])]).unwrap()),
        ],
    );
}

#[test]
fn tops_of_names() {
    for (name, expected) in [
        ("v", "v"),
        ("v.a", "v"),
        ("v[].a.b", "v"),
        ("v[0].a", "v[0]"),
        (".a.b", ".a"),
        ("[]", "[]"),
        ("", ""),
        ("é.é", "é"),
    ] {
        assert_eq!(top(name), expected, "{name}");
    }
}

#[test]
fn what_has_no_leaves() {
    let refused = |value: Value, expected: &str| {
        let error = flatten("v", value).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let one = |key: &str| record(vec![(key, leaf(1))]);
    for key in ["", "#", "#shapes", "a.#", "a.#shapes", "a[", "]"] {
        refused(one(key), &format!("`v` has the key {key:?}"));
    }
    let dotted = record(vec![("a.b", leaf(1)), ("a", one("b"))]);
    refused(dotted, "two tensors of the value would be `v.a.b`");
    refused(Value::List(vec![one("a"), one("b")]), "the elements of the list `v` differ: element 1 has no `v[].a`");
    let two = record(vec![("a", leaf(1)), ("b", leaf(1))]);
    refused(Value::List(vec![one("a"), two]), "element 1 has `v[].b` too");
    refused(Value::List(vec![leaf(1), Value::None]), "element 1 has no `v[]`");
    refused(Value::List(vec![leaf(1), Value::List(vec![leaf(1)])]), "element 1 has a list as `v[]`");
    refused(Value::List(vec![Value::None; 3]), "the list `v` has 3 elements, and no tensor in any of them");
    refused(Value::List(vec![leaf(1), Value::Tensor(Tensor::scalar(1_u8))]), "the list `v`: ");
    let deep = (0..=MAX_LEVELS).fold(leaf(1), |value, _| Value::Tuple(vec![value]));
    refused(deep, "more than 64 levels");
    refused(Value::Tuple(vec![leaf(1); MAX_LEAVES + 1]), "more than 100000 tensors");
}

#[test]
fn what_is_no_value() {
    let refused = |leaves: &[(&str, Tensor)], expected: &str| {
        let leaves = leaves.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let error = gather("v", &leaves).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(&[("v", number(1)), ("v.a", number(1))], "`v` is a tensor, and the beginning");
    refused(&[("v[].a", list(&[1])), ("v.a", number(1))], "`v` is the beginning of names of a list");
    refused(&[("v[].a", number(1))], "`v[].a` should be a nested tensor");
    for tensor in [list(&[1]), number(1)] {
        refused(&[("v[]", tensor)], "`v[]` is no tensor of its own: a list of tensors is `v`");
    }
    refused(&[("v[]", list(&[1])), ("v.#", lengths(&[1]))], "`v` is the beginning of names of a list");
    refused(&[("v.#", number(1))], "is not the name of part of a value");
    refused(&[("v[].a", list(&[1])), ("v[].b", list(&[1, 2]))], "`v[].b` has 2 elements, other leaves");
    refused(&[("v[][]", list(&[1]))], "`v[][]` needs the lengths of its lists, `v[].#`");
    refused(&[("v[][]", list(&[1])), ("v[].#", lengths(&[2]))], "its lengths make another number");
    refused(&[("v[][]", list(&[1])), ("v[].#", lengths(&[2, -1]))], "`v[].#` should be lengths");
    refused(&[("v[].a.#", lengths(&[1])), ("v[].b", list(&[1]))], "there is no `v[].a[]`");
    refused(&[("v[].#", list(&[]))], "there is no `v[][]`");
    refused(&[("v[].#", lengths(&[]))], "there is no `v[][]`");
    refused(&[("v..a", number(1))], "is not the name of part of a value");
    refused(&[("v.a[b", number(1))], "is not the name of part of a value");
    refused(&[(&format!("v{}", ".0".repeat(MAX_LEVELS + 1)), number(1))], "more than 64 levels");
    let others = Tensors::from([("va".to_owned(), number(1)), ("v[x".to_owned(), number(1))]);
    assert_eq!(gather("v", &others), Ok(None));
}

#[test]
fn more_than_nine_elements_are_in_order() {
    let tuple = Value::Tuple((0..12).map(leaf).collect());
    let leaves = flatten("v", tuple.clone()).unwrap();
    assert_eq!(leaves[10].0, "v.10");
    assert_eq!(gather("v", &leaves.into_iter().collect()), Ok(Some(tuple)));
}

/// Values of one structure: a list has elements of the same structure.
#[derive(Clone, Debug)]
enum Shape {
    Tensor,
    Tuple(Vec<Shape>),
    Record(Vec<Shape>),
    List(Box<Shape>),
}

fn shapes() -> impl Strategy<Value = Shape> {
    Just(Shape::Tensor).prop_recursive(5, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Shape::Tuple),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Shape::Record),
            inner.prop_map(|inner| Shape::List(Box::new(inner))),
        ]
    })
}

/// A value of a shape; `choices` says how long its lists are. No list is empty but one of tensors.
fn value_with(shape: &Shape, choices: &mut impl Iterator<Item = usize>) -> Value {
    match shape {
        Shape::Tensor => leaf(choices.next().unwrap_or_default() as i64),
        Shape::Tuple(shapes) => Value::Tuple(shapes.iter().map(|shape| value_with(shape, choices)).collect()),
        Shape::Record(shapes) => {
            let fields = shapes.iter().enumerate();
            Value::Record(fields.map(|(index, shape)| (format!("k{index}"), value_with(shape, choices))).collect())
        }
        Shape::List(shape) => {
            let least = usize::from(!matches!(**shape, Shape::Tensor));
            let length = least + choices.next().unwrap_or_default() % 3;
            Value::List((0..length).map(|_| value_with(shape, choices)).collect())
        }
    }
}

proptest! {
    #[test]
    fn there_and_back(shape in shapes(), choices in prop::collection::vec(0_usize..100, 0..200)) {
        let value = value_with(&shape, &mut choices.into_iter());
        let leaves = flatten("v", value.clone()).unwrap();
        let names: Vec<&str> = leaves.iter().map(|(name, _)| name.as_str()).collect();
        prop_assert_eq!(flatten_declared("v", value.clone(), &names).unwrap(), leaves.clone());
        prop_assert_eq!(gather("v", &leaves.into_iter().collect()).unwrap(), Some(value));
    }

    #[test]
    fn any_names_are_a_value_or_refused(
        names in prop::collection::vec("v(\\.[ab01#]|\\[\\]|\\[){0,5}", 1..6),
        list_lengths in prop::collection::vec(0_usize..3, 6),
    ) {
        let tensor = |length: usize| if length == 0 { number(1) } else { list(&vec![1; length]) };
        let tensors: Tensors = names.into_iter().zip(list_lengths.into_iter().map(tensor)).collect();
        if let Ok(Some(value)) = gather("v", &tensors) {
            let again: Tensors = flatten("v", value).unwrap_or_default().into_iter().collect();
            prop_assert!(again.iter().all(|(name, tensor)| tensors.get(name) == Some(tensor)));
        }
    }
}
