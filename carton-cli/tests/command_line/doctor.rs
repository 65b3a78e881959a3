//! `carton doctor` and `carton --version -v`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::runners::install_script;
use crate::sandbox::{Outcome, Sandbox, digits, outcome};

/// The finding about this part whose text contains `text`.
#[track_caller]
fn finding(report: &Outcome, check: &str, text: &str) -> serde_json::Value {
    let report = report.json();
    let findings = report["findings"].as_array().unwrap();
    let is_meant =
        |finding: &&serde_json::Value| finding["check"] == check && finding["detail"].as_str().unwrap().contains(text);
    findings.iter().find(is_meant).unwrap_or_else(|| panic!("no finding about {check} with `{text}`: {report}")).clone()
}

#[test]
fn a_machine_without_anything_is_healthy() {
    let sandbox = Sandbox::new();
    let doctor = |arguments: &[&str]| outcome(sandbox.command(arguments).env_remove("ORT_DYLIB_PATH")).expect_code(0);
    let report = doctor(&["doctor", "--json"]);
    assert_eq!(report.json()["healthy"], true);
    assert_eq!(finding(&report, "configuration", "valid")["status"], "ok");
    assert_eq!(finding(&report, "runner onnx", "in this program")["status"], "ok");
    assert_eq!(finding(&report, "runner noop", "in this program")["status"], "ok");
    assert_eq!(finding(&report, "cache", "not made yet")["status"], "ok");
    let python = finding(&report, "runner python", "Python models");
    assert_eq!((&python["status"], &python["command"]), (&"missing".into(), &"carton runner install python".into()));
    assert_eq!(finding(&report, "runner torchscript", "libtorch")["command"], "carton runner install torchscript");
    assert_eq!(finding(&report, "ONNX Runtime", "ONNX models need it")["command"], "carton runner install onnx");
    // It looks and makes nothing.
    assert!(!sandbox.runner_dir().exists());
    assert!(!sandbox.runner_dir().with_file_name("cache").exists());

    let text = doctor(&["doctor"]).stdout;
    let line = text.lines().find(|line| line.contains("runner python")).unwrap();
    assert!(line.starts_with("missing  runner python") && line.ends_with("; `carton runner install python`"), "{line}");
    assert_eq!(text.lines().count(), report.json()["findings"].as_array().unwrap().len());
}

#[test]
fn broken_runners_are_found() {
    let sandbox = Sandbox::new();
    install_script(&sandbox, "dies", 2, "echo 'libtorch.so: cannot open shared object file' >&2; exit 127");
    install_script(&sandbox, "old", 1, "exit 1");
    install_script(&sandbox, "python", 2, "exit 1");
    fs::create_dir_all(sandbox.runner_dir().join("broken")).unwrap();
    fs::write(sandbox.runner_dir().join("broken/runner.toml"), "version = 7\n").unwrap();
    let report = sandbox.carton("doctor --json").expect_code(1);
    assert_eq!(report.json()["healthy"], false);
    assert_eq!(finding(&report, "runner dies", "libtorch.so: cannot open shared object file")["status"], "bad");
    assert_eq!(finding(&report, "runner python", "died")["command"], "carton runner install python --python 1.0");
    // It may belong to another version of Carton.
    let old = finding(&report, "runner old", "interface 1");
    assert_eq!((&old["status"], &old["command"]), (&"warning".into(), &"carton runner rm old@1.0.0".into()));
    assert_eq!(finding(&report, "runner", "expected version 1, found 7")["status"], "bad");
}

#[test]
fn an_interpreter_that_is_gone_is_found() {
    let sandbox = Sandbox::new();
    install_script(&sandbox, "python", 2, "exit 1");
    fs::write(sandbox.runner_dir().join("python/run.sh"), "#!/opt/gone/python3.11\n").unwrap();
    let report = sandbox.carton("doctor --json").expect_code(1);
    assert_eq!(finding(&report, "runner python", "cannot start")["status"], "bad");
}

#[test]
fn real_runners_start() {
    let Some(folder) = std::env::var_os("CARTON_TEST_RUNNERS").filter(|folder| !folder.is_empty()) else {
        eprintln!("skipped: CARTON_TEST_RUNNERS names no folder with installed runners");
        return;
    };
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(["doctor", "--json"]);
    let report = outcome(command.env("CARTON_RUNNER_DIR", &folder)).expect_code(0);
    for runner in ["python", "torchscript"] {
        let is_installed = fs::read_dir(&folder)
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(runner)));
        if is_installed {
            assert_eq!(finding(&report, &format!("runner {runner}"), "")["status"], "ok");
        }
    }
}

