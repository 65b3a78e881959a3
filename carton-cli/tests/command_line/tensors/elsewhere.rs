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
    assert!(error.stderr.contains("the carton `m.carton` has no file `model/none.zt`"), "{}", error.stderr);
    assert!(error.stderr.contains("`carton ls` shows its files"), "{}", error.stderr);
}

/// Writes a checkpoint of two files and its index into a folder.
fn write_checkpoint(sandbox: &Sandbox, folder: &str) {
    fs::create_dir(sandbox.work().join(folder)).unwrap();
    let [first, second] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let numbers = |n: usize| tensor(ElementType::Uint8, &[n], (0..n).map(|i| i as u8).collect::<Vec<u8>>());
    write_safetensors(sandbox, &format!("{folder}/{first}"), &[("a", numbers(5)), ("b", numbers(2 * LONG))]);
    write_safetensors(sandbox, &format!("{folder}/{second}"), &[("c", numbers(7))]);
    let index = format!(r#"{{"metadata": {{}}, "weight_map": {{"a": "{first}", "b": "{first}", "c": "{second}"}}}}"#);
    sandbox.write(&format!("{folder}/{INDEX}"), index);
}

const INDEX: &str = "model.safetensors.index.json";

#[test]
fn a_checkpoint_of_several_files_is_one_wherever_it_is() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = Sandbox::new();
    write_checkpoint(&sandbox, "model");
    for entry in fs::read_dir(sandbox.work().join("model")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), nginx.root().join(entry.file_name())).unwrap();
    }
    sandbox.carton("pack model --runner noop -o m.carton").expect_code(0);
    let local = sandbox.run(["tensor", "ls", &format!("model/{INDEX}")]).expect_code(0).stdout;
    let url = nginx.url(INDEX);
    for place in ["model", "model/", &url, &format!("m.carton#model/{INDEX}"), "m.carton#model", "m.carton#model/"] {
        assert_eq!(sandbox.run(["tensor", "ls", place]).expect_code(0).stdout, local, "{place}");
    }
    let requests = nginx.requests();
    let sent: u64 = requests.iter().map(|request| request.body_bytes).sum();
    assert!(requests.len() == 3 && sent < LONG as u64 / 10, "{requests:?}");
    sandbox.run(["tensor", "convert", &url, "fetched.safetensors"]).expect_code(0);
    sandbox.carton("tensor convert model copied.safetensors").expect_code(0);
    let read = |name: &str| fs::read(sandbox.work().join(name)).unwrap();
    assert!(read("fetched.safetensors") == read("copied.safetensors"));
    let one = sandbox.carton("tensor cat model#c").expect_code(0).stdout;
    assert_eq!(sandbox.run(["tensor", "cat", &format!("{url}#c")]).expect_code(0).stdout, one);
    // A file that the index names is not there.
    fs::remove_file(nginx.root().join("model-00002-of-00002.safetensors")).unwrap();
    let error = sandbox.run(["tensor", "ls", &url]).expect_code(7);
    assert!(error.stderr.contains("model-00002-of-00002.safetensors") && error.stderr.contains("404"), "{error}");
}

#[test]
fn a_folder_that_is_no_checkpoint_is_refused() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.work().join("folder")).unwrap();
    let error = sandbox.carton("tensor ls folder").expect_code(1);
    assert!(error.stderr.contains("the folder `folder` has no tensor file"), "{error}");
    for name in ["a", "b"] {
        write_safetensors(&sandbox, &format!("folder/{name}.safetensors"), &example());
    }
    let error = sandbox.carton("tensor ls folder").expect_code(1);
    assert!(error.stderr.contains("has 2 tensor files and no index of them"), "{error}");
    assert!(error.stderr.contains("hint: name one of its files"), "{error}");
    fs::remove_file(sandbox.work().join("folder/b.safetensors")).unwrap();
    sandbox.carton("tensor ls folder#ids").expect_code(0);
    // One file of a checkpoint is not all of it.
    write_checkpoint(&sandbox, "part");
    for file in [INDEX, "model-00002-of-00002.safetensors"] {
        fs::remove_file(sandbox.work().join("part").join(file)).unwrap();
    }
    let error = sandbox.carton("tensor ls part").expect_code(4);
    assert!(error.stderr.contains("one of several files of a checkpoint"), "{error}");
    // An index that is not a file is not passed over.
    std::os::unix::fs::symlink("nothing", sandbox.work().join("part").join(INDEX)).unwrap();
    sandbox.carton("tensor ls part").expect_code(1);
    write_checkpoint(&sandbox, "model");
    fs::remove_file(sandbox.work().join("model/model-00002-of-00002.safetensors")).unwrap();
    sandbox.carton("pack model --runner noop -o m.carton").expect_code(0);
    for place in ["model", "m.carton#model"] {
        let error = sandbox.carton(&format!("tensor ls {place}")).expect_code(4);
        assert!(error.stderr.contains("1 of its files is missing"), "{error}");
    }
}

#[test]
fn a_network_that_fails_while_tensors_are_read_is_told_from_a_damaged_file() {
    let sandbox = with_tensor_files();
    let whole = fs::read(sandbox.work().join("weights.safetensors")).unwrap();
    let server = Server::start();
    let is_gone = std::sync::atomic::AtomicBool::new(false);
    let file = carton_test_server::File::new(whole);
    server.route("/w.safetensors", move |request| {
        let first = !is_gone.swap(true, std::sync::atomic::Ordering::Relaxed);
        if first { file.answer(request) } else { Answer::bytes(404, "gone") }
    });
    let error = sandbox.run(["tensor", "cat", &format!("{}#long", server.url("/w.safetensors"))]).expect_code(7);
    assert!(error.stderr.contains("404"), "{error}");
}
