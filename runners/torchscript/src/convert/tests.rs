#![allow(clippy::unwrap_used)]

use carton_runner_interface::Tensors;
use carton_runner_interface::structure::gather;
use carton_tensor::{BoolByte, Complex, f16};

use super::*;

/// Shows a value: `tensor`, `[1, 2]`, `(tensor, None)`, `{a: 1}`.
fn shown(value: &Value) -> String {
    let list = |values: &[Value]| values.iter().map(shown).collect::<Vec<_>>().join(", ");
    match value {
        Value::Tensor(_) => "tensor".to_owned(),
        Value::String(text) => format!("{:?}", text.elements()[0]),
        Value::StringList(texts) => format!("{:?}", texts.elements()),
        Value::Int(number) => format!("{number}"),
        Value::Float(number) => format!("{number:?}"),
        Value::Bool(flag) => format!("{flag}"),
        Value::Complex(real, imaginary) => format!("{real}+{imaginary}i"),
        Value::List(elements) => format!("[{}]", list(elements)),
        Value::Tuple(elements) => format!("({})", list(elements)),
        Value::Dictionary(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key}: {}", shown(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Default => "None".to_owned(),
    }
}

/// Converts the input `x` of these leaves into a value of a type.
fn check(value_type: &ValueType, leaves: &[(&str, Tensor)], expected: Result<&str, &str>) {
    let tensors: Tensors = leaves.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
    let value = gather("x", &tensors).unwrap();
    let (name, inner) = ("x".to_owned(), "x".to_owned());
    let input = Bound { name, inner, value_type, type_name: "T", value };
    let found = argument(input).map(|value| shown(&value)).map_err(|error| error.message);
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{value_type:?} {tensors:?}");
}

fn list(element: ValueType) -> ValueType {
    ValueType::List(Box::new(element))
}

fn dictionary(key: ValueType, value: ValueType) -> ValueType {
    ValueType::Dictionary(Box::new(key), Box::new(value))
}

fn optional(inner: ValueType) -> ValueType {
    ValueType::Optional(Box::new(inner))
}

fn ints(elements: &[i64]) -> Tensor {
    Tensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap()
}

fn nested(elements: &[Tensor]) -> Tensor {
    Tensor::nested(elements.to_vec()).unwrap()
}

#[test]
fn one_tensor() {
    let check =
        |value_type: ValueType, tensor: &Tensor, expected| check(&value_type, &[("x", tensor.clone())], expected);
    let numbers = Tensor::from_vec(vec![1.0_f32, 2.0], vec![2]).unwrap();
    let word = Tensor::from_strings(["a"], vec![]).unwrap();
    let words = Tensor::from_strings(["a", "b"], vec![2]).unwrap();
    let table = Tensor::from_strings(["a", "b"], vec![2, 1]).unwrap();
    let parts = nested(&[numbers.clone(), Tensor::scalar(1.0_f32)]);
    for value_type in [ValueType::Tensor, ValueType::Any] {
        check(value_type, &numbers, Ok("tensor"));
    }
    check(ValueType::Any, &word, Ok("\"a\""));
    check(ValueType::Any, &words, Ok("[\"a\", \"b\"]"));
    check(ValueType::Any, &parts, Ok("[tensor, tensor]"));
    check(
        ValueType::Any,
        &table,
        Err(
            "input `x`: expected numbers, strings of rank 0 or 1, or a nested tensor (forward takes T), found string of shape [2, 1]",
        ),
    );
    check(
        ValueType::Any,
        &nested(std::slice::from_ref(&word)),
        Err("input `x`: expected a nested tensor of numbers (forward takes T), found a nested tensor of string"),
    );
    check(ValueType::Tensor, &words, Err("input `x`: expected numbers (forward takes T), found string of shape [2]"));
    check(
        ValueType::Tensor,
        &parts,
        Err("input `x`: expected numbers (forward takes T), found a nested tensor of float32"),
    );
    check(
        ValueType::String,
        &words,
        Err("input `x`: expected strings of rank 0 (forward takes T), found string of shape [2]"),
    );
    check(
        list(ValueType::String),
        &word,
        Err("input `x`: expected strings of rank 1 (forward takes T), found string of shape []"),
    );
    check(ValueType::Int, &Tensor::scalar(7_u8), Ok("7"));
    check(
        ValueType::Int,
        &Tensor::scalar(7.0_f32),
        Err("input `x`: expected one integer (forward takes T), found float32 of shape []"),
    );
    check(
        ValueType::Int,
        &Tensor::scalar(u64::MAX),
        Err("input `x`: expected one integer (forward takes T), found uint64 of shape []"),
    );
    check(ValueType::Float, &Tensor::scalar(7_i64), Ok("7.0"));
    check(ValueType::Float, &Tensor::scalar(f16::from_f32(0.5)), Ok("0.5"));
    check(ValueType::Complex, &Tensor::scalar(Complex::new(1.0_f32, -2.0)), Ok("1+-2i"));
    check(ValueType::Bool, &Tensor::scalar(1_u8), Ok("true"));
    check(ValueType::Bool, &Tensor::scalar(BoolByte(0)), Ok("false"));
    check(
        ValueType::Bool,
        &Tensor::scalar(2_u8),
        Err(
            "input `x`: expected one boolean, or one integer that is 0 or 1 (forward takes T), found uint8 of shape []",
        ),
    );
}