#[test]
fn an_invalid_configuration_is_a_finding() {
    let sandbox = Sandbox::new();
    let config = sandbox.write("config.toml", "offline = \"maybe\"\n");
    let report = sandbox.run(["doctor", "--json", "--config", config.to_str().unwrap()]).expect_code(1);
    assert_eq!(finding(&report, "configuration", "line 1")["status"], "bad");
    // What does not depend on it is examined all the same.
    finding(&report, "sandbox", "");
    finding(&report, "GPU", "");

    fs::write(&config, "ofline = true\n").unwrap();
    let report = sandbox.run(["doctor", "--json", "--config", config.to_str().unwrap()]).expect_code(0);
    assert_eq!(finding(&report, "configuration", "mean nothing")["status"], "warning");
    assert!(report.stderr.contains("did you mean `offline`?"), "{report}");
}

#[test]
fn a_sandbox_that_is_switched_off_is_found() {
    let sandbox = Sandbox::new();
    let config = sandbox.write("config.toml", "sandbox = \"off\"\n");
    let report = sandbox.run(["doctor", "--json", "--config", config.to_str().unwrap()]).expect_code(0);
    assert_eq!(finding(&report, "sandbox", "switches it off")["status"], "warning");
}

#[test]
fn damage_in_the_cache_is_found_and_kept() {
    let sandbox = Sandbox::new();
    let folder = sandbox.runner_dir().with_file_name("cache");
    let digest = "0".repeat(64);
    let shard = folder.join("files-v1/00");
    fs::create_dir_all(&shard).unwrap();
    fs::write(shard.join(&digest), "other bytes").unwrap();
    let manifest = folder.join("cartons-v1").join(&digest).join("MANIFEST");
    fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    fs::write(&manifest, "other bytes").unwrap();
    for path in [folder.clone(), folder.join("files-v1"), folder.join("cartons-v1")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    // Records are checked always, the bytes of files on request.
    let report = sandbox.carton("doctor --json").expect_code(0);
    let found = finding(&report, "cache", "1 damaged");
    assert_eq!((&found["status"], &found["command"]), (&"warning".into(), &"carton cache verify".into()));
    finding(&sandbox.carton("doctor --full --json").expect_code(0), "cache", "2 damaged");
    assert!(shard.join(&digest).exists() && manifest.exists());
    sandbox.carton("cache verify").expect_code(4);
    finding(&sandbox.carton("doctor --full --json").expect_code(0), "cache", "no damage in 0 files, hashed");
}

#[test]
fn a_cache_where_nothing_can_be_written_is_found() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("file", "");
    let mut command = sandbox.command(["doctor", "--json"]);
    let report = outcome(command.env("CARTON_CACHE_DIR", file.join("cache"))).expect_code(1);
    assert_eq!(finding(&report, "cache", "cannot write there")["status"], "bad");
}

#[test]
fn a_cache_that_others_can_write_to_is_found() {
    let sandbox = Sandbox::new();
    let folder = sandbox.work().join("cache");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = sandbox.command(["doctor", "--json"]);
    let report = outcome(command.env("CARTON_CACHE_DIR", &folder)).expect_code(1);
    assert_eq!(finding(&report, "cache", "not safe to use")["status"], "bad");
}

#[test]
fn what_was_built_in_is_printed_on_request() {
    let sandbox = Sandbox::new();
    let short = sandbox.carton("--version").expect_code(0).stdout;
    assert_eq!(short, format!("carton {}\n", env!("CARGO_PKG_VERSION")));
    let long = sandbox.carton("--version -v").expect_code(0).stdout;
    assert!(long.starts_with(&short), "{long}");
    for arguments in ["-V -v", "-vV", "-Vv", "--verbose --version"] {
        assert_eq!(sandbox.carton(arguments).expect_code(0).stdout, long, "{arguments}");
    }
    let info = sandbox.carton("--version --json").expect_code(0).json();
    let runners = sandbox.carton("runner ls --json").expect_code(0).json();
    for (built_in, listed) in info["runners"].as_array().unwrap().iter().zip(runners["runners"].as_array().unwrap()) {
        assert_eq!(built_in["name"], listed["runner_name"]);
        assert_eq!(built_in["version"], listed["framework_version"]);
        assert_eq!(info["runner_protocol"], listed["runner_interface_version"]);
        assert_eq!(info["target"], listed["platform"]);
    }
    assert!(info["tensor_formats"].as_array().unwrap().contains(&"zTensor".into()), "{info}");
    assert!(info["features"].as_array().unwrap().contains(&"object-store".into()), "{info}");
    assert_eq!(info["carton_format"], 1);
    // What this checkout is, unless the build did not know it.
    if let Some(commit) = info["commit"].as_str() {
        assert!(commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{commit}");
    }
    // `-v` means the same as ever where no version is asked for.
    sandbox.run(["pack", &digits("model.onnx"), "-v", "-o", "m.carton"]).expect_code(0);
}
