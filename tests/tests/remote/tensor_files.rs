//! Tensor files on a server: those of a carton there, and those that a carton links to.

use std::path::Path;

use carton_core::metadata::Draft;
use carton_core::packing::{PackWarning, TensorFormat};
use carton_core::{Carton, Packed};
use carton_tensor::Tensor;
use carton_test_server::File;
use carton_test_server::nginx::Nginx;

use crate::links::link;
use crate::setting::{Setting, chain};

const FORMATS: [(TensorFormat, &str); 2] =
    [(TensorFormat::Safetensors, "tensors.safetensors"), (TensorFormat::Ztensor, "tensors.zt")];
const LENGTH: usize = 1 << 20;
const METADATA: &str = "
[[input]]
name = 'x'
dtype = 'float32'
shape = ['n']

[[output]]
name = 'x'
dtype = 'float32'
shape = ['n']
";

/// A carton with a self-test of a megabyte of numbers beside a model of four, packed for the runner that returns its inputs.
async fn pack(setting: &Setting, format: TensorFormat) -> Packed {
    let model = setting.place.path().join("model");
    std::fs::create_dir_all(&model).unwrap();
    std::fs::write(model.join("weights.bin"), vec![7; 4 * LENGTH]).unwrap();
    let numbers: Vec<f32> = (0..LENGTH / 4).map(|n| n as f32).collect();
    let inputs = [("x", Tensor::from_vec(numbers, vec![LENGTH / 4]).unwrap())];
    let pack = setting
        .place
        .pack(&model, "noop", setting.place.path().join("model.carton"))
        .metadata(Draft::parse(METADATA).unwrap())
        .tensor_format(format)
        .record_self_test(inputs)
        .check(false);
    pack.await.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Loads a carton without running it.
async fn load(setting: &Setting, url: &str) -> Carton {
    setting.loading(url).await.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Checks that the self-test passes, and that its tensors are views of a file of the cache.
async fn check(setting: &Setting, model: &Carton) {
    let report = model.self_test().mapped(true).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert!(report.passed && report.self_tests.len() == 1, "{report:?}");
    let test = model.package().self_tests().next().unwrap();
    let inputs = test.mapped().inputs().unwrap();
    let Tensor::Numeric(x) = &inputs["x"] else { panic!("no numbers") };
    assert_eq!(x.as_slice::<f32>().unwrap()[1000], 1000.0);
    let address = x.bytes().as_ptr().addr();
    let cache = setting.place.config().cache_dir.canonicalize().unwrap();
    assert!(is_mapped_below(address, &cache), "it is a copy");
}

/// Whether the address is in a map of a file below the folder.
fn is_mapped_below(address: usize, folder: &Path) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(folder.to_str().unwrap())).any(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|end| usize::from_str_radix(end, 16).unwrap());
        (start..end).contains(&address)
    })
}

#[tokio::test]
async fn a_file_of_tensors_in_a_carton_on_a_server() {
    let Some(nginx) = Nginx::start("") else { return };
    for (format, _) in FORMATS {
        let setting = Setting::new();
        let packed = pack(&setting, format).await;
        assert_eq!(packed.warnings, [PackWarning::TensorFile]);
        std::fs::copy(&packed.path, nginx.root().join("model.carton")).unwrap();
        let url = nginx.url("model.carton");
        let model = load(&setting, &url).await;
        nginx.forget_requests();
        check(&setting, &model).await;
        let fetched: u64 = nginx.requests().iter().map(|request| request.body_bytes).sum();
        // Inputs and expected outputs were fetched, but no weights.
        let length = 2 * LENGTH as u64;
        assert!((length..length + (64 << 10)).contains(&fetched), "{fetched} bytes were fetched");
        // A second load fetches nothing.
        nginx.forget_requests();
        check(&setting, &load(&setting, &url).await).await;
        let fetched: u64 = nginx.requests().iter().map(|request| request.body_bytes).sum();
        assert!(fetched < 64 << 10, "{fetched} bytes were fetched again");
    }
}

#[tokio::test]
async fn a_file_of_tensors_that_is_linked() {
    for (format, name) in FORMATS {
        let setting = Setting::new();
        let packed = pack(&setting, format).await;
        let path = format!("tensor_data/{name}");
        let bytes = {
            let package = setting.open(packed.path.to_str().unwrap()).await.unwrap();
            package.read_file(&path, u64::MAX).unwrap()
        };
        let url = setting.server.url("/tensors");
        let carton = link(&packed.path, &path, &bytes, &[url]);
        setting.server.serve("/tensors", File::new(bytes));
        let model = load(&setting, carton.to_str().unwrap()).await;
        assert!(setting.server.exchanges().is_empty(), "the tensors of self-tests are fetched when they are needed");
        check(&setting, &model).await;
        assert!(!setting.server.exchanges_for("/tensors").is_empty());
    }
}
