//! `carton cache`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Runs two models that share a file, with a runner that needs folders.
fn load_two(sandbox: &Sandbox) {
    sandbox.write("one/shared.bin", "shared ".repeat(100_000));
    sandbox.write("one/own.bin", "one");
    sandbox.write("two/shared.bin", "shared ".repeat(100_000));
    sandbox.write("two/own.bin", "two");
    for name in ["one", "two"] {
        sandbox.carton(&format!("pack {name} --runner noop")).expect_code(0);
        sandbox.carton(&format!("run {name}.carton -i x=1")).expect_code(0);
    }
}

/// The bucket of the cache with this name.
fn bucket(sandbox: &Sandbox, name: &str) -> std::path::PathBuf {
    sandbox.work().parent().unwrap().join("cache").join(name)
}

/// Masks the sizes in a command's output: recorded paths, and so sizes, depend on the temporary folder.
fn masked(outcome: &crate::sandbox::Outcome) -> String {
    let text = outcome.to_string();
    let mut pieces = text.split(" KiB").peekable();
    let mut masked = String::new();
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        let kept = if is_last { piece } else { piece.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') };
        masked.push_str(kept);
        masked.push_str(if is_last { "" } else { "[KIB]" });
    }
    masked
}

/// Sets the last use of every carton to `days` ago.
fn age(sandbox: &Sandbox, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60 + 60);
    for carton in fs::read_dir(bucket(sandbox, "cartons-v1")).unwrap() {
        fs::File::open(carton.unwrap().path()).unwrap().set_modified(time).unwrap();
    }
}

