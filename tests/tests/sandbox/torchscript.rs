//! A TorchScript file that reads and writes files by its operators (`tests/models/escapes/make_torchscript.py`).

use std::fs;
use std::path::{Path, PathBuf};

use carton_core::metadata::Draft;
use carton_core::runner::LaunchPolicy;
use carton_core::sandbox::{Limits, SandboxMode};
use carton_core::{Carton, Error, ErrorKind};
use carton_tensor::Tensor;
use carton_tests::place::TestPlace;

use crate::permissions::chain;
use crate::sources::{escapes, test_runner};

/// The folder of the runner in that of all installed ones.
pub(crate) const TORCHSCRIPT: &str = "torchscript-1.13.1";
const SECRET: &[u8] = b"a secret of the user";

/// Makes a place with the installed runner. Returns `None`, and prints the reason, if there is none.
fn place() -> Option<TestPlace> {
    let runners = std::env::var_os("CARTON_TEST_RUNNERS").map(PathBuf::from).unwrap_or_default();
    let installed = runners.join(TORCHSCRIPT);
    if !installed.join("runner.toml").exists() {
        eprintln!("skipped: CARTON_TEST_RUNNERS names no folder where torchscript 1.13.1 is installed");
        return None;
    }
    let place = TestPlace::new(test_runner().to_str().unwrap());
    std::os::unix::fs::symlink(&installed, place.config().runner_dir.join("torchscript")).unwrap();
    Some(place)
}

async fn pack(place: &TestPlace) -> PathBuf {
    let output = place.path().join("torchscript.carton");
    let pack = place.pack(escapes().join("torchscript.pt"), "torchscript", &output).metadata(Draft::parse("").unwrap());
    pack.check(false).await.unwrap();
    output
}

async fn call(model: &Carton, attempt: &str, path: &Path, size: i64) -> Result<Vec<u8>, Error> {
    let text = |text: &str| Tensor::from_strings([text], vec![]).unwrap();
    let inputs = [("attempt", text(attempt)), ("path", text(path.to_str().unwrap())), ("size", Tensor::scalar(size))];
    let outputs = model.infer(inputs).await?;
    Ok(outputs.as_tensors()["bytes"].as_numeric().unwrap().bytes().to_vec())
}

#[tokio::test]
async fn files_are_not_used_by_operators() {
    let Some(place) = place() else { return };
    let carton = pack(&place).await;
    for mode in [SandboxMode::Off, SandboxMode::On] {
        let model = place.load(&carton).sandbox(mode).await.unwrap();
        let file = |name: &str| {
            let path = place.path().join(format!("{name}-{mode}"));
            fs::write(&path, SECRET).unwrap();
            path
        };
        let size = i64::try_from(SECRET.len()).unwrap();
        let is_escape = mode == SandboxMode::Off;

        let read = call(&model, "read", &file("read"), size).await;
        assert_eq!(read.as_deref().ok() == Some(SECRET), is_escape, "sandbox {mode}: {read:?}");
        let (written, saved) = (file("written"), file("saved"));
        let made = place.path().join(format!("made-{mode}"));
        for (attempt, path) in [("write", &written), ("save", &saved), ("write", &made)] {
            let before = fs::read(path).ok();
            let outcome = call(&model, attempt, path, size).await;
            assert_eq!(fs::read(path).ok() != before, is_escape, "sandbox {mode}: {attempt}: {outcome:?}");
            if let Err(error) = outcome {
                assert_eq!(error.kind(), ErrorKind::Model, "{}", chain(&error));
                assert!(!is_escape, "{}", chain(&error));
            }
        }
        // The shared object of another runner, the way from a written file to a running one.
        let program = place.config().runner_dir.join("noop").join(format!("planted-{mode}"));
        let outcome = call(&model, "write", &program, size).await;
        assert_eq!(program.exists(), is_escape, "sandbox {mode}: {outcome:?}");
    }
}

#[tokio::test]
async fn memory_is_limited() {
    let Some(place) = place() else { return };
    let carton = pack(&place).await;
    let nowhere = Path::new("/");
    let model = place.load(&carton).sandbox(SandboxMode::Off).await.unwrap();
    assert_eq!(call(&model, "memory", nowhere, 3072).await.unwrap(), [1; 8]);
    drop(model);
    let mut policy = LaunchPolicy::default();
    let mut limits = Limits::default();
    limits.memory = Some(2 << 30);
    policy.limits = limits;
    let model = place.load(&carton).policy(policy).sandbox(SandboxMode::On).await.unwrap();
    let error = call(&model, "memory", nowhere, 3072).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model, "{}", chain(&error));
    assert!(call(&model, "none", nowhere, 0).await.is_ok());
}
