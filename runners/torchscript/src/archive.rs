//! Checks the zip archive of a model before libtorch opens it: whether it is TorchScript at all, and whether the statements
//! are true that libtorch does not check.
//!
//! libtorch allocates the unpacked size that an entry claims, and does not compare the checksums of the pickles and the code
//! that it interprets. Data of tensors is not checked: the digest of the carton finds a wrong element.
//!
//! The checks protect against damage and crude bombs. libtorch reads the archive again, with its own parser, so archives that
//! two parsers are known to read differently are refused. None of this restricts what a TorchScript program may do.

use std::io::{Cursor, Read};

use carton_runner_interface::runner::RunnerError;
use zip::{CompressionMethod, ZipArchive};

/// An archive may unpack to 64 MiB plus [`MAX_RATIO`] times its own length.
const FREE_BYTES: u64 = 64 << 20;
/// See [`FREE_BYTES`].
const MAX_RATIO: u64 = 200;
/// The greatest total size of code, pickles and constants, in bytes. No real model has more.
const MAX_INTERPRETED: u64 = 1 << 30;

/// The hint that says how to make a TorchScript file.
const HOW_TO_SAVE: &str = "in Python, torch.jit.script(model).save(\"model.pt\") or torch.jit.trace(model, example).save(…) \
                           makes TorchScript files; torch.save does not";

/// Checks the archive in `bytes`.
///
/// # Errors
/// No zip archive, none of TorchScript, damaged, or one that unpacks to far more than its length.
pub(crate) fn check(bytes: &[u8]) -> Result<(), RunnerError> {
    if bytes.is_empty() {
        return Err(RunnerError::new("the file is empty"));
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| {
        let error = RunnerError::new(format!("not a TorchScript file, or one that was cut off: {error}"));
        // The format that torch.save wrote before it wrote zip archives, and the pickles of other programs.
        if bytes.first() == Some(&0x80) { error.with_hint(HOW_TO_SAVE) } else { error }
    })?;
    check_end(bytes, archive.len(), archive.offset())?;
    let has = |name: &str| {
        archive.file_names().flatten().any(|path| path.split_once('/').is_some_and(|(_, rest)| rest == name))
    };
    if !has("constants.pkl") {
        let found =
            if has("data.pkl") { "a file of torch.save, not TorchScript" } else { "a zip archive, but no TorchScript" };
        return Err(RunnerError::new(found).with_hint(HOW_TO_SAVE));
    }
    let limit = FREE_BYTES.saturating_add((bytes.len() as u64).saturating_mul(MAX_RATIO));
    let (mut all, mut interpreted) = (0_u64, 0_u64);
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| damaged(&format!("entry {index}"), &error))?;
        let name = entry.name().map_err(|error| damaged(&format!("entry {index}"), &error))?.into_owned();
        all = all.saturating_add(entry.size());
        if all > limit {
            return Err(RunnerError::new(format!(
                "the archive has {} bytes, but would be unpacked to more than {limit}",
                bytes.len()
            )));
        }
        if entry.compression() == CompressionMethod::Stored && entry.compressed_size() != entry.size() {
            return Err(damaged(&name, &"an entry that is not compressed has two sizes"));
        }
        if holds_a_tensor(&name) {
            continue;
        }
        interpreted = interpreted.saturating_add(entry.size());
        if interpreted > MAX_INTERPRETED {
            return Err(RunnerError::new(format!(
                "the archive holds more than {MAX_INTERPRETED} bytes of code and pickles"
            )));
        }
        // Reading to the end compares the checksum.
        let read = std::io::copy(&mut (&mut entry).take(limit + 1), &mut std::io::sink());
        let length = read.map_err(|error| damaged(&name, &error))?;
        if length != entry.size() {
            return Err(damaged(&name, &format!("expected {} bytes, found {length}", entry.size())));
        }
    }
    Ok(())
}

