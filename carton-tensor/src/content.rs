//! Recognizes by its bytes what a file is that is no tensor file, so that an error can name it. Pure: bytes in, a kind of file out.
//!
//! Most files that cannot be read as weights are whole files of another kind: a pointer of Git LFS, a web page that a server sent in place
//! of the file, a pickle. A parser of tensor files would report only the first rule that such a file breaks.

use std::fmt;

/// A kind of file that is no tensor file, or not one of the kind that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Content {
    /// A pointer that Git LFS puts in place of a file that was not fetched.
    GitLfsPointer,
    /// A web page.
    Html,
    /// An XML document. Object stores describe their errors in one.
    Xml,
    /// JSON: an index of a checkpoint, a configuration, or the error of a server.
    Json,
    /// Other text. Many servers describe their errors in one line of it.
    Text,
    /// A zip archive of `torch.save`.
    TorchArchive,
    /// A zip archive of `torch.jit.save`.
    TorchScript,
    /// A file of `torch.save` before PyTorch 1.6.
    TorchPickle,
    /// A tar archive of `torch.save` of PyTorch 0.1.
    TorchTar,
    /// Another pickle of Python.
    Pickle,
    /// Weights for llama.cpp.
    Gguf,
    /// A zip archive of Keras 3.
    Keras,
    /// HDF5, which older versions of Keras write.
    Hdf5,
    /// A model in ONNX.
    Onnx,
    /// A carton.
    Carton,
    /// Another zip archive.
    Zip,
    /// A tar archive.
    Tar,
    /// Compressed by gzip.
    Gzip,
    /// Compressed by bzip2.
    Bzip2,
    /// Compressed by xz.
    Xz,
    /// Compressed by zstd.
    Zstd,
}

