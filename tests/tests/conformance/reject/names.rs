//! Names that no file of a carton can have, and links to forbidden places.

use crate::builder::{CartonBuilder, Entry};
use crate::{bad, check_rejected, unsupported};

/// Adds a file with this name, listed in MANIFEST.
fn add(carton: &mut CartonBuilder, name: impl Into<Vec<u8>>) {
    carton.add(Entry::new(name, "x"));
}

#[test]
fn names() {
    check_rejected(&[
        bad("upwards", |c| add(c, "../x"), "`../x`"),
        bad("upwards within", |c| add(c, "model/../x"), "`model/../x`"),
        bad("upwards at the end", |c| add(c, "model/.."), "`model/..`"),
        bad("upwards folder", |c| c.add(Entry::folder("model/../../")), "model/../.."),
        bad("here", |c| add(c, "./x"), "`./x`"),
        bad("here within", |c| add(c, "model/./x"), "`model/./x`"),
        bad("absolute", |c| add(c, "/etc/x"), "`/etc/x`"),
        bad("only a slash", |c| c.add(Entry::folder("/")), "not allowed"),
        bad("two slashes", |c| add(c, "model//x"), "`model//x`"),
        bad("two slashes at the start", |c| add(c, "//host/x"), "`//host/x`"),
        bad("a folder with two slashes", |c| c.add(Entry::folder("model//")), "model/"),
        bad("empty", |c| add(c, ""), "empty"),
        bad("back slash", |c| add(c, r"model\x"), r"model\\x"),
        bad("back slashes upwards", |c| add(c, r"..\..\x"), r"..\\..\\x"),
        bad("a drive", |c| add(c, r"C:\x"), r"C:\\x"),
        bad("back slashes upwards below a folder", |c| add(c, r"misc/..\..\x"), r"misc/..\\..\\x"),
        bad("a back slash and a dot", |c| add(c, r"misc/.\x"), r"misc/.\\x"),
        bad("a back slash and nothing", |c| add(c, r"misc/\x"), r"misc/\\x"),
        bad("a drive below a folder", |c| add(c, r"misc/C:\x"), r"misc/C:\\x"),
        bad("newline", |c| add(c, "model/a\nb"), r"model/a\nb"),
        bad(
            "newline that forges MANIFEST",
            |c| {
                let line = format!("model/x={}\nmodel/y", "0".repeat(64));
                add(c, line);
            },
            r"\nmodel/y",
        ),
        bad("carriage return", |c| add(c, "model/a\rb"), r"model/a\rb"),
        bad("NUL", |c| add(c, "model/a\0b"), r"model/a\x00b"),
        bad("NUL at the end", |c| add(c, "model/a\0"), r"model/a\x00"),
        bad("not UTF-8", |c| add(c, b"model/\xff\xfe"), r"model/\xff\xfe"),
        bad(
            "not UTF-8 and not said to be",
            |c| c.add(Entry { flags: 0, ..Entry::new(b"model/\xe9t\xe9", "x") }),
            r"model/\xe9t\xe9",
        ),
        bad("overlong UTF-8", |c| add(c, b"model/\xc0\xae\xc0\xae/x"), r"\xc0\xae"),
        bad("a surrogate", |c| add(c, b"model/\xed\xa0\x80"), r"\xed\xa0\x80"),
        bad("longer than any path", |c| add(c, "model/".repeat(700)), "longer than"),
    ]);
}

#[test]
fn names_beside_each_other() {
    check_rejected(&[
        bad(
            "twice for those who take a back slash for a slash",
            |c| {
                add(c, "misc/a/b");
                add(c, r"misc/a\b");
            },
            r"`misc/a\b`",
        ),
        bad(
            "inside a file for those who take a back slash for a slash",
            |c| {
                add(c, "misc/a");
                add(c, r"misc/a\b");
            },
            r"`misc/a\b`",
        ),
        bad("twice", |c| c.add(Entry::new("model/config.json", "x")), "`model/config.json`"),
        bad(
            "twice the same",
            |c| {
                let same = c.entry("model/config.json").clone();
                c.add(same);
            },
            "`model/config.json`",
        ),
        bad("MANIFEST twice", |c| c.add(Entry::new("MANIFEST", "x")), "`MANIFEST`"),
        bad("carton.toml twice", |c| add(c, "carton.toml"), "`carton.toml`"),
        bad("a file in a file", |c| add(c, "model/config.json/x"), "`model/config.json/x`"),
        bad("a file in a link", |c| add(c, "model/link/x"), "`model/link/x`"),
        bad("a file and a folder", |c| c.add(Entry::folder("model/config.json/")), "`model/config.json`"),
        bad("a file called model", |c| add(c, "model"), "`model`"),
        bad(
            "a folder twice",
            |c| {
                c.add(Entry::folder("model/"));
                c.add(Entry::folder("model/"));
            },
            "model",
        ),
        bad("a link and a file", |c| c.add(Entry::symlink("model/config.json", "weights.bin")), "`model/config.json`"),
    ]);
}

