//! GGUF files: listed, measured, printed, checked and converted.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// A file with floats, blocks that are dequantized and blocks that are not.
fn small() -> Vec<u8> {
    let text = |text: &[u8]| [&(text.len() as u64).to_le_bytes(), text].concat();
    let pair = |key: &str, of: u32, value: &[u8]| [&text(key.as_bytes()), of.to_le_bytes().as_slice(), value].concat();
    let tensor = |name: &str, dimensions: &[u64], of: u32, offset: u64| {
        let mut described = [&text(name.as_bytes()), (dimensions.len() as u32).to_le_bytes().as_slice()].concat();
        described.extend(dimensions.iter().flat_map(|size| size.to_le_bytes()));
        described.extend([of.to_le_bytes().as_slice(), &offset.to_le_bytes()].concat());
        described
    };
    let words: Vec<u8> = (0..100).flat_map(|number| text(format!("w{number}").as_bytes())).collect();
    let words = [8_u32.to_le_bytes().as_slice(), &100_u64.to_le_bytes(), &words].concat();
    let mut file = [b"GGUF\x03\0\0\0".as_slice(), &3_u64.to_le_bytes(), &3_u64.to_le_bytes()].concat();
    file.extend(pair("general.name", 8, &text(b"small\x1b[31m")));
    file.extend(pair("general.file_type", 4, &7_u32.to_le_bytes()));
    file.extend(pair("tokenizer.ggml.tokens", 9, &words));
    file.extend(tensor("norm", &[2], 0, 0));
    file.extend(tensor("weight", &[32, 2], 8, 32));
    file.extend(tensor("sums", &[32], 9, 128));
    let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(32), 0);
    pad(&mut file);
    file.extend([1_f32, 2.0].into_iter().flat_map(f32::to_le_bytes));
    pad(&mut file);
    // The scales 0.5 and 2, as float16.
    for scale in [0x3800_u16, 0x4000] {
        file.extend(scale.to_le_bytes());
        file.extend((-16..16_i8).map(|number| number as u8));
    }
    pad(&mut file);
    file.extend([0; 40]);
    file
}

