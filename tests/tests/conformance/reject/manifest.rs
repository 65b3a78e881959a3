//! MANIFEST missing, malformed, or different from the files in the carton.

use crate::builder::{CartonBuilder, Entry, Manifest, hex_sha256};
use crate::{bad, check_rejected};

/// Edits MANIFEST.
fn edit(carton: &mut CartonBuilder, edit: fn(String) -> Vec<u8>) {
    carton.manifest = Manifest::Edited(edit);
}

/// Appends a line to the text.
fn with_line(text: &str, line: &[u8]) -> Vec<u8> {
    [text.as_bytes(), line, b"\n"].concat()
}

const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn missing() {
    check_rejected(&[
        bad("no MANIFEST", |c| c.manifest = Manifest::Absent, "no file MANIFEST"),
        bad(
            "in lower case",
            |c| {
                let bytes = c.manifest_bytes().unwrap();
                c.manifest = Manifest::Absent;
                c.add(Entry::new("manifest", bytes));
            },
            "no file MANIFEST",
        ),
        bad(
            "in a folder",
            |c| {
                let bytes = c.manifest_bytes().unwrap();
                c.manifest = Manifest::Absent;
                c.add(Entry::new("little/MANIFEST", bytes));
            },
            "no file MANIFEST",
        ),
        bad(
            "a folder",
            |c| {
                c.manifest = Manifest::Absent;
                c.add(Entry::folder("MANIFEST/"));
            },
            "MANIFEST",
        ),
        bad("no carton.toml", |c| drop(c.remove("carton.toml")), "carton.toml"),
        bad(
            "carton.toml is a folder",
            |c| {
                c.remove("carton.toml");
                c.add(Entry::folder("carton.toml/"));
            },
            "carton.toml",
        ),
    ]);
}

#[test]
fn malformed() {
    check_rejected(&[
        bad("empty", |c| edit(c, |_| Vec::new()), "not listed in MANIFEST"),
        bad("only a newline", |c| edit(c, |_| b"\n".to_vec()), "MANIFEST line 1"),
        bad("a line without an equals sign", |c| edit(c, |text| with_line(&text, b"model/x")), "`model/x`"),
        bad(
            "a line without a path",
            |c| edit(c, |text| with_line(&text, format!("={ZEROS}").as_bytes())),
            "MANIFEST line 10",
        ),
        bad("a line without a digest", |c| edit(c, |text| with_line(&text, b"model/x=")), "`model/x`"),
        bad("an empty line at the end", |c| edit(c, |text| with_line(&text, b"")), "MANIFEST line 10"),
        bad("an empty line at the start", |c| edit(c, |text| format!("\n{text}").into_bytes()), "MANIFEST line 1"),
        bad("a short digest", |c| edit(c, |text| text.replacen("=", "=\n", 1).into_bytes()), "MANIFEST line 1"),
        bad("a long digest", |c| edit(c, |text| text.replacen('\n', "0\n", 1).into_bytes()), "MANIFEST line 1"),
        bad(
            "capital digits",
            |c| {
                edit(c, |text| {
                    let (path, rest) = text.split_once('=').unwrap();
                    format!("{path}={}{}", rest[..64].to_uppercase(), &rest[64..]).into_bytes()
                });
            },
            "MANIFEST line 1",
        ),
        bad("no digits", |c| edit(c, |text| with_line(&text, format!("x={}", "g".repeat(64)).as_bytes())), "`x`"),
        bad(
            "a space before the digest",
            |c| edit(c, |text| text.replacen('=', "= ", 1).into_bytes()),
            "MANIFEST line 1",
        ),
        bad(
            "a space before the equals sign",
            |c| edit(c, |text| text.replacen('=', " =", 1).into_bytes()),
            "`carton.toml ",
        ),
        bad(
            "a space behind the digest",
            |c| edit(c, |text| text.replacen('\n', " \n", 1).into_bytes()),
            "MANIFEST line 1",
        ),
        bad("a colon", |c| edit(c, |text| text.replacen('=', ":", 1).into_bytes()), "MANIFEST line 1"),
        bad("Windows line ends", |c| edit(c, |text| text.replace('\n', "\r\n").into_bytes()), "MANIFEST line 1"),
        bad("old Macintosh line ends", |c| edit(c, |text| text.replace('\n', "\r").into_bytes()), "MANIFEST line 1"),
        bad("a byte order mark", |c| edit(c, |text| format!("\u{feff}{text}").into_bytes()), "carton.toml"),
        bad("UTF-16", |c| edit(c, |text| text.encode_utf16().flat_map(u16::to_le_bytes).collect()), "MANIFEST line 1"),
        bad("a comment", |c| edit(c, |text| format!("# the files\n{text}").into_bytes()), "# the files"),
        bad(
            "not UTF-8",
            |c| {
                edit(c, |text| with_line(&text, &[b"model/\xff=".as_slice(), ZEROS.as_bytes()].concat()));
            },
            r"model/\xff",
        ),
        bad("NUL", |c| edit(c, |text| with_line(&text, format!("model/\0={ZEROS}").as_bytes())), r"model/\x00"),
        bad("upwards", |c| edit(c, |text| with_line(&text, format!("../x={ZEROS}").as_bytes())), "`../x`"),
        bad("absolute", |c| edit(c, |text| with_line(&text, format!("/x={ZEROS}").as_bytes())), "`/x`"),
        bad("a folder", |c| edit(c, |text| with_line(&text, format!("model/={ZEROS}").as_bytes())), "`model/`"),
        bad("a back slash", |c| edit(c, |text| with_line(&text, format!("model\\x={ZEROS}").as_bytes())), "model"),
        bad("two lines for a file", |c| edit(c, |text| text.repeat(2).into_bytes()), "`carton.toml` twice"),
        bad(
            "two digests for a file",
            |c| {
                edit(c, |text| with_line(&text, format!("carton.toml={ZEROS}").as_bytes()));
            },
            "`carton.toml` twice",
        ),
        bad(
            "a file in a file",
            |c| {
                edit(c, |text| with_line(&text, format!("carton.toml/x={ZEROS}").as_bytes()));
            },
            "`carton.toml/x`",
        ),
        bad("itself", |c| edit(c, |text| with_line(&text, format!("MANIFEST={ZEROS}").as_bytes())), "`MANIFEST`"),
        bad(
            "LINKS",
            |c| {
                c.add(Entry::new("LINKS", "version = 1\n[urls]\n"));
                edit(c, |text| {
                    let digest = hex_sha256(b"version = 1\n[urls]\n");
                    with_line(&text, format!("LINKS={digest}").as_bytes())
                });
            },
            "`LINKS`",
        ),
        bad("cut off", |c| edit(c, |text| text.as_bytes()[..text.len() - 9].to_vec()), "tensor_data/tensor_1.toml"),
    ]);
}

