//! Cartons in a real registry: what is stored and sent, logins, the tools of others, and registries that are wrong.

mod faults;
mod logins;
mod others;
mod proxies;
mod transfers;

use std::fs;

use carton_test_server::registry::{Registry, Request};

use crate::sandbox::Sandbox;

/// The size of a file that is a blob of its own, in bytes.
const LARGE: usize = 100_000;

/// Packs `NAME.carton`, a model of a large file with these bytes and a small one, and returns its hash.
fn pack(sandbox: &Sandbox, name: &str, large: &[u8]) -> String {
    sandbox.write(&format!("{name}/weights.bin"), large);
    sandbox.write(&format!("{name}/config.json"), format!("{{\"name\": \"{name}\"}}"));
    sandbox.carton(&format!("pack {name} --runner noop")).expect_code(0);
    hash(sandbox, &format!("{name}.carton"))
}

fn hash(sandbox: &Sandbox, carton: &str) -> String {
    sandbox.carton(&format!("hash {carton}")).expect_code(0).stdout.trim().to_owned()
}

/// Bytes that do not repeat, different for each seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Forgets what is in the cache.
fn forget(sandbox: &Sandbox) {
    let _ = fs::remove_dir_all(sandbox.work().parent().unwrap().join("cache"));
}

/// The requests with this method.
fn with_method(requests: &[Request], method: &str) -> Vec<String> {
    requests.iter().filter(|request| request.method == method).map(|request| request.target.clone()).collect()
}

/// The manifest of an artifact, as the registry stores it.
fn manifest(registry: &Registry, digest: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(registry.blob(digest)).unwrap()).unwrap()
}