/// The first bytes of a file, and what a file is that has them. The longest match is not needed, because none is the start of another.
const MAGIC: [(&[u8], Content); 13] = [
    (b"version https://git-lfs.github.com/spec/", Content::GitLfsPointer),
    // The name of Git LFS before its release.
    (b"version https://hawser.github.com/spec/", Content::GitLfsPointer),
    (b"GGUF", Content::Gguf),
    (b"\x89HDF\r\n\x1a\n", Content::Hdf5),
    // A long integer as a pickle of protocol 2, which `torch.save` wrote first.
    (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", Content::TorchPickle),
    // The same of protocols 3 to 5.
    (b"\x80\x03\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", Content::TorchPickle),
    (b"\x80\x04\x95\x0d\0\0\0\0\0\0\0\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", Content::TorchPickle),
    (b"\x80\x05\x95\x0d\0\0\0\0\0\0\0\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", Content::TorchPickle),
    (b"\x1f\x8b\x08", Content::Gzip),
    (b"BZh", Content::Bzip2),
    (b"\xfd7zXZ\0", Content::Xz),
    (b"\x28\xb5\x2f\xfd", Content::Zstd),
    (b"PK\x05\x06", Content::Zip),
];

/// The first bytes of a zip archive that has entries.
const ZIP_ENTRY: &[u8] = b"PK\x03\x04";
/// What a tar archive of POSIX has at byte 257.
const TAR: (usize, &[u8]) = (257, b"ustar");
/// The names of the files in a tar archive of PyTorch, any of which may be the first.
const TORCH_TAR: [&[u8]; 4] = [b"sys_info\0", b"pickle\0", b"tensors\0", b"storages\0"];
/// The most bytes that are judged to be text or not.
const TEXT: usize = 512;

impl Content {
    /// As many of a file's first bytes as [`of_start`](Self::of_start) looks at.
    pub const START: usize = 1024;

    /// Recognizes a file by its first [`START`](Self::START) bytes, or by all if it has fewer. Of a zip archive, only the name of the first
    /// entry is among them; [`of_zip`](Self::of_zip) knows more.
    ///
    /// ```
    /// use carton_tensor::content::Content;
    /// let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n";
    /// assert_eq!(Content::of_start(pointer), Some(Content::GitLfsPointer));
    /// assert_eq!(Content::of_start(b"<!DOCTYPE html><html>"), Some(Content::Html));
    /// assert_eq!(Content::of_start(&[0; 16]), None);
    /// ```
    #[must_use]
    pub fn of_start(start: &[u8]) -> Option<Self> {
        let start = start.get(..Self::START).unwrap_or(start);
        if let Some((_, content)) = MAGIC.iter().find(|(magic, _)| start.starts_with(magic)) {
            return Some(*content);
        }
        if start.starts_with(ZIP_ENTRY) {
            return Some(Self::of_zip(first_entry(start).into_iter()));
        }
        if start.get(TAR.0..).is_some_and(|rest| rest.starts_with(TAR.1)) {
            let is_torch = TORCH_TAR.iter().any(|name| start.starts_with(name));
            return Some(if is_torch { Self::TorchTar } else { Self::Tar });
        }
        if is_pickle(start) {
            return Some(Self::Pickle);
        }
        if is_onnx(start) {
            return Some(Self::Onnx);
        }
        of_text(start)
    }

    /// Recognizes a zip archive by the names of its entries.
    ///
    /// ```
    /// use carton_tensor::content::Content;
    /// let of = |names: &[&str]| Content::of_zip(names.iter().copied());
    /// assert_eq!(of(&["model/data.pkl", "model/data/0", "model/version"]), Content::TorchArchive);
    /// assert_eq!(of(&["notes.txt"]), Content::Zip);
    /// ```
    #[must_use]
    pub fn of_zip<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Self {
        let has = |wanted: &str| names.clone().any(|name| name == wanted);
        // The model of a carton may have files of any kind and name.
        if has("carton.toml") && has("MANIFEST") {
            Self::Carton
        } else if is_torchscript(names.clone()) {
            Self::TorchScript
        // PyTorch puts all entries into one folder, whose name is any.
        } else if names.clone().any(|name| name.split_once('/').is_some_and(|(_, rest)| rest == "data.pkl")) {
            Self::TorchArchive
        } else if has("config.json") && (has("model.weights.h5") || has("metadata.json")) {
            Self::Keras
        } else {
            Self::Zip
        }
    }

    /// What to do about a file of this kind where a tensor file is expected, if there is something to do.
    #[must_use]
    pub const fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::GitLfsPointer => {
                "it stands for a file that was not fetched: run `git lfs pull` in its repository, or download the file itself"
            }
            Self::Html | Self::Xml | Self::Text => {
                "a server may have sent it in place of the file: download the file again, with a login where one is needed"
            }
            Self::Json => {
                "of JSON only the index of a sharded checkpoint is read, by its path: `model.safetensors.index.json` beside its files"
            }
            Self::TorchArchive | Self::TorchPickle => {
                "it is read where its file is named by itself: `carton tensor convert FILE model.safetensors` writes its tensors to a file of \
                 safetensors"
            }
            Self::TorchTar => {
                "PyTorch before 0.2 wrote it: read it in Python with `torch.load(FILE)` if you trust it, and save the tensors with \
                 `safetensors.torch.save_file`"
            }
            Self::TorchScript => {
                "it is a model, and is packed as one; in Python, `torch.jit.load(FILE).state_dict()` has its tensors, and \
                 `safetensors.torch.save_file` saves them"
            }
            Self::Pickle => {
                "a pickle is a program, and is not run: load it in Python if you trust it, and save its arrays with `numpy.savez` or \
                 `safetensors.numpy.save_file`"
            }
            Self::Gguf => "it is a tensor file: open it as one",
            Self::Keras | Self::Hdf5 => {
                "read it in Python, with `keras.saving.load_model` or `h5py`, and save its arrays with `numpy.savez`"
            }
            Self::Onnx => {
                "its initializers are read where its file is named by itself: `carton tensor convert FILE model.safetensors` writes them to a \
                 file of safetensors"
            }
            Self::Carton => "open it as a carton",
            Self::Zip => {
                "of zip archives only those with .npy files are read: unpack it, and name the tensor file that was in it"
            }
            Self::Tar => "unpack it, and name the tensor file that was in it",
            Self::Gzip => "decompress it first, with `gunzip`",
            Self::Bzip2 => "decompress it first, with `bunzip2`",
            Self::Xz => "decompress it first, with `unxz`",
            Self::Zstd => "decompress it first, with `unzstd`",
        })
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GitLfsPointer => "a Git LFS pointer",
            Self::Html => "a web page (HTML)",
            Self::Xml => "an XML document",
            Self::Json => "JSON",
            Self::Text => "text",
            Self::TorchArchive => "a PyTorch checkpoint (`torch.save`)",
            Self::TorchScript => "a TorchScript model (`torch.jit.save`)",
            Self::TorchPickle => "a PyTorch checkpoint in the format before version 1.6 (`torch.save`)",
            Self::TorchTar => "a PyTorch checkpoint in the tar format of version 0.1",
            Self::Pickle => "a pickle of Python",
            Self::Gguf => "a GGUF file (llama.cpp)",
            Self::Keras => "a Keras model (.keras)",
            Self::Hdf5 => "an HDF5 file, as Keras writes them (.h5)",
            Self::Onnx => "an ONNX model",
            Self::Carton => "a carton",
            Self::Zip => "a zip archive",
            Self::Tar => "a tar archive",
            Self::Gzip => "compressed by gzip",
            Self::Bzip2 => "compressed by bzip2",
            Self::Xz => "compressed by xz",
            Self::Zstd => "compressed by zstd",
        })
    }
}

