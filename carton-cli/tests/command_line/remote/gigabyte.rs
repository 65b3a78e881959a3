//! A carton of a gigabyte: the cost of inspecting it, loading it, and loading it again.

use carton_test_server::nginx::Nginx;
use carton_tests::weights;

use super::{cache, publish, room, sent};
use crate::sandbox::Sandbox;

const GIBIBYTE: u64 = 1 << 30;

#[test]
fn only_a_load_costs_what_a_gigabyte_costs() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = Sandbox::new();
    let model = sandbox.work().join("model.bin");
    weights::sparse_file(&model, GIBIBYTE);
    let url = publish(&sandbox, &nginx, &model, "large.carton");

    for command in ["info", "ls", "hash"] {
        nginx.forget_requests();
        let _ = std::fs::remove_dir_all(cache(&sandbox));
        sandbox.run([command, &url]).expect_code(0);
        let requests = nginx.requests();
        let bytes: u64 = requests.iter().map(|request| request.bytes).sum();
        assert!(requests.len() <= 2 && bytes <= 128 << 10, "{command}: {requests:#?}");
        println!("carton {command} URL: {} requests, {bytes} bytes", requests.len());
    }

    nginx.forget_requests();
    sandbox.run(["run", &url]).expect_code(0);
    let first = nginx.requests();
    assert!(sent(&first) >= GIBIBYTE && sent(&first) <= GIBIBYTE + (1 << 20), "{first:#?}");
    nginx.forget_requests();
    sandbox.run(["run", &url]).expect_code(0);
    let second = nginx.requests();
    assert!(second.len() <= 1 && sent(&second) <= 64 << 10, "{second:#?}");
    println!("first load: {} requests, second load: {}, {} bytes", first.len(), second.len(), sent(&second));
    let room = room(&cache(&sandbox));
    assert!(room < GIBIBYTE + (16 << 20), "the cache takes {room} bytes");
}
