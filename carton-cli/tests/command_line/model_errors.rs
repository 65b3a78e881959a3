//! What keeps a model from running: a runner, a device, an option, a permission, a limit, a variable. The error says which, and what to do.

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, outcome};

#[test]
fn a_runner_that_lacks_something_on_this_machine() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let pack = "pack model.bin --runner noop -o lacking.carton --opt unavailable=no-compiler";
    assert_snapshot!(sandbox.carton(pack), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: the packed model does not load

    Caused by:
      runner noop 0.1.0 lacks something that the model needs
      no-compiler

    hint: install it; `--no-check` packs it without loading it
    ");
    assert!(!sandbox.work().join("lacking.carton").exists());
    sandbox.carton(&format!("{pack} --no-check")).expect_code(0);
    assert_snapshot!(sandbox.carton("run lacking.carton"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: runner noop 0.1.0 lacks something that the model needs

    Caused by:
      no-compiler

    hint: install it
    ");
}

#[test]
fn devices_that_cannot_be_used() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.carton("pack model.bin --runner noop -o model.carton").expect_code(0);
    assert_snapshot!(sandbox.carton("run model.carton -i x=1 --device 0"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: runner noop 0.1.0 lacks something that the model needs

    Caused by:
      device `0` cannot be used: the noop runner runs on the CPU alone

    hint: use the device `cpu`
    ");
    assert_snapshot!(sandbox.carton("run model.carton -i x=1 --device foo"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: runner noop 0.1.0 lacks something that the model needs

    Caused by:
      there is no device `foo`

    hint: a device is `cpu`, the index of a GPU, or its name `GPU-…` or `MIG-…`
    ");
    sandbox.carton("run model.carton -i x=1 --device cpu").expect_code(0);
}

#[test]
fn pack_options_that_the_runner_does_not_know_are_warned_about() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let packed = sandbox.carton("pack model.bin --runner noop -o bundled.carton --bundle-wheels").expect_code(0);
    assert!(packed.stderr.contains("the noop runner has no pack option `bundle_wheels`"), "{}", packed.stderr);
    let described = sandbox.carton("info bundled.carton --json").expect_code(0).stdout;
    assert!(!described.contains("bundle_wheels"), "{described}");
}

#[test]
fn a_self_test_of_a_model_whose_signature_is_not_known() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let refused = sandbox.carton("pack model.bin --runner noop -o m.carton --record-self-test [1]").expect_code(2);
    assert!(refused.stderr.contains("input 1 has no name"), "{refused}");
}

#[test]
fn what_a_model_asks_for_is_named_with_the_option_that_allows_it() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "1");
    let asked = "[sandbox]\nnetwork = true\nread = [\"/srv/my words\"]\n";
    sandbox.write("m.toml", asked);
    let packed = sandbox.carton("pack model --runner noop --metadata m.toml -o m.carton --no-check");
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    assert_snapshot!(sandbox.carton("run m.carton"), @r"
    exit code: 0
    ----- stdout -----

    ----- stderr -----
    warning: the model asks for the network, reading `/srv/my words`, which is not allowed: `--allow network --allow 'read=/srv/my words'` allows it
    ");
    assert_snapshot!(sandbox.carton("run m.carton --allow network"), @r"
    exit code: 0
    ----- stdout -----

    ----- stderr -----
    warning: the model asks for reading `/srv/my words`, which is not allowed: `--allow 'read=/srv/my words'` allows it
    ");
}

/// A link in a folder from somebody else leads to a file of the user.
#[test]
fn a_link_that_leaves_a_model_is_named_with_the_option_that_allows_it() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "1");
    sandbox.write("my key", "secret");
    std::os::unix::fs::symlink("../my key", sandbox.work().join("model/link")).unwrap();
    assert_snapshot!(sandbox.carton("run model --runner noop"), @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the link `[SANDBOX]/work/model/link` leads out of the model's folder, to `[SANDBOX]/work/my key`

    hint: if that is meant, `--allow 'read=[SANDBOX]/work/my key'` lets the model read it, or name a folder that has all that the links lead to; or put a copy in place of the link
    ");
    assert_eq!(sandbox.run(["run", "model", "--runner", "noop", "--allow", "read=my key"]).code, 0);
}

#[test]
fn a_limit_that_is_too_low_is_named_with_its_option() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "1");
    let stderr = sandbox.carton("run model --runner noop --limit open_files=4").stderr;
    let hint = "hint: the limit `open_files` of 4 may be too low: raise it by `--limit open_files=N`, or in `[sandbox]` of the configuration";
    assert!(stderr.contains(hint), "{stderr}");
}