/// Whether an archive with these entries is TorchScript: all entries are in one folder, which holds code and pickles. Archives of
/// `torch.save` hold no code.
fn is_torchscript<'a>(names: impl Iterator<Item = &'a str> + Clone) -> bool {
    let mut split = names.filter_map(|name| name.split_once('/'));
    let Some((folder, _)) = split.clone().next() else { return false };
    let has = |wanted: &dyn Fn(&str) -> bool| split.clone().any(|(top, rest)| top == folder && wanted(rest));
    let has_pickle = has(&|rest| rest == "constants.pkl" || rest == "data.pkl");
    has_pickle && has(&|rest| rest.starts_with("code/")) && split.all(|(top, _)| top == folder)
}

/// The name of the first entry of a zip archive, from its local header.
fn first_entry(start: &[u8]) -> Option<&str> {
    const LENGTH: usize = 26;
    const NAME: usize = 30;
    let length = usize::from(u16::from_le_bytes([*start.get(LENGTH)?, *start.get(LENGTH + 1)?]));
    std::str::from_utf8(start.get(NAME..NAME + length)?).ok()
}

/// Whether these are the first bytes of a pickle: its protocol, and an instruction that pickles begin with.
fn is_pickle(start: &[u8]) -> bool {
    match start {
        // Protocols 4 and 5 begin with a frame of a length that fits into memory.
        [0x80, 4 | 5, 0x95, rest @ ..] => rest.get(6..8) == Some(&[0, 0]),
        // A collection, the name of a class, text, a number or bytes.
        [0x80, 2..=5, instruction, ..] => b"}](c)XUKMJGNC\x8a\x8c\x88\x89\x8e\x8f".contains(instruction),
        _ => false,
    }
}

