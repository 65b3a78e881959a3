//! Seeds of files that people write, and of responses of servers.

use std::io::Write;

use super::Seed;
use crate::generate::pieces::SEPARATOR;
use crate::oracle::config::SECRET;

/// A carton.toml with every field.
pub(super) const CARTON_TOML: &str = r#"spec_version = 1
model_name = "everything"
short_description = "It has every field."
model_description = '''
With "quotes" and a \.
![a picture](@misc/picture.png)
'''
license = "MIT OR Apache-2.0"
repository = "https://example.com/source"
homepage = "https://example.com"
required_platforms = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"]

[[input]]
name = "x"
dtype = "float32"
shape = ["batch_size", 3, "*"]
description = "Something"
internal_name = "namespace/in_x:0"

[[input]]
name = "y"
dtype = "string"
shape = "whole"
optional = true

[[output]]
name = "out"
dtype = "uint64"
shape = []

[[self_test]]
name = "runs"
description = "It runs."
inputs = { x = "@tensor_data/x" }
expected_out = { out = "@tensor_data/some/out" }

[[example]]
name = "example"
inputs = { x = "@misc/in/put.png", y = "@tensor_data/y" }
sample_out = { out = "@misc/..." }

[runner]
runner_name = "vendor/torch_script-2.x"
required_framework_version = ">=1.12, <2"
runner_compat_version = 2

[runner.opts]
"an other" = { nested = -1 }
flag = true
infinite = inf
list = [1, "two", 0x1F, 1_000.5e-3]
when = 1979-05-27T07:32:00Z

[card]
pipeline_tag = "image-classification"
library_name = "onnx"
architecture = "LeNet"
language = ["en"]
tags = ["digits", 2024]
intended_use = "Digits"
out_of_scope_use = "Letters"
users = ["people"]
limitations = "Some"
ethical_considerations = "Few"
datasets = ["ylecun/mnist"]
metrics = ["accuracy"]
co2_eq_emissions = { emissions = 1.5, energy_kwh = 2, source = "s", training_type = "t", geographical_location = "g", hardware_used = "h" }

[[card.base_model]]
name = "b"
relation = "finetune"
carton = "1111111111111111111111111111111111111111111111111111111111111111"
sha256 = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
url = "https://example.com"

[[card.results]]
metric = "accuracy"
value = 0.5
dataset = "d"
split = "test"
"#;

/// A description of two tensors whose sizes have names.
const DESCRIPTION: &str = r#"version = 1
name = "small"
dtypes = ["float32", "int8"]

[sizes]
rows = 2

[values]
min = -1.0
max = 1.0

[quantization]
method = "ternary"
scale = 1.0

[[tensors]]
name = "layers.{layer}.weight"
repeat = "rows"
shape = ["rows", 3]
quantized = true

[[tensors]]
name = "b.weight"
shape = ["rows"]
dtypes = ["int8"]
"#;

/// A README whose front matter has every shape of its fields.
const README: &str = "---
language: [en, no]
license: other
license_name: \"own\"
tags: [a, 2024]
datasets: d
base_model: {name: b, relation: merge}
base_model_relation: finetune
metrics: [accuracy]
co2_eq_emissions: 1e3
limitations: |
  Some
  lines
model-index:
- name: m
  results:
  - task: {type: t}
    dataset: {type: d, config: c, split: s}
    metrics: [{type: accuracy, value: 0.5}, {type: f1, value: '0.5'}]
    source: {url: u}
---
# Title
";

