//! Metadata that the original Carton writes and we do not: such cartons are read, shrunk, resolved again, and reported.

use carton_core::metadata::Oddity;
use carton_core::signature::Side;

use crate::builder::{CARTON_TOML, CartonBuilder, Entry};
use crate::valid::check_valid;

const OUTPUT: &str = "[[output]]\nname = \"y\"\ndtype = \"float32\"\nshape = [\"n\", 3]\n";

fn check(name: &str, change: impl FnOnce(&mut CartonBuilder), expected: &[Oddity]) {
    let mut carton = CartonBuilder::little();
    change(&mut carton);
    assert_eq!(check_valid(name, &carton).oddities, expected, "{name}");
}

fn edit(carton: &mut CartonBuilder, from: &str, to: &str) {
    carton.edit("carton.toml", from, to);
}

/// Removes the part from `start` to `end` from the little carton's metadata.
fn cut(carton: &mut CartonBuilder, start: &str, end: &str) {
    let at = |text: &str| CARTON_TOML.find(text).unwrap();
    carton.entry("carton.toml").data = [&CARTON_TOML[..at(start)], &CARTON_TOML[at(end)..]].concat().into_bytes();
}

#[test]
fn signatures() {
    check("only inputs", |c| edit(c, OUTPUT, ""), &[Oddity::OutputsNotDeclared]);
    check("only outputs", |c| cut(c, "[[input]]", "[[output]]"), &[Oddity::InputsNotDeclared]);
    let both = [Oddity::SelfTestsWithoutSignature, Oddity::ExamplesWithoutSignature];
    check("self-tests and examples without a signature", |c| cut(c, "[[input]]", "[[self_test]]"), &both);
    check("examples alone", |c| cut(c, "[[input]]", "[[example]]"), &both[1..]);
    check(
        "an empty name",
        |c| edit(c, "name = \"x\"", "name = \"\""),
        &[Oddity::EmptyName { side: Side::Input, index: 0 }],
    );
    let repeated = [Oddity::RepeatedName { side: Side::Input, name: "x".to_owned(), count: 2 }];
    let twice = "[[input]]\nname = \"x\"\ndtype = \"int8\"\nshape = []\n\n[[output]]";
    check("a name twice", |c| edit(c, "[[output]]", twice), &repeated);
    let empty = |side, index| Oddity::EmptySymbol { side, index };
    check(
        "empty symbols",
        |c| {
            edit(c, "shape = [\"n\", 3]", "shape = [\"\", 3]");
            edit(c, "shape = [\"n\", 3]", "shape = \"\"");
        },
        &[empty(Side::Input, 0), empty(Side::Output, 0)],
    );
    check("an optional input", |c| edit(c, "name = \"x\"", "name = \"x\"\noptional = true"), &[]);
}

#[test]
fn names_of_files() {
    let path = r"misc/in\cat.png".to_owned();
    let back_slash = [Oddity::BackSlash { path: path.clone(), count: 1 }];
    check("a back slash", |c| c.add(Entry::new(path.as_str(), "cat")), &back_slash);
    check(
        "an example of it",
        |c| {
            c.add(Entry::new(path.as_str(), "cat"));
            edit(c, "\"@misc/picture\"", r"'@misc/in\cat.png'");
        },
        &back_slash,
    );
    let model = Oddity::BackSlash { path: r"model/a\b".to_owned(), count: 1 };
    check("a file of the model", |c| c.add(Entry::new(r"model/a\b", "x")), &[model]);
}
