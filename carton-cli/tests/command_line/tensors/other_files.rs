//! Files that are no tensor files: every command says what they are.

use std::io::{Cursor, Write};
use std::path::Path;

use insta::assert_snapshot;

use super::{example, read, write_safetensors};
use crate::sandbox::Sandbox;

const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n";

/// A zip archive with these entries, each of some bytes.
fn zip(names: &[&str]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for name in names {
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        archive.start_file(*name, options).unwrap();
        archive.write_all(&[0x80, 2, b'}', b'.']).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Nothing is listed, verified, written or compared of a file that is not read, whatever its name, and the exit code is never 0.
#[test]
fn every_command_names_what_a_file_is() {
    let sandbox = Sandbox::new();
    sandbox.write("tiny.toml", "version = 1\nname = 'tiny'\ntensors = []");
    let torchscript = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/behaviour/torchscript.pt");
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0];
    let mut tar = [0; 512];
    tar[..8].copy_from_slice(b"storages");
    tar[257..262].copy_from_slice(b"ustar");
    let files: [(&str, &[u8], &str, &str); 10] = [
        ("lfs", POINTER, "a Git LFS pointer", "git lfs pull"),
        ("page", b"<!DOCTYPE html><html>login</html>", "a web page (HTML)", "download the file again"),
        ("error", b"Entry not found", "text that begins with `Entry not found`", "download the file again"),
        ("script", &std::fs::read(torchscript).unwrap(), "a TorchScript model", "packed as one"),
        ("torch-0.1", &tar, "a PyTorch checkpoint in the tar format of version 0.1", "torch.load"),
        ("keras", &zip(&["metadata.json", "config.json", "model.weights.h5"]), "a Keras model", "keras.saving"),
        ("hdf5", b"\x89HDF\r\n\x1a\n\0\0\0\0", "an HDF5 file", "h5py"),
        ("gzip", &gzip, "compressed by gzip", "gunzip"),
        ("carton", &zip(&["MANIFEST", "carton.toml"]), "a carton", "FILE.carton"),
        ("zip", &zip(&["notes.txt"]), "a zip archive", "unpack it"),
    ];
    for (stem, bytes, what, hint) in files {
        for (extension, code) in [("bin", 1), ("safetensors", 4), ("npz", 4)] {
            let path = format!("{stem}.{extension}");
            sandbox.write(&path, bytes);
            for command in [
                format!("ls {path}"),
                format!("verify {path}"),
                format!("stats {path}"),
                format!("cat {path} x"),
                format!("validate {path} --model tiny.toml"),
                format!("convert {path} out.zt"),
                format!("quantize {path} out.safetensors"),
            ] {
                let outcome = sandbox.carton(&format!("tensor {command}")).expect_code(code);
                assert!(outcome.stdout.is_empty(), "{command}: {outcome}");
                assert!(outcome.stderr.contains(&format!("`{path}` is {what}")), "{command}: {outcome}");
                assert!(outcome.stderr.contains("hint: ") && outcome.stderr.contains(hint), "{command}: {outcome}");
            }
        }
    }
    assert!(!sandbox.files().iter().any(|file| file.starts_with("out.")), "{:?}", sandbox.files());
    assert_snapshot!(sandbox.carton("tensor ls lfs.safetensors"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `lfs.safetensors` is a Git LFS pointer, expected safetensors

    hint: it stands for a file that was not fetched: run `git lfs pull` in its repository, or download the file itself
    ");
}

/// The files of an index are what their bytes are, too, and may not be there at all.
#[test]
fn indexes_of_other_files() {
    let sandbox = Sandbox::new();
    let index = r#"{"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}}"#;
    sandbox.write("pytorch_model.bin.index.json", index);
    assert_snapshot!(sandbox.carton("tensor ls pytorch_model.bin.index.json"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `pytorch_model.bin.index.json`: 1 of its files is missing: `pytorch_model-00001-of-00001.bin` (spec/safetensors.md §7.3)
    ");
    sandbox.write("pytorch_model-00001-of-00001.bin", POINTER);
    assert_snapshot!(sandbox.carton("tensor verify pytorch_model.bin.index.json"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `./pytorch_model-00001-of-00001.bin` is a Git LFS pointer, expected a PyTorch checkpoint (`torch.save`)

    hint: it stands for a file that was not fetched: run `git lfs pull` in its repository, or download the file itself
    ");
    let index = r#"{"weight_map": {"a": "a.safetensors"}}"#;
    sandbox.write("model.safetensors.index.json", index);
    sandbox.write("a.safetensors", POINTER);
    assert_snapshot!(sandbox.carton("tensor convert model.safetensors.index.json out.zt"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `./a.safetensors` is a Git LFS pointer, expected a safetensors file

    hint: it stands for a file that was not fetched: run `git lfs pull` in its repository, or download the file itself
    ");
    sandbox.write("config.json", "{\"hidden_size\": 4096}");
    assert_snapshot!(sandbox.carton("tensor ls config.json"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `config.json` is not a valid index of a checkpoint

    Caused by:
      the index has no `weight_map` at line 1 column 21 (spec/safetensors.md §7.1)

    hint: of JSON only the index of a sharded checkpoint is read, by its path: `model.safetensors.index.json` beside its files
    ");
    sandbox.write("model.safetensors.index.json", POINTER);
    let outcome = sandbox.carton("tensor ls model.safetensors.index.json").expect_code(1);
    assert!(outcome.stderr.contains("is a Git LFS pointer"), "{outcome}");
}

/// Checkpoints of PyTorch in several files are read by each command, by their index or their folder.
#[test]
fn shards_of_pytorch_are_tensor_files() {
    let sandbox = Sandbox::new();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../carton-tensor/tests/data/torch/sharded");
    for file in std::fs::read_dir(&files).unwrap() {
        let file = file.unwrap();
        sandbox.write(Path::new("m").join(file.file_name()).to_str().unwrap(), std::fs::read(file.path()).unwrap());
    }
    sandbox.carton("tensor verify m").expect_code(0);
    for place in ["m", "m/pytorch_model.bin.index.json"] {
        let listed = sandbox.carton(&format!("tensor ls {place}")).expect_code(0).stdout;
        assert!(
            ["a", "tied", "transposed", "ids", "half", "flags"].iter().all(|name| listed.contains(name)),
            "{listed}"
        );
        assert!(sandbox.carton(&format!("tensor cat {place} ids")).expect_code(0).stdout.contains('5'));
        sandbox.carton(&format!("tensor stats {place}")).expect_code(0);
    }
    sandbox.carton("tensor convert m m.safetensors").expect_code(0);
    sandbox.carton("tensor diff m m.safetensors").expect_code(0);
    // The same model in both formats: safetensors is chosen.
    sandbox.write("m/model.safetensors", "no safetensors");
    let outcome = sandbox.carton("tensor ls m").expect_code(4);
    assert!(outcome.stderr.contains("model.safetensors` is text"), "{outcome}");
}

/// Links that other users made are followed where that is asked for.
#[cfg(unix)]
#[test]
fn links_are_followed_by_their_owners() {
    use std::os::unix::fs::{MetadataExt, lchown, symlink};
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "elsewhere/blob", &example()[..1]);
    let index = r#"{"metadata": null, "weight_map": {"layer.0.weight": "a.safetensors"}}"#;
    sandbox.write("m/model.safetensors.index.json", index);
    let link = sandbox.work().join("m/a.safetensors");
    symlink("../elsewhere/blob", &link).unwrap();
    let outcome = sandbox.carton("tensor verify m --json").expect_code(0);
    assert!(outcome.stdout.contains("`metadata` of the index is null"), "{outcome}");
    // Only the superuser gives links away.
    if std::fs::symlink_metadata(&link).unwrap().uid() != 0 {
        return;
    }
    lchown(&link, Some(12_345), None).unwrap();
    let outcome = sandbox.carton("tensor ls m").expect_code(1);
    let expected =
        "outside of its folder, by way of a link that another user made (uid 12345) (spec/safetensors.md §7.3)";
    assert!(outcome.stderr.contains(expected) && outcome.stderr.contains("--follow-links"), "{outcome}");
    for command in ["ls m", "cat m", "stats m", "verify m", "convert m x.zt", "diff m m", "quantize m q.safetensors"] {
        sandbox.carton(&format!("tensor {command}")).expect_code(1);
        sandbox.carton(&format!("tensor {command} --follow-links")).expect_code(0);
    }
}

/// Content decides, not the name; an archive of nothing is what `numpy.savez` writes for no arrays.
#[test]
fn archives_of_arrays_are_read_under_any_name() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &example()[..1]);
    sandbox.carton("tensor convert w.safetensors w.npz").expect_code(0);
    sandbox.write("w.bin", read(&sandbox, "w.npz"));
    assert!(sandbox.carton("tensor ls w.bin").expect_code(0).stdout.contains("layer.0.weight"));
    sandbox.write("nothing.npz", [b"PK\x05\x06".as_slice(), &[0; 18]].concat());
    assert!(sandbox.carton("tensor ls nothing.npz").expect_code(0).stderr.contains("0 tensors"));
}

/// An archive may have other files beside its arrays. They are neither checked nor written, and that is told.
#[test]
fn entries_that_are_no_arrays_are_told() {
    let sandbox = Sandbox::new();
    let tensors: Vec<_> = example().into_iter().filter(|(name, _)| *name != "layer.0.bias").collect();
    write_safetensors(&sandbox, "w.safetensors", &tensors);
    sandbox.carton("tensor convert w.safetensors w.npz").expect_code(0);
    let mut archive = zip::ZipWriter::new_append(Cursor::new(read(&sandbox, "w.npz"))).unwrap();
    archive.start_file("notes.txt", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(b"trained on Tuesday").unwrap();
    sandbox.write("w.npz", archive.finish().unwrap().into_inner());
    let outcome = sandbox.carton("tensor verify w.npz").expect_code(1);
    assert!(outcome.stdout.contains("UNCHECKED `notes.txt`: it is no array (.npy)"), "{outcome}");
    sandbox.carton("tensor verify w.npz#layer.0.weight").expect_code(0);
    for command in ["convert w.npz out.zt", "quantize w.npz out.zt"] {
        let outcome = sandbox.carton(&format!("tensor {command}")).expect_code(0);
        assert!(outcome.stderr.contains("not written, because they are no arrays (.npy): `notes.txt`"), "{outcome}");
    }
}
