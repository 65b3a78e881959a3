//! Installing runners from archives, folders and an index of local files.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use carton_format::context::CancelToken;
use semver::{Version, VersionReq};
use tempfile::TempDir;

use super::super::{AvailableRunners, ExecutablePaths, FoundLibrary, add_to_index, descriptor, package, remove};
use super::*;
use crate::{Error, ErrorKind};

/// A folder for runners, and one for work files.
struct Site {
    root: TempDir,
}

impl Site {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        Self { root }
    }

    fn runner_dir(&self) -> PathBuf {
        self.root.path().join("runners")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("work").join(name)
    }

    /// A runner that is a shell script.
    fn runner(&self, folder: &str, toml: &str) -> PathBuf {
        let folder = self.path(folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(folder.join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("runner.toml"), toml).unwrap();
        folder
    }

    /// Packages a runner and adds it to the index.
    fn offer(&self, folder: &Path) -> PathBuf {
        let name = format!("{}.tar.gz", folder.file_name().unwrap().to_str().unwrap());
        let packaged = package(folder, &self.path(&name), &Context::default()).unwrap();
        let index = self.path("index.json");
        let offered = packaged.offered(&packaged.relative_url(&index).unwrap());
        add_to_index(&index, &offered, &CancelToken::default()).unwrap();
        index
    }

    fn install<T>(&self, work: impl FnOnce(&Installer<'_>) -> Result<T, Error>) -> Result<T, Error> {
        work(&Installer::new(&self.config()))
    }

    fn config(&self) -> Config {
        Config { runner_dir: self.runner_dir(), offline: true, ..Config::in_folder(self.root.path()) }
    }

    /// The names in the folder for runners.
    fn installed(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.runner_dir()) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn toml(name: &str, version: &str) -> String {
    format!(
        "version = 1\n[[runner]]\nrunner_name = \"{name}\"\nframework_version = \"{version}\"\n\
         runner_compat_version = 1\nrunner_interface_version = 2\nrunner_release_date = 2026-01-01T00:00:00Z\n\
         runner_path = \"bin/run\"\nargs = [\"a b\"]\nplatform = \"{PLATFORM}\"\n"
    )
}

fn requirement(name: &str, version: &str) -> Requirement {
    Requirement {
        name: name.to_owned(),
        framework_version: Some(VersionReq::parse(version).unwrap()),
        compat_version: None,
    }
}

fn index(path: &Path) -> Place {
    Place::Path(path.to_path_buf())
}

#[track_caller]
fn failed<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind, expected: &str) {
    let error = result.unwrap_err();
    let text = format!("{error}: {}", carton_format::causes::in_one_line(&error));
    assert!(text.contains(expected), "expected `{expected}`, found: {text}");
    assert_eq!(error.kind(), kind, "{text}");
}

#[test]
fn from_an_index_and_back() {
    let place = Site::new();
    place.offer(&place.runner("one", &toml("t", "1.0.0")));
    place.offer(&place.runner("two", &toml("t", "1.2.0")));
    let path = place.offer(&place.runner("three", &toml("them/t", "1.2.0")));
    let installed = place.install(|i| i.from_index(&index(&path), &requirement("t", "^1"))).unwrap();
    assert_eq!(installed.descriptor.to_string(), "t 1.2.0");
    assert_eq!(installed.folder, place.runner_dir().join("t-1.2.0"));
    assert_eq!(installed.descriptor.runner_path, installed.folder.join("bin/run"));
    assert_eq!(installed.descriptor.args, ["a b"]);
    place.install(|i| i.from_index(&index(&path), &requirement("t", "=1.0.0"))).unwrap();
    place.install(|i| i.from_index(&index(&path), &requirement("them/t", "*"))).unwrap();
    let names = place.installed();
    assert_eq!(names.len(), 3);
    assert!(names[2].starts_with("them-t-1.2.0-"), "{names:?}");

    let error = place.install(|i| i.from_index(&index(&path), &requirement("t", "^2")));
    failed(error, ErrorKind::NoRunner, "offers no runner `t` with framework version `^2` that fits (t 1.0.0: its");
    let error = place.install(|i| i.from_index(&index(&path), &requirement("u", "*")));
    failed(error, ErrorKind::NoRunner, "(there are: t 1.0.0, t 1.2.0, them/t 1.2.0)");

    failed(remove("t", &place.config()), ErrorKind::InvalidInput, "`t` is more than one runner: t 1.0.0 in");
    failed(remove("x", &place.config()), ErrorKind::NoRunner, "no runner `x` is installed");
    failed(remove("t@^3", &place.config()), ErrorKind::NoRunner, "no runner `t@^3`");
    failed(remove("t@new", &place.config()), ErrorKind::InvalidInput, "`new` is not a version requirement");
    // A complete version means exactly that version, not the compatible ones.
    failed(remove("t@1.1.0", &place.config()), ErrorKind::NoRunner, "no runner `t@1.1.0`");
    assert_eq!(remove("t@1.0.0", &place.config()).unwrap().0.to_string(), "t 1.0.0");
    assert_eq!(remove("t", &place.config()).unwrap().0.to_string(), "t 1.2.0");
    remove("them/t@^1", &place.config()).unwrap();
    assert!(place.installed().is_empty());
}

#[test]
fn a_runner_toml_of_several_is_removed_by_hand() {
    let place = Site::new();
    let several = toml("t", "1.0.0") + toml("t", "2.0.0").strip_prefix("version = 1\n").unwrap();
    let folder = place.runner("several", &several);
    let installed = place.install(|i| i.from_folder(&folder)).unwrap();
    assert_eq!(installed.descriptor.to_string(), "t 1.0.0");
    failed(remove("t@1.0.0", &place.config()), ErrorKind::InvalidInput, "also holds t 2.0.0");
    assert_eq!(place.installed(), ["t-1.0.0"]);
}

#[test]
fn archives_are_the_same_wherever_they_are_made() {
    let place = Site::new();
    let hash = |folder: &str| {
        let folder = place.runner(folder, &toml("t", "1.0.0"));
        std::os::unix::fs::symlink("bin/run", folder.join("link")).unwrap();
        let packaged = package(&folder, &place.path("out.tar.gz"), &Context::default()).unwrap();
        (packaged.sha256, Sha256Digest::of(&fs::read(place.path("out.tar.gz")).unwrap()))
    };
    let (first, of_file) = hash("one");
    assert_eq!(first, of_file);
    let touched = place.runner("other", "");
    let yesterday = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    File::open(touched.join("bin/run")).unwrap().set_modified(yesterday).unwrap();
    assert_eq!(hash("two").0, first);
}

#[test]
fn what_could_not_be_installed_is_not_packaged() {
    let place = Site::new();
    let out = place.path("out.tar.gz");
    let pack = |folder: &Path| package(folder, &out, &Context::default());
    let folder = place.runner("t", &toml("t", "1.0.0"));
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
    failed(pack(&folder), ErrorKind::Integrity, "link `link` to `/etc/passwd` is absolute");
    fs::remove_file(folder.join("link")).unwrap();
    fs::set_permissions(folder.join("bin/run"), fs::Permissions::from_mode(0o644)).unwrap();
    failed(pack(&folder), ErrorKind::Integrity, "`bin/run` of runner t 1.0.0 is not marked as executable");
    fs::remove_file(folder.join("bin/run")).unwrap();
    failed(pack(&folder), ErrorKind::Integrity, "is not there");
    fs::remove_file(folder.join("runner.toml")).unwrap();
    failed(pack(&folder), ErrorKind::Integrity, "no runner.toml at the top");
    assert!(!out.exists());
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 1);
}