#[test]
fn lists() {
    let check = |value_type: ValueType, tensor: Tensor, expected| check(&value_type, &[("x", tensor)], expected);
    check(list(ValueType::Int), ints(&[2, 3]), Ok("[2, 3]"));
    check(list(ValueType::Float), ints(&[2, 3]), Ok("[2.0, 3.0]"));
    check(list(ValueType::Bool), ints(&[1, 0]), Ok("[true, false]"));
    check(list(ValueType::Int), nested(&[]), Ok("[]"));
    check(list(ValueType::Tensor), nested(&[ints(&[1]), ints(&[])]), Ok("[tensor, tensor]"));
    check(list(optional(ValueType::Tensor)), nested(&[ints(&[1])]), Ok("[tensor]"));
    check(list(list(ValueType::Int)), nested(&[ints(&[1]), ints(&[])]), Ok("[[1], []]"));
    let table = || Tensor::from_vec(vec![1_i64, 2, 3, 4], vec![2, 2]).unwrap();
    check(list(list(ValueType::Int)), table(), Ok("[[1, 2], [3, 4]]"));
    check(
        list(list(list(ValueType::Int))),
        nested(&[table(), ints(&[])]),
        Err("input `x[]`: expected a nested tensor (forward takes T), found int64 of shape [0]"),
    );
    check(
        list(list(list(ValueType::Int))),
        Tensor::from_vec(vec![1_i64, 2], vec![2, 1, 1]).unwrap(),
        Ok("[[[1]], [[2]]]"),
    );
    check(list(list(ValueType::Float)), Tensor::from_vec(Vec::<i64>::new(), vec![2, 0]).unwrap(), Ok("[[], []]"));
    check(
        list(list(ValueType::String)),
        Tensor::from_strings(["a", "b"], vec![2, 1]).unwrap(),
        Ok("[[\"a\"], [\"b\"]]"),
    );
    check(
        list(list(ValueType::Int)),
        ints(&[1]),
        Err("input `x`: expected a nested tensor (forward takes T), found int64 of shape [1]"),
    );
    check(
        list(list(ValueType::Int)),
        Tensor::from_vec(Vec::<i64>::new(), vec![1 << 40, 0]).unwrap(),
        Err("input `x`: expected a nested tensor (forward takes T), found int64 of shape [1099511627776, 0]"),
    );
    check(
        list(ValueType::Bool),
        ints(&[1, 2]),
        Err(
            "input `x`: expected booleans of rank 1, or integers that are 0 or 1 (forward takes T), found int64 of shape [2]",
        ),
    );
    check(
        list(ValueType::Tensor),
        Tensor::scalar(1_i64),
        Err("input `x`: expected a nested tensor of numbers (forward takes T), found int64 of shape []"),
    );
    check(
        list(list(ValueType::Int)),
        nested(&[Tensor::scalar(1_i64)]),
        Err("input `x`: expected integers of rank 1 (forward takes T), found int64 of shape []"),
    );
}

#[test]
fn values_of_several_leaves() {
    let number = || Tensor::scalar(1_i64);
    let pair = || ValueType::Tuple(vec![ValueType::Tensor, optional(ValueType::Int)]);
    check(&pair(), &[("x.0", number()), ("x.1", number())], Ok("(tensor, 1)"));
    check(&pair(), &[("x.0", number())], Ok("(tensor, None)"));
    check(&pair(), &[("x.1", number())], Err("input `x.0` is missing (forward takes T)"));
    check(&pair(), &[("x.0", number()), ("x.2", number())], Err("there is no `x.2` (forward takes T)"));
    check(
        &pair(),
        &[("x", number())],
        Err("input `x`: expected its elements, `x.0` and so on (forward takes T), found int64 of shape []"),
    );
    check(&optional(pair()), &[], Ok("None"));
    let named = ValueType::Named(vec![("h".to_owned(), ValueType::Tensor), ("c".to_owned(), ValueType::Float)]);
    check(&named, &[("x.c", number()), ("x.h", number())], Ok("(tensor, 1.0)"));
    let tensors = |key| dictionary(key, ValueType::Tensor);
    check(&tensors(ValueType::String), &[("x.a", number()), ("x.b.c", number())], Ok("{a: tensor, b.c: tensor}"));
    check(&tensors(ValueType::String), &[], Ok("{}"));
    check(&tensors(ValueType::Int), &[("x.0", number()), ("x.1", number())], Ok("{0: tensor, 1: tensor}"));
    check(&tensors(ValueType::Int), &[("x.a", number())], Err("`x.a` is no key of the dictionary (forward takes T)"));
    check(
        &tensors(ValueType::Int),
        &[("x.01", number()), ("x.1", number())],
        Err("`x.01` and `x.1` are one key of the dictionary (forward takes T)"),
    );
    check(
        &tensors(ValueType::Float),
        &[("x.-0", number()), ("x.0", number())],
        Err("`x.-0` and `x.0` are one key of the dictionary (forward takes T)"),
    );
    check(&dictionary(ValueType::Bool, pair()), &[("x.True.0", number())], Ok("{True: (tensor, None)}"));
    check(
        &list(pair()),
        &[("x[].0", nested(&[number(), number()])), ("x[].1", nested(&[number(), number()]))],
        Ok("[(tensor, 1), (tensor, 1)]"),
    );
    check(
        &list(list(ValueType::Tensor)),
        &[("x[][]", nested(&[number(), number()])), ("x[].#", ints(&[0, 2]))],
        Ok("[[], [tensor, tensor]]"),
    );
}
