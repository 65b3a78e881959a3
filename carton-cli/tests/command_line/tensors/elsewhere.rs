//! Tensor files that are no files of this machine: at a URL, and inside a carton.

use std::fs;

use carton_tensor::files::ElementType;
use carton_test_server::nginx::Nginx;
use carton_test_server::{Answer, Server};

use super::{example, tensor, write_safetensors};
use crate::sandbox::Sandbox;

/// Long enough that the first request does not fetch all of it.
const LONG: usize = 3 << 20;

fn with_tensor_files() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut tensors = example();
    tensors.push(("long", tensor(ElementType::Uint8, &[LONG], (0..LONG).map(|i| i as u8).collect::<Vec<u8>>())));
    write_safetensors(&sandbox, "weights.safetensors", &tensors);
    sandbox.carton("tensor convert weights.safetensors weights.zt").expect_code(0);
    sandbox.carton("tensor convert weights.safetensors#ids ids.npy").expect_code(0);
    sandbox.carton("tensor convert weights.safetensors arrays.npz --only ids --only long").expect_code(0);
    sandbox
}

const FILES: [&str; 4] = ["weights.safetensors", "weights.zt", "ids.npy", "arrays.npz"];

#[test]
fn a_url_does_what_a_path_does() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = with_tensor_files();
    for file in FILES {
        fs::copy(sandbox.work().join(file), nginx.root().join(file)).unwrap();
        let url = nginx.url(file);
        for command in ["ls", "verify", "stats"] {
            let local = sandbox.run(["tensor", command, file, "--json"]).expect_code(0);
            let remote = sandbox.run(["tensor", command, &url, "--json"]).expect_code(0);
            let local = local.stdout.replace(sandbox.work().to_str().unwrap(), "").replace(file, "FILE");
            assert_eq!(remote.stdout.replace(&url, "FILE"), local, "{command} {file}");
        }
    }
    let url = nginx.url("weights.safetensors");
    for name in ["ids", "long", "layer.0.bias"] {
        let [local, remote] = ["weights.safetensors", &url]
            .map(|place| sandbox.run(["tensor", "cat", &format!("{place}#{name}"), "--json"]).expect_code(0).stdout);
        assert_eq!(remote, local, "{name}");
    }
    sandbox.run(["tensor", "convert", &url, "fetched.safetensors"]).expect_code(0);
    sandbox.carton("tensor convert weights.safetensors copied.safetensors").expect_code(0);
    let read = |name: &str| fs::read(sandbox.work().join(name)).unwrap();
    assert!(read("fetched.safetensors") == read("copied.safetensors"));
}

#[test]
fn the_header_takes_one_request() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = with_tensor_files();
    fs::copy(sandbox.work().join("weights.safetensors"), nginx.root().join("w.safetensors")).unwrap();
    sandbox.run(["tensor", "ls", &nginx.url("w.safetensors")]).expect_code(0);
    let requests = nginx.requests();
    let sent: u64 = requests.iter().map(|request| request.body_bytes).sum();
    assert!(requests.len() == 1 && sent < LONG as u64 / 10, "{requests:?}");
}

#[test]
fn what_a_server_has_instead_is_named() {
    let sandbox = with_tensor_files();
    let whole = fs::read(sandbox.work().join("weights.safetensors")).unwrap();
    let server = Server::start();
    server.route("/no-ranges", move |_| Answer::bytes(200, whole.clone()));
    let error = sandbox.run(["tensor", "ls", &server.url("/no-ranges")]).expect_code(7);
    assert!(error.stderr.contains("sends no parts of files") && error.stderr.contains("hint: "), "{}", error.stderr);
    let error = sandbox.run(["tensor", "ls", &server.url("/nothing")]).expect_code(7);
    assert!(error.stderr.contains("404"), "{}", error.stderr);
    let error = sandbox.run(["tensor", "ls", &server.url("/no-ranges"), "--offline"]).expect_code(7);
    assert!(error.stderr.contains("the network is not to be used"), "{}", error.stderr);
    server.route("/page", |_| Answer::bytes(200, "<!DOCTYPE html><html>log in</html>"));
    let error = sandbox.run(["tensor", "ls", &server.url("/page")]).expect_code(1);
    assert!(error.stderr.contains("expected a tensor file"), "{}", error.stderr);
}

#[test]
fn files_of_a_model_are_read_in_its_carton() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = with_tensor_files();
    fs::create_dir(sandbox.work().join("model")).unwrap();
    for file in FILES {
        fs::rename(sandbox.work().join(file), sandbox.work().join("model").join(file)).unwrap();
    }
    sandbox.carton("pack model --runner noop -o m.carton").expect_code(0);
    fs::copy(sandbox.work().join("m.carton"), nginx.root().join("m.carton")).unwrap();
    for file in FILES {
        let local = sandbox.run(["tensor", "ls", &format!("model/{file}")]).expect_code(0).stdout;
        for carton in ["m.carton", &nginx.url("m.carton")] {
            let place = format!("{carton}#model/{file}");
            assert_eq!(sandbox.run(["tensor", "ls", &place]).expect_code(0).stdout, local, "{place}");
            sandbox.run(["tensor", "verify", &place]).expect_code(0);
        }
    }
    let shown = sandbox.carton("tensor cat m.carton#model/weights.zt#ids").expect_code(0).stdout;
    assert_eq!(shown, sandbox.carton("tensor cat model/weights.zt#ids").expect_code(0).stdout);
    let error = sandbox.carton("tensor ls m.carton#model/none.zt").expect_code(1);
    assert!(error.stderr.contains("has no tensor `model/none.zt`"), "{}", error.stderr);
}