#[test]
fn releases_take_each_others_place_in_an_index() {
    let place = Site::new();
    let folder = place.runner("t", &toml("t", "1.0.0"));
    let path = place.offer(&folder);
    let mut entries: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let first = entries[0]["download_info"][0]["sha256"].clone();
    entries.push(serde_json::json!({"of the future": true}));
    fs::write(&path, serde_json::to_vec(&entries).unwrap()).unwrap();
    fs::write(folder.join("more"), "").unwrap();
    place.offer(&folder);
    place.offer(&place.runner("u", &toml("t", "1.0.1")));
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[0], serde_json::json!({"of the future": true}));
    assert_ne!(entries[1]["download_info"][0]["sha256"], first);
    // A later release whose archive takes the place of the earlier one's.
    fs::write(folder.join("runner.toml"), toml("t", "1.0.0").replace("2026-01-01", "2026-02-01")).unwrap();
    place.offer(&folder);
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(entries.len(), 3);
    assert!(entries[2].to_string().contains("2026-02-01"), "{}", entries[2]);
    fs::write(&path, "{}").unwrap();
    failed(add_to_index(&path, &[], &CancelToken::default()), ErrorKind::Integrity, "JSON list");
    assert_eq!(fs::read(&path).unwrap(), b"{}");
    let lock = path.with_file_name(".lock-index.json");
    let _held = super::super::workspace::Lock::acquire(&lock, &CancelToken::default()).unwrap().unwrap();
    let cancelled = CancelToken::default();
    cancelled.cancel();
    failed(add_to_index(&path, &[], &cancelled), ErrorKind::Interrupted, "interrupted");
}

