//! Which files of a folder `carton pack` packs, and secrets among them.

use std::os::unix::fs::symlink;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// A sandbox with a folder of a model, as people have them.
fn with_folder() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in [
        "weights.bin",
        "notes.log",
        "keep.log",
        ".git/HEAD",
        ".git/objects/a",
        "wandb/run",
        "src/__pycache__/a.pyc",
        "src/a.txt",
    ] {
        sandbox.write(&format!("m/{name}"), "1234");
    }
    sandbox
}

/// The files of the model in `m.carton`.
fn model_files(sandbox: &Sandbox) -> Vec<String> {
    let listed: serde_json::Value =
        serde_json::from_str(&sandbox.carton("ls m.carton --json").expect_code(0).stdout).unwrap();
    let paths = listed["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned());
    paths.filter_map(|path| path.strip_prefix("model/").map(str::to_owned)).collect()
}

#[test]
fn what_no_model_needs_is_left_out_and_listed() {
    let sandbox = with_folder();
    assert_snapshot!(sandbox.carton("pack m --runner noop"), @"
    exit code: 0
    ----- stdout -----
    packed m.carton (1.0 KiB)
    manifest sha256:[HASH]
    loads in noop 0.1.0; no self-tests
    ----- stderr -----
    not packed: .git/ (2 files, 8 B)
    not packed: src/__pycache__/ (1 file, 4 B)
    not packed: wandb/ (1 file, 4 B)
    ");
    assert_eq!(model_files(&sandbox), ["keep.log", "notes.log", "src/a.txt", "weights.bin"]);
    sandbox.write("m/.cartonignore", "# logs\n*.log\n!keep.log\n!wandb/\n");
    let packed = sandbox.carton("pack m --runner noop --exclude src --json").expect_code(0);
    assert_eq!(model_files(&sandbox), ["keep.log", "wandb/run", "weights.bin"]);
    let packed: serde_json::Value = serde_json::from_str(&packed.stdout).unwrap();
    let left_out = packed["not_packed"].as_array().unwrap();
    let named: Vec<_> =
        left_out.iter().map(|one| (one["path"].as_str().unwrap(), one["n_files"].as_u64().unwrap())).collect();
    assert_eq!(named, [(".cartonignore", 1), (".git/", 2), ("notes.log", 1), ("src/", 2)]);
    let refused = sandbox.carton("pack m --runner noop --exclude [z-a]").expect_code(1);
    assert!(refused.stderr.contains("--exclude: `[z-a]` is no pattern of files"), "{refused}");
    assert!(sandbox.carton("pack m --runner noop --exclude **").expect_code(1).stderr.contains("has no files"));
}

#[test]
fn a_link_to_a_file_that_is_left_out_becomes_the_file() {
    let sandbox = with_folder();
    symlink("notes.log", sandbox.work().join("m/linked")).unwrap();
    sandbox.carton("pack m --runner noop --exclude notes.log").expect_code(0);
    assert!(model_files(&sandbox).contains(&"linked".to_owned()));
    sandbox.carton("verify m.carton").expect_code(0);
    sandbox.carton("unpack m.carton -o u").expect_code(0);
    assert_eq!(std::fs::read(sandbox.work().join("u/model/linked")).unwrap(), b"1234");
}

#[test]
fn secrets_stop_and_are_not_shown() {
    let sandbox = with_folder();
    sandbox.write("m/.env", "API_KEY=hush");
    sandbox.write("m/src/train.py", format!("a\ntoken = 'ghp_{}'\n", "x".repeat(36)));
    let refused = sandbox.carton("pack m --runner noop --opt env.TOKEN=AKIAIOSFODNN7EXAMPLE");
    assert_snapshot!(refused, @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the model has what looks like a secret:
      `.env`: environment variables
      `src/train.py`, line 2: a token of GitHub
      `env.TOKEN`: an access key of AWS

    hint: leave it out by a line in .cartonignore, or by --exclude .env; if it is no secret, pack it by --allow-secret .env
    ");
    assert!(
        !refused.stderr.contains("hush") && !refused.stderr.contains("xxxx") && !refused.stderr.contains("AKIA"),
        "{refused}"
    );
    assert!(!sandbox.work().join("m.carton").exists());
    let refused = sandbox.carton("pack m --runner noop --exclude .env").expect_code(1);
    assert!(!refused.stderr.contains(".env") && refused.stderr.contains("`src/train.py`, line 2"), "{refused}");
    sandbox.carton("pack m --runner noop --exclude .env --allow-secret ./m/src/train.py").expect_code(0);
    sandbox.carton("pack m --runner noop --allow-secret .env --allow-secret src/train.py").expect_code(0);
    assert!(model_files(&sandbox).contains(&".env".to_owned()));
}

#[test]
fn a_readme_that_is_left_out_is_not_kept_beside_the_model() {
    let sandbox = with_folder();
    sandbox.write("m/README.md", "---\nlicense: mit\n---\nAKIAIOSFODNN7EXAMPLE\n");
    let refused = sandbox.carton("pack m --runner noop").expect_code(1);
    assert!(
        refused.stderr.contains("`README.md`, line 4: an access key") && !refused.stderr.contains("misc/"),
        "{refused}"
    );
    let packed = sandbox.carton("pack m --runner noop --exclude README.md").expect_code(0);
    assert!(packed.stderr.contains("not packed: README.md"), "{packed}");
    assert!(!sandbox.carton("ls m.carton").expect_code(0).stdout.contains("README"));
    sandbox.carton("pack m --runner noop --allow-secret README.md").expect_code(0);
    assert!(sandbox.carton("ls m.carton").expect_code(0).stdout.contains("misc/README.md"));
}

#[test]
fn secrets_beside_the_model_stop_too() {
    let sandbox = with_folder();
    sandbox.write("notes.md", "AKIAIOSFODNN7EXAMPLE\n");
    sandbox.write("carton.toml", "model_description = 'AKIAIOSFODNN7EXAMPLE'\n");
    let refused = |arguments: &str, expected: &str| {
        let refused = sandbox.carton(&format!("pack m --runner noop {arguments}")).expect_code(1);
        assert!(refused.stderr.contains(expected) && !refused.stderr.contains("AKIA"), "{refused}");
    };
    refused("--misc notes.md", "`misc/notes.md`, line 1: an access key of AWS");
    refused("--misc notes.md", "hint: take it out; if it is no secret, pack it by --allow-secret misc/notes.md");
    refused("--opt key=AKIAIOSFODNN7EXAMPLE", "`opts.key`: an access key of AWS");
    refused("--metadata carton.toml", "`model_description`: an access key of AWS");
    let allowed =
        "--misc notes.md --allow-secret misc/notes.md --metadata carton.toml --allow-secret model_description";
    sandbox.carton(&format!("pack m --runner noop {allowed}")).expect_code(0);
}

#[test]
fn a_link_to_a_secret_is_judged_by_what_it_leads_to() {
    let sandbox = with_folder();
    sandbox.write(".env", "API_KEY=hush");
    symlink("../.env", sandbox.work().join("m/settings")).unwrap();
    let refused = sandbox.carton("pack m --runner noop").expect_code(1);
    assert!(refused.stderr.contains("`settings`: environment variables"), "{refused}");
}

#[test]
fn what_is_left_out_may_be_anything() {
    let sandbox = with_folder();
    symlink("nowhere", sandbox.work().join("m/broken")).unwrap();
    std::fs::write(sandbox.work().join("m/a\\b"), "").unwrap();
    let packed =
        sandbox.carton(r"pack m --runner noop --exclude broken --exclude a?b --exclude ./notes.log").expect_code(0);
    assert!(packed.stderr.contains("warning: the pattern `./notes.log` leaves nothing out"), "{packed}");
    sandbox.write("model.bin", "1234");
    let refused = sandbox.carton("pack model.bin --runner noop --exclude a").expect_code(1);
    assert!(refused.stderr.contains("is one file, and `a` can leave nothing of it out"), "{refused}");
    symlink("nowhere", sandbox.work().join("m/.cartonignore")).unwrap();
    let refused = sandbox.carton("pack m --runner noop").expect_code(1);
    assert!(refused.stderr.contains("cannot open") && refused.stderr.contains(".cartonignore"), "{refused}");
}

#[test]
fn a_file_is_the_one_that_its_digest_says() {
    let sandbox = with_folder();
    sandbox.write("model.bin", "1234");
    let digest = "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4";
    sandbox.carton(&format!("pack model.bin#sha256={digest} --runner noop -o a.carton")).expect_code(0);
    let other = digest.replace('3', "4");
    let refused = sandbox.carton(&format!("pack model.bin#sha256={other} --runner noop -o b.carton")).expect_code(1);
    assert!(refused.stderr.contains(&format!("expected SHA-256 {other}, found {digest}")), "{refused}");
    assert!(!sandbox.work().join("b.carton").exists());
    let refused = sandbox.carton(&format!("pack m#sha256={digest} --runner noop")).expect_code(1);
    assert!(refused.stderr.contains("is a folder, which has no SHA-256"), "{refused}");
}

#[test]
fn a_file_that_is_a_secret_itself() {
    let sandbox = Sandbox::new();
    sandbox.write("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n");
    let refused = sandbox.carton("pack id_rsa --runner noop").expect_code(1);
    assert!(refused.stderr.contains("`id_rsa`: a private key") && !refused.stderr.contains("b3Bl"), "{refused}");
}
