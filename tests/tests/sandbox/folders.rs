//! Folders of the user, and memory that is shared by names: nothing is made there.

use std::fs;
use std::path::Path;

use carton_core::sandbox::SandboxMode;
use serde_json::json;

use crate::attempt::{Attempt, Scene, check_all};
use crate::setting::Setting;

fn makes(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let mut attempts = Vec::new();
    let names = [
        "make_file",
        "make_folder",
        "make_link",
        "make_pipe",
        "rename_out_of_scratch",
        "link_out_of_scratch",
        "name_unnamed_file_of_scratch",
    ];
    for name in names {
        let path = setting.new_path();
        let made = path.clone();
        // Whoever may write in the one folder and not in the other may get the error for two file systems.
        attempts.push(Attempt::new(name, json!({"path": path})).seen(move || made.symlink_metadata().is_ok()));
    }
    let name = format!("unnamed-{}", setting.number());
    let made = setting.home.join(&name);
    attempts.push(
        Attempt::new("make_unnamed_file", json!({"folder": setting.home, "name": name})).seen(move || made.exists()),
    );
    let path = setting.new_path();
    let made = path.clone();
    attempts.push(Attempt::new("make_device", json!({"path": path})).seen(move || made.exists()).of_root());
    attempts.push(Attempt::new("make_device_in_scratch", json!({})).of_root());
    let path = setting.new_path();
    fs::create_dir(&path).unwrap();
    attempts.push(Attempt::new("remove_folder", json!({"path": path.clone()})).seen(move || !path.exists()));
    // Folders whose programs and settings others use: of the runner, of its environments, of the model, of the cache, of all.
    let config = setting.place.config();
    let runner = config.runner_dir.join("python");
    let environments = config.runner_data_dir.join("python");
    let model = scene.model.path("folder");
    fs::create_dir_all(&environments).unwrap();
    for folder in [
        runner.as_path(),
        &environments,
        &model,
        &model.join("ways"),
        &config.cache_dir,
        &setting.sources.packages,
        Path::new("/tmp"),
    ] {
        let path = folder.join(format!("carton-escape-{}-{}", std::process::id(), setting.number()));
        let made = path.clone();
        let attempt = Attempt::new("make_file", json!({"path": path})).seen(move || fs::remove_file(&made).is_ok());
        let is_writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
        attempts.push(attempt.never_works_if(!is_writable));
    }
    attempts
}

#[tokio::test]
async fn nothing_is_made_in_folders_of_the_user() {
    check_all(makes).await;
}

fn shared_memory(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let name = setting.victim.places["shared_memory"].as_str().unwrap_or_default();
    vec![
        // The folder that the model sees is another one.
        Attempt::new("read_shared_memory", json!({"name": name})).tells(&setting.secret).or_fails_with(&["ENOENT"]),
    ]
}

#[tokio::test]
async fn shared_memory_of_others_is_not_read() {
    check_all(shared_memory).await;
}

#[tokio::test]
async fn nothing_is_left_in_shared_memory() {
    let Some(setting) = Setting::new().await else { return };
    for mode in [SandboxMode::Off, SandboxMode::On] {
        let name = format!("carton-escape-{}-{mode}", std::process::id());
        let model = setting.load(mode).await;
        let answer = model.call("leave_shared_memory", &json!({"name": name})).await.unwrap();
        // In the sandbox it may use a folder of its own.
        assert!(answer.starts_with("escaped: ") || mode != SandboxMode::Off, "{answer}");
        let is_seen = fs::remove_file(Path::new("/dev/shm").join(&name)).is_ok();
        assert_eq!(is_seen, mode == SandboxMode::Off, "sandbox {mode}: {answer}");
    }
}
