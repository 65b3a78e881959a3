#![allow(clippy::unwrap_used)]

use carton_tensor::{DataType, Dimension, Tensor};

use super::*;

/// An argument from `NAME: TYPE`, with `=` at its end if it has a default.
fn argument(text: &str) -> Argument {
    let (name, type_name) = text.split_once(": ").unwrap();
    let (type_name, may_be_missing) = type_name.strip_suffix('=').map_or((type_name, false), |name| (name, true));
    let kind = |name: &str| match name {
        "Tensor" => Kind::Tensor,
        "Any" => Kind::Any,
        "str" => Kind::String,
        "int" => Kind::Int,
        name if name.starts_with("Dict") => Kind::Dictionary,
        _ => Kind::Other,
    };
    let element = type_name.strip_prefix("Dict[str, ").and_then(|rest| rest.strip_suffix(']'));
    Argument {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        kind: kind(type_name),
        element: element.map_or(Kind::Other, kind),
        may_be_missing,
    }
}

/// A declared tensor from `NAME` or `NAME=INTERNAL`.
fn spec(text: &str) -> DeclaredTensor {
    let (name, internal) = text.split_once('=').map_or((text, None), |(name, internal)| (name, Some(internal)));
    DeclaredTensor {
        name: name.to_owned(),
        dtype: DataType::Float32,
        element: None,
        shape: SymbolicShape::Dimensions(vec![Dimension::Any, Dimension::Any]),
        internal_name: internal.map(str::to_owned),
    }
}

fn binding(arguments: &[&str], inputs: &[&str], outputs: &[&str]) -> Result<Binding, String> {
    let arguments: Vec<Argument> = arguments.iter().map(|text| argument(text)).collect();
    let inputs: Vec<DeclaredTensor> = inputs.iter().map(|text| spec(text)).collect();
    let outputs: Vec<DeclaredTensor> = outputs.iter().map(|text| spec(text)).collect();
    Binding::new(&arguments, &inputs, &outputs).map_err(|error| error.message)
}

/// The arguments of forward for inputs of these names: `INNER<-NAME` in order, `-` for a default.
fn check_inputs(arguments: &[&str], declared: &[&str], given: &[&str], expected: Result<&str, &str>) {
    let tensors: Tensors = given.iter().map(|&name| (name.to_owned(), Tensor::scalar(0_u8))).collect();
    let found = binding(arguments, declared, &[]).and_then(|binding| {
        let bound = binding.inputs(&tensors).map_err(|error| error.message)?;
        let list = bound.iter().map(|input| match input.tensor {
            Some(_) => format!("{}<-{}", input.inner, input.name),
            None => format!("{}<--", input.inner),
        });
        Ok(list.collect::<Vec<_>>().join(" "))
    });
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
        &[],
        &["a"],
        Err(
            "forward takes `inputs`: Dict[str, Dict[str, Tensor]], which no input can be passed for; expected Tensor, str, \
             List[str], List[Tensor], a number, or one dictionary of str to one of these or to Any",
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
            "forward takes `b`: Foo, which no input can be passed for; expected Tensor, str, List[str], List[Tensor], a \
             number, or one dictionary of str to one of these or to Any",
        ),
    );
}

fn check_outputs(declared: &[&str], structure: Structure, names: &[&str], expected: Result<&[(usize, &str)], &str>) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let found = binding(&[], &[], declared).unwrap().outputs(structure, &names).map_err(|error| error.message);
    let found: Result<Vec<(usize, &str)>, &str> = match &found {
        Ok(list) => Ok(list.iter().map(|(position, name)| (*position, name.as_str())).collect()),
        Err(message) => Err(message),
    };
    assert_eq!(found.as_deref().map_err(|message| *message), expected, "{declared:?} {structure:?} {names:?}");
}

#[test]
fn outputs() {
    check_outputs(&[], Structure::One, &[""], Ok(&[(0, "output")]));
    check_outputs(&["y"], Structure::One, &[""], Ok(&[(0, "y")]));
    check_outputs(&["y", "z"], Structure::One, &[""], Err("the carton declares 2 outputs, but the model returned 1"));
    check_outputs(&[], Structure::Sequence, &["", ""], Ok(&[(0, "output_0"), (1, "output_1")]));
    check_outputs(&["y", "z"], Structure::Sequence, &["", ""], Ok(&[(0, "y"), (1, "z")]));
    check_outputs(
        &["y"],
        Structure::Sequence,
        &["", ""],
        Err("the carton declares 1 outputs, but the model returned 2"),
    );
    check_outputs(&[], Structure::NamedTuple, &["a", "b"], Ok(&[(0, "a"), (1, "b")]));
    check_outputs(&["y=b"], Structure::NamedTuple, &["a", "b"], Ok(&[(1, "y")]));
    check_outputs(&["y", "b"], Structure::NamedTuple, &["a", "b"], Ok(&[(0, "y"), (1, "b")]));
    check_outputs(&[], Structure::Map, &["a", "b"], Ok(&[(0, "a"), (1, "b")]));
    check_outputs(&["y=b"], Structure::Map, &["a", "b"], Ok(&[(1, "y")]));
    check_outputs(&["c"], Structure::Map, &["a", "b"], Err("the model returned no output `c`; it returned `a`, `b`"));
    check_outputs(&["c"], Structure::Map, &[], Err("the model returned no output `c`; it returned none"));
}

#[test]
fn lists_of_tensors() {
    for (declared, ranks, expected) in [
        (&[] as &[&str], &[2_usize] as &[usize], false),
        (&["y"], &[2], true),
        (&["y"], &[1], false),
        (&["y"], &[2, 2], false),
        (&["y", "z"], &[2, 3], true),
    ] {
        assert_eq!(binding(&[], &[], declared).unwrap().takes_apart(ranks), expected, "{declared:?} {ranks:?}");
    }
}
