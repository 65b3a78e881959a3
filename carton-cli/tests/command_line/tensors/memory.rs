//! The memory of commands that read tensors piece by piece does not grow with a tensor.

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use carton_tensor::files::ElementType;
use carton_tensor::npy::{self, Array};
use carton_tensor::ztensor::{DigestAlgorithm, StoreAs, Writer};

use super::tensor;
use crate::sandbox::Sandbox;

/// The bytes of the tensor.
const N_BYTES: usize = 96 << 20;
/// What a command may take: a part of the tensor.
const LIMIT: u64 = 48 << 20;

/// Runs the command, and returns the most memory that it took without files that it maps.
fn peak(sandbox: &Sandbox, arguments: &str) -> u64 {
    let mut command = sandbox.command(arguments.split(' '));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let kilobytes =
            text.lines().find_map(|line| line.strip_prefix("RssAnon:")?.strip_suffix("kB")?.trim().parse().ok());
        peak = peak.max(kilobytes.unwrap_or(0_u64) << 10);
        thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    peak
}

#[test]
#[cfg(target_os = "linux")]
fn large_tensors_are_read_in_pieces() {
    let sandbox = Sandbox::new();
    // Compressible to about a tenth, so that the decoder trusts the size that the file states.
    let bytes: Vec<u8> = (0..N_BYTES).map(|at| ((at >> 4) * 37 % 251) as u8 & 0x3f).collect();
    let array = tensor(ElementType::Float64, &[N_BYTES / 8192, 1024], bytes);
    for (name, store_as) in [
        ("zstd.zt", StoreAs::RAW.zstd(1).digest(DigestAlgorithm::Crc32c)),
        ("raw.zt", StoreAs::RAW.digest(DigestAlgorithm::Crc32c)),
    ] {
        let mut writer = Writer::new(File::create(sandbox.work().join(name)).unwrap()).unwrap();
        writer.add("x", &array, store_as).unwrap();
        writer.finish().unwrap();
    }
    let array = Array::Numbers(array);
    npy::write_array(File::create(sandbox.work().join("x.npy")).unwrap(), &array).unwrap();
    let mut archive = zip::ZipWriter::new(File::create(sandbox.work().join("x.npz")).unwrap());
    for (name, method) in [("raw", zip::CompressionMethod::Stored), ("deflate", zip::CompressionMethod::Deflated)] {
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(method)
            .compression_level((method == zip::CompressionMethod::Deflated).then_some(1));
        archive.start_file(format!("{name}.npy"), options).unwrap();
        npy::write_array(&mut archive, &array).unwrap();
    }
    archive.finish().unwrap().flush().unwrap();
    drop(array);
    sandbox.write(
        "x.toml",
        format!("version = 1\nname = 'x'\ntensors = [{{ name = 'x', shape = [{}, 1024] }}]", N_BYTES / 8192),
    );
    for command in [
        "tensor verify zstd.zt",
        "tensor verify x.npz",
        "tensor verify x.npy",
        "tensor stats zstd.zt",
        "tensor stats zstd.zt --no-digests",
        "tensor stats raw.zt",
        "tensor stats x.npz#deflate",
        "tensor stats x.npz#raw --plot",
        "tensor stats x.npy",
        "tensor validate zstd.zt --model x.toml",
        "tensor validate raw.zt --model x.toml",
        "tensor convert raw.zt a.safetensors",
        "tensor convert zstd.zt b.npy",
        "tensor convert x.npy c.zt --zstd 1 --digest sha256",
        "tensor convert zstd.zt d.zt",
        "tensor convert raw.zt e.safetensors --dtype f32 --saturate",
        "tensor quantize raw.zt f.safetensors --per-channel",
        "tensor quantize zstd.zt g.zt --report",
        "tensor diff zstd.zt raw.zt --read-all",
        "tensor cat x.npy --slice 0:2",
        "tensor cat zstd.zt --slice=-1,:8",
        "tensor verify raw.zt --deep",
        "tensor merge zstd.zt raw.zt merged.safetensors",
        "tensor merge raw.zt zstd.zt merged.zt --method slerp --t 0.5",
    ] {
        let peak = peak(&sandbox, command);
        assert!(peak < LIMIT, "carton {command}: {} MB for a tensor of {} MB", peak >> 20, N_BYTES >> 20);
    }
}
