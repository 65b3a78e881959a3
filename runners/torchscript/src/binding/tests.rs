#![allow(clippy::unwrap_used)]

use carton_tensor::{DataType, Dimension, SymbolicShape, Tensor};

use super::*;

/// An argument from `NAME: TYPE`, with `=` at its end if it has a default.
fn argument(text: &str) -> Argument {
    let (name, type_name) = text.split_once(": ").unwrap();
    let (type_name, may_be_missing) = type_name.strip_suffix('=').map_or((type_name, false), |name| (name, true));
    let value_type = value_type(type_name);
    let may_be_missing = may_be_missing || matches!(value_type, ValueType::Optional(_));
    Argument { name: name.to_owned(), type_name: type_name.to_owned(), value_type, may_be_missing }
}

fn value_type(text: &str) -> ValueType {
    let inside = |name: &str| text.strip_prefix(name).and_then(|rest| rest.strip_prefix('[')?.strip_suffix(']'));
    let boxed = |text: &str| Box::new(value_type(text));
    match text {
        "Tensor" => ValueType::Tensor,
        "Any" => ValueType::Any,
        "str" => ValueType::String,
        "int" => ValueType::Int,
        _ => match (inside("Dict"), inside("Tuple"), inside("List"), inside("Optional")) {
            (Some(parts), ..) => {
                let (key, value) = parts.split_once(", ").unwrap();
                ValueType::Dictionary(boxed(key), boxed(value))
            }
            // The parts of tuples have no parts here.
            (_, Some(parts), ..) => ValueType::Tuple(parts.split(", ").map(value_type).collect()),
            (_, _, Some(element), _) => ValueType::List(boxed(element)),
            (.., Some(inner)) => ValueType::Optional(boxed(inner)),
            _ => ValueType::Other,
        },
    }
}

/// A declared tensor from `NAME` or `NAME=INTERNAL`.
fn spec(text: &str) -> DeclaredTensor {
    let (name, internal) = text.split_once('=').map_or((text, None), |(name, internal)| (name, Some(internal)));
    DeclaredTensor {
        name: name.to_owned(),
        dtype: DataType::Float32,
        shape: SymbolicShape::Dimensions(vec![Dimension::Any, Dimension::Any]),
        internal_name: internal.map(str::to_owned),
    }
}

