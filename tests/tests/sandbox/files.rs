//! Files of the user, and those of the runner: reading, changing and watching them.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carton_core::sandbox::SandboxMode;
use rustix::fs::{FlockOperation, OFlags};
use serde_json::json;

use crate::attempt::{Attempt, Scene, check_all};
use crate::setting::{Setting, WEIGHTS};

/// The user and the group of nobody.
const NOBODY: u32 = 65534;

fn reads(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let secret = &setting.secret;
    let names = [
        "read_file",
        "read_file_of_folder",
        "read_file_by_own_root",
        "read_file_by_openat2",
        "read_file_by_link",
        "read_file_by_reopening",
        "read_file_by_program",
        "read_file_as_map",
        "read_file_in_race",
        "exchange_with_file",
        "move_into_scratch",
    ];
    let mut attempts: Vec<Attempt> =
        names.iter().map(|name| Attempt::new(name, json!({"path": setting.new_file()})).tells(secret)).collect();
    attempts
        .push(Attempt::new("read_file_from_working_folder", json!({"path": setting.new_file()})).tells(secret).apart());
    attempts.push(Attempt::new("open_by_handle", json!({"path": setting.new_file()})).tells(secret).of_root());
    attempts.push(Attempt::new("list_folder", json!({"path": setting.home})).tells("file-"));
    // The kernel tells the properties of files to everybody who may enter their folders, and Landlock has no right for that.
    attempts.push(Attempt::new("look_at_file", json!({"path": setting.new_file()})).remains_without_namespaces());
    // What else of the user a model finds useful, and what belongs to other runners.
    let config = setting.place.config();
    let carton = fs::read(&setting.carton).unwrap();
    assert!(carton.starts_with(b"PK"));
    attempts.push(Attempt::new("read_file", json!({"path": setting.carton})).tells("PK"));
    attempts.push(Attempt::new("list_folder", json!({"path": config.cache_dir})).tells("v1"));
    attempts.push(Attempt::new("list_folder", json!({"path": "/tmp"})));
    attempts.push(Attempt::new("list_folder", json!({"path": "/"})).tells("proc"));
    for path in ["/etc/passwd", "/etc/hostname", "/proc/self/mountinfo", "/proc/net/tcp", "/proc/1/cmdline"] {
        // Namespaces have their own of these.
        let attempt = Attempt::new("read_file", json!({"path": path})).works_in_namespaces_if(path != "/etc/hostname");
        attempts.push(attempt.never_works_if(fs::read(path).is_err()));
    }
    attempts.push(Attempt::new("read_file", json!({"path": "/etc/shadow"})).of_root());
    attempts
}

#[tokio::test]
async fn files_of_the_user_are_not_read() {
    check_all(reads).await;
}

/// The files that a model could change: of the user, of the runner, of its own, of the cache.
fn changes(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let mut attempts = Vec::new();
    let mut add = |name: &'static str, path: PathBuf| {
        let before = fs::read(&path).unwrap();
        let file = path.clone();
        let attempt =
            Attempt::new(name, json!({"path": path})).seen(move || fs::read(&file).ok().as_deref() != Some(&before));
        attempts.push(attempt);
    };
    let names = [
        "overwrite_file",
        "append_to_file",
        "truncate_file",
        "reopen_for_writing",
        "map_for_writing",
        "remove_file",
        "rename_file",
        "exchange_with_file",
        "link_into_scratch",
    ];
    for name in names {
        add(name, setting.new_file());
    }
    // Copies of what is in these folders, so that the next attempt finds everything as it was.
    let config = setting.place.config();
    let programs = config.runner_dir.join("python");
    let packages = config.runner_data_dir.join("python");
    for folder in [&programs, &packages, &config.cache_dir, &scene.model.path("folder")] {
        for name in ["overwrite_file", "remove_file", "link_into_scratch"] {
            let path = folder.join(format!("target-{}", setting.number()));
            fs::create_dir_all(folder).unwrap();
            fs::write(&path, "trusted").unwrap();
            add(name, path);
        }
    }
    attempts
}

#[tokio::test]
async fn files_are_not_changed() {
    check_all(changes).await;
}