#[test]
fn variables_that_a_model_cannot_get_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "1");
    let run = |variable: &str| sandbox.run(["run", "model", "--runner", "noop", "--env", variable]);
    assert_snapshot!(run("NOT_THERE"), @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the environment variable `NOT_THERE` is not set

    hint: set it, or give its value: `NOT_THERE=VALUE`
    ");
    assert_snapshot!(run("HOME=/"), @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a model cannot get the environment variable `HOME`: expected another name, because `HOME`, `TMPDIR` and those that begin with `CARTON_` are the host's to set
    ");
    assert_eq!(run("THERE=1").code, 0);
    let pack = |option: &str| sandbox.run(["pack", "model", "--runner", "noop", "-o", "m.carton", "--opt", option]);
    assert_snapshot!(pack("env.CARTON_SANDBOX=off"), @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a model cannot get the environment variable `CARTON_SANDBOX`: expected another name, because `HOME`, `TMPDIR` and those that begin with `CARTON_` are the host's to set
    ");
    sandbox.write("m.toml", "[runner.env]\nTMPDIR = \"/\"\n");
    assert_snapshot!(sandbox.carton("pack model --runner noop --metadata m.toml -o m.carton"), @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: carton.toml: `runner.env.TMPDIR`: expected another name, because `HOME`, `TMPDIR` and those that begin with `CARTON_` are the host's to set, found `TMPDIR`
    ");
}

/// What such a variable names would be code that nothing confines.
#[test]
fn a_variable_of_a_carton_has_no_effect_on_what_starts_and_confines_the_model() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "1");
    let options = ["--opt", "env.LD_PRELOAD=/nowhere.so", "--opt", "env.NUMBER=1.10"];
    let pack = ["pack", "model", "--runner", "noop", "-o", "m.carton", "--no-check"];
    sandbox.run(pack.iter().chain(&options)).expect_code(0);
    let info = sandbox.carton("info m.carton --json").expect_code(0).json();
    assert_eq!(info["runner"]["env"], serde_json::json!({"LD_PRELOAD": "/nowhere.so", "NUMBER": "1.10"}));
    assert_eq!(info["runner"]["opts"], serde_json::json!({}));
    let page = sandbox.carton("info m.carton").expect_code(0).stdout;
    assert!(page.contains("Environment variables\n  LD_PRELOAD  /nowhere.so\n  NUMBER      1.10\n"), "{page}");
    let started = sandbox.work().join("started");
    let wrapper = format!("env >> {}; exec \"$@\"", started.display());
    let config =
        sandbox.write("config.toml", format!("[sandbox]\nwrapper = [\"/bin/sh\", \"-c\", '{wrapper}', \"sh\"]"));
    for mode in ["on", "off"] {
        let mut command = sandbox.command(["run", "m.carton", "-v", "--sandbox", mode]);
        let ran = outcome(command.env("CARTON_CONFIG_PATH", &config)).expect_code(0);
        // The dynamic loader complains of the file once in the runner. Unconfined, the shell's `exec` starts nothing before it either.
        assert_eq!(ran.stderr.matches("'/nowhere.so' from LD_PRELOAD").count(), 1, "{mode}: {ran}");
        let environment = std::fs::read_to_string(&started).unwrap();
        assert!(environment.contains("CARTON_LAUNCHER_VARIABLES="), "{mode}: {environment}");
        assert!(!environment.lines().any(|line| line.starts_with("LD_PRELOAD=")), "{mode}: {environment}");
    }
}
