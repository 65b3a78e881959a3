//! What is allowed works, and nothing beside it; a strict sandbox is no weaker.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use carton_core::sandbox::{Limits, SandboxMode};
use carton_core::{Error, ErrorKind};
use serde_json::json;

use crate::setting::{Confinement, Setting};

#[tokio::test]
async fn reading_is_a_permission() {
    let Some(setting) = Setting::new().await else { return };
    let folder = setting.new_path();
    fs::create_dir(&folder).unwrap();
    let (inside, outside) = (folder.join("inside"), setting.new_file());
    fs::write(&inside, &setting.secret).unwrap();
    std::os::unix::fs::symlink(&outside, folder.join("link")).unwrap();
    let model = setting.load_with(SandboxMode::On, Limits::default(), |load| load.allow_read(&folder)).await.unwrap();
    let answer = model.call("read_file", &json!({"path": inside})).await.unwrap();
    assert!(answer.contains(&setting.secret), "{answer}");
    for (name, path) in [
        ("read_file", outside),
        ("read_file", folder.join("link")),
        ("overwrite_file", inside.clone()),
        ("remove_file", inside.clone()),
        ("make_file", folder.join("new")),
        ("map_for_writing", inside),
    ] {
        let answer = model.call(name, &json!({"path": path})).await.unwrap();
        let is_refused = ["EACCES", "ENOENT", "EROFS"]
            .map(|error| format!("contained: {error}"))
            .iter()
            .any(|refusal| answer.starts_with(refusal.as_str()));
        assert!(is_refused, "{name} {}: {answer}", path.display());
    }
}

#[tokio::test]
async fn a_strict_sandbox_contains_too() {
    let Some(setting) = Setting::new().await else { return };
    let model = match setting.load_with(SandboxMode::Strict, Limits::default(), |load| load).await {
        Ok(model) => model,
        Err(error) => {
            eprintln!("skipped: this system does not enforce all of the sandbox: {error}");
            return;
        }
    };
    for (name, arguments) in [
        ("read_file", json!({"path": setting.new_file()})),
        ("connect_tcp", json!({"port": setting.victim.places["tcp"]})),
        ("send_signal", json!({"pid": setting.victim.pid(), "number": 10})),
    ] {
        let answer = model.call(name, &arguments).await.unwrap();
        assert!(answer.starts_with("contained: E"), "{name}: {answer}");
    }
}

/// A model that waits for ever for a thread that was denied something.
#[tokio::test]
async fn a_call_that_ran_out_of_time_says_what_was_denied() {
    for confinement in [Confinement::Plain, Confinement::Namespaces] {
        let Some(setting) = Setting::of(confinement).await else { return };
        let model = setting.load(SandboxMode::On).await;
        let time = Duration::from_secs(4);
        let error = model.call_within(time, "wait_for_network", &json!({"seconds": 18})).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Timeout, "{confinement:?}: {error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("allow the network"), "{confinement:?}: {hint}");
    }
}

/// A runner that attacks before it says hello.
#[tokio::test]
async fn a_runner_is_confined_from_its_start() {
    let Some(setting) = Setting::new().await else { return };
    let place = &setting.place;
    let folder = place.config().runner_dir.join("hostile");
    fs::create_dir_all(&folder).unwrap();
    let python = fs::read_to_string(place.config().runner_dir.join("python/runner.toml")).unwrap();
    fs::write(folder.join("runner.toml"), python.replace("\"python\"", "\"hostile\"")).unwrap();
    crate::sources::copy_folder(&setting.sources.escapes, &folder.join("escapes"));
    let secret = setting.new_file();
    let arguments = json!({"path": secret});
    let main = folder.join("escapes/main.py");
    let script = format!(
        "#!/bin/sh\n{} -IB {} read_file '{arguments}' >&2\n{} -IB {} child '{}' >&2\nexit 3\n",
        setting.sources.python.display(),
        main.display(),
        setting.sources.python.display(),
        main.display(),
        json!({"attempt": "read_file", "path": secret}),
    );
    fs::write(folder.join("run"), script).unwrap();
    fs::set_permissions(folder.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    for mode in [SandboxMode::Off, SandboxMode::On] {
        let load = place.load(&setting.carton).runner("hostile").framework_version("=1.0.0".parse().unwrap());
        let error = load.sandbox(mode).await.err().unwrap();
        let said = chain(&error);
        assert_eq!(
            said.contains(&format!("escaped: {}", setting.secret)),
            mode == SandboxMode::Off,
            "sandbox {mode}: {said}"
        );
        assert_eq!(
            said.matches("contained: ENOENT").count(),
            if mode == SandboxMode::On { 2 } else { 0 },
            "sandbox {mode}: {said}"
        );
    }
}

/// An error and its causes in one text.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