/// What is not the contents of a file: its mode, owner, times, attributes and flags.
fn properties(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let model = scene.model.path("folder");
    // A file that the model must not read, and one that it may.
    let places: [&dyn Fn() -> PathBuf; 2] = [&|| setting.new_file(), &|| {
        let path = model.join(format!("target-{}", setting.number()));
        fs::write(&path, "weights").unwrap();
        path
    }];
    let mut attempts = Vec::new();
    for new_file in places {
        let mut add = |name: &'static str, property: fn(&fs::Metadata) -> u64| {
            let path = new_file();
            let before = property(&fs::metadata(&path).unwrap());
            let file = path.clone();
            let attempt = Attempt::new(name, json!({"path": path}));
            attempts.push(attempt.seen(move || property(&fs::metadata(&file).unwrap()) != before));
        };
        let mode = |metadata: &fs::Metadata| u64::from(metadata.permissions().mode());
        add("change_mode", mode);
        add("change_mode_by_descriptor", mode);
        add("change_mode_by_newer_call", mode);
        add("make_setuid", mode);
        let time = |metadata: &fs::Metadata| metadata.mtime().unsigned_abs();
        add("change_times", time);
        add("change_times_by_descriptor", time);
        for name in ["set_attribute", "set_attribute_by_descriptor", "set_attribute_by_newer_call"] {
            let path = new_file();
            let file = path.clone();
            let attempt = Attempt::new(name, json!({"path": path}));
            let has_attribute = move || rustix::fs::getxattr(&file, "user.escaped", &mut [0; 16]).is_ok();
            attempts.push(attempt.seen(has_attribute).never_works_if(!has_attributes(setting)));
        }
        for name in ["change_flags", "change_flags_by_newer_call"] {
            let path = new_file();
            let file = path.clone();
            let attempt = Attempt::new(name, json!({"path": path})).or_fails_with(&["ENOTTY", "EOPNOTSUPP"]);
            attempts.push(attempt.seen(move || has_flags(&file)).never_works_if(!file_system_has_flags(setting)));
        }
        let path = new_file();
        let file = path.clone();
        let attempt = Attempt::new("change_owner", json!({"path": path, "user": NOBODY - 1})).of_root();
        attempts.push(attempt.seen(move || fs::metadata(&file).unwrap().uid() == NOBODY - 1));
    }
    attempts
}

fn has_attributes(setting: &Setting) -> bool {
    rustix::fs::setxattr(setting.new_file(), "user.test", b"x", rustix::fs::XattrFlags::empty()).is_ok()
}

fn flags(path: &Path) -> Option<rustix::fs::IFlags> {
    rustix::fs::ioctl_getflags(fs::File::open(path).unwrap()).ok()
}

fn has_flags(path: &Path) -> bool {
    flags(path).is_some_and(|flags| flags.contains(rustix::fs::IFlags::NODUMP))
}

fn file_system_has_flags(setting: &Setting) -> bool {
    flags(&setting.new_file()).is_some()
}

#[tokio::test]
async fn properties_of_files_are_not_changed() {
    check_all(properties).await;
}

/// What keeps the user from using the own files, and what tells which ones the user uses.
fn interference(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let home = setting.new_file();
    let mut attempts = vec![Attempt::new("watch_folder", json!({"path": setting.home})).tells("touched")];
    attempts.push(Attempt::new("watch_everything", json!({"path": setting.home})).of_root());
    let weights = scene.model.path("folder").join(WEIGHTS);
    // So that this test may open it for writing.
    fs::set_permissions(&weights, fs::Permissions::from_mode(0o644)).unwrap();
    for path in [&home, &weights] {
        let file = path.clone();
        let lock = Attempt::new("lock_file", json!({"path": path})).by_runner().seen(move || {
            let file = fs::File::open(&file).unwrap();
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
        });
        // Whoever may read a file may lock it, and frameworks do. Carton locks no file of a model.
        attempts.push(if *path == weights { lock.remains() } else { lock });
        let file = path.clone();
        attempts.push(
            Attempt::new("lease_file", json!({"path": path}))
                .seen(move || {
                    let flags = OFlags::NONBLOCK.bits().cast_signed();
                    let opened = fs::OpenOptions::new().write(true).custom_flags(flags).open(&file);
                    opened.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
                })
                .by_runner(),
        );
    }
    attempts
}

#[tokio::test]
async fn the_user_is_not_watched_and_not_hindered() {
    let is_over = Arc::new(AtomicBool::new(false));
    check_all(|scene| {
        // A program of the user that writes all the time.
        let (path, is_over) = (scene.setting.home.join("touched"), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) && fs::write(&path, "x").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        interference(scene)
    })
    .await;
    is_over.store(true, Ordering::Relaxed);
}

fn devices(scene: &Scene<'_>) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    // One of them is there on most machines: the disk, the machine's memory, the kernel's log, terminals, virtual machines.
    for path in [
        "/dev/kmsg",
        "/dev/mem",
        "/dev/sda",
        "/dev/vda",
        "/dev/nvme0n1",
        "/dev/kvm",
        "/dev/net/tun",
        "/dev/fuse",
        "/dev/ptmx",
    ] {
        let opened = fs::OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
        let attempt = Attempt::new("open_device", json!({"path": path})).or_fails_with(&["ENOENT", "ENODEV", "ENXIO"]);
        attempts.push(attempt.never_works_if(opened.is_err()));
    }
    for path in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe"] {
        let is_there = Path::new(path).exists();
        let attempt = Attempt::new("rewrite_setting", json!({"path": path})).of_root().or_fails_with(&["ENOENT"]);
        attempts.push(attempt.never_works_if(!is_there));
    }
    let _ = scene;
    attempts
}

#[tokio::test]
async fn devices_are_not_used() {
    check_all(devices).await;
}

/// A host that opens files without the flag that closes them in its programs.
#[tokio::test]
async fn descriptors_of_the_host_are_not_inherited() {
    let Some(setting) = Setting::new().await else { return };
    let file = rustix::fs::open(setting.new_file(), OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    for mode in [SandboxMode::Off, SandboxMode::On] {
        let model = setting.load(mode).await;
        let answer = model.call("read_inherited", &json!({"number": number})).await.unwrap();
        assert_eq!(answer.contains(&setting.secret), mode == SandboxMode::Off, "sandbox {mode}: {answer}");
    }
    drop(file);
}
