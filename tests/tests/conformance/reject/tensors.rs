//! `tensor_data/` without an index, with a malformed index, or with files that contradict the index.

use crate::builder::{CartonBuilder, Entry};
use crate::{bad, check_rejected, unsupported};

const INDEX: &str = "tensor_data/index.toml";

fn edit(carton: &mut CartonBuilder, from: &str, to: &str) {
    carton.edit(INDEX, from, to);
}

#[test]
fn the_index() {
    check_rejected(&[
        bad("missing", |c| drop(c.remove(INDEX)), "`tensor_data/index.toml` is missing"),
        bad("not UTF-8", |c| c.entry(INDEX).data.push(0xff), "`tensor_data/index.toml` is not UTF-8"),
        bad("no TOML", |c| c.entry(INDEX).data = b"[[tensor]".to_vec(), "`tensor_data/index.toml` is malformed"),
        bad("a table for the list", |c| c.entry(INDEX).data = b"[tensor]\nname = 'numbers'\n".to_vec(), INDEX),
        bad("no name", |c| edit(c, "name = \"numbers\"\n", ""), INDEX),
        bad("an empty name", |c| edit(c, "name = \"words\"", "name = \"\""), "tensor[1].name"),
        bad("a name twice", |c| edit(c, "name = \"words\"", "name = \"numbers\""), "tensor[1].name"),
        bad("no dtype", |c| edit(c, "dtype = \"float32\"\n", ""), INDEX),
        bad("an unknown dtype", |c| edit(c, "float32", "bfloat16"), "tensor[0].dtype"),
        bad("no shape", |c| edit(c, "shape = [2, 3]\n", ""), "tensor[0].shape"),
        bad("a number for a shape", |c| edit(c, "[2, 3]", "6"), INDEX),
        bad("a dimension below zero", |c| edit(c, "[2, 3]", "[-2, -3]"), INDEX),
        bad("a symbol for a dimension", |c| edit(c, "[2, 3]", "[\"n\", 3]"), INDEX),
        bad("no file", |c| edit(c, "file = \"tensor_0.bin\"\n", ""), "tensor[0].file"),
        bad("an empty file name", |c| edit(c, "tensor_0.bin", ""), "tensor[0].file"),
        bad("a file that is not there", |c| edit(c, "tensor_0.bin", "tensor_9.bin"), "tensor_9.bin"),
        bad("a file upwards", |c| edit(c, "tensor_0.bin", "../model/weights.bin"), "../model/weights.bin"),
        bad("an absolute file", |c| edit(c, "tensor_0.bin", "/etc/passwd"), "/etc/passwd"),
        bad("a file with a back slash", |c| edit(c, "tensor_0.bin", "..\\\\x"), "tensor[0].file"),
        bad("a file with a NUL", |c| edit(c, "tensor_0.bin", "x\\u0000"), "tensor[0].file"),
        bad("the folder", |c| edit(c, "tensor_0.bin", "."), "tensor[0].file"),
        bad(
            "inner for numbers",
            |c| edit(c, "file = \"tensor_0.bin\"", "file = \"tensor_0.bin\"\ninner = ['words']"),
            "tensor[0].inner",
        ),
        bad("nested of what is not there", |c| edit(c, "[\"numbers\", \"numbers\"]", "[\"letters\"]"), "`letters`"),
        bad("nested of itself", |c| edit(c, "[\"numbers\", \"numbers\"]", "[\"ragged\"]"), "`ragged`"),
        bad(
            "nested in nested",
            |c| {
                let text = "[[tensor]]\nname = 'outer'\ndtype = 'nested'\ninner = ['ragged']\n";
                c.entry(INDEX).data.extend(text.bytes());
            },
            "`ragged`",
        ),
        bad(
            "nested of several dtypes",
            |c| edit(c, "[\"numbers\", \"numbers\"]", "[\"numbers\", \"words\"]"),
            "`words`",
        ),
        bad(
            "a link out of the model's sight",
            |c| {
                c.remove("tensor_data/tensor_0.bin");
                c.add(Entry::symlink("tensor_data/tensor_0.bin", "../../x"));
            },
            "tensor_data/tensor_0.bin",
        ),
    ]);
    check_rejected(&[
        unsupported("larger than any", |c| c.entry(INDEX).data.extend(b"\n".repeat(8 << 20)), INDEX),
        unsupported(
            "strings larger than any",
            |c| c.entry("tensor_data/tensor_1.toml").data.extend(b"\n".repeat(32 << 20)),
            "tensor_1.toml",
        ),
    ]);
}

#[test]
fn files_that_are_not_what_the_index_says() {
    check_rejected(&[
        bad("a shape too large", |c| edit(c, "[2, 3]", "[2, 4]"), "`numbers`"),
        bad("a shape too small", |c| edit(c, "[2, 3]", "[2, 2]"), "`numbers`"),
        bad("no elements", |c| edit(c, "[2, 3]", "[0]"), "`numbers`"),
        bad("another dtype", |c| edit(c, "float32", "float64"), "`numbers`"),
        bad("numbers as strings", |c| edit(c, "float32", "string"), "tensor_0.bin"),
        bad("strings as numbers", |c| edit(c, "string", "int8"), "`words`"),
        bad("10 GiB in 24 bytes", |c| edit(c, "[2, 3]", "[2684354560]"), "`numbers`"),
        bad("10 GiB of strings in 24 bytes", |c| edit(c, "shape = [2]", "shape = [2684354560]"), "`words`"),
        bad("more than any memory", |c| edit(c, "[2, 3]", "[4611686018427387904]"), "tensor[0].shape"),
        bad(
            "a product that overflows",
            |c| edit(c, "[2, 3]", "[4294967296, 4294967296, 4294967296]"),
            "tensor[0].shape",
        ),
        bad(
            "a product that overflows to the right one",
            |c| {
                edit(c, "[2, 3]", "[6148914691236517206, 3, 3]");
            },
            "tensor[0].shape",
        ),
        bad("a string too few", |c| edit(c, "shape = [2]", "shape = [3]"), "`words`"),
        bad("a string too many", |c| edit(c, "shape = [2]", "shape = [1]"), "`words`"),
        bad("strings that are numbers", |c| c.edit("tensor_data/tensor_1.toml", "\"a\"", "1"), "tensor_1.toml"),
        bad(
            "strings that are no list",
            |c| c.edit("tensor_data/tensor_1.toml", "[\"a\", \"b ü\"]", "\"a\""),
            "tensor_1.toml",
        ),
        bad("strings without data", |c| c.edit("tensor_data/tensor_1.toml", "data", "strings"), "tensor_1.toml"),
        bad("strings that are no TOML", |c| c.edit("tensor_data/tensor_1.toml", "]", ""), "tensor_1.toml"),
        bad("strings that are not UTF-8", |c| c.entry("tensor_data/tensor_1.toml").data.push(0xff), "tensor_1.toml"),
        bad(
            "strings in lists of lists",
            |c| {
                let deep = format!("data = {}\n", "[".repeat(100_000));
                c.entry("tensor_data/tensor_1.toml").data = deep.into_bytes();
            },
            "tensor_1.toml",
        ),
    ]);
}