/// Refuses archives that are not the same to every parser: with something before or behind them, or a name twice.
fn check_end(bytes: &[u8], n_names: usize, offset: u64) -> Result<(), RunnerError> {
    /// The end of central directory record without a comment (APPNOTE 4.3.16).
    const LENGTH: usize = 22;
    /// For as many entries as a number of two bytes can tell, and more: then another record has the number.
    const MANY: u16 = u16::MAX;
    let end = bytes.len().checked_sub(LENGTH).and_then(|start| bytes.get(start..)).unwrap_or_default();
    let number = |at: usize| Some(u16::from_le_bytes([*end.get(at)?, *end.get(at + 1)?]));
    if !end.starts_with(b"PK\x05\x06") || number(20) != Some(0) || offset != 0 {
        return Err(damaged("end", &"something lies before or behind the archive, or it has a comment"));
    }
    match number(10) {
        Some(n_entries) if n_entries != MANY && usize::from(n_entries) != n_names => {
            Err(damaged("end", &format!("{n_entries} entries, but {n_names} names")))
        }
        _ => Ok(()),
    }
}

/// Whether an entry is the data of a tensor: `NAME/data/0`, `NAME/constants/0`.
fn holds_a_tensor(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let [_, .., folder, number] = parts.as_slice() else { return false };
    parts.len() > 2 && matches!(*folder, "data" | "constants") && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn damaged(entry: &str, problem: &dyn std::fmt::Display) -> RunnerError {
    RunnerError::new(format!("the archive is damaged at `{}`: {problem}", entry.escape_debug()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use zip::write::SimpleFileOptions;

    use super::*;

    fn archive(entries: &[(&str, &[u8], CompressionMethod)]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes, method) in entries {
            writer.start_file(*name, SimpleFileOptions::default().compression_method(*method)).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn check_message(bytes: &[u8], expected: &str) {
        let message = check(bytes).map_err(|error| error.message).err().unwrap_or_default();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn what_is_no_torchscript() {
        check_message(b"", "the file is empty");
        check_message(b"\x80\x02\x8a\x0al\xfc\x9c", "not a TorchScript file");
        let stored = CompressionMethod::Stored;
        check_message(&archive(&[("a/data.pkl", b"x", stored)]), "a file of torch.save, not TorchScript");
        check_message(&archive(&[("a/b", b"x", stored)]), "a zip archive, but no TorchScript");
        assert!(check(&archive(&[("a/constants.pkl", b"x", stored), ("a/data/0", b"1234", stored)])).is_ok());
    }

    #[test]
    fn bombs_and_damage() {
        let zeros = vec![0; 80 << 20];
        let bomb = archive(&[
            ("a/constants.pkl", b"x", CompressionMethod::Stored),
            ("a/data/0", &zeros, CompressionMethod::Deflated),
        ]);
        check_message(&bomb, "would be unpacked to more than");
        let mut flipped = archive(&[("a/constants.pkl", b"a rather long text", CompressionMethod::Stored)]);
        let position = flipped.windows(4).position(|window| window == b"long").unwrap();
        flipped[position] ^= 1;
        check_message(&flipped, "the archive is damaged at `a/constants.pkl`");
    }

    #[test]
    fn archives_that_parsers_see_differently() {
        let stored = CompressionMethod::Stored;
        let good = archive(&[("a/constants.pkl", b"x", stored), ("a/data.pkl", b"y", stored)]);
        assert!(check(&good).is_ok());
        check_message(&[&good[..], b"x"].concat(), "something lies before or behind the archive");
        check_message(&[b"x", &good[..]].concat(), "something lies before or behind the archive");
        let twice = archive(&[("a/constants.pkl", b"x", stored), ("a/constants.pkx", b"y", stored)]);
        let twice: Vec<u8> = (0..twice.len())
            .map(|index| if twice[..index].ends_with(b"constants.pk") { b'l' } else { twice[index] })
            .collect();
        check_message(&twice, "2 entries, but 1 names");
    }

    #[test]
    fn tensors_are_told_by_their_place() {
        for (name, expected) in [
            ("m/data/0", true),
            ("m/constants/12", true),
            ("m/code/__torch__.py", false),
            ("m/data.pkl", false),
            ("data/0", false),
            ("m/data/x", false),
        ] {
            assert_eq!(holds_a_tensor(name), expected, "{name}");
        }
    }
}
