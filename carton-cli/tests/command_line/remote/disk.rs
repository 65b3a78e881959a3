//! A full disk: it is reported, and the download continues later without starting over.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use carton_test_server::nginx::Nginx;
use carton_test_server::{Content, File, Server};
use carton_tests::weights;

use super::{cache, publish, room, sent};
use crate::sandbox::Sandbox;

const LENGTH: u64 = 32 << 20;

/// A file system of a fixed size in memory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns `None`, and prints the reason, if this user cannot mount.
    fn mount(path: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(path).output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(path.to_owned())),
            other => {
                eprintln!("skipped: this test needs the right to mount a file system: {other:?}");
                None
            }
        }
    }

    fn resize(&self, size: u64) {
        let options = format!("remount,size={size}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A carton that nginx serves, and a disk of `size` bytes for the cache.
fn published(nginx: &Nginx, size: u64) -> Option<(Sandbox, String, SmallDisk)> {
    let sandbox = Sandbox::new();
    weights::write_file(&sandbox.work().join("model.bin"), LENGTH, 1);
    let url = publish(&sandbox, nginx, &sandbox.work().join("model.bin"), "model.carton");
    let _ = std::fs::remove_dir_all(cache(&sandbox));
    let disk = SmallDisk::mount(&cache(&sandbox), &format!("size={size},mode=0700"))?;
    Some((sandbox, url, disk))
}

#[test]
fn a_disk_that_is_too_small_is_reported_before_the_download() {
    let Some(nginx) = Nginx::start("") else { return };
    let Some((sandbox, url, disk)) = published(&nginx, LENGTH / 2) else { return };
    for _ in 0..2 {
        let failed = sandbox.run(["run", &url]).expect_code(1);
        assert!(failed.stderr.contains("space"), "{failed}");
        assert!(failed.stderr.contains(cache(&sandbox).to_str().unwrap()), "{failed}");
    }
    assert!(sent(&nginx.requests()) < LENGTH / 4, "{:#?}", nginx.requests());
    sandbox.run(["info", &url]).expect_code(0);
    disk.resize(4 * LENGTH);
    sandbox.run(["run", &url]).expect_code(0);
    sandbox.run(["run", &url, "--offline"]).expect_code(0);
}

#[test]
fn a_disk_that_is_full_meanwhile_loses_nothing() {
    let Some(nginx) = Nginx::start("") else { return };
    let Some((sandbox, _, _disk)) = published(&nginx, 4 * LENGTH) else { return };
    // Slow enough to fill the disk meanwhile.
    let server = Server::start();
    let file = File::new(Content::open(&nginx.root().join("model.carton")));
    server.route("/model.carton", move |request| file.answer(request).paced(64 << 10, Duration::from_millis(20)));
    let url = server.url("/model.carton");
    let mut child = sandbox.command(["run", &url, "--progress", "none"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while room(&cache(&sandbox)) < LENGTH / 4 {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "nothing was fetched");
        std::thread::sleep(Duration::from_millis(2));
    }
    let other = cache(&sandbox).join("other");
    let mut file = std::fs::File::create(&other).unwrap();
    while file.write_all(&[1; 1 << 16]).is_ok() {}
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("No space left on device"), "{stderr}");

    drop(file);
    std::fs::remove_file(&other).unwrap();
    sandbox.run(["run", &url]).expect_code(0);
    let written = server.written_for("/model.carton");
    assert!(written < LENGTH * 6 / 5, "{written} bytes in both attempts for {LENGTH}");
    sandbox.run(["run", &url, "--offline"]).expect_code(0);
}