#[test]
fn links_that_lead_nowhere_good() {
    fn link(carton: &mut CartonBuilder, target: impl Into<Vec<u8>>) {
        carton.add(Entry::symlink("model/bad_link", target));
    }
    check_rejected(&[
        bad("to itself", |c| link(c, "bad_link"), "`model/bad_link`"),
        bad(
            "two in a circle",
            |c| {
                c.add(Entry::symlink("model/one", "two"));
                c.add(Entry::symlink("model/two", "one"));
            },
            "circle",
        ),
        bad(
            "three in a circle, reached from a fourth",
            |c| {
                for (name, target) in [("model/a", "b"), ("model/b", "c"), ("model/c", "d"), ("model/d", "b")] {
                    c.add(Entry::symlink(name, target));
                }
            },
            "circle",
        ),
        bad("out of the carton", |c| link(c, "../../x"), "`../../x`"),
        bad("far out of the carton", |c| link(c, "../../../../../../etc/passwd"), "etc/passwd"),
        bad("out and in again", |c| link(c, "../../carton/model/config.json"), "`model/bad_link`"),
        bad("out of the model", |c| link(c, "../misc/picture"), "leaves the model"),
        bad("to carton.toml", |c| link(c, "../carton.toml"), "leaves the model"),
        bad("absolute", |c| link(c, "/etc/passwd"), "/etc/passwd"),
        bad("to nothing", |c| link(c, "nothing"), "`nothing`"),
        bad("to a folder", |c| link(c, "../model"), "`../model`"),
        bad("to its own folder", |c| link(c, "."), "`model/bad_link`"),
        bad("to the top", |c| c.add(Entry::symlink("top", "model/..")), "`top`"),
        bad("to MANIFEST", |c| c.add(Entry::symlink("misc/m", "../MANIFEST")), "`misc/m`"),
        bad("no target", |c| link(c, ""), "`model/bad_link`"),
        bad("a NUL", |c| link(c, "config.json\0"), "`model/bad_link`"),
        bad("a newline", |c| link(c, "config\n.json"), "`model/bad_link`"),
        bad("a back slash", |c| link(c, r"..\config.json"), "`model/bad_link`"),
        bad("not UTF-8", |c| link(c, b"\xff"), "`model/bad_link`"),
        bad(
            "through another link",
            |c| {
                c.add(Entry::symlink("model/to_folder", "folder"));
                c.add(Entry::new("model/folder/file", "x"));
                link(c, "to_folder/file");
            },
            "model/",
        ),
        bad(
            "with the digest of its text",
            |c| {
                c.manifest = crate::builder::Manifest::Edited(|text| {
                    let text_digest = crate::builder::hex_sha256(b"config.json");
                    let edit = |line: &str| match line.starts_with("model/link=") {
                        true => format!("model/link={text_digest}\n"),
                        false => format!("{line}\n"),
                    };
                    text.lines().map(edit).collect::<String>().into_bytes()
                });
            },
            "`model/link`",
        ),
        bad(
            "MANIFEST is a link",
            |c| {
                c.manifest = crate::builder::Manifest::Absent;
                let right = CartonBuilder::little().manifest_bytes().unwrap();
                c.add(Entry::new("misc/manifest", right));
                c.add(Entry::symlink("MANIFEST", "misc/manifest"));
            },
            "MANIFEST",
        ),
        bad(
            "LINKS is a link",
            |c| {
                c.add(Entry::new("misc/links", "version = 1\n"));
                c.add(Entry::symlink("LINKS", "misc/links"));
            },
            "LINKS",
        ),
        bad(
            "the data of a link is damaged",
            |c| {
                c.entry("model/link").change_data = Some(|data| data[0] ^= 1);
            },
            "`model/link`",
        ),
    ]);
    check_rejected(&[unsupported(
        "a link with a folder's name",
        |c| {
            c.add(Entry { mode: 0o120_777, ..Entry::folder("model/odd/") });
        },
        "model/odd/",
    )]);
}