pub(super) fn seeds() -> Vec<Seed> {
    let least = "spec_version = 1\n[runner]\nrunner_name = \"r\"\nrequired_framework_version = \"*\"\n";
    let config = format!(
        "cache_dir = \"~/cache\"\nrunner_dir = \"runners\"\nrunner_index = \"https://example.com/index.json\"\n\
         auto_install = true\noffline = false\nnetrc = false\nunknown = 1\n[network]\nidle_timeout = 1.5\n\
         max_retries = 3\nn_ranges = 8\n[[credentials]]\nhost = \"[::1]:443\"\ntoken = \"{SECRET}\"\nallow_http = true\n"
    );
    let netrc = "machine example.com login me password \"a \\\" b\"\n# comment\nmacdef init\ncd /\n\n\
                 default login anonymous password user@site account x\n";
    let hash = format!("--hash=sha256:{}", "0f".repeat(32));
    let mut seeds = vec![
        Seed::new("metadata", "everything", CARTON_TOML),
        Seed::new("metadata", "least", least),
        Seed::new("model_card", "hub", README),
        Seed::new("model_card", "refused", "---\na: &x [1]\nb: *x\n---\n"),
        Seed::new("config", "config.toml", config),
        Seed::new("config", "netrc", netrc),
        Seed::new("description", "small", DESCRIPTION),
        Seed::new(
            "requirements_lock",
            "marker",
            format!("# a lock\nA_b[c]==1.0+d ; python_version < '3.9' \\\n    {hash}\n"),
        ),
        Seed::new("structure", "state", "v.0\nv.1.0\nv.1.1\nw\t2"),
        Seed::new("structure", "detections", "v[].boxes\t3\nv[].masks[]\t3\nv[].masks.#\t2,0,1"),
        Seed::new("structure", "lists", "v[][]\t3\nv[].#\t1,2"),
    ];
    let answers = [
        "206\nContent-Range: bytes 0-99/200\nContent-Length: 100\nETag: \"one\"\n",
        "206\nContent-Range: bytes 100-199/200\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\nETag: W/\"one\"\n",
        "200\nContent-Length: 200\nContent-Encoding: gzip, br\nAccept-Ranges: bytes\nETag: \"one\"\n",
        "304\nETag: \"one\"\n",
        "200\nContent-Type: multipart/byteranges; boundary=x\n",
        "416\nContent-Range: bytes */0\n120\nSun Nov  6 08:49:38 1994\nSunday, 06-Nov-94 08:49:47 GMT\n",
    ];
    seeds
        .extend(answers.iter().enumerate().map(|(position, text)| Seed::new("http_head", position.to_string(), *text)));
    let digest = "ab".repeat(32);
    let layer = format!(
        "{{\"mediaType\":\"x\",\"digest\":\"sha256:{digest}\",\"size\":7,\"annotations\":{{\"run.carton.manifest-sha256\":\"{digest}\"}}}}"
    );
    for (name, text) in [
        ("manifest", format!("{{\"schemaVersion\":2,\"config\":{layer},\"layers\":[{layer},{layer}]}}")),
        ("referrers", format!("{{\"schemaVersion\":2,\"manifests\":[{layer}]}}")),
        ("challenge", "Bearer realm=\"https://auth/token\",service=\"a \\\"b\"\", Basic realm=x".to_owned()),
        (
            "logins",
            "{\"auths\":{\"https://host/v1/\":{\"auth\":\"bWU6eA==\"}},\"credHelpers\":{\"a\":\"b\"}}".to_owned(),
        ),
        ("reference", format!("oci://host:5000/a/b_c:1.0@sha256:{digest}")),
        ("hub", "hf://team/model@refs%2Fpr%2F1/a%20b/c.carton".to_owned()),
    ] {
        seeds.push(Seed::new("registry", name, text));
    }
    let body = b"what is encoded, what is encoded ".repeat(4);
    for (name, encoded) in [
        ("identity", body.clone()),
        ("gzip", gzip(&body)),
        ("zstd", zstd::encode_all(&body[..], 3).expect("there is memory")),
        ("gzip,gzip", gzip(&gzip(&body))),
        ("deflate", zlib(&body)),
        // From a brotli encoder, since no dependency has one: the text "test", and an empty last block.
        ("br", vec![0x8b, 0x01, 0x80, 0x74, 0x65, 0x73, 0x74, 0x03]),
    ] {
        seeds.push(Seed::new("content_encoding", name, [name.as_bytes(), &[SEPARATOR], &encoded].concat()));
    }
    seeds
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("there is memory")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("there is memory")
}
