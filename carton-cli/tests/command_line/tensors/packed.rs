//! Tensors that libraries of quantization store packed: named, and made dense. carton-tensor/tests/packed_files.py made the files.

use std::path::Path;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Puts the files of a scheme into the sandbox: the tensors and the configuration, in the folder of a checkpoint, and the dense tensors beside it.
fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../carton-tensor/tests/data/packed");
    let read = |ending: &str| std::fs::read(folder.join(format!("{name}.{ending}")));
    sandbox.write("m/model.safetensors", read("safetensors").unwrap());
    sandbox.write("dense.safetensors", read("dense.safetensors").unwrap());
    if let Ok(config) = read("json") {
        sandbox.write("m/config.json", config);
    }
    sandbox
}

#[test]
fn gptq_is_named_and_made_dense() {
    let sandbox = sandbox("gptq-4");
    assert_snapshot!(sandbox.carton("tensor ls m"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE     BYTES  STORED  ENCODING  FORMAT  STANDS FOR                    NAME
    float32  [4]          16      16  raw       dense   -                             norm.weight
    int32    [96]        384     384  raw       dense   (a part)                      layers.0.q_proj.g_idx
    int32    [12, 40]   1920    1920  raw       dense   GPTQ 4 bit, float16 [40, 96]  layers.0.q_proj.qweight
    int32    [3, 5]       60      60  raw       dense   (a part)                      layers.0.q_proj.qzeros
    float16  [3, 40]     240     240  raw       dense   (a part)                      layers.0.q_proj.scales
    ----- stderr -----
    5 tensors, 715 parameters, 2.6 KiB
    ");
    let json = sandbox.carton("tensor ls m --json --only *.qweight").json();
    assert_snapshot!(json["tensors"][0]["logical"], @r#"
    {"dtype":"float16","name":"layers.0.q_proj.weight","parts":["layers.0.q_proj.qweight","layers.0.q_proj.g_idx","layers.0.q_proj.qzeros","layers.0.q_proj.scales"],"scheme":"GPTQ 4 bit","shape":[40,96]}
    "#);
    assert_snapshot!(sandbox.carton("tensor convert m out.safetensors --dequantize"), @"
    exit code: 0
    ----- stdout -----
    wrote out.safetensors (2 tensors, 7.7 KiB)
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor ls out.safetensors"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE     BYTES  STORED  ENCODING  FORMAT  NAME
    float32  [4]          16      16  raw       dense   norm.weight
    float16  [40, 96]   7680    7680  raw       dense   layers.0.q_proj.weight
    ----- stderr -----
    2 tensors, 3.84 K parameters, 7.5 KiB
    ");
    sandbox
        .carton("tensor diff out.safetensors#layers.0.q_proj.weight dense.safetensors#layers.0.q_proj.weight")
        .expect_code(0);
    // The names that are selected and renamed are those of the dense tensors.
    sandbox
        .carton("tensor convert m one.zt --dequantize --only *.weight --exclude norm* --rename s/layers/blk/")
        .expect_code(0);
    assert_snapshot!(sandbox.carton("tensor ls one.zt"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE     BYTES  STORED  ENCODING  FORMAT  NAME
    float16  [40, 96]   7680    7680  raw       dense   blk.0.q_proj.weight
    ----- stderr -----
    1 tensor, 3.84 K parameters, 7.5 KiB
    ");
    // As it is, without the option.
    sandbox.carton("tensor convert m same.safetensors").expect_code(0);
    sandbox.carton("tensor diff same.safetensors m").expect_code(0);
}

#[test]
fn what_nothing_decides_is_refused() {
    let sandbox = sandbox("gptq-4");
    std::fs::remove_file(sandbox.work().join("m/config.json")).unwrap();
    assert_snapshot!(sandbox.carton("tensor ls m"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE     BYTES  STORED  ENCODING  FORMAT  STANDS FOR   NAME
    float32  [4]          16      16  raw       dense   -            norm.weight
    int32    [96]        384     384  raw       dense   (a part)     layers.0.q_proj.g_idx
    int32    [12, 40]   1920    1920  raw       dense   GPTQ or AWQ  layers.0.q_proj.qweight
    int32    [3, 5]       60      60  raw       dense   (a part)     layers.0.q_proj.qzeros
    float16  [3, 40]     240     240  raw       dense   (a part)     layers.0.q_proj.scales
    ----- stderr -----
    `layers.0.q_proj.qweight` is not dequantized: its zero points are stored with 1 subtracted or without, which only `checkpoint_format` in the `quantization_config` of the model's config.json says, and there is none beside the file
    5 tensors, 715 parameters, 2.6 KiB
    ");
    assert_snapshot!(sandbox.carton("tensor convert m out.safetensors --dequantize"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensor `layers.0.q_proj.qweight` is not dequantized: its zero points are stored with 1 subtracted or without, which only `checkpoint_format` in the `quantization_config` of the model's config.json says, and there is none beside the file

    hint: leave it out, or convert without dequantizing, which keeps it as it is
    ");
    sandbox.carton("tensor convert m out.safetensors --dequantize --exclude *qweight --exclude *qzeros --exclude *scales --exclude *g_idx").expect_code(0);
    sandbox.write("m/config.json", "{");
    assert_snapshot!(sandbox.carton("tensor convert m again.safetensors --dequantize"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensor `layers.0.q_proj.qweight` is not dequantized: `config.json` beside it cannot be read: EOF while parsing an object at line 1 column 1

    hint: leave it out, or convert without dequantizing, which keeps it as it is
    ");
}

#[test]
fn scales_of_inputs_are_not_written() {
    let sandbox = sandbox("modelopt-nvfp4-float32");
    assert_snapshot!(sandbox.carton("tensor convert m out.safetensors --dequantize --dtype float32"), @"
    exit code: 0
    ----- stdout -----
    wrote out.safetensors (1 tensor, 1.6 KiB)
    ----- stderr -----
    warning: not written, because they are for the inputs and outputs of quantized layers: `fc.input_scale`
    ");
    sandbox.carton("tensor diff out.safetensors dense.safetensors").expect_code(0);
}
