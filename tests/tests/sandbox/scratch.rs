//! The scratch folder vanishes with the runner, whatever the model has left in it, and nothing else does.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::attempt::{Attempt, Scene, check_all};
use crate::host::{End, Host, holds_soon, remove};
use crate::setting::Confinement;

/// A depth for which there are not enough descriptors, if each folder on the way is open. Ten times as many folders overflow the stack of a
/// thread, if each takes a call, but take minutes to be deleted even so.
const DEEP: u32 = 3000;

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
            remove(&scratch);
            assert!(is_gone, "{end:?}, {}: the scratch folder {} is still there", attempt.0, scratch.display());
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
