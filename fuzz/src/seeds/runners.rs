//! Seeds of packaged runners, their descriptors and their indexes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use carton_core::Context;
use carton_core::runner::{PLATFORM, package};

use super::Seed;

pub(super) fn seeds() -> Vec<Seed> {
    let place = tempfile::tempdir().expect("there is room");
    let folder = place.path().join("runner");
    let executable = folder.join("bin/run");
    fs::create_dir_all(folder.join("bin")).expect("there is room");
    fs::write(&executable, "#!/bin/sh\n").expect("there is room");
    fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).expect("it is there");
    fs::write(folder.join("a long name ".repeat(10)), "").expect("there is room");
    symlink("bin/run", folder.join("run")).expect("there is room");
    let toml = format!(
        "version = 1\n\n[[runner]]\nrunner_name = \"vendor/one\"\nframework_version = \"1.2.3-rc.1+build\"\n\
         runner_compat_version = 1\nrunner_interface_version = 2\nrunner_release_date = 2026-01-01T00:00:00.5+02:00\n\
         runner_path = \"bin/run\"\nargs = [\"a b\"]\nplatform = \"{PLATFORM}\"\nfiles = \"ranges\"\n\
         environment = [\"HOME\", \"CUDA_*\"]\n"
    );
    fs::write(folder.join("runner.toml"), &toml).expect("there is room");
    let output = place.path().join("runner.tar.gz");
    let packaged = package(&folder, &output, &Context::default()).expect("it is a runner");
    let compressed = fs::read(output).expect("it was written");
    let mut tar = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&compressed[..]), &mut tar).expect("it was written");
    let index = packaged.offered("runner.tar.gz");
    vec![
        Seed::new("runner_descriptor", "runner.toml", toml),
        Seed::new("runner_index", "index.json", serde_json::to_vec_pretty(&index).expect("it is JSON")),
        Seed::new("runner_archive", "runner.tar.gz", compressed),
        Seed::new("runner_archive", "runner.tar", tar),
    ]
}
