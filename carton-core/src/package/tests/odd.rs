//! Cartons of other writers, with oddities that this library does not write.

use carton_format::metadata::Oddity;

use super::opening::{carton, valid};
use super::*;

const TENSOR: &str = "[[tensor]]\nname = 't'\ndtype = 'uint8'\nshape = [1]\nfile = 't.bin'";

fn odd(text: &str, files: &[(&str, &[u8])]) -> Package {
    let folder = Folder::new();
    let tensors: &[(&str, &[u8])] = &[("tensor_data/index.toml", TENSOR.as_bytes()), ("tensor_data/t.bin", b"1")];
    open(&carton(&folder, &valid(text), &[tensors, files].concat())).unwrap()
}

#[test]
fn what_is_odd_is_told() {
    let check = |text: &str, files: &[(&str, &[u8])], expected: &[Oddity]| {
        let package = odd(text, files);
        assert_eq!(package.oddities(), expected, "{text}");
        assert_eq!(package.info().warnings, expected.iter().map(ToString::to_string).collect::<Vec<_>>());
    };
    check("", &[], &[]);
    let input = "[[input]]\nname = 'x'\ndtype = 'uint8'\nshape = [1]\n";
    check(input, &[], &[Oddity::OutputsNotDeclared]);
    let test = "[[self_test]]\ninputs = { x = '@tensor_data/t' }\n";
    check(test, &[], &[Oddity::SelfTestsWithoutSignature]);
    let path = r"misc/in\cat.png".to_owned();
    check("", &[(&path, b"cat")], &[Oddity::BackSlash { path: path.clone(), count: 1 }]);
    check("", &[(&path, b"cat"), (r"misc/z\z", b"z")], &[Oddity::BackSlash { path: path.clone(), count: 2 }]);
    let example = r"[[example]]
        inputs = { x = '@misc/in\cat.png' }";
    let expected = [Oddity::ExamplesWithoutSignature, Oddity::BackSlash { path: path.clone(), count: 1 }];
    check(example, &[(&path, b"cat")], &expected);
}

#[test]
fn it_is_read_and_written_again() {
    let folder = Folder::new();
    let text =
        valid("[[input]]\nname = ''\ndtype = 'uint8'\nshape = ['']\n[[example]]\ninputs = { x = '@misc/in\\cat.png' }");
    let path = carton(&folder, &text, &[(r"misc/in\cat.png", b"cat")]);
    let package = open(&path).unwrap();
    assert_eq!(package.misc(r"in\cat.png").unwrap(), b"cat");
    let copy = folder.path("copy.carton");
    let none = (BTreeSet::new(), carton_format::links::Links::default());
    rewrite(
        package.contents(),
        &none.0,
        &none.1,
        &copy,
        carton_format::archive::Compression::Auto,
        &Context::default(),
    )
    .unwrap();
    let again = open(&copy).unwrap();
    assert_eq!(again.contents().manifest_hash(), package.contents().manifest_hash());
    assert_eq!(again.contents().read("carton.toml", 1 << 20, &Context::default()).unwrap(), text.as_bytes());
    let unpacked = folder.path("unpacked");
    package.contents().unpack(&unpacked, &Context::default()).unwrap();
    assert_eq!(std::fs::read(unpacked.join(r"misc/in\cat.png")).unwrap(), b"cat");
    assert_eq!(open(&unpacked).unwrap().oddities(), package.oddities());
}
