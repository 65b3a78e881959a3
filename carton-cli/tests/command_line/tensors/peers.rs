//! Files of `carton tensor convert` and of Python's libraries.

use std::path::Path;

use crate::sandbox::Sandbox;

/// What Python's libraries make of what is converted, and the other way round.
#[test]
fn other_libraries_agree() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has NumPy and safetensors (scripts/test-setup)");
        return;
    };
    let sandbox = Sandbox::new();
    let run = |script: &str| {
        let output =
            std::process::Command::new(&python).args(["-c", script]).current_dir(sandbox.work()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("import numpy as np; from safetensors.numpy import save_file
r = np.random.default_rng(1)
t = {'a': r.normal(size=(3, 4)).astype('f4'), 'h': r.normal(size=7).astype('f2'), 'b': r.integers(0, 2, 9).astype(bool), 'i': r.integers(-9, 9, (2, 0, 3))}
save_file(t, 'their.safetensors', {'k': 'v'}); np.savez_compressed('their.npz', **t)");
    sandbox.carton("tensor convert their.safetensors ours.npz").expect_code(0);
    sandbox.carton("tensor convert their.npz ours.zt --zstd 1 --digest crc32c").expect_code(0);
    sandbox.carton("tensor convert ours.zt ours.safetensors").expect_code(0);
    run("import numpy as np; from safetensors.numpy import load_file
e = load_file('their.safetensors')
for found in [np.load('ours.npz'), load_file('ours.safetensors')]:
    assert set(found) == set(e)
    for k in e: assert found[k].dtype == e[k].dtype and np.array_equal(found[k], e[k]), k");
    assert!(Path::new(&sandbox.work().join("ours.zt")).exists());
}
