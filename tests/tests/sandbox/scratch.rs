//! The scratch folder vanishes with the runner, whatever the model has left in it, and nothing else does.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::attempt::{Attempt, Scene, check_all};
use crate::host::{End, Host, holds_soon, remove};
use crate::setting::Confinement;

/// A depth for which the 1024 descriptors of a host are not enough, if each folder on the way is open.
const DEEP: u32 = 1500;

/// Checks that nothing is left of the scratch folder after `attempt`, and that the files in `kept` are still there.
fn check(end: End, attempt: (&str, Value), kept: &Path) {
    for confinement in Confinement::ALL {
        let mut host = Host::start(confinement, std::slice::from_ref(&attempt), end);
        let answer = host.answers[0].clone();
        assert!(answer.starts_with("escaped: "), "sandbox {confinement:?}: {answer}");
        let left = Path::new(answer.trim_start_matches("escaped: ")).to_path_buf();
        assert!(left.starts_with(host.scratch()), "{answer}");
        if end == End::Waits {
            host.kill();
        } else {
            assert!(host.wait(), "sandbox {confinement:?}, {}: the host failed", attempt.0);
        }
        if confinement != Confinement::Off {
            let scratch = host.scratch();
            let is_gone = holds_soon(|| !scratch.exists());
            // Tells a deletion that fails from one that was not finished, or not begun.
            let start = std::time::Instant::now();
            let again = if is_gone { Ok(()) } else { carton_sandbox::delete_scratch_folder(&scratch) };
            let seconds = start.elapsed().as_secs_f64();
            remove(&scratch);
            assert!(
                is_gone,
                "{end:?}, {confinement:?}, {}: the scratch folder {} is still there; deleting it now took {seconds:.1} s: {again:?}",
                attempt.0,
                scratch.display()
            );
        } else {
            // Without the sandbox the folder is the user's, with all that the model leaves there.
            assert!(left.symlink_metadata().is_ok(), "{answer}");
        }
        assert_eq!(fs::read_to_string(kept.join("kept")).unwrap(), "kept", "sandbox {confinement:?}, {}", attempt.0);
        assert_eq!(
            fs::read_to_string(kept.join("folder/kept")).unwrap(),
            "kept",
            "sandbox {confinement:?}, {}",
            attempt.0
        );
    }
}

/// A folder of the user with files in it.
fn user_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    for name in ["kept", "folder/kept"] {
        fs::write(folder.path().join(name), "kept").unwrap();
    }
    folder
}

fn check_both_ends(attempt: &str, arguments: &Value) {
    if crate::sources::Sources::find().is_none() {
        return;
    }
    let folder = user_folder();
    for end in [End::Drops, End::Waits] {
        let mut arguments = arguments.clone();
        if attempt == "leave_links" {
            arguments["target"] = json!(folder.path());
        }
        check(end, (attempt, arguments), folder.path());
    }
}

#[test]
fn links_in_scratch_are_not_followed() {
    check_both_ends("leave_links", &json!({"marker": "escape-links"}));
}

#[test]
fn folders_that_may_not_be_listed_are_deleted() {
    check_both_ends("leave_closed_folders", &json!({"marker": "escape-closed"}));
}

#[test]
fn folders_in_folders_are_deleted() {
    check_both_ends("leave_deep_folders", &json!({"marker": "escape-deep", "depth": DEEP}));
}

fn obstacles(scene: &Scene<'_>) -> Vec<Attempt> {
    let marker = format!("escape-{}", scene.setting.number());
    let path = scene.model.path("scratch").join(&marker);
    vec![
        Attempt::new("mount_over_scratch", json!({})).of_root(),
        Attempt::new("make_undeletable", json!({"marker": marker})).of_root().or_fails_with(&["ENOTTY"]).seen(
            move || {
                let is_undeletable = path.exists() && fs::remove_file(&path).is_err();
                // So that the test can delete its own folder.
                let _ = std::process::Command::new("chattr")
                    .arg("-i")
                    .arg(&path)
                    .stderr(std::process::Stdio::null())
                    .status();
                is_undeletable
            },
        ),
    ]
}

#[tokio::test]
async fn nothing_in_scratch_withstands_its_deletion() {
    check_all(obstacles).await;
}