#[test]
fn nothing_is_left_of_an_installation_that_fails() {
    let place = Site::new();
    let path = place.offer(&place.runner("t", &toml("t", "1.0.0")));
    let original: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let check = |pointer: &str, value: serde_json::Value, kind, expected: &str| {
        let mut changed = original.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        fs::write(&path, changed.to_string()).unwrap();
        failed(place.install(|i| i.from_index(&index(&path), &requirement("t", "*"))), kind, expected);
        assert!(place.installed().is_empty(), "{:?}", place.installed());
    };
    check("/0/download_info/0/sha256", "0".repeat(64).into(), ErrorKind::Integrity, "digest mismatch for `");
    check("/0/download_info/0/url", "nothing.tar".into(), ErrorKind::Machine, "cannot open");
    check("/0/framework_version", "1.0.1".into(), ErrorKind::Integrity, "expected t 1.0.1 (compat 1, interface 2, ");
    check("/0/runner_compat_version", 3.into(), ErrorKind::Integrity, "does not hold the runner");
    check("/0/runner_interface_version", 1.into(), ErrorKind::NoRunner, "it speaks runner interface 1");
    check("/0/platform", "riscv64-unknown-none".into(), ErrorKind::NoRunner, "built for riscv64");
    check("/0/download_info/0/relative_path", "below".into(), ErrorKind::Integrity, "executable `bin/run`");
    check(
        "/0/download_info/0/url",
        "https://host/x.tar".into(),
        ErrorKind::Network,
        "cannot fetch `https://host/x.tar`",
    );
    let mut twice = original.clone();
    let part = twice[0]["download_info"][0].clone();
    twice[0]["download_info"].as_array_mut().unwrap().push(part);
    fs::write(&path, twice.to_string()).unwrap();
    let error = place.install(|i| i.from_index(&index(&path), &requirement("t", "*")));
    failed(error, ErrorKind::Integrity, "is there twice");
    fs::write(&path, "no json").unwrap();
    failed(place.install(|i| i.index(&index(&path))), ErrorKind::Integrity, "expected a JSON list");
    assert!(place.installed().is_empty());
}

