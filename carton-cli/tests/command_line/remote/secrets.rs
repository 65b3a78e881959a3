//! Credentials are used where they apply and never shown: not in errors, logs, JSON or files.

use std::fs;

use carton_test_server::nginx::Nginx;
use carton_tests::weights;

use super::{cache, files_below, publish};
use crate::sandbox::{Outcome, Sandbox, outcome};

const SERVER: &str = r#"
location /basic/ { auth_basic models; auth_basic_user_file users; }
location /bearer/ { if ($http_authorization != "Bearer t0ken-of-mine") { return 401; } }
location /moved/ { return 302 /basic/model.carton; }
"#;

const SECRETS: [&str; 5] = ["hunter2", "aHVudGVyMg", "t0ken-of-mine", "bWU6aHVudGVyMg", "s3cret"];

fn published(nginx: &Nginx) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(nginx.folder().join("users"), "me:{PLAIN}hunter2\n").unwrap();
    sandbox.write("model.bin", weights::bytes(1 << 20, 1));
    fs::create_dir_all(nginx.root().join("basic")).unwrap();
    publish(&sandbox, nginx, &sandbox.work().join("model.bin"), "basic/model.carton");
    fs::create_dir_all(nginx.root().join("bearer")).unwrap();
    fs::copy(nginx.root().join("basic/model.carton"), nginx.root().join("bearer/model.carton")).unwrap();
    sandbox
}

/// Runs the command at the highest verbosity, and searches its output and files for secrets.
fn run(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let arguments = arguments.iter().chain(&["-vv", "--json", "--progress", "plain"]);
    let outcome = outcome(sandbox.command(arguments).envs(variables.iter().copied()));
    for secret in SECRETS {
        assert!(!outcome.stdout.contains(secret) && !outcome.stderr.contains(secret), "{secret} in {outcome}");
    }
    for (path, _) in files_below(&cache(sandbox)) {
        let bytes = fs::read(&path).unwrap_or_default();
        for secret in SECRETS {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} in {}", path.display());
        }
    }
    outcome
}

#[test]
fn a_password_in_a_url() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    let sandbox = published(&nginx);
    let url = |user: &str, path: &str| format!("http://{user}{}/{path}?key=s3cret", nginx.authority());
    for command in ["info", "run"] {
        run(&sandbox, &[command, &url("", "basic/model.carton")], &[]).expect_code(7);
        run(&sandbox, &[command, &url("me:s3cret@", "basic/model.carton")], &[]).expect_code(7);
        run(&sandbox, &[command, &url("me:hunter2@", "nothing.carton")], &[]).expect_code(7);
        run(&sandbox, &[command, &url("me:hunter2@", "basic/model.carton")], &[]).expect_code(0);
        run(&sandbox, &[command, &url("me:hunter2@", "moved/")], &[]).expect_code(0);
    }
}

/// The place of tensors is in messages.
#[test]
fn a_password_in_the_url_of_tensors() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    let sandbox = published(&nginx);
    fs::copy(sandbox.work().join("model.bin"), nginx.root().join("basic/w.safetensors")).unwrap();
    let url = |user: &str, path: &str| format!("http://{user}{}/{path}?key=s3cret", nginx.authority());
    let tensors = |place: &str, code| run(&sandbox, &["tensor", "ls", place], &[]).expect_code(code);
    tensors(&url("me:hunter2@", "basic/model.carton"), 0);
    let missing = tensors(&format!("{}#nothing", url("me:hunter2@", "basic/model.carton")), 1);
    assert!(missing.stdout.contains("has no tensor `nothing`"), "{missing}");
    tensors(&format!("{}#model/model.bin", url("me:hunter2@", "basic/model.carton")), 1);
    tensors(&url("me:hunter2@", "basic/w.safetensors"), 1);
    tensors(&url("me:s3cret@", "basic/w.safetensors"), 7);
}

#[test]
fn a_token_in_the_environment() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    let sandbox = published(&nginx);
    let url = nginx.url("bearer/model.carton");
    let refused = run(&sandbox, &["info", &url], &[]).expect_code(7);
    assert!(refused.stdout.contains("401") && refused.stdout.contains("CARTON_TOKEN_127_0_0_1"), "{refused}");
    run(&sandbox, &["info", &url], &[("CARTON_TOKEN_127_0_0_1", "s3cret")]).expect_code(7);
    run(&sandbox, &["info", &url], &[("CARTON_TOKEN_OTHER_HOST", "t0ken-of-mine")]).expect_code(7);
    run(&sandbox, &["run", &url], &[("CARTON_TOKEN_127_0_0_1", "t0ken-of-mine")]).expect_code(0);
}

#[test]
fn a_token_in_the_configuration() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    let sandbox = published(&nginx);
    let url = nginx.url("bearer/model.carton");
    sandbox.write("own.toml", "[[credentials]]\nhost = \"127.0.0.1\"\ntoken = \"t0ken-of-mine\"\n");
    run(&sandbox, &["run", &url, "--config", "own.toml"], &[]).expect_code(0);
    sandbox.write("named.toml", "[[credentials]]\nhost = \"127.0.0.1\"\ntoken_env = \"MY_TOKEN\"\n");
    run(&sandbox, &["info", &url, "--config", "named.toml"], &[("MY_TOKEN", "t0ken-of-mine")]).expect_code(0);
    sandbox.write("other.toml", "[[credentials]]\nhost = \"127.0.0.2\"\ntoken = \"t0ken-of-mine\"\n");
    run(&sandbox, &["info", &url, "--config", "other.toml"], &[]).expect_code(7);
}

#[test]
fn a_password_in_netrc() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    let sandbox = published(&nginx);
    let url = nginx.url("basic/model.carton");
    let netrc = sandbox.write("netrc", "machine 127.0.0.1\n  login me\n  password hunter2\n");
    run(&sandbox, &["info", &url], &[("NETRC", netrc.to_str().unwrap())]).expect_code(0);
    sandbox.write("config.toml", "netrc = \"netrc\"\n");
    run(&sandbox, &["info", &url, "--config", "config.toml"], &[]).expect_code(0);
    let home = sandbox.work().parent().unwrap().join("home");
    fs::create_dir_all(&home).unwrap();
    fs::copy(netrc, home.join(".netrc")).unwrap();
    run(&sandbox, &["info", &url], &[]).expect_code(0);
    sandbox.write("none.toml", "netrc = false\n");
    run(&sandbox, &["info", &url, "--config", "none.toml"], &[]).expect_code(7);
}

#[test]
fn a_runner_learns_no_secret() {
    let Some(nginx) = Nginx::start(SERVER) else { return };
    let sandbox = published(&nginx);
    // The last lines of a runner that dies are part of the error.
    crate::runners::install_script(&sandbox, "spy", 2, "env | tr '\\n' ' ' >&2; exit 1");
    let variables = [("CARTON_TOKEN_127_0_0_1", "t0ken-of-mine"), ("NETRC", "/hunter2")];
    let url = nginx.url("bearer/model.carton");
    let arguments = ["run", &url, "--runner", "spy", "--framework-version", "1.0.0"];
    let seen = run(&sandbox, &arguments, &variables).expect_code(6).stderr;
    assert!(seen.contains("PATH=") && !seen.contains("TOKEN") && !seen.contains("NETRC"), "{seen}");
}