/// Whether these are the first bytes of an ONNX model as its libraries write it: the version of the format, and the name of the program
/// that made the model.
fn is_onnx(start: &[u8]) -> bool {
    let [0x08, 1..=0x7f, 0x12, length, rest @ ..] = start else { return false };
    let name = rest.get(..usize::from(*length)).unwrap_or_default();
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

/// Says what text it is, if it is text: UTF-8 without control characters.
fn of_text(start: &[u8]) -> Option<Content> {
    let cut = start.get(..TEXT).unwrap_or(start);
    let text = match std::str::from_utf8(cut) {
        Ok(text) => text,
        // A character that the cut has divided.
        Err(error) if error.error_len().is_none() && cut.len() < start.len() => {
            std::str::from_utf8(cut.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    if text.chars().any(|char| char.is_control() && !matches!(char, '\t' | '\n' | '\r' | '\u{c}')) {
        return None;
    }
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let begins = |with: &str| text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    if text.is_empty() {
        None
    } else if begins("<!doctype html") || begins("<html") || begins("<head") || begins("<body") {
        Some(Content::Html)
    } else if begins("<?xml") {
        // Web pages may be XML.
        let is_page = text.contains("<html") || text.contains("<!DOCTYPE html");
        Some(if is_page { Content::Html } else { Content::Xml })
    } else if begins("{") || begins("[") {
        Some(Content::Json)
    } else {
        Some(Content::Text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn files_are_what_their_first_bytes_are() {
        let check = |start: &[u8], expected: Option<Content>| {
            assert_eq!(Content::of_start(start), expected, "{}", start.escape_ascii());
        };
        check(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n", Some(Content::GitLfsPointer));
        check(b"version https://hawser.github.com/spec/v1\n", Some(Content::GitLfsPointer));
        check(b"version 2", Some(Content::Text));
        check(b"\n  <!DOCTYPE HTML PUBLIC", Some(Content::Html));
        check("\u{feff}<html lang='de'>".as_bytes(), Some(Content::Html));
        check(b"<?xml version='1.0'?><!DOCTYPE html>", Some(Content::Html));
        check(b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", Some(Content::Xml));
        check(b" {\"weight_map\": {}}", Some(Content::Json));
        check(b"[1]", Some(Content::Json));
        check(b"Entry not found", Some(Content::Text));
        check(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", Some(Content::TorchPickle));
        // pickle.dumps({}, 2), pickle.dumps([1]), pickle.dumps(None)
        check(b"\x80\x02}q\x00.", Some(Content::Pickle));
        check(b"\x80\x04\x95\x06\0\0\0\0\0\0\0]\x94K\x01a.", Some(Content::Pickle));
        check(b"\x80\x04N.", Some(Content::Pickle));
        check(b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff", None);
        check(b"\x80\x01}", None);
        check(b"GGUF\x03\0\0\0", Some(Content::Gguf));
        check(b"\x89HDF\r\n\x1a\n\0", Some(Content::Hdf5));
        check(b"\x08\x08\x12\x07pytorch\x1a\x05", Some(Content::Onnx));
        check(b"\x08\x08\x12\x07pyt", None);
        check(b"\x1f\x8b\x08\0", Some(Content::Gzip));
        check(b"\xfd7zXZ\0", Some(Content::Xz));
        check(b"BZh91AY", Some(Content::Bzip2));
        check(b"\x28\xb5\x2f\xfd\x04", Some(Content::Zstd));
        check(b"PK\x05\x06", Some(Content::Zip));
        check(b"PK\x03\x04", Some(Content::Zip));
        let mut tar = [0; 512];
        tar[..5].copy_from_slice(b"a.txt");
        tar[257..262].copy_from_slice(b"ustar");
        check(&tar, Some(Content::Tar));
        tar[..9].copy_from_slice(b"storages\0");
        check(&tar, Some(Content::TorchTar));
        check(b"", None);
        check(b"  \n", None);
        check(b"\x93NUMPY", None);
        check(b"text\0", None);
        check(b"\xc3", None);
        // A character may be cut in two where the judged bytes end, and nowhere else.
        let long = [&[b'a'; TEXT - 1], "é and more".as_bytes()].concat();
        check(&long, Some(Content::Text));
        check(&[&[b'a'; 20], [0xc3].as_slice()].concat(), None);
    }

    #[test]
    fn archives_are_what_their_entries_are() {
        let check = |names: &[&str], expected: Content| {
            assert_eq!(Content::of_zip(names.iter().copied()), expected, "{names:?}");
        };
        check(&["m/constants.pkl", "m/data.pkl", "m/code/__torch__.py"], Content::TorchScript);
        check(&["m/code/__torch__.py", "m/data.pkl"], Content::TorchScript);
        check(&["m/data.pkl", "m/data/0", "m/version"], Content::TorchArchive);
        check(&["archive/data.pkl"], Content::TorchArchive);
        check(&["m/code/__torch__.py", "other/data.pkl"], Content::TorchArchive);
        check(&["m/constants.pkl", "m/code/a.py", "other/code/a.py"], Content::Zip);
        check(&["carton.toml", "MANIFEST", "model/code/a.py"], Content::Carton);
        check(&["carton.toml", "MANIFEST", "model/data.pkl"], Content::Carton);
        check(&["carton.toml", "MANIFEST", "model/data.pkl", "model/code/a.py"], Content::Carton);
        check(&["carton.toml", "model/data.pkl"], Content::TorchArchive);
        check(&["metadata.json", "config.json", "model.weights.h5"], Content::Keras);
        check(&["config.json"], Content::Zip);
        check(&["data.pkl"], Content::Zip);
        check(&[], Content::Zip);
    }

    #[test]
    fn the_first_entry_of_an_archive_is_among_the_first_bytes() {
        let entry = |name: &str| {
            let length = u16::try_from(name.len()).unwrap().to_le_bytes();
            [b"PK\x03\x04".as_slice(), &[0; 22], &length, &[0; 2], name.as_bytes()].concat()
        };
        assert_eq!(Content::of_start(&entry("m/data.pkl")), Some(Content::TorchArchive));
        assert_eq!(Content::of_start(&entry("m/data.pkl")[..30]), Some(Content::Zip));
        assert_eq!(Content::of_start(&entry("a.txt")), Some(Content::Zip));
    }
}
