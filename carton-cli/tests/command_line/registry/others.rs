//! The tools of others: skopeo, oras, and signatures that go along.

use std::fs;
use std::process::Command;

use carton_test_server::registry::Registry;

use super::*;

/// Runs a tool of others that a test needs; `None`, with the reason printed, if it is not installed.
fn tool(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "this test needs {program}: {error}");
            eprintln!("skipped: there is no {program}: {error}");
            None
        }
    }
}

#[test]
fn skopeo_copies_a_carton_to_another_registry() {
    let (Some(registry), Some(other)) = (Registry::start(""), Registry::start("")) else { return };
    let sandbox = Sandbox::new();
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    sandbox.run(["push", "model.carton", &registry.artifact("team/model:1")]).expect_code(0);
    let from = format!("docker://{}/team/model:1", registry.authority());
    let to = format!("docker://{}/copied:2", other.authority());
    let Some(_) = tool("skopeo", &["copy", "--src-tls-verify=false", "--dest-tls-verify=false", &from, &to]) else {
        return;
    };
    drop(registry);
    forget(&sandbox);
    assert_eq!(super::hash(&sandbox, &other.artifact("copied:2")), hash);
    sandbox.run(["verify", &other.artifact("copied:2")]).expect_code(0);
    let inspected = tool("skopeo", &["inspect", "--raw", "--tls-verify=false", &to]).unwrap();
    let inspected: serde_json::Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["artifactType"], "application/vnd.cncf.model.manifest.v1+json");
    assert_eq!(inspected["config"]["mediaType"], "application/vnd.cncf.model.config.v1+json");
    // What skopeo writes to a folder has the bytes of the files.
    let folder = sandbox.work().join("folder");
    tool("skopeo", &["copy", "--src-tls-verify=false", &to, &format!("dir:{}", folder.display())]).unwrap();
    let weights = inspected["layers"][1]["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    assert_eq!(fs::read(folder.join(weights)).unwrap(), noise(1, LARGE));
}

#[test]
fn oras_pulls_the_files_of_the_model() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        println!("skipped: CARTON_TEST_PYTHON is not set");
        return;
    };
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    pack(&sandbox, "model", &noise(1, LARGE));
    sandbox.run(["push", "model.carton", &registry.artifact("team/model:1")]).expect_code(0);
    let script = "import sys, oras.client\n\
        client = oras.client.OrasClient(hostname=sys.argv[1], insecure=True)\n\
        client.pull(target=sys.argv[1] + '/team/model:1', outdir=sys.argv[2])";
    let folder = sandbox.work().join("pulled");
    let output = Command::new(python).args(["-c", script, &registry.authority()]).arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read(folder.join("model/weights.bin")).unwrap(), noise(1, LARGE));
    // With the small layer unpacked among them, the files are the unpacked carton.
    let small = fs::read_dir(&folder).unwrap().flatten().find(|entry| entry.path().extension().is_some());
    let unzipped =
        Command::new("python3").args(["-m", "zipfile", "-e"]).arg(small.unwrap().path()).arg(&folder).status();
    assert!(unzipped.unwrap().success());
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "carton") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert_eq!(super::hash(&sandbox, "pulled"), super::hash(&sandbox, "model.carton"));
    sandbox.carton("verify pulled").expect_code(0);
}

#[test]
fn the_manifest_is_one_of_the_model_specification() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        println!("skipped: CARTON_TEST_PYTHON is not set");
        return;
    };
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    pack(&sandbox, "model", &noise(1, LARGE));
    let pushed = sandbox.run(["push", "model.carton", &registry.artifact("model"), "--json"]).expect_code(0).json();
    let manifest = manifest(&registry, pushed["digest"].as_str().unwrap());
    let config = manifest["config"]["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command_line/registry/modelpack.py");
    let output = Command::new(python)
        .args([schema, registry.blob(pushed["digest"].as_str().unwrap()).to_str().unwrap()])
        .arg(registry.blob(&config))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn bundles_go_along() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    pack(&sandbox, "model", &noise(1, LARGE));
    sandbox.carton("keygen -o key.pem").expect_code(0);
    sandbox.carton("keygen -o other.pem").expect_code(0);
    sandbox.carton("sign model.carton --key other.pem").expect_code(0);
    let artifact = registry.artifact("team/model:1");
    let push = |place: &str| sandbox.run(["push", "model.carton", place, "--json"]).expect_code(0).json();
    assert_eq!(push(&artifact)["signed"], true);
    let refused = sandbox.run(["info", &artifact, "--key", "key.pub.pem"]).expect_code(4);
    assert!(refused.stderr.contains("by no trusted key"), "{refused}");
    // Several may sign.
    sandbox.carton("sign model.carton --key key.pem").expect_code(0);
    push(&artifact);
    for key in ["key.pub.pem", "other.pub.pem"] {
        sandbox.run(["verify", &artifact, "--key", key]).expect_code(0);
    }
    // A rule for the repository.
    let text = format!("[[trust]]\nfor = [\"oci://{}/team/**\"]\nkeys = [\"key.pub.pem\"]\n", registry.authority());
    sandbox.write("config.toml", text);
    sandbox.run(["run", &artifact, "-i", "x=1", "--config", "config.toml"]).expect_code(0);
    fs::remove_file(sandbox.work().join("model.carton.sig")).unwrap();
    let unsigned = registry.artifact("team/unsigned:1");
    pack(&sandbox, "unsigned", b"1");
    sandbox.run(["push", "unsigned.carton", &unsigned]).expect_code(0);
    let refused = sandbox.run(["run", &unsigned, "-i", "x=1", "--config", "config.toml"]).expect_code(4);
    assert!(refused.stderr.contains("is not signed"), "{refused}");
    // It goes along to another registry, and comes back with the carton.
    let Some(other) = Registry::start("") else { return };
    let copy = other.artifact("copy:1");
    assert_eq!(sandbox.run(["push", &artifact, &copy, "--json"]).expect_code(0).json()["signed"], true);
    sandbox.run(["verify", &copy, "--require-signed", "--key", "key.pub.pem", "--key", "other.pub.pem"]).expect_code(0);
    // A signature that is named must be there.
    sandbox.run(["push", "unsigned.carton", &copy, "--bundle", "missing.sig"]).expect_code(1);
    let pulled = sandbox.run(["pull", &artifact, "-o", "back.carton", "--json"]).expect_code(0).json();
    assert_eq!(pulled["bundle"], "back.carton.sig");
    sandbox.carton("verify back.carton --require-signed --key key.pub.pem --key other.pub.pem").expect_code(0);
}