#[test]
fn parts_make_up_one_folder() {
    let place = Site::new();
    let tar = |name: &str, files: &[(&str, u32)]| {
        let mut builder = ::tar::Builder::new(Vec::new());
        for (name, mode) in files {
            let mut header = ::tar::Header::new_gnu();
            header.set_mode(*mode);
            header.set_size(0);
            builder.append_data(&mut header, name, std::io::empty()).unwrap();
        }
        let bytes = builder.into_inner().unwrap();
        fs::write(place.path(name), &bytes).unwrap();
        Sha256Digest::of(&bytes)
    };
    let (first, second) = (tar("first.tar", &[("run", 0o755)]), tar("second.tar", &[("torch.so", 0o644)]));
    let entry = |path: Option<&str>| {
        let mut entry = serde_json::json!({
            "runner_name": "t", "framework_version": "1.0.0", "runner_compat_version": 2,
            "runner_interface_version": 2, "runner_release_date": "2026-01-01T00:00:00Z", "platform": PLATFORM,
            "args": ["x"], "files": "ranges",
            "download_info": [
                {"url": "first.tar", "sha256": first, "relative_path": "."},
                {"url": "second.tar", "sha256": second, "relative_path": "lib/torch"},
            ],
        });
        if let Some(path) = path {
            entry["runner_path"] = path.into();
        }
        let path = place.path("index.json");
        fs::write(&path, serde_json::json!([entry]).to_string()).unwrap();
        index(&path)
    };
    let install = |index: &Place| place.install(|i| i.from_index(index, &requirement("t", "*")));
    // The parts have no runner.toml, and the index does not say how the runner is started.
    failed(install(&entry(None)), ErrorKind::Integrity, "no runner.toml");
    failed(install(&entry(Some("lib/torch/torch.so"))), ErrorKind::Integrity, "not marked as executable");
    let installed = install(&entry(Some("run"))).unwrap();
    assert_eq!(installed.folder, place.runner_dir().join("t-1.0.0-compat2"));
    assert_eq!(
        (installed.descriptor.args.len(), installed.descriptor.files),
        (1, super::super::ModelFilesMode::Ranges)
    );
    assert!(installed.folder.join("lib/torch/torch.so").exists());
}

#[test]
fn archives_and_folders_say_themselves_what_they_hold() {
    let place = Site::new();
    let folder = place.runner("t", &toml("t", "1.0.0"));
    place.offer(&folder);
    let archive = Place::Path(place.path("t.tar.gz"));
    let digest = Sha256Digest::of(&fs::read(place.path("t.tar.gz")).unwrap());
    for sha256 in [None, Some(digest)] {
        let installed = place.install(|i| i.from_archive(&archive, sha256)).unwrap();
        assert_eq!(installed.folder, place.runner_dir().join("t-1.0.0"));
        assert_eq!(place.installed(), ["t-1.0.0"]);
    }
    let wrong = Some(Sha256Digest::of(b""));
    failed(place.install(|i| i.from_archive(&archive, wrong)), ErrorKind::Integrity, "digest mismatch");
    let remote = Place::parse("https://me:secret@host/t.tar").unwrap();
    let error = place.install(|i| i.from_archive(&remote, None));
    failed(error, ErrorKind::InvalidInput, "`https://host/t.tar` comes from a server");
    remove("t", &place.config()).unwrap();

    place.install(|i| i.from_folder(&folder)).unwrap();
    fs::write(folder.join("runner.toml"), toml("t", "1.0.0").replace("interface_version = 2", "interface_version = 1"))
        .unwrap();
    let error = place.install(|i| i.from_folder(&folder));
    failed(error, ErrorKind::NoRunner, "t 1.0.0: it speaks runner interface 1, supported is 2");
    let error = place.install(|i| i.from_folder(&place.path("")));
    failed(error, ErrorKind::Integrity, "no runner.toml at the top");
    assert_eq!(place.installed(), ["t-1.0.0"]);
}

