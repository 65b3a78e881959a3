//! `carton run --example` and `--cast`, and the commands in the output of `carton info`.

use std::path::Path;

use carton_tensor::{Element, Tensor, npy};
use insta::assert_snapshot;

use crate::sandbox::{Sandbox, outcome};

const SIGNATURE: &str = r#"
[[input]]
name = "x"
dtype = "float32"
shape = ["n"]

[[output]]
name = "x"
dtype = "float32"
shape = ["n"]
"#;

const EXAMPLES: &str = r#"
[[example]]
name = "two numbers"
inputs = { x = "x.npy" }
sample_out = { x = "x.npy" }

[[example]]
inputs = { x = "x.npy" }
sample_out = { x = "y.npy", picture = "cat.png", z = "y.npy" }

[[example]]
name = "a picture"
inputs = { x = "cat.png" }
"#;

fn save<T: Element>(sandbox: &Sandbox, name: &str, elements: &[T]) {
    let tensor = Tensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap();
    npy::write(std::fs::File::create(sandbox.work().join(name)).unwrap(), &tensor).unwrap();
}

/// A carton that returns its inputs.
fn pack(sandbox: &Sandbox, metadata: &str) {
    sandbox.write("model.bin", "weights");
    sandbox.write("metadata.toml", metadata);
    sandbox.carton("pack model.bin --runner noop --metadata metadata.toml -o echo.carton").expect_code(0);
}

#[test]
fn recorded_arrays_are_cast_on_request() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("metadata.toml", SIGNATURE);
    save(&sandbox, "x.npy", &[0.1_f64, 2.0]);
    let pack = "pack model.bin --runner noop --metadata metadata.toml --record-self-test x=x.npy -o echo.carton";
    let refused = sandbox.carton(pack).expect_code(1);
    assert!(refused.stderr.contains("input `x`: expected float32, found float64"), "{refused}");
    assert!(refused.stderr.contains("hint: `--cast` casts `x`"), "{refused}");
    sandbox.carton(&format!("{pack} --cast")).expect_code(0);
    let recorded = sandbox.carton("tensor cat echo.carton#x").expect_code(0);
    assert_eq!(recorded.stdout, "x  float32 [2]\n[0.1 2. ]\n");
    save(&sandbox, "x.npy", &[1e39]);
    let refused = sandbox.carton(&format!("{pack} --cast")).expect_code(2);
    assert!(refused.stderr.contains("1e39 is out of range for float32"), "{refused}");
}