#[test]
fn against_what_is_there() {
    check_rejected(&[
        bad(
            "a file too many",
            |c| {
                edit(c, |text| with_line(&text, format!("model/ghost={ZEROS}").as_bytes()));
            },
            "`model/ghost`",
        ),
        bad("a file too few", |c| edit(c, without::<'w'>), "`model/weights.bin`"),
        bad("a link too few", |c| edit(c, without::<'l'>), "`model/link`"),
        bad("without carton.toml", |c| edit(c, |text| text.split_once('\n').unwrap().1.into()), "`carton.toml`"),
        bad(
            "the digest of another file",
            |c| {
                edit(c, |text| {
                    let digest = hex_sha256(&crate::builder::noise(300, 1));
                    text.replace(&digest, ZEROS).into_bytes()
                });
            },
            "digest mismatch for `model/weights.bin`",
        ),
        bad(
            "a folder for a listed file",
            |c| {
                c.remove("model/weights.bin");
                c.add(Entry::folder("model/weights.bin/"));
                edit(c, |text| with_line(&text, format!("model/weights.bin={ZEROS}").as_bytes()));
            },
            "`model/weights.bin`",
        ),
        bad("another case", |c| edit(c, |text| text.replace("config.json", "Config.json").into_bytes()), "onfig.json`"),
        bad(
            "another way to write an ü",
            |c| {
                c.add(Entry::new("model/\u{fc}", "x"));
                edit(c, |text| text.replace('\u{fc}', "u\u{308}").into_bytes());
            },
            "model/",
        ),
    ]);
}

/// The text without the line of the model file whose name begins with this letter.
fn without<const LETTER: char>(text: String) -> Vec<u8> {
    let start = format!("model/{LETTER}");
    let kept = text.lines().filter(|line| !line.starts_with(&start));
    kept.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}