/// A `runner.toml` that the user wrote may name a program anywhere. One that comes with a runner must not.
#[test]
fn what_is_installed_stays_in_its_folder() {
    let place = Site::new();
    let program = place.runner("program", &toml("t", "1.0.0")).join("bin/run");
    let absolute = toml("t", "1.0.0").replace("bin/run", program.to_str().unwrap());
    let folder = place.runner("t", &absolute);
    let refused = "runner_path must be a relative path below the runner's folder";
    failed(place.install(|i| i.from_folder(&folder)), ErrorKind::Integrity, refused);
    let output = place.path("t.tar.gz");
    let packaged = package(&folder, &output, &Context::default());
    assert!(carton_format::causes::in_one_line(&packaged.unwrap_err()).contains(refused));
    assert!(place.installed().is_empty());

    let own = place.runner_dir().join("own");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("runner.toml"), absolute).unwrap();
    let runners = AvailableRunners::of(Vec::new(), &place.runner_dir()).unwrap();
    assert_eq!(runners.runners()[0].runner_path, program);
    // The folder with the descriptor is removed, and the program stays.
    let (_, removed) = remove("t", &place.config()).unwrap();
    assert_eq!(removed, own);
    assert!(program.is_file() && place.installed().is_empty());
}

#[test]
fn one_folder_too_deep_is_explained() {
    let place = Site::new();
    place.runner("outer/t", &toml("t", "1.0.0"));
    let error = place.install(|i| i.from_folder(&place.path("outer"))).unwrap_err();
    assert_eq!(
        error.advice().unwrap().to_string(),
        "the runner is in the folder `t` of it: archive what is in that folder"
    );
}

/// The last event reports that everything is done: nothing else tells a progress bar that the stage has ended.
#[test]
fn progress_ends_with_everything_done() {
    let place = Site::new();
    let folder = place.runner("t", &toml("t", "1.0.0"));
    fs::write(folder.join("large"), vec![7; 3 << 20]).unwrap();
    let path = place.offer(&folder);
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let config = place.config();
    let installer = Installer::new(&config).progress(move |event| seen.lock().unwrap().push(event.clone()));
    installer.from_index(&index(&path), &requirement("t", "*")).unwrap();
    let events = events.lock().unwrap();
    assert!(events.iter().all(|event| event.stage == Stage::Install("t 1.0.0".to_owned())), "{events:?}");
    assert_eq!(events[0].stage.to_string(), "installing t 1.0.0");
    let size = fs::metadata(place.path("t.tar.gz")).unwrap().len();
    let last = events.last().unwrap();
    assert_eq!((last.done, last.total), (size, Some(size)));
}

#[test]
fn two_installations_at_once_both_succeed() {
    let place = Site::new();
    let folder = place.runner("t", &toml("t", "1.0.0"));
    fs::write(folder.join("large"), vec![7; 8 << 20]).unwrap();
    let path = place.offer(&folder);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let installed = place.install(|i| i.from_index(&index(&path), &requirement("t", "*"))).unwrap();
                // From the first success on, the runner is complete at any time.
                assert_eq!(fs::metadata(installed.folder.join("large")).unwrap().len(), 8 << 20);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(done.into_inner(), 6);
    assert_eq!(place.installed(), ["t-1.0.0"]);
}

#[test]
fn folders_of_different_runners_have_different_names() {
    let name = |runner_name: &str, compat: u64| {
        let mut runner =
            descriptor::parse(&toml("t", "1.0.0"), Path::new(""), ExecutablePaths::InFolder).unwrap().remove(0);
        runner.runner_name = runner_name.to_owned();
        runner.runner_compat_version = compat;
        folder_name(&runner)
    };
    assert_eq!(name("t", 1), "t-1.0.0");
    assert_eq!(name("t", 2), "t-1.0.0-compat2");
    assert_ne!(name("a/b", 1), name("a-b", 1));
    assert!(name("a/b", 1).starts_with("a-b-1.0.0-"));
    for odd in ["../../x", ".hidden", "..", "…", &"x".repeat(500)] {
        let name = name(odd, 1);
        assert!(!name.starts_with('.') && !name.contains('/') && name.len() < 150, "{name}");
    }
}