/// The arguments of forward for inputs of these names: `INNER<-NAME` in order, `-` for a default.
fn check_inputs(arguments: &[&str], declared: &[&str], given: &[&str], expected: Result<&str, &str>) {
    let tensors: Tensors = given.iter().map(|&name| (name.to_owned(), Tensor::scalar(0_u8))).collect();
    let types: Vec<Argument> = arguments.iter().map(|text| argument(text)).collect();
    let specs: Vec<DeclaredTensor> = declared.iter().map(|text| spec(text)).collect();
    let found = Binding::new(&types, &specs).and_then(|binding| {
        let (BoundInputs::Dictionary(bound, _) | BoundInputs::Positional(bound)) = binding.inputs(&tensors)?;
        let list = bound.iter().map(|input| match &input.value {
            Some(structure::Value::Tensor(_)) => format!("{}<-{}", input.inner, input.name),
            Some(value) => {
                let leaves = structure::flatten(&input.inner, value.clone()).unwrap();
                format!("{}<-({})", input.inner, leaves.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "))
            }
            None => format!("{}<--", input.inner),
        });
        Ok(list.collect::<Vec<_>>().join(" "))
    });
    let found = found.map_err(|error| error.message);
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{arguments:?} {declared:?} {given:?}");
}

#[test]
fn dictionaries() {
    let arguments = ["inputs: Dict[str, Tensor]"];
    check_inputs(&arguments, &[], &["b", "a"], Ok("a<-a b<-b"));
    check_inputs(&arguments, &["x=inner", "y"], &["x", "y", "z"], Ok("inner<-x y<-y z<-z"));
    check_inputs(&arguments, &["x=y"], &["x", "y"], Err("inputs `x` and `y` are both `y` to the model"));
    check_inputs(&["inputs: Dict[str, Any]", "n: int="], &[], &["a"], Ok("a<-a"));
    check_inputs(
        &["inputs: Dict[str, Dict[str, Tensor]]"],
        &["x=a.y"],
        &["x", "a.z", "b.c"],
        Ok("a<-(a.y a.z) b<-(b.c)"),
    );
    check_inputs(&["inputs: Dict[str, Tuple[Tensor, int]]"], &[], &["a.0", "a.1"], Ok("a<-(a.0 a.1)"));
    check_inputs(
        &["inputs: Dict[str, Foo]"],
        &[],
        &["a"],
        Err(
            "forward takes `inputs`: Dict[str, Foo], which no input can be passed for; expected tensors, numbers, texts, and tuples, \
             lists and dictionaries of them",
        ),
    );
}

#[test]
fn arguments_by_name_and_in_order() {
    let arguments = ["a: Tensor", "b: str"];
    check_inputs(&arguments, &[], &["b", "a"], Ok("a<-a b<-b"));
    check_inputs(&arguments, &["b", "a"], &["b", "a"], Ok("a<-a b<-b"));
    check_inputs(&arguments, &["x=b", "y=a"], &["x", "y"], Ok("a<-y b<-x"));
    check_inputs(&arguments, &["x", "y"], &["y", "x"], Ok("a<-x b<-y"));
    check_inputs(&arguments, &["x", "a"], &["x", "a"], Ok("a<-x b<-a"));
    check_inputs(&arguments, &[], &["a"], Err("input `b` is missing; it takes `a`, `b`"));
    check_inputs(&arguments, &[], &["a", "b", "c"], Err("the model has no input `c`; it takes `a`, `b`"));
    check_inputs(&[], &[], &["a"], Err("the model has no input `a`; it takes no inputs"));
    check_inputs(&[], &[], &[], Ok(""));
    check_inputs(&["a: Tensor", "b: Tensor=", "c: Foo="], &["x"], &["x"], Ok("a<-x b<-- c<--"));
    check_inputs(&["a: Tensor", "b: Tensor="], &["x"], &["x", "b"], Ok("a<-x b<-b"));
}

#[test]
fn mismatches_of_what_is_declared() {
    let check = |arguments: &[&str], declared: &[DeclaredTensor], expected: &[&str]| {
        let arguments: Vec<Argument> = arguments.iter().map(|text| argument(text)).collect();
        assert_eq!(mismatches(&arguments, Some(declared)), expected, "{declared:?}");
    };
    let specs = |names: &[&str]| names.iter().map(|text| spec(text)).collect::<Vec<_>>();
    let text = |name: &str, rank: usize| DeclaredTensor {
        dtype: DataType::String,
        shape: SymbolicShape::Dimensions(vec![Dimension::Any; rank]),
        ..spec(name)
    };
    let dictionary = ["inputs: Dict[str, Tensor]", "n: int="];
    check(&dictionary, &specs(&["x", "y=z"]), &[]);
    check(&dictionary, &[], &[]);
    check(&dictionary, &[text("x", 0)], &["input `x`: declared string, the model has numbers"]);
    check(
        &dictionary,
        &specs(&["x", "y=x"]),
        &["input `y` (`x` in the model): `x` is declared for the same input of the model"],
    );
    check(&["inputs: Dict[str, Any]"], &[text("x", 1)], &[]);

    let arguments = ["a: Tensor", "b: str", "c: int="];
    check(&arguments, &[spec("a"), text("b", 0)], &[]);
    check(&arguments, &[text("b", 1), spec("a")], &[r#"input `b`: declared ["*"], the model has []"#]);
    check(&arguments, &specs(&["a"]), &["input `b` of the model is not declared"]);
    // In order: `x` is `a` to the model, and `y` is `b`.
    check(&arguments, &[spec("x"), text("y", 0)], &[]);
    check(&arguments, &specs(&["x"]), &["input `b` of the model is not declared"]);
    check(
        &arguments,
        &[spec("x"), text("y", 0), spec("z"), spec("more")],
        &[r#"input `z` (`c` in the model): declared ["*", "*"], the model has []"#],
    );
    let scalar = DeclaredTensor { shape: SymbolicShape::Dimensions(Vec::new()), ..spec("z") };
    check(
        &arguments,
        &[spec("x"), text("y", 0), scalar, spec("more")],
        &["the carton declares 4 inputs, but forward takes (a: Tensor, b: str, c: int)"],
    );
    assert_eq!(mismatches(&[argument("a: Tensor")], None), [""; 0]);
    let wide = DeclaredTensor { dtype: DataType::Uint32, ..spec("a") };
    let lacks = format!("input `a`: libtorch {LIBTORCH_VERSION} has no tensors of uint32");
    let expected = if is_supported(DataType::Uint32) { &[][..] } else { &[lacks.as_str()][..] };
    for arguments in [["a: Tensor"], ["inputs: Dict[str, Tensor]"], ["x: Any"]] {
        check(&arguments, std::slice::from_ref(&wide), expected);
    }
    // One integer is converted without libtorch.
    let count = |name: &str| DeclaredTensor {
        shape: SymbolicShape::Dimensions(Vec::new()),
        dtype: DataType::Uint32,
        ..spec(name)
    };
    check(&["x: Tensor", "a: int"], &[spec("x"), count("a")], &[]);
    check(&["x: Tensor", "n: int"], &[spec("x"), count("a")], &[]);
    check(&["counts: Dict[str, int]"], &[count("a")], &[]);
    // An internal name selects the argument, even if the other inputs are bound in order.
    check(&["a: Tensor", "b: Tensor"], &specs(&["x=a", "y"]), &[]);
    check(
        &["a: Tensor", "b: Tensor"],
        &specs(&["x=b", "y"]),
        &["input `y`: the model has no such input; it has `a`, `b`", "input `a` of the model is not declared"],
    );
}

#[test]
fn declarations_that_do_not_fit() {
    let arguments = ["a: Tensor", "b: str"];
    let takes = "forward takes (a: Tensor, b: str)";
    check_inputs(&arguments, &["x", "y", "z"], &[], Err(&format!("the carton declares 3 inputs, but {takes}")));
    check_inputs(&arguments, &["a"], &[], Err(&format!("the carton declares no input for the argument `b`; {takes}")));
    check_inputs(
        &arguments,
        &["x=c", "y"],
        &[],
        Err(&format!("the carton declares an input with the internal name `c`, but {takes}")),
    );
    check_inputs(
        &["a: Tensor", "b: Tensor="],
        &["b=a"],
        &[],
        Err("two arguments of forward would be the input `b`; forward takes (a: Tensor, b: Tensor)"),
    );
    check_inputs(
        &["a: Tensor", "b: Foo"],
        &[],
        &[],
        Err(
            "forward takes `b`: Foo, which no input can be passed for; expected tensors, numbers, texts, and tuples, lists and \
             dictionaries of them",
        ),
    );
}

#[test]
fn arguments_of_several_inputs() {
    let arguments = ["x: Tensor", "state: Tuple[Tensor, Tensor]"];
    check_inputs(&arguments, &[], &["x", "state.0", "state.1"], Ok("x<-x state<-(state.0 state.1)"));
    check_inputs(&arguments, &["a", "h", "c"], &["a", "h", "c"], Ok("x<-a state<-(state.0 state.1)"));
    check_inputs(&arguments, &["c=state.1", "x", "h=state.0"], &["c", "h", "x"], Ok("x<-x state<-(state.0 state.1)"));
    check_inputs(&arguments, &[], &["x"], Err("input `state.0` is missing; it takes `x`, `state.0`, `state.1`"));
    check_inputs(
        &arguments,
        &["a", "h", "c"],
        &["a", "x.2"],
        Err("the model has no input `x.2`; it takes `a`, `h`, `c`"),
    );
    check_inputs(
        &arguments,
        &["x", "state.0"],
        &[],
        Err(
            "the carton declares no input for the argument `state.1`; forward takes (x: Tensor, state: Tuple[Tensor, Tensor]), as `x`, \
             `state.0`, `state.1`",
        ),
    );
    check_inputs(&["x: Tensor", "state: Optional[Tuple[Tensor, Tensor]]"], &[], &["x"], Ok("x<-x state<--"));
    let arguments = ["x: Tensor", "inputs: Dict[str, Tensor]"];
    check_inputs(&arguments, &[], &["x", "inputs.a", "inputs.b"], Ok("x<-x inputs<-(inputs.a inputs.b)"));
    check_inputs(&arguments, &["x", "m=inputs.a"], &["x", "m"], Ok("x<-x inputs<-(inputs.a)"));
    check_inputs(&arguments, &[], &["x"], Ok("x<-x inputs<--"));
    check_inputs(&arguments, &[], &["x", "a"], Err("the model has no input `a`; it takes `x`, `inputs.KEY`"));
}

#[test]
fn mismatches_of_parts() {
    let check = |arguments: &[&str], declared: &[DeclaredTensor], expected: &[&str]| {
        let arguments: Vec<Argument> = arguments.iter().map(|text| argument(text)).collect();
        assert_eq!(mismatches(&arguments, Some(declared)), expected, "{declared:?}");
    };
    let specs = |names: &[&str]| names.iter().map(|text| spec(text)).collect::<Vec<_>>();
    let arguments = ["x: Tensor", "state: Tuple[Tensor, str]"];
    let text = |name: &str| DeclaredTensor { dtype: DataType::String, shape: SymbolicShape::Any, ..spec(name) };
    check(&arguments, &[spec("x"), spec("state.0"), text("state.1")], &[]);
    check(&arguments, &[spec("x"), spec("h"), text("c")], &[]);
    check(&arguments, &specs(&["x", "state.0"]), &["input `state.1` of the model is not declared"]);
    check(
        &arguments,
        &[spec("x"), text("state.0"), text("state.1")],
        &["input `state.0`: declared string, the model has numbers"],
    );
    check(&["x: Tensor", "inputs: Dict[str, Tensor]"], &specs(&["x", "inputs.a", "inputs.b"]), &[]);
    check(&["inputs: Dict[str, Tuple[Tensor, Tensor]]"], &specs(&["a.0", "a.1"]), &[]);
}
