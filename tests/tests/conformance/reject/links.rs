//! LINKS malformed, or without a link for a missing file.

use crate::builder::{CartonBuilder, Entry, Manifest, hex_sha256, noise};
use crate::{bad, check_rejected};

fn links(carton: &mut CartonBuilder, text: impl Into<Vec<u8>>) {
    carton.add(Entry::new("LINKS", text));
}

#[test]
fn malformed() {
    const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
    fn urls(carton: &mut CartonBuilder, value: &str) {
        links(carton, format!("version = 1\n[urls]\n{ZEROS} = {value}\n"));
    }
    check_rejected(&[
        bad("empty", |c| links(c, ""), "LINKS"),
        bad("no TOML", |c| links(c, "{\"version\": 1}"), "LINKS"),
        bad("not UTF-8", |c| links(c, b"version = 1 # \xff"), "LINKS is not UTF-8"),
        bad("no version", |c| links(c, "[urls]\n"), "version"),
        bad("version as text", |c| links(c, "version = \"1\"\n"), "line 1: expected"),
        bad("version as a float", |c| links(c, "version = 1.0\n"), "line 1: expected"),
        bad("urls is a list", |c| links(c, "version = 1\nurls = []\n"), "LINKS"),
        bad("a key that is no digest", |c| links(c, "version = 1\n[urls]\nabc = [\"https://host/x\"]\n"), "`abc`"),
        bad(
            "a key in capitals",
            |c| {
                links(c, format!("version = 1\n[urls]\n{} = [\"https://host/x\"]\n", "AB".repeat(32)));
            },
            "ABAB",
        ),
        bad("a text for a list", |c| urls(c, "\"https://host/x\""), "LINKS"),
        bad("an empty list", |c| urls(c, "[]"), ZEROS),
        bad("a number for a URL", |c| urls(c, "[1]"), "LINKS"),
        bad("an empty URL", |c| urls(c, "[\"\"]"), ZEROS),
        bad("a path", |c| urls(c, "[\"/etc/passwd\"]"), "/etc/passwd"),
        bad("ftp", |c| urls(c, "[\"https://host/x\", \"ftp://host/x\"]"), "ftp://host/x"),
        bad("a newline", |c| urls(c, "[\"https://host/x\\n\"]"), "https://host/x"),
        bad(
            "a key twice",
            |c| {
                let line = format!("{ZEROS} = [\"https://host/x\"]\n");
                links(c, format!("version = 1\n[urls]\n{line}{line}"));
            },
            "LINKS",
        ),
        bad(
            "damaged",
            |c| {
                links(c, "version = 1\n[urls]\n");
                c.entry("LINKS").change_data = Some(|data| data[3] ^= 1);
            },
            "LINKS",
        ),
        bad("a folder", |c| c.add(Entry::folder("LINKS/")), "LINKS"),
    ]);
    check_rejected(&[crate::unsupported("version 2", |c| links(c, "version = 2\nfiles = 3\n"), "version 2")]);
}

#[test]
fn files_that_are_nowhere() {
    /// Removes the weights, and leaves their line in MANIFEST.
    fn remove_weights(carton: &mut CartonBuilder) {
        carton.remove("model/weights.bin");
        carton.manifest = Manifest::Edited(|text| {
            let digest = hex_sha256(&noise(300, 1));
            format!("{text}model/weights.bin={digest}\n").into_bytes()
        });
    }
    check_rejected(&[
        bad("without LINKS", remove_weights, "`model/weights.bin`"),
        bad(
            "LINKS is empty",
            |c| {
                remove_weights(c);
                links(c, "version = 1\n");
            },
            "`model/weights.bin`",
        ),
        bad(
            "LINKS has another file",
            |c| {
                remove_weights(c);
                links(c, format!("version = 1\n[urls]\n{} = [\"https://host/x\"]\n", hex_sha256(b"another")));
            },
            "`model/weights.bin`",
        ),
        bad(
            "a link to what is nowhere",
            |c| {
                c.remove("model/config.json");
            },
            "model/link",
        ),
    ]);
}
