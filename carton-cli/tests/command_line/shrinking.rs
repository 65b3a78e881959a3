//! Shrinking cartons, and making them whole again.

use std::fs;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Bytes that do not compress, the same each time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn pack(sandbox: &Sandbox) {
    sandbox.write("model/weights.bin", noise(100_000));
    sandbox.write("model/words.txt", "one\ntwo\n");
    sandbox.carton("pack model --runner noop").expect_code(0);
}

#[test]
fn large_files_are_left_out_and_saved() {
    let sandbox = Sandbox::new();
    pack(&sandbox);
    assert_snapshot!(sandbox.carton("shrink model.carton --url-prefix https://example.com/files/ --save-files upload"), @"
    exit code: 0
    ----- stdout -----
    97.7 KiB  model/weights.bin  https://example.com/files/[HASH]
    left out 1 file, 97.7 KiB
    shrunk model.shrunk.carton (972 B)
    manifest sha256:[HASH]
    ----- stderr -----
    ");
    assert_eq!(sandbox.files(), ["model", "model.carton", "model.shrunk.carton", "upload"]);
    let saved = crate::sandbox::names(&sandbox.work().join("upload"));
    assert_eq!(saved.len(), 1);
    assert_eq!(fs::read(sandbox.work().join("upload").join(&saved[0])).unwrap(), noise(100_000));
    let hash = |carton: &str| sandbox.carton(&format!("hash {carton}")).expect_code(0).stdout;
    assert_eq!(hash("model.shrunk.carton"), hash("model.carton"));
    assert_snapshot!(sandbox.carton("ls model.shrunk.carton"), @"
    exit code: 0
    ----- stdout -----
      SIZE  STORED  METHOD   PATH
       112      84  deflate  carton.toml
    100000       -  linked   model/weights.bin
         8       8  stored   model/words.txt
        12      12  stored   tensor_data/index.toml
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("shrink model.carton --url-prefix https://example.com --min-size 3 --json -o tiny.carton"), @r#"
    exit code: 0
    ----- stdout -----
    {
      "path": "tiny.carton",
      "manifest_sha256": "[HASH]",
      "size": 906,
      "left_out_size": 100008,
      "left_out": [{
        "path": "model/weights.bin",
        "sha256": "[HASH]",
        "size": 100000,
        "urls": ["https://example.com/[HASH]"],
        "saved": null
      }, {
        "path": "model/words.txt",
        "sha256": "[HASH]",
        "size": 8,
        "urls": ["https://example.com/[HASH]"],
        "saved": null
      }],
      "unmatched": []
    }
    ----- stderr -----
    "#);
    assert!(crate::sandbox::names(&sandbox.temporary()).is_empty());
}

#[test]
fn a_list_of_links_chooses() {
    let sandbox = Sandbox::new();
    pack(&sandbox);
    let files = sandbox.carton("ls model.carton --json").json();
    let digest = files["files"].as_array().unwrap().iter().find(|file| file["path"] == "model/words.txt").unwrap();
    let digest = digest["sha256"].as_str().unwrap();
    let other = "ab".repeat(32);
    let links = format!(
        "version = 1\n[urls]\n{digest} = ['https://a.example/w?key=secret']\n{other} = ['https://a.example/x']\n"
    );
    sandbox.write("LINKS.toml", links);
    let outcome = sandbox.carton("shrink model.carton --links LINKS.toml -o small.carton");
    assert!(!outcome.to_string().contains("secret"), "{outcome}");
    assert_snapshot!(outcome, @"
    exit code: 0
    ----- stdout -----
    8 B  model/words.txt  https://a.example/w?…
    left out 1 file, 8 B
    shrunk small.carton (102.6 KiB)
    manifest sha256:[HASH]
    ----- stderr -----
    warning: not in the carton: 1 linked file, such as [HASH]
    ");
    assert_eq!(sandbox.carton("shrink model.carton --links LINKS.toml --json").json()["unmatched"][0], other.as_str());
    sandbox.write("LINKS.toml", format!("version = 1\n[urls]\n{other} = ['https://a.example/x']\n"));
    assert_snapshot!(sandbox.carton("shrink model.carton --links LINKS.toml"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: no file of `model.carton` is among the 1 that are linked

    hint: `carton ls --json` shows the SHA-256 of each file
    ");
    sandbox.write("LINKS.toml", "version = 2");
    assert_snapshot!(sandbox.carton("shrink model.carton --links LINKS.toml"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot use `LINKS.toml`

    Caused by:
      LINKS has version 2, and only version 1 is supported
    ");
    assert_snapshot!(sandbox.carton("shrink model.carton --links model"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot use `model`: it is no regular file of at most 67108864 bytes
    ");
}

#[test]
fn invalid_requests_are_refused() {
    let sandbox = Sandbox::new();
    pack(&sandbox);
    sandbox.carton("shrink model.carton").expect_code(2);
    sandbox.carton("shrink model.carton --links a --url-prefix https://a").expect_code(2);
    sandbox.carton("shrink model.carton --links a --min-size 3").expect_code(2);
    sandbox.carton("pack --resolve model.carton --runner noop").expect_code(2);
    assert_snapshot!(sandbox.carton("shrink model.carton --url-prefix example.com"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `example.com` cannot begin the URLs of files: it is not an http, https or file URL
    ");
    assert_snapshot!(sandbox.carton("shrink model.carton --url-prefix https://me:secret@example.com"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `https://example.com/` cannot begin the URLs of files: readers of the carton could read the URL's user and password
    ");
    assert_snapshot!(sandbox.carton("shrink model.carton --url-prefix https://a --min-size 1MiB"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `model.carton` has no file of at least 1048576 bytes in its model that could be left out

    hint: leave out smaller files too: --min-size SIZE
    ");
    assert_snapshot!(sandbox.carton("shrink model.carton --url-prefix https://a -o model.carton"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `model.carton`: it is, or is in, the carton that is read

    hint: name another file to write
    ");
    assert_eq!(sandbox.files(), ["model", "model.carton"]);
}

#[test]
fn a_carton_is_made_whole() {
    let sandbox = Sandbox::new();
    pack(&sandbox);
    sandbox.carton("unpack model.carton -o unpacked").expect_code(0);
    assert_snapshot!(sandbox.carton("pack --resolve unpacked"), @"
    exit code: 0
    ----- stdout -----
    packed unpacked.carton (102.5 KiB)
    manifest sha256:[HASH]
    ----- stderr -----
    ");
    let bytes = |name: &str| fs::read(sandbox.work().join(name)).unwrap();
    assert_eq!(bytes("unpacked.carton"), bytes("model.carton"));
    fs::rename(sandbox.work().join("model.carton"), sandbox.work().join("whole.shrunk.carton")).unwrap();
    sandbox.carton("pack --resolve whole.shrunk.carton --json").expect_code(0);
    assert_eq!(bytes("whole.carton"), bytes("unpacked.carton"));
    assert_snapshot!(sandbox.carton("pack --resolve whole.carton"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `whole.carton`: it is, or is in, the carton that is read

    hint: name another file to write
    ");
    sandbox.carton("pack --resolve nothing.carton").expect_code(1);

    let upload = sandbox.work().join("upload");
    let prefix = format!("file://{}", upload.display());
    let arguments = ["shrink", "whole.carton", "--url-prefix", &prefix, "--save-files", "upload"];
    sandbox.run(arguments).expect_code(0);
    let unchecked = sandbox.carton("verify whole.shrunk.carton --offline").expect_code(7);
    assert!(unchecked.stdout.contains("1 file could not be checked"), "{unchecked}");
    let refused = sandbox.carton("pack --resolve whole.shrunk.carton -o again.carton").expect_code(1);
    assert!(refused.stderr.contains("weights.bin"), "{refused}");
    sandbox.carton("pack --resolve whole.shrunk.carton -o again.carton --allow-file-links").expect_code(0);
    assert_eq!(bytes("again.carton"), bytes("whole.carton"));
}

#[test]
fn files_are_left_out_while_packing() {
    let sandbox = Sandbox::new();
    pack(&sandbox);
    let files = sandbox.carton("ls model.carton --json").json();
    let digest_of = |path: &str| {
        let file = files["files"].as_array().unwrap().iter().find(|file| file["path"] == path).unwrap();
        file["sha256"].as_str().unwrap().to_owned()
    };
    let (weights, words) = (digest_of("model/weights.bin"), digest_of("model/words.txt"));
    sandbox.write(
        "one.toml",
        format!("version = 1\n[urls]\n{weights} = [\"https://a.example/w\", \"https://b.example/w\"]\n"),
    );
    sandbox.carton("shrink model.carton --links one.toml -o shrunk.carton").expect_code(0);
    // The result is the same to the byte, and the left-out file is never requested: the host does not exist.
    let arguments = ["pack", "model", "--runner", "noop", "-o", "packed.carton"];
    let link = |url: &str| format!("{weights}={url}");
    sandbox
        .run(arguments.into_iter().chain([
            "--link",
            &link("https://a.example/w"),
            "--link",
            &link("https://b.example/w"),
        ]))
        .expect_code(0);
    let read = |name: &str| fs::read(sandbox.work().join(name)).unwrap();
    assert!(read("packed.carton") == read("shrunk.carton"));
    sandbox.run(arguments.into_iter().chain(["--links", "one.toml"])).expect_code(0);
    assert!(read("packed.carton") == read("shrunk.carton"));
    sandbox.write("two.toml", format!("version = 1\n[urls]\n{words} = [\"https://a.example/t\"]\n"));
    sandbox
        .run(arguments.into_iter().chain(["--links", "two.toml", "--link", &link("https://a.example/w"), "--no-check"]))
        .expect_code(0);
    let listed = sandbox.carton("ls packed.carton --json").json();
    let linked = listed["files"].as_array().unwrap().iter().filter(|file| file["linked"] == true).count();
    assert_eq!(linked, 2);

    let before = read("packed.carton");
    let other = "ab".repeat(32);
    assert_snapshot!(sandbox.run(arguments.into_iter().chain(["--link", &format!("{other}=https://a.example/w")])), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: no packed file that can be left out has the SHA-256 [HASH]

    hint: `sha256sum` prints the SHA-256 of a file; `carton ls --json` lists those in a carton
    ");
    assert_snapshot!(sandbox.run(arguments.into_iter().chain(["--link", &link("https://me:secret@a.example/w")])), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `https://a.example/w` cannot be put into a carton: readers of the carton could read the URL's user and password

    hint: give the token to those who fetch: `CARTON_TOKEN_<host>`, or a netrc file
    ");
    assert_snapshot!(sandbox.run(arguments.into_iter().chain(["--link", &link("https://me:secret@a.example:99999/w")])), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `https:…` cannot be put into a carton: it is not a valid URL

    Caused by:
      invalid port number
    ");
    // A carton cannot be opened without this file.
    let metadata = digest_of("carton.toml");
    let refused = sandbox.run(arguments.into_iter().chain(["--link", &format!("{metadata}=https://a.example/m")]));
    assert!(refused.expect_code(1).stderr.contains("no packed file that can be left out has the SHA-256"));
    assert!(read("packed.carton") == before, "what was there is still there");
    let secret = "https://me:secret@a.example/w?token=secret";
    for wrong in [&format!("abc={secret}"), &link(&secret.replace("https", "ftp")), secret] {
        for json in [&[][..], &["--json"]] {
            let refused = sandbox.run(arguments.into_iter().chain(["--link", wrong]).chain(json.iter().copied()));
            assert_eq!(refused.code, 2, "{refused}");
            assert!(!format!("{refused}").contains("secret"), "{refused}");
        }
    }
    sandbox.run(["pack", "--resolve", "shrunk.carton", "--link", &link("https://a.example/w")]).expect_code(2);
}

#[test]
fn one_list_of_links_serves_a_family_of_models() {
    let sandbox = Sandbox::new();
    pack(&sandbox);
    let files = sandbox.carton("ls model.carton --json").json();
    let files = files["files"].as_array().unwrap();
    let digest_of = |path: &str| files.iter().find(|file| file["path"] == path).unwrap()["sha256"].as_str().unwrap();
    let url = |digest: &str| format!("{digest} = [\"https://a.example/{digest}\"]\n");
    let (weights, metadata, other) = (digest_of("model/weights.bin"), digest_of("carton.toml"), "ab".repeat(32));
    let family = [weights, metadata, &other].map(url).concat();
    sandbox.write("family.toml", format!("version = 1\n[urls]\n{family}"));
    sandbox.write("own.toml", format!("version = 1\n[urls]\n{}", url(weights)));
    let pack = ["pack", "model", "--runner", "noop", "-o", "packed.carton", "--links"];
    let with = |more: &[&str]| sandbox.run(pack.iter().chain(more));
    let read = || fs::read(sandbox.work().join("packed.carton")).unwrap();
    with(&["own.toml"]).expect_code(0);
    let expected = read();
    let packed = with(&["family.toml", "--json"]).expect_code(0);
    assert!(read() == expected, "only what it knows of this carton matters");
    let warning = "warning: not among the packed files that can be left out: 2 linked files, such as ";
    assert!(packed.stderr.starts_with(warning), "{packed}");
    let mut unmatched = [metadata, other.as_str()];
    unmatched.sort_unstable();
    assert_eq!(packed.json()["unmatched"], serde_json::json!(unmatched));
    assert!(with(&["own.toml", "--json"]).json().get("unmatched").is_none());
    // Files that the command line names must still be there.
    with(&["family.toml", "--link", &format!("{other}=https://a.example/o")]).expect_code(1);
    sandbox.write("others.toml", format!("version = 1\n[urls]\n{}", [metadata, &other].map(url).concat()));
    assert_snapshot!(with(&["others.toml"]), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: no file of `packed.carton` is among the 2 that are linked

    hint: `carton ls --json` shows the SHA-256 of each file
    ");
    assert!(read() == expected, "what was there is still there");
}
