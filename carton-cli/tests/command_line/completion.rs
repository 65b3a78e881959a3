//! Completion in shells. Tests run bash itself on a terminal, with the keys that a user presses.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use carton_tensor::Tensor;
use carton_tensor::npy;

use crate::runners::install_script;
use crate::sandbox::{Sandbox, outcome};

const METADATA: &str = r#"
[[input]]
name = "image"
dtype = "float32"
shape = ["n"]

[[input]]
name = "image_size"
dtype = "int64"
shape = []

[[input]]
name = "$(touch harmed)"
dtype = "string"
shape = []

[[output]]
name = "y"
dtype = "float32"
shape = []

[[example]]
name = "small"

[example.inputs]

[[example]]

[example.inputs]

[[example]]
name = "an image"

[example.inputs]
"#;

/// A carton, an array, and a runner of another program.
fn site() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("m.toml", METADATA);
    sandbox.carton("pack model.bin --runner noop --metadata m.toml -o m.carton").expect_code(0);
    npy::write(
        &mut fs::File::create(sandbox.work().join("my array.npy")).unwrap(),
        &Tensor::from_vec(vec![1.0_f32], vec![1]).unwrap(),
    )
    .unwrap();
    sandbox.write("notes.txt", "");
    install_script(&sandbox, "mine", 2, "exit 1");
    install_script(&sandbox, "mine2", 2, "exit 1");
    sandbox
}

