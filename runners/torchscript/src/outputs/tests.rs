#![allow(clippy::unwrap_used)]

use carton_tensor::{DataType, Dimension};

use super::*;

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

fn outputs_of(declared: &[&str]) -> Outputs {
    Outputs::new(&declared.iter().map(|text| spec(text)).collect::<Vec<_>>())
}

/// Checks the outputs of returned values, each with its leaves, `NAME?` for None, as `LEAF` or `LEAF->NAME`.
fn check(declared: &[&str], structure: Structure, values: &[&[&str]], expected: Result<&[&str], &str>) {
    let returned: Vec<Returned> = values
        .iter()
        .map(|names| {
            let (nones, leaves): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.ends_with('?'));
            let nones = nones.iter().map(|name| name.trim_end_matches('?').to_owned()).collect();
            Returned { leaves: leaves.into_iter().map(str::to_owned).collect(), nones }
        })
        .collect();
    let chosen = outputs_of(declared).choose(structure, &returned).map_err(|error| error.message);
    let shown = chosen.map(|chosen| {
        let names = chosen.into_iter().map(|(value, leaf, name)| {
            let leaf = &returned[value].leaves[leaf];
            if *leaf == name { name } else { format!("{leaf}->{name}") }
        });
        names.collect::<Vec<_>>()
    });
    let expected = expected.map(|names| names.iter().map(|&name| name.to_owned()).collect()).map_err(str::to_owned);
    assert_eq!(shown, expected, "{declared:?} {structure:?} {values:?}");
}

#[test]
fn values_that_are_one_tensor() {
    let two: &[&[&str]] = &[&["output_0"], &["output_1"]];
    check(&[], Structure::One, &[&["output"]], Ok(&["output"]));
    check(&["y"], Structure::One, &[&["output"]], Ok(&["output->y"]));
    check(
        &["y", "z"],
        Structure::One,
        &[&["output"]],
        Err("the carton declares 2 outputs, but the model returned 1: `output`"),
    );
    check(&[], Structure::Sequence, two, Ok(&["output_0", "output_1"]));
    check(&["y", "z"], Structure::Sequence, two, Ok(&["output_0->y", "output_1->z"]));
    // In order, whatever the names.
    check(&["output_1", "output_0"], Structure::Sequence, two, Ok(&["output_0->output_1", "output_1->output_0"]));
    check(
        &["y"],
        Structure::Sequence,
        two,
        Err("the carton declares 1 outputs, but the model returned 2: `output_0`, `output_1`"),
    );
    let fields: &[&[&str]] = &[&["a"], &["b"]];
    check(&[], Structure::NamedTuple, fields, Ok(&["a", "b"]));
    check(&["y=b"], Structure::NamedTuple, fields, Ok(&["b->y"]));
    check(&["y", "b"], Structure::NamedTuple, fields, Ok(&["a->y", "b"]));
    check(&[], Structure::Map, fields, Ok(&["a", "b"]));
    check(&["y=b"], Structure::Map, fields, Ok(&["b->y"]));
    check(&["c"], Structure::Map, fields, Err("the model returned no output `c`; it returned `a`, `b`"));
    check(&["c"], Structure::Map, &[], Err("the model returned no output `c`; it returned none"));
}

#[test]
fn values_of_several_tensors() {
    let state: &[&[&str]] = &[&["output_0"], &["output_1.0", "output_1.1"]];
    check(&[], Structure::Sequence, state, Ok(&["output_0", "output_1.0", "output_1.1"]));
    check(&["y", "h", "c"], Structure::Sequence, state, Ok(&["output_0->y", "output_1.0->h", "output_1.1->c"]));
    check(&["c=output_1.1"], Structure::Sequence, state, Ok(&["output_1.1->c"]));
    check(
        &["y", "h"],
        Structure::Sequence,
        state,
        Err("the carton declares 2 outputs, but the model returned 3: `output_0`, `output_1.0`, `output_1.1`"),
    );
    let detections: &[&[&str]] = &[&["output[].boxes", "output[].scores"]];
    check(&["output[].scores"], Structure::One, detections, Ok(&["output[].scores"]));
    check(&["boxes", "scores"], Structure::One, detections, Ok(&["output[].boxes->boxes", "output[].scores->scores"]));
    check(&["m=a.m"], Structure::Map, &[&["a.m", "a.n"], &["b"]], Ok(&["a.m->m"]));
    check(
        &["a"],
        Structure::Map,
        &[&["a.m", "a.n"]],
        Err("the model returned no output `a`; it returned `a.m`, `a.n`"),
    );
}

#[test]
fn what_is_none_is_left_out() {
    check(&[], Structure::Sequence, &[&["output_0"], &["output_1?"]], Ok(&["output_0"]));
    check(&["y", "z"], Structure::Sequence, &[&["output_0"], &["output_1?"]], Ok(&["output_0->y"]));
    check(&["y", "z"], Structure::Sequence, &[&["output_0?"], &["output_1"]], Ok(&["output_1->z"]));
    check(&["a", "b.c"], Structure::Map, &[&["a"], &["b?"]], Ok(&["a"]));
    check(&["a", "b"], Structure::NamedTuple, &[&["a"], &["b?"]], Ok(&["a"]));
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
        assert_eq!(outputs_of(declared).takes_apart(ranks), expected, "{declared:?} {ranks:?}");
    }
}

#[test]
fn entries_that_no_output_is_made_of() {
    for (declared, name, expected) in
        [(&[] as &[&str], "a", true), (&["a.b"], "a", true), (&["x=a[].b"], "a", true), (&["ab"], "a", false)]
    {
        assert_eq!(outputs_of(declared).wants(name), expected, "{declared:?} {name}");
    }
}