/// The only file of the store.
fn store(sandbox: &Sandbox) -> std::path::PathBuf {
    let shard = fs::read_dir(bucket(sandbox, "files-v1")).unwrap().next().unwrap().unwrap().path();
    fs::read_dir(shard).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn an_empty_cache() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("cache ls"), @"
    exit code: 0
    ----- stdout -----
    0 cartons, 0 B in [SANDBOX]/cache
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("cache ls --json"), @r#"
    exit code: 0
    ----- stdout -----
    {
      "path": "[SANDBOX]/cache",
      "cartons": [],
      "downloads": [],
      "files": 0,
      "file_bytes": 0,
      "shared_bytes": 0,
      "bytes": 0
    }
    ----- stderr -----
    "#);
    assert_snapshot!(sandbox.carton("cache prune"), @"
    exit code: 0
    ----- stdout -----
    deleted 0 cartons and 0 interrupted downloads: 0 B, 0 B left
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("cache verify"), @"
    exit code: 0
    ----- stdout -----
    OK 0 files, 0 B, all are intact
    ----- stderr -----
    ");
}

#[test]
fn what_models_left_is_listed_and_pruned() {
    let sandbox = Sandbox::new();
    load_two(&sandbox);
    age(&sandbox, 3);
    assert_snapshot!(masked(&sandbox.carton("cache ls")), @"
    exit code: 0
    ----- stdout -----
    NAME       SIZE  LAST USED   MANIFEST                                                          FROM
    -     [KIB]  3 days ago  [HASH]  [SANDBOX]/work/two.carton
    -     [KIB]  3 days ago  [HASH]  [SANDBOX]/work/one.carton

    2 cartons, [KIB] in [SANDBOX]/cache, [KIB] of it shared
    ----- stderr -----
    ");
    let list = sandbox.carton("cache ls --json").expect_code(0).json();
    assert_eq!(list["cartons"].as_array().unwrap().len(), 2);
    assert_snapshot!(masked(&sandbox.carton("cache prune --older-than 4d")), @"
    exit code: 0
    ----- stdout -----
    deleted 0 cartons and 0 interrupted downloads: 0 B, [KIB] left
    ----- stderr -----
    ");
    assert_snapshot!(masked(&sandbox.carton("cache prune --dry-run")), @"
    exit code: 0
    ----- stdout -----
    would delete 2 cartons and 0 interrupted downloads: [KIB], 0 B left
    ----- stderr -----
    ");
    let pruned = sandbox.carton("cache prune --max-size 0 --json").expect_code(0).json();
    assert!(pruned["cartons"][0]["last_used"].as_u64().unwrap() > 1_700_000_000);
    for (key, expected) in [("files", 1), ("freed", list["bytes"].as_u64().unwrap()), ("remaining", 0), ("in_use", 0)] {
        assert_eq!(pruned[key], expected, "{key}");
    }
    assert_snapshot!(sandbox.carton("cache ls"), @"
    exit code: 0
    ----- stdout -----
    0 cartons, 0 B in [SANDBOX]/cache
    ----- stderr -----
    ");
    sandbox.carton("run one.carton -i x=1").expect_code(0);
}

#[test]
fn a_damaged_file_is_found_and_made_again() {
    let sandbox = Sandbox::new();
    load_two(&sandbox);
    assert_snapshot!(sandbox.carton("cache verify"), @"
    exit code: 0
    ----- stdout -----
    OK 1 file, 683.6 KiB, all are intact
    ----- stderr -----
    ");
    let path = store(&sandbox);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[5000] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_snapshot!(sandbox.carton("cache verify"), @"
    exit code: 4
    ----- stdout -----
    BAD [SANDBOX]/cache/files-v1/9b/[HASH]: expected [HASH], found [HASH]
    1 damaged and deleted, of 1 file, 683.6 KiB
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("cache verify --json"), @r#"
    exit code: 0
    ----- stdout -----
    {
      "passed": true,
      "files": 0,
      "bytes": 0,
      "damaged": []
    }
    ----- stderr -----
    "#);
    sandbox.carton("run one.carton -i x=1").expect_code(0);
}

#[test]
fn invalid_limits_are_refused() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("cache prune --older-than 30"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value '30' for '--older-than <DURATION>': no unit, expected s, m, h, d or w

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("cache prune --max-size much"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value 'much' for '--max-size <SIZE>': expected a size such as 500MB, 10G or 1.5GiB

    For more information, try '--help'.
    ");
}

#[test]
fn a_cache_that_others_can_write_to() {
    let sandbox = Sandbox::new();
    let cache = bucket(&sandbox, "");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let outcome = sandbox.carton("cache ls").expect_code(1);
    assert!(outcome.stderr.contains("is not safe to use") && outcome.stderr.contains("mode 777"), "{outcome}");
    assert!(outcome.stderr.contains("or set CARTON_CACHE_DIR to a folder"), "{outcome}");
}

#[test]
fn single_cartons_are_listed_and_removed_by_name_hash_or_url() {
    let sandbox = Sandbox::new();
    for name in ["one", "two"] {
        sandbox.write(&format!("{name}/shared.bin"), "shared ".repeat(100_000));
        sandbox.write(&format!("{name}/own.bin"), format!("{name} ").repeat(30_000));
        sandbox.write(&format!("{name}.toml"), format!("model_name = \"twin {name}\"\n"));
        sandbox.carton(&format!("pack {name} --runner noop --metadata {name}.toml")).expect_code(0);
        sandbox.carton(&format!("run {name}.carton -i x=1")).expect_code(0);
    }
    let list = sandbox.carton("cache ls --json").expect_code(0).json();
    let hash = |name: &str| {
        let cartons = list["cartons"].as_array().unwrap();
        let carton = cartons.iter().find(|carton| carton["model_name"] == format!("twin {name}")).unwrap();
        assert_eq!(carton["path"], sandbox.work().join(format!("{name}.carton")).to_str().unwrap());
        assert_eq!(carton["address"], serde_json::Value::Null);
        carton["manifest_sha256"].as_str().unwrap().to_owned()
    };
    let (one, two) = (hash("one"), hash("two"));
    let dry = sandbox.carton("cache prune -n --json").expect_code(0).json();
    assert_eq!(dry["cartons"].as_array().unwrap().len(), 2);
    assert_eq!(dry["freed"], list["bytes"]);
    let text = sandbox.carton("cache ls").expect_code(0).stdout;
    assert!(text.starts_with("NAME "), "{text}");
    assert!(text.contains("twin one") && text.contains("one.carton"), "{text}");
    assert_snapshot!(sandbox.carton("cache rm three"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the cache has no carton `three`

    hint: `carton cache ls` lists those that are there
    ");
    assert_snapshot!(sandbox.carton("cache rm https://me:secret@host/a.carton?token=secret"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the cache has no carton `https://host/a.carton?…`

    hint: `carton cache ls` lists those that are there
    ");
    assert_eq!(sandbox.carton("cache ls --json").json(), list);

    let removed = sandbox.run(["cache", "rm", "twin one", "--json"]).expect_code(0).json();
    assert_eq!(removed["cartons"][0]["manifest_sha256"], one);
    assert_eq!(removed["files"], 1, "the shared file stays");
    let left = sandbox.carton("cache ls --json").json();
    assert_eq!(left["cartons"].as_array().unwrap().len(), 1);
    assert_eq!(left["bytes"], removed["remaining"]);
    sandbox.carton("run two.carton -i x=1 --offline").expect_code(0);
    assert_snapshot!(masked(&sandbox.carton(&format!("cache rm {}", &two[..8]))), @"
    exit code: 0
    ----- stdout -----
    deleted 1 carton: [KIB], 0 B left
    ----- stderr -----
    ");
    assert_eq!(sandbox.carton("cache ls --json").json()["bytes"], 0);

    // Named by the file that was loaded.
    sandbox.carton("run two.carton -i x=1").expect_code(0);
    sandbox.carton("cache rm one.carton").expect_code(1);
    sandbox.carton("cache rm two.carton").expect_code(0);
    assert_eq!(sandbox.carton("cache ls --json").json()["bytes"], 0);
}