#[test]
fn what_is_in_a_file() {
    let sandbox = Sandbox::new();
    sandbox.write("m.gguf", small());
    assert_snapshot!(sandbox.carton("tensor ls m.gguf"), @r#"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE    BYTES  STORED  ENCODING  FORMAT  NAME
    float32  [2]          8       8  raw       dense   norm
    Q8_0     [2, 32]     68      68  raw       ggml    weight
    Q8_1     [32]        40      40  raw       ggml    sums

    metadata
      general.name: small�[31m
      general.file_type: 7
      tokenizer.ggml.tokens: ["w0", "w1", "w2", "w3", …] (100 values of string)
    ----- stderr -----
    `sums` cannot be read: its blocks of Q8_1 are not dequantized
    3 tensors, 98 parameters, 116 B
    "#);
    assert_snapshot!(sandbox.carton("tensor stats m.gguf"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE    MIN  MAX    MEAN      STD  NAN  INF  NAME
    float32  [2]        1    2     1.5      0.5    0    0  norm
    Q8_0     [2, 32]  -32   30  -0.625  13.4647    0    0  weight
    ----- stderr -----
    warning: skipped tensors without numbers to measure: `sums`
    1 quantized tensor measured as the float32 numbers of blocks
    ");
    assert_snapshot!(sandbox.carton("tensor cat m.gguf weight --slice 1,:4"), @"
    exit code: 0
    ----- stdout -----
    weight  Q8_0 [4]
    [-32. -30. -28. -26.]
    ----- stderr -----
    the float32 numbers of blocks of Q8_0
    ");
    assert_snapshot!(sandbox.carton("tensor verify m.gguf"), @"
    exit code: 0
    ----- stdout -----
    OK m.gguf: 3 tensors, 116 B, no digests
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat m.gguf sums"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensor `sums` in `m.gguf` has blocks of Q8_1, which are not dequantized (spec/gguf.md §4)

    hint: the Python package `gguf` does not dequantize them either; choose other tensors
    ");
    sandbox.write("cut.gguf", &small()[..1500]);
    assert_snapshot!(sandbox.carton("tensor verify cut.gguf"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `cut.gguf` is not a GGUF file that can be read

    Caused by:
      tensor `sums` is 40 bytes from byte 1504, and the file has 1500 bytes: it is truncated, or its header is wrong (spec/gguf.md §3)
    ");
}

#[test]
fn blocks_are_converted_when_that_is_wanted() {
    let sandbox = Sandbox::new();
    sandbox.write("m.gguf", small());
    assert_snapshot!(sandbox.carton("tensor convert m.gguf o.safetensors"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a safetensors file cannot hold tensor `weight`, blocks of Q8_0

    hint: `carton tensor convert --dequantize` makes float32 numbers of quantized tensors
    ");
    assert!(!sandbox.files().iter().any(|file| file.starts_with("o.")), "{:?}", sandbox.files());
    sandbox.carton("tensor convert m.gguf o.safetensors --dequantize").expect_code(1);
    for output in ["o.safetensors", "o.zt", "o.npz"] {
        let chosen = "--dequantize --only norm --only weight";
        sandbox.carton(&format!("tensor convert m.gguf {output} {chosen}")).expect_code(0);
        let printed =
            |place: &str| sandbox.carton(&format!("tensor cat {place} weight --first 64")).expect_code(0).stdout;
        assert_eq!(printed(output), printed("m.gguf"), "{output}");
    }
    assert_snapshot!(sandbox.carton("tensor convert m.gguf p.zt --only norm"), @"
    exit code: 0
    ----- stdout -----
    wrote p.zt (1 tensor, 239 B)
    ----- stderr -----
    warning: not written, because they are long: the arrays `tokenizer.ggml.tokens` of the metadata
    ");
    assert_snapshot!(sandbox.carton("tensor diff m.gguf o.zt"), @"
    exit code: 3
    ----- stdout -----
    CHANGE   DTYPE            SHAPE    DIFFERING  LARGEST DIFFERENCE  RELATIVE  COSINE  NAME
    dtype    Q8_0 -> float32  [2, 32]  0 of 64    -                   -         -       weight
    removed  Q8_1             [32]     -          -                   -         -       sums
    1 tensor differs, 1 tensor only in A, 1 tensor the same
    ----- stderr -----
    ");
}

/// Metadata of every length and blocks of every type are copied to another file, and blocks are not quantized again.
#[test]
fn files_are_written() {
    let sandbox = Sandbox::new();
    sandbox.write("m.gguf", small());
    assert_snapshot!(sandbox.carton("tensor convert m.gguf again.gguf"), @"
    exit code: 0
    ----- stdout -----
    wrote again.gguf (3 tensors, 1.5 KiB)
    ----- stderr -----
    ");
    // The package `gguf` has zeros after the last tensor too.
    let mut expected = small();
    expected.resize(expected.len().next_multiple_of(32), 0);
    assert!(std::fs::read(sandbox.work().join("again.gguf")).unwrap() == expected);
    assert_snapshot!(sandbox.carton("tensor convert m.gguf o.gguf --dtype q4_0 --only weight"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensor `weight` has blocks of Q8_0, which are not made blocks of Q4_0

    hint: --dequantize makes float32 numbers of the blocks, which are then quantized again, with a further loss
    ");
    assert_snapshot!(sandbox.carton("tensor convert m.gguf o.gguf --dtype q4_0 --dequantize --only weight --only norm"), @"
    exit code: 0
    ----- stdout -----
    wrote o.gguf (2 tensors, 1.4 KiB)
    ----- stderr -----
    warning: 1 tensor written as float32: blocks of Q4_0 are made of matrices with rows of a multiple of 32 numbers
    ");
    assert_snapshot!(sandbox.carton("tensor verify o.gguf"), @"
    exit code: 0
    ----- stdout -----
    OK o.gguf: 2 tensors, 44 B, no digests
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor convert m.gguf o.safetensors --dtype q8_0 --dequantize --only weight"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: blocks of Q8_0 are for .gguf files: `o.safetensors` would be a safetensors file

    hint: name a file .gguf
    ");
    assert_snapshot!(sandbox.carton("tensor convert m.gguf o.gguf --rename s/norm/nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn/"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a GGUF file cannot hold tensor `nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn`, whose name has 64 bytes: ggml reads at most 63 (spec/gguf.md §6.1)

    hint: rename it, or leave such tensors out with --only
    ");
    assert_snapshot!(sandbox.carton("tensor convert m.gguf o.gguf --metadata general.alignment=64"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a GGUF file cannot hold `general.alignment` in its metadata: expected a power of two of at most 65536, as an unsigned integer of 32 bits (spec/gguf.md §6.2)

    hint: set the value, or leave the metadata out
    ");
}