#[test]
fn arrays_are_cast_on_request() {
    let sandbox = Sandbox::new();
    pack(&sandbox, SIGNATURE);
    save(&sandbox, "x.npy", &[0.1_f64, 2.0]);
    assert_snapshot!(sandbox.carton("run echo.carton -i x=x.npy"), @r#"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `x`: expected float32, found float64

    hint: `--cast` casts `x` where no value changes but by rounding
    "#);
    assert_snapshot!(sandbox.carton("run echo.carton -i x=x.npy --cast"), @"
    exit code: 0
    ----- stdout -----
    x  float32 [2]
    [0.1 2. ]
    ----- stderr -----
    ");
    save(&sandbox, "x.npy", &[0.1_f64, 1e39]);
    assert_snapshot!(sandbox.carton("run echo.carton -i x=x.npy --cast"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot cast input `x` to float32

    Caused by:
      element [1]: 1e39 is out of range for float32
    ");
    // Strings are never cast, so there is no hint to cast them.
    let words = Tensor::from_strings(["1"], vec![1]).unwrap();
    npy::write(std::fs::File::create(sandbox.work().join("words.npy")).unwrap(), &words).unwrap();
    assert_snapshot!(sandbox.carton("run echo.carton -i x=words.npy"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `x`: expected float32, found string

    hint: `carton info` shows what the carton declares; where it declares the wrong thing, `--signature-mode warn` runs the model anyway
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=words.npy --cast"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot cast input `x` to float32

    Caused by:
      string cannot be cast to float32
    ");
}

/// NumPy makes the arrays, and its `astype` says what they become.
#[test]
fn casts_are_those_of_numpy() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no Python with NumPy");
        return;
    };
    let sandbox = Sandbox::new();
    const DTYPES: [&str; 10] =
        ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"];
    let tensor =
        |side: &str, dtype: &str| format!("[[{side}]]\nname = '{dtype}'\ndtype = '{dtype}'\nshape = ['n', 2]\n");
    let metadata: String =
        ["input", "output"].iter().flat_map(|side| DTYPES.map(|dtype| tensor(side, dtype))).collect();
    pack(&sandbox, &metadata);
    let script = "import sys, numpy as np
names = sys.argv[3].split()
files = ['c.npy', 'fortran.npy', 'all.npz', 'small.npz']
for source in ['bool', 'float16', *names]:
    array = np.array([[0, 1], [1, 1]], source)
    expected = {name: array.astype(name) for name in names}
    if sys.argv[1] == 'make':
        np.save(f'{source}-c.npy', array)
        np.save(f'{source}-fortran.npy', np.asfortranarray(array))
        np.savez(f'{source}-all.npz', **{name: array for name in names})
        np.savez_compressed(f'{source}-small.npz', **{name: array for name in names})
    elif source == sys.argv[2]:
        with np.load('out.npz') as found:
            assert sorted(found.files) == sorted(names), found.files
            for name in names:
                assert found[name].dtype == name and np.array_equal(found[name], expected[name]), (source, name)
";
    let run = |verb: &str, source: &str| {
        let arguments = ["-c", script, verb, source, &DTYPES.join(" ")];
        let output = std::process::Command::new(&python).args(arguments).current_dir(sandbox.work()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("make", "");
    for source in ["bool", "float16"].into_iter().chain(DTYPES) {
        for file in ["c.npy", "fortran.npy", "all.npz", "small.npz"] {
            let inputs: String = match file.ends_with(".npz") {
                true => format!("-i {source}-{file}"),
                false => DTYPES.map(|dtype| format!("-i {dtype}={source}-{file}")).join(" "),
            };
            sandbox.carton(&format!("run echo.carton {inputs} --cast -o out.npz")).expect_code(0);
            run("check", source);
        }
    }
}

#[test]
fn a_model_runs_on_an_example() {
    let sandbox = Sandbox::new();
    save(&sandbox, "x.npy", &[1.0_f32, 2.0]);
    save(&sandbox, "y.npy", &[1.0_f32, 2.5]);
    sandbox.write("cat.png", "not really a picture");
    pack(&sandbox, &format!("{SIGNATURE}{EXAMPLES}"));
    assert_snapshot!(sandbox.run(["run", "echo.carton", "--example", "two numbers"]), @"
    exit code: 0
    ----- stdout -----
    x  float32 [2]
    [1. 2.]
    Sample outputs of two numbers
      x  matches  largest difference 0
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("run echo.carton --example example_1"), @"
    exit code: 0
    ----- stdout -----
    x  float32 [2]
    [1. 2.]
    Sample outputs of example_1
      picture  not compared  the sample is the file `misc/cat.png`
      x        differs       element [1]: expected 2.5, found 2.0 (differs by 5e-1, allowed 2.501e-5); 1 of 2 elements differ
      z        differs       the model did not return this output
    ----- stderr -----
    ");
    let json = sandbox.carton("run echo.carton --example example_1 --json").expect_code(0).json();
    assert_snapshot!(json["example"], @r#"{"name":"example_1","sample_out":[{"comparison":"not_compared","detail":"the sample is the file `misc/cat.png`","max_abs_diff":null,"max_rel_diff":null,"name":"picture"},{"comparison":"differs","detail":"element [1]: expected 2.5, found 2.0 (differs by 5e-1, allowed 2.501e-5); 1 of 2 elements differ","max_abs_diff":0.5,"max_rel_diff":0.2,"name":"x"},{"comparison":"differs","detail":"the model did not return this output","max_abs_diff":null,"max_rel_diff":null,"name":"z"}]}"#);
    assert_eq!(json["outputs"]["x"]["data"].to_string(), "[1.0,2.0]");
    let lenient = sandbox.carton("run echo.carton --example example_1 --atol 0.5 --json").expect_code(0).json();
    assert_eq!(lenient["example"]["sample_out"][1]["comparison"], "matches");
    assert_snapshot!(sandbox.run(["run", "echo.carton", "--example", "a picture"]), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: example `a picture`: input `x` is the file `misc/cat.png`, expected a tensor

    hint: make a tensor of the file, as the model needs it, and pass that: `carton unpack` gets the file
    ");
    assert_snapshot!(sandbox.carton("run echo.carton --example a"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: there is no example `a`, there are `two numbers`, `example_1`, `a picture`
    ");
    // An example that has a name is also found by its label.
    sandbox.carton("run echo.carton --example example_0 -o x=out.npy").expect_code(0);
    let x = Tensor::from_vec(vec![1.0_f32, 2.0], vec![2]).unwrap();
    assert_eq!(npy::read_path(sandbox.work().join("out.npy")).unwrap(), x);
    sandbox.carton("run echo.carton --example example_0 -i x=x.npy").expect_code(2);
    pack(&sandbox, SIGNATURE);
    assert_snapshot!(sandbox.carton("run echo.carton --example a"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: there is no example `a`, there are none
    ");
}

/// Runs the lines below `Run it with`, at the end of the output of `carton info`, in a shell.
#[test]
fn commands_of_info_can_be_copied() {
    let sandbox = Sandbox::new();
    save(&sandbox, "x.npy", &[1.0_f32, 2.0]);
    let test = "[[self_test]]\ninputs = { x = \"x.npy\" }\nexpected_out = { x = \"x.npy\" }\n";
    pack(&sandbox, &format!("{SIGNATURE}{test}"));
    std::fs::rename(sandbox.work().join("echo.carton"), sandbox.work().join("it's an echo.carton")).unwrap();
    let info = sandbox.run(["info", "it's an echo.carton"]).expect_code(0).stdout;
    let (_, lines) = info.split_once("\nRun it with\n").unwrap();
    assert_snapshot!(lines, @r#"
    carton run 'it'\''s an echo.carton' -i x=x.npy
    carton run 'it'\''s an echo.carton' --self-test
    "#);
    for (line, expected) in lines.lines().zip(["x  float32 [2]", "passed  self_test_0"]) {
        let command = sandbox.command(["unused"]);
        let folder = Path::new(command.get_program()).parent().unwrap().to_str().unwrap().to_owned();
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(line).current_dir(sandbox.work()).env("PATH", format!("{folder}:/usr/bin:/bin"));
        for (name, value) in command.get_envs().filter(|(name, _)| *name != "PATH") {
            shell.env(name, value.unwrap());
        }
        let printed = outcome(&mut shell).expect_code(0);
        assert!(printed.stdout.starts_with(expected), "{line}: {printed}");
    }
}

#[test]
fn long_lists_of_files_are_folded() {
    let sandbox = Sandbox::new();
    for file in 0..30 {
        sandbox.write(&format!("model/{file:02}.bin"), "weights");
    }
    sandbox.carton("pack model --runner noop -o m.carton").expect_code(0);
    assert_snapshot!(sandbox.carton("info m.carton"), @"
    exit code: 0
    ----- stdout -----
    (no name)

    runner    noop =0.1.0
    manifest  sha256:[HASH]

    Files (32 files, 334 B, 306 B in the carton)
      carton.toml   112 B
      model/00.bin    7 B
      model/01.bin    7 B
      model/02.bin    7 B
      model/03.bin    7 B
      model/04.bin    7 B
      model/05.bin    7 B
      model/06.bin    7 B
      model/07.bin    7 B
      model/08.bin    7 B
      model/09.bin    7 B
      model/10.bin    7 B
      model/11.bin    7 B
      model/12.bin    7 B
      model/13.bin    7 B
      … and 17 more: `carton info -v` and `carton ls` show all

    Run it with
      carton run m.carton -i NAME=FILE.npy
    ----- stderr -----
    ");
    let all = sandbox.carton("info m.carton -v").expect_code(0).stdout;
    assert!(all.contains("model/29.bin") && !all.contains("more:"), "{all}");
    let json = sandbox.carton("info m.carton --json").expect_code(0).json();
    assert_eq!(json["files"].as_array().unwrap().len(), 32);
}
