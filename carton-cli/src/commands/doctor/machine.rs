//! What the system has: `/proc`, `/dev/shm`, uv, GPUs.

use std::path::Path;

use carton_core::machine::{Gpus, find_program};

use super::finding::Finding;

/// `/proc`, by which a program finds its own executable to start it as a runner.
pub(super) fn processes() -> Finding {
    const CHECK: &str = "/proc";
    match std::env::current_exe() {
        Ok(_) => Finding::ok(CHECK, "mounted"),
        Err(error) => {
            Finding::bad(CHECK, format!("it does not name this program, which starts itself as a runner: {error}"))
                .command("mount -t proc proc /proc")
        }
    }
}

/// `/dev/shm`. Carton passes tensors in other memory; a runner gets a private file system in this place.
pub(super) fn shared_memory() -> Finding {
    const PLACE: &str = "/dev/shm";
    if Path::new(PLACE).is_dir() {
        return Finding::ok(PLACE, "there");
    }
    Finding::warning(PLACE, "not there: without the sandbox, Python models that use multiprocessing fail")
        .command("mkdir -m 1777 /dev/shm && mount -t tmpfs tmpfs /dev/shm")
}

/// uv, which makes the environments of Python models.
pub(super) fn uv() -> Finding {
    match find_program("uv") {
        Some(path) => Finding::ok("uv", path.display().to_string()),
        None => {
            Finding::missing("uv", "Python models that need packages need it").command("carton runner install python")
        }
    }
}

/// NVIDIA GPUs, and whether this process can use them.
pub(super) fn gpus() -> Finding {
    const CHECK: &str = "GPU";
    let gpus = Gpus::find();
    let driver = gpus.driver.as_deref().map(|version| format!("driver {version}"));
    match (gpus.devices.len(), driver, &gpus.library) {
        (0, None, _) => Finding::missing(CHECK, "no NVIDIA GPU: models run on the processor"),
        (0, Some(driver), _) => Finding::warning(CHECK, format!("{driver}, but /dev has no GPU"))
            .advice("in a container, start it with `--gpus all`; else `nvidia-modprobe -u -c=0` makes the devices"),
        (n, driver, Some(library)) => {
            let driver = driver.unwrap_or_else(|| "an unknown driver".to_owned());
            Finding::ok(CHECK, format!("{n} in /dev, {driver}, {}", library.display()))
        }
        (n, _, None) => Finding::warning(CHECK, format!("{n} in /dev, but the driver's libcuda.so.1 is not found"))
            .advice("install the driver's libraries, or name their folder in LD_LIBRARY_PATH"),
    }
}