/// The candidates that the program offers for the last of these words.
fn offered(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let mut command = sandbox.command(["--"].iter().chain(words));
    command.env("CARTON_COMPLETE", "fish").env("http_proxy", "http://127.0.0.1:9");
    let outcome = outcome(&mut command).expect_code(0);
    assert_eq!(outcome.stderr, "");
    outcome.stdout.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn runners_and_inputs_are_offered() {
    let sandbox = site();
    assert_eq!(offered(&sandbox, &["carton", "run", "m.carton", "--runner", ""]), ["mine", "mine2", "noop", "onnx"]);
    assert_eq!(offered(&sandbox, &["carton", "pack", "m", "--runner=on"]), ["--runner=onnx"]);
    assert_eq!(offered(&sandbox, &["carton", "runner", "rm", "m"]), ["mine", "mine2"]);
    // Uses the runners of the named configuration.
    sandbox.write("empty/config.toml", "runner_dir = \"/nowhere\"\n");
    let mut command = sandbox.command(["--", "carton", "--config", "empty/config.toml", "run", "--runner", ""]);
    command.env("CARTON_COMPLETE", "fish").env_remove("CARTON_RUNNER_DIR");
    assert_eq!(outcome(&mut command).expect_code(0).stdout, "noop\nonnx\n");

    // A name that a shell would execute is not offered.
    assert_eq!(offered(&sandbox, &["carton", "run", "m.carton", "-i", ""]), ["image=", "image_size="]);
    assert_eq!(offered(&sandbox, &["carton", "run", "m.carton", "-i", "image_"]), ["image_size="]);
    assert_eq!(offered(&sandbox, &["carton", "run", "m.carton", "-i", "image=my"]), ["image=my array.npy"]);
    sandbox.carton("unpack m.carton -o folder").expect_code(0);
    assert_eq!(offered(&sandbox, &["carton", "run", "folder", "--input", "image_"]), ["image_size="]);
    assert_eq!(offered(&sandbox, &["carton", "run", "folder", "--example", ""]), ["small", "example_1"]);
    assert_eq!(offered(&sandbox, &["carton", "run", "m.carton", "--example", "sm"]), ["small"]);
    for (typed, expected) in
        [("--ro", "--rows"), ("--input-c", "--input-column"), ("--kee", "--keep"), ("--batch-s", "--batch-size")]
    {
        assert_eq!(offered(&sandbox, &["carton", "run", "m.carton", typed]), [expected]);
    }
    assert_eq!(offered(&sandbox, &["carton", "run", "m.carton", "--rows", "my"]), ["my array.npy"]);
    // Anything but a carton offers files, and nothing is fetched.
    for model in ["model.bin", "nothing.carton", "https://127.0.0.1:9/m.carton", "/dev/zero"] {
        assert_eq!(offered(&sandbox, &["carton", "run", model, "-i", "my"]), ["my array.npy"], "{model}");
    }
}

#[test]
fn cartons_of_the_cache_are_offered() {
    let sandbox = Sandbox::new();
    let cartons = |typed: &str| -> Vec<String> {
        let offered = offered(&sandbox, &["carton", "cache", "rm", typed]);
        offered.into_iter().filter(|word| !word.starts_with('-')).collect()
    };
    assert!(cartons("").is_empty());
    // Compressed files are unpacked into the cache.
    sandbox.write("model/weights.bin", "weights ".repeat(100_000));
    for metadata in ["model_name = 'two words'", "model_name = 'digits'"] {
        sandbox.write("m.toml", metadata);
        sandbox.carton("pack model --runner noop --metadata m.toml -o m.carton").expect_code(0);
        sandbox.carton("run m.carton -i x=1").expect_code(0);
    }
    let found = cartons("");
    let hash = found.iter().find(|name| *name != "digits").unwrap();
    assert!(found.len() == 2 && hash.len() == 12, "{found:?}");
    assert_eq!(cartons("dig"), ["digits"]);
    sandbox.carton(&format!("cache rm {hash} digits")).expect_code(0);
    assert!(cartons("").is_empty());
}

#[test]
fn bash_completes_what_is_typed() {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no `script` to give bash a terminal");
        return;
    }
    let sandbox = site();
    fs::create_dir(sandbox.work().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_carton"), sandbox.work().join("bin/carton")).unwrap();
    // The words of the completed command are printed in place of running it.
    let script =
        sandbox.carton("completions bash").expect_code(0).stdout.replace("bash carton --", "bash command carton --");
    assert!(script.contains("bash command carton --"), "{script}");
    sandbox.write(
        "rc",
        format!(
            "PATH=$PWD/bin:$PATH\nPS1=\nbind 'set bell-style none' 'set enable-bracketed-paste off' 2>/dev/null\n{script}\n\
             carton() {{ printf '<%s>' \"$@\"; echo; }}\n"
        ),
    );
    let check = |keys: &str, expected: &str| {
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--return", "--command", "bash --noprofile --rcfile rc -i", "/dev/null"])
            .current_dir(sandbox.work())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TERM", "dumb")
            .env("HOME", sandbox.work())
            .env("CARTON_RUNNER_DIR", sandbox.runner_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{keys}\nexit\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.lines().any(|line| line.trim_end() == expected), "{keys:?}: {shown}");
    };
    check("carton unp\tm.c\t--outp\tx", "<unpack><m.carton><--output><x>");
    check("carton run m.c\t--runner mine\t2", "<run><m.carton><--runner><mine2>");
    check("carton run m.carton --runner on\t", "<run><m.carton><--runner><onnx>");
    check("carton run m.carton --runner=no\t", "<run><m.carton><--runner=noop>");
    check("carton run m.carton -i image_\t3", "<run><m.carton><-i><image_size=3>");
    check("carton run m.carton -i image=m\t", "<run><m.carton><-i><image=my array.npy>");
    check("carton run 'm.carton' -i image=./m\t -o x.npy", "<run><m.carton><-i><image=./my array.npy><-o><x.npy>");
    check("carton help tens\tca\t", "<help><tensor><cat>");
    assert!(!sandbox.work().join("harmed").exists());
}

#[test]
fn a_variable_of_another_program_changes_nothing() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(["runner", "ls"]);
    assert!(outcome(command.env("COMPLETE", "bash")).expect_code(0).stdout.starts_with("NAME"));
}
