//! Optional inputs.

use super::*;

const OUTPUT: &str = "output = []\n";

fn inputs(keys: &[(&str, &str)]) -> String {
    let input = |(name, keys): &(&str, &str)| format!("{{ name = '{name}', dtype = 'int8', shape = [], {keys} }}");
    format!("{OUTPUT}input = [{}]\n", keys.iter().map(input).collect::<Vec<_>>().join(", "))
}

fn test(names: &[&str]) -> String {
    let references: Vec<_> = names.iter().map(|name| format!("{name} = '@tensor_data/t'")).collect();
    format!("[[self_test]]\ninputs = {{ {} }}\n", references.join(", "))
}

fn optional(text: &str) -> Vec<Option<bool>> {
    accepted(text).inputs().iter().map(|input| input.optional).collect()
}

#[test]
fn what_the_file_says() {
    let top = inputs(&[("a", "optional = true"), ("b", "optional = false"), ("c", "")]);
    assert_eq!(optional(&file(&top, "")), [Some(true), Some(false), Some(false)]);
    // The file states it, so self-tests do not change it.
    assert_eq!(optional(&file(&top, &test(&[]))), [Some(true), Some(false), Some(true)]);
    refused(&file(&inputs(&[("a", "optional = 'yes'")]), ""), "`input[0].optional`: invalid type");
    let metadata =
        accepted(&file("input = []\noutput = [{ name = 'y', dtype = 'int8', shape = [], optional = true }]", ""));
    assert_eq!(metadata.outputs()[0].optional, Some(true));
}

#[test]
fn what_self_tests_and_examples_leave_out() {
    let top = inputs(&[("a", ""), ("b", ""), ("c", "")]);
    assert_eq!(optional(&file(&top, &test(&["a", "b", "c"]))), [Some(false); 3]);
    let tests = [test(&["a", "b", "c"]), test(&["a", "c"])].concat();
    assert_eq!(optional(&file(&top, &tests)), [Some(false), Some(true), Some(false)]);
    let example = |inputs: &str, outputs: &str| {
        let text = format!("[[example]]\ninputs = {{ {inputs} }}\nsample_out = {{ {outputs} }}\n");
        optional(&file(&top, &text))
    };
    let (tensor, picture) = ("b = '@tensor_data/t'", "b = '@misc/b'");
    assert_eq!(example(tensor, "y = '@tensor_data/t'"), [Some(true), Some(false), Some(true)]);
    assert_eq!(example(tensor, "y = '@misc/y'"), [Some(true), Some(false), Some(true)]);
    // These are no calls: they say nothing about the inputs that they leave out.
    for (inputs, outputs) in [
        (picture, "y = '@tensor_data/t'"),
        ("b = '@misc/b', a = '@tensor_data/t'", "y = '@tensor_data/t'"),
        (tensor, ""),
        ("", "y = '@tensor_data/t'"),
    ] {
        assert_eq!(example(inputs, outputs), [Some(false); 3], "{inputs} {outputs}");
    }
}

#[test]
fn who_leaves_an_input_out() {
    let check = |tests: &str, expected: &[(&str, &str)]| {
        let draft = Draft::parse(&file(&inputs(&[("a", ""), ("b", ""), ("c", "optional = true")]), tests)).unwrap();
        let metadata = draft.clone().validate().unwrap();
        let found: Vec<_> = metadata.left_out(&draft).collect();
        let expected: Vec<_> = expected.iter().map(|(input, by)| (*input, (*by).to_owned())).collect();
        assert_eq!(found, expected, "{tests}");
    };
    check("", &[]);
    let example = "[[example]]\nname = 'cat'\ninputs = { b = '@tensor_data/t' }\nsample_out = { y = '@misc/y' }\n";
    check(example, &[("a", "example `cat`")]);
    let all = [example, &test(&["a", "b"]), &test(&["a"])].concat();
    check(&all, &[("a", "example `cat`"), ("b", "self-test `self_test_1`")]);
}

#[test]
fn what_is_written() {
    let written = |text: &str| {
        let text = Draft::parse(text).unwrap().validate().unwrap().to_toml();
        text.lines()
            .filter(|line| line.starts_with("name") || line.starts_with("optional"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let top = inputs(&[("a", "optional = true"), ("b", "optional = false"), ("c", "")]);
    assert_eq!(written(&file(&top, "")), r#"name = "a" optional = true name = "b" name = "c""#);
    // The field is written only where the self-tests do not imply its value.
    assert_eq!(written(&file(&top, &test(&[]))), r#"name = "a" name = "b" optional = false name = "c""#);
}