const LIBRARY: &str = "[runner.library]\nname = \"libt\"\nversion = \"~1.2\"\nfiles = [\"libt.so\"]\nself_tests = [\"proof.carton\"]\n\
                       wheel_files = [\"libt.so\"]\n[[runner.library.wheels]]\nname = \"t\"\nversion = \"1.2.0\"\nsize = 7\nsha256 = \
                       \"0000000000000000000000000000000000000000000000000000000000000000\"\n";

#[test]
fn a_runner_gets_the_library_that_was_found() {
    let place = Site::new();
    let path = place.offer(&place.runner("one", &(toml("t", "1.2.0") + LIBRARY)));
    // By itself it is not installed, wherever it comes from.
    let needs = "runner t 1.2.0 needs libt ~1.2 of this machine";
    failed(place.install(|i| i.from_index(&index(&path), &requirement("t", "*"))), ErrorKind::NoRunner, needs);
    failed(place.install(|i| i.from_folder(&place.path("one"))), ErrorKind::NoRunner, needs);
    let archive = Place::Path(place.path("one.tar.gz"));
    failed(place.install(|i| i.from_archive(&archive, None)), ErrorKind::NoRunner, needs);
    // An index that does not say what the runner needs changes nothing.
    let silent: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let silent = silent.into_iter().map(|mut entry| {
        entry.as_object_mut().unwrap().remove("library");
        entry
    });
    let other = place.path("silent.json");
    fs::write(&other, serde_json::to_vec(&silent.collect::<Vec<_>>()).unwrap()).unwrap();
    failed(place.install(|i| i.from_index(&index(&other), &requirement("t", "*"))), ErrorKind::NoRunner, needs);
    assert_eq!(place.installed(), [""; 0]);

    let library = |version: Version| FoundLibrary {
        version,
        folder: place.path("library"),
        read: vec![place.path("library"), place.path("more")],
    };
    let link = |version| {
        place.install(|i| {
            let mut assembled = i.assemble_archive(&archive, None)?;
            assembled.link(&library(version))?;
            assert_eq!(
                AvailableRunners::of(Vec::new(), assembled.runner_dir()).unwrap().runners()[0].to_string(),
                "t 1.2.3"
            );
            assert_eq!(assembled.self_tests().len(), 1);
            i.install(assembled)
        })
    };
    failed(link(Version::new(1, 3, 0)), ErrorKind::NoRunner, "runner t 1.2.0 was built for libt ~1.2, found 1.3.0 in");
    failed(link(Version::new(1, 2, 3)), ErrorKind::NoRunner, "lacks `libt.so`");
    fs::create_dir(place.path("library")).unwrap();
    fs::write(place.path("library/libt.so"), "").unwrap();
    let installed = link(Version::new(1, 2, 3)).unwrap();
    assert_eq!(installed.folder, place.runner_dir().join("t-1.2.3"));
    assert_eq!(fs::read_link(installed.folder.join("lib")).unwrap(), place.path("library"));
    let descriptor = installed.descriptor;
    assert_eq!(descriptor.runner_path, installed.folder.join("bin/run"));
    assert_eq!(descriptor.sandbox.read, [place.path("library"), place.path("more")]);
    assert!(descriptor.library.is_some_and(|need| need.wheels.is_empty() && need.wheel_files.is_empty()));
    fs::remove_file(place.path("library/libt.so")).unwrap();
    let runners = AvailableRunners::of(Vec::new(), &place.runner_dir()).unwrap();
    assert_eq!(runners.runners()[0].lost_library(), Some(place.path("library")));
    // A folder with a link to a library of one machine is no runner for others.
    assert!(package(&installed.folder, &place.path("again.tar.gz"), &Context::default()).is_err());
    assert_eq!(place.installed(), ["t-1.2.3"]);
}
