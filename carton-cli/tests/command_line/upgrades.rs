//! What every release before this one wrote is read for ever (`tests/fixtures`), and what later ones write is left alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use carton_core::Config;
use carton_core::config::ProxyConfig;
use carton_core::runner::PLATFORM;
use carton_core::sandbox::SandboxMode;
use carton_server::ServeConfig;

use crate::sandbox::{Outcome, Sandbox, names, outcome};

/// The folders that earlier releases wrote.
fn releases() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let entries = fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path());
    let mut releases: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    releases.sort();
    assert!(!releases.is_empty());
    releases
}

/// The releases whose runners are stored. Those of a version are stored when it is released: until then they would be copies of what is here.
fn releases_with_runners() -> Option<Vec<PathBuf>> {
    let releases: Vec<PathBuf> = releases().into_iter().filter(|release| release.join("runners").is_dir()).collect();
    if releases.is_empty() {
        println!("skipped: no release has stored its runners");
    }
    Some(releases).filter(|releases| !releases.is_empty())
}

/// A copy that can be written to, as the cache has to be.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), &to).unwrap()),
        }
    }
}

/// A sandbox whose working folder has a copy of what a release wrote, and the hash of its carton.
fn sandbox_of(release: &Path) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    copy(release, &sandbox.work());
    let hash = fs::read_to_string(release.join("manifest")).unwrap().trim().to_owned();
    (sandbox, hash)
}

/// Runs the command with this cache.
fn with_cache(sandbox: &Sandbox, cache: &Path, arguments: &str) -> Outcome {
    outcome(sandbox.command(arguments.split(' ')).env("CARTON_CACHE_DIR", cache))
}

#[test]
fn cartons_of_earlier_releases_are_read() {
    for release in releases() {
        let (sandbox, hash) = sandbox_of(&release);
        for carton in ["cartons/packed.carton", "cartons/unpacked"] {
            let found = sandbox.run(["hash", carton]).expect_code(0).stdout;
            assert_eq!(found.trim(), hash, "{carton}");
        }
        for carton in ["packed.carton", "safetensors.carton", "ztensor.carton", "unpacked"] {
            let carton = format!("cartons/{carton}");
            sandbox.run(["verify", &carton]).expect_code(0);
            let report = sandbox.run(["run", &carton, "--self-test", "--json"]).expect_code(0).json();
            assert_eq!(report["self_tests"].as_array().unwrap().len(), 2, "{report}");
            assert_eq!(report["passed"], true, "{report}");
        }
    }
}

#[test]
fn shrunk_cartons_of_earlier_releases_become_whole_again() {
    for release in releases() {
        let (sandbox, hash) = sandbox_of(&release);
        let found = sandbox.run(["hash", "cartons/shrunk.carton"]).expect_code(0).stdout;
        assert_eq!(found.trim(), hash);
        // The files that it links to are found in the cache, under their hashes, without a server.
        let cache = sandbox.work().join("cache-of-links");
        let linked = names(&sandbox.work().join("cartons/files"));
        assert!(!linked.is_empty());
        for digest in &linked {
            let shard = cache.join("files-v1").join(&digest[..2]);
            fs::create_dir_all(&shard).unwrap();
            fs::copy(sandbox.work().join("cartons/files").join(digest), shard.join(digest)).unwrap();
        }
        for folder in [cache.clone(), cache.join("files-v1")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        }
        with_cache(&sandbox, &cache, "run cartons/shrunk.carton --self-test --offline").expect_code(0);
    }
}

#[test]
fn caches_of_earlier_releases_are_used_again() {
    for release in releases() {
        let (sandbox, hash) = sandbox_of(&release);
        let cache = sandbox.work().join("cache");
        let run = format!("run http://127.0.0.1:18431/packed.carton#sha256={hash} --self-test --offline");
        with_cache(&sandbox, &cache, &run).expect_code(0);
        // Without what the release wrote, the same is impossible.
        with_cache(&sandbox, &sandbox.work().join("empty"), &run).expect_code(7);
        let report = with_cache(&sandbox, &cache, "cache verify --json").expect_code(0).json();
        assert_eq!(report["damaged"].as_array().unwrap().len(), 0, "{report}");
        let listing = with_cache(&sandbox, &cache, "cache ls --json").expect_code(0).json();
        assert_eq!(listing["cartons"][0]["manifest_sha256"], hash, "{listing}");
        assert_eq!(listing["cartons"][0]["model_name"], "digits", "{listing}");
    }
}

#[test]
fn configurations_of_earlier_releases_mean_the_same() {
    for release in releases() {
        let path = release.join("config.toml");
        let mut unknown = Vec::new();
        let config = Config::load_reporting(Some(&path), &mut |_, key| unknown.push(key.to_string())).unwrap();
        assert_eq!(unknown, Vec::<String>::new());
        assert_eq!(config.runner_dir, release.join("runners"));
        assert_eq!(config.runner_data_dir, release.join("runner_data"));
        assert_eq!(config.cache_dir, release.join("cache"));
        assert_eq!(config.runner_index.as_deref(), Some("https://example.com/index.json"));
        assert!(config.auto_install && config.offline && config.allow_file_links && config.allow_private_links);
        assert_eq!(config.idle_timeout, Some(Duration::from_millis(12_500)));
        assert_eq!((config.max_retries, config.n_ranges), (Some(7), Some(8)));
        let ProxyConfig::Through { proxy, except } = &config.proxy else { panic!("{:?}", config.proxy) };
        assert_eq!(proxy.expose_str(), "http://me:secret@proxy.example.com:3128/");
        assert_eq!(except, &["corp.example.com", "10.0.0.0/8"]);
        assert_eq!(config.sandbox.mode, SandboxMode::Strict);
        let allow = &config.sandbox.allow;
        assert!(allow.network && allow.build && allow.read == [Path::new("/srv/data")], "{allow:?}");
        let limits = &config.sandbox.limits;
        assert_eq!((limits.memory, limits.processes), (Some(8_000_000_000), Some(100)));
        assert_eq!((limits.open_files, limits.file_size, limits.cpu_seconds), (Some(200), Some(1_000_000), Some(60)));
        assert_eq!(config.sandbox.cgroup.as_deref(), Some(Path::new("/sys/fs/cgroup/carton")));
        assert_eq!(config.sandbox.wrapper, ["nice", "-n", "10"]);
        let [first, second] = config.trust.as_slice() else { panic!("{:?}", config.trust) };
        assert_eq!(first.places, ["https://models.example.com/**", "/srv/models/**"]);
        assert_eq!(
            (&first.keys, &first.certificates),
            (&vec![release.join("release.pub.pem")], &vec![release.join("ca.pem")])
        );
        assert_eq!(
            (first.identities.as_slice(), first.required),
            (["release@example.com".to_owned()].as_slice(), false)
        );
        assert_eq!(second.trusted_root, Some(release.join("trusted_root.json")));
        assert_eq!(second.issuer.as_deref(), Some("https://token.actions.githubusercontent.com"));
        assert!(second.required);
        let [token, variable, ..] = config.credentials.tokens.as_slice() else { panic!("{:?}", config.credentials) };
        assert_eq!((token.host.as_str(), token.allow_http), ("models.example.com", true));
        assert!(token.token.is_some());
        assert_eq!(
            (variable.host.as_str(), variable.variable.as_deref()),
            ("hub.example.com:8443", Some("EXAMPLE_TOKEN"))
        );
        assert!(config.credentials.netrc.is_none());
        assert_eq!(config.hub.as_deref(), Some("https://hub.example.com"));
        let [registry] = config.registries.as_slice() else { panic!("{:?}", config.registries) };
        assert_eq!((registry.host.as_str(), registry.plain_http), ("registry.example.com:5000", Some(true)));
        assert_eq!(registry.mirrors, ["https://mirror.example.com"]);
    }
}

#[test]
fn server_configurations_of_earlier_releases_mean_the_same() {
    for release in releases() {
        let config = ServeConfig::read(&release.join("serve.toml")).unwrap();
        assert_eq!((config.http.len(), config.grpc.len()), (2, 1));
        assert_eq!(config.repository, Some(release.join("cartons")));
        assert!(config.repository_api && config.public_pages);
        assert_eq!(config.allowed_origins, ["https://app.example.com"]);
        assert_eq!(config.token_file, Some(release.join("tokens")));
        assert_eq!(config.admin_token_file, Some(release.join("admin-tokens")));
        assert_eq!(config.access_log, Some(release.join("access.jsonl")));
        assert_eq!(config.drain_delay, Some(Duration::from_millis(500)));
        assert_eq!(config.drain_timeout, Some(Duration::from_secs(10)));
        let tls = config.tls.as_ref().unwrap();
        assert_eq!((&tls.certificate, &tls.key), (&release.join("server.pem"), &release.join("server.key")));
        assert_eq!(tls.client_roots, Some(release.join("clients.pem")));
        let limits = &config.limits;
        assert_eq!((limits.body_bytes, limits.call_bytes, limits.connections), (1_000_000, 10_000_000, 10));
        assert_eq!((limits.headers, limits.header_bytes), (50, 16_384));
        assert_eq!((limits.header_timeout, limits.body_pause), (Duration::from_secs(5), Duration::from_millis(2500)));
        assert_eq!((limits.answer_pause, limits.call_timeout), (Duration::from_secs(5), Some(Duration::from_secs(20))));
        assert_eq!(config.defaults.instances.map(usize::from), Some(1));
        let [model] = config.models.as_slice() else { panic!("{:?}", config.models) };
        assert_eq!(model.location.as_deref(), release.join("cartons/packed.carton").to_str());
        assert_eq!((model.name.as_deref(), model.version.as_deref()), (Some("digits"), Some("2")));
        let hash = fs::read_to_string(release.join("manifest")).unwrap();
        assert_eq!(model.expect.map(|hash| hash.to_string()).as_deref(), Some(hash.trim()));
        assert_eq!((model.instances.map(usize::from), model.max_batch.map(usize::from)), (Some(2), Some(8)));
        assert_eq!(
            (model.max_delay_ms, model.timeout),
            (Some(Duration::from_micros(1500)), Some(Duration::from_secs(10)))
        );
        assert_eq!((model.max_queue, model.self_test), (Some(16), Some(true)));
        assert_eq!((model.device.as_deref(), model.runner.as_deref()), (Some("cpu"), Some("onnx")));
        assert_eq!((model.options.len(), model.sandbox), (1, Some(SandboxMode::On)));
        assert_eq!((model.allow.read.len(), model.limits.memory), (1, Some(4_000_000_000)));
    }
}

/// The files of an interpreter that starts a stored runner, where they are not among those of the system.
fn interpreter_files(python: &Path) -> Vec<String> {
    let question =
        "import sys; print('\\n'.join(sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.executable})))";
    let answer = Command::new(python).args(["-I", "-c", question]).output().unwrap();
    assert!(answer.status.success(), "{} does not run", python.display());
    String::from_utf8(answer.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Puts this machine into the description of a runner that was installed on another one.
fn adopt(descriptor: &Path, files: &[String]) {
    let text = fs::read_to_string(descriptor).unwrap();
    let (mut adopted, mut section) = (String::new(), "");
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
        }
        adopted.push_str(&match line.split_once(" = ") {
            Some(("platform", _)) => format!("platform = \"{PLATFORM}\"\n"),
            Some(("read", _)) if section == "[runner.sandbox]" => String::new(),
            _ if line == "[runner.sandbox]" => format!("{line}\nread = {files:?}\n"),
            _ => format!("{line}\n"),
        });
    }
    fs::write(descriptor, adopted).unwrap();
}

#[test]
fn runners_of_earlier_releases_run_models() {
    let Some(releases) = releases_with_runners() else { return };
    for release in releases {
        let (sandbox, _) = sandbox_of(&release);
        copy(&release.join("runners"), &sandbox.runner_dir());
        adopt(&sandbox.runner_dir().join("plain/runner.toml"), &interpreter_files("/usr/bin/python3".as_ref()));
        let answer = sandbox.run(["run", "cartons/echo.carton", "-i", "x=[1.5, 2.5]", "--json"]).expect_code(0).json();
        assert_eq!(answer["outputs"]["x"]["data"].to_string(), "[1.5,2.5]");
    }
}

#[test]
fn python_runners_of_earlier_releases_run_models() {
    let (Some(releases), Some(python)) = (releases_with_runners(), carton_tests::python_runner::interpreter()) else {
        return;
    };
    for release in releases {
        let (sandbox, _) = sandbox_of(&release);
        copy(&release.join("runners"), &sandbox.runner_dir());
        let folder = sandbox.runner_dir().join("python");
        adopt(&folder.join("runner.toml"), &interpreter_files(&python));
        let run = fs::read_to_string(folder.join("run")).unwrap();
        let (_, rest) = run.split_once('\n').unwrap();
        fs::write(folder.join("run"), format!("#!{} -IB\n{rest}", python.display())).unwrap();
        sandbox.write("model/main.py", "def predict(x):\n    return {\"y\": x * 2}\n");
        let command =
            ["run", "model", "--runner", "python", "--opt", "infer_fn=predict", "-i", "x=[1.5, 2.5]", "--json"];
        let answer = sandbox.run(command).expect_code(0).json();
        assert_eq!(answer["outputs"]["y"]["data"].to_string(), "[3.0,5.0]");
    }
}

#[test]
fn tensor_files_and_datasets_of_earlier_releases_are_read() {
    for release in releases() {
        let (sandbox, _) = sandbox_of(&release);
        let tensor = |file: &str, name: &str| {
            let file = format!("tensors/cases.{file}#{name}");
            let printed = sandbox.run(["tensor", "cat", &file, "--json"]).expect_code(0).json();
            printed["tensor"].clone()
        };
        for file in ["safetensors", "zt"] {
            sandbox.run(["tensor", "verify", &format!("tensors/cases.{file}")]).expect_code(0);
            for name in ["images", "probabilities"] {
                let expected = tensor("npz", name);
                assert!(expected["data"].is_array(), "{expected}");
                assert_eq!(tensor(file, name), expected, "{name} in {file}");
            }
        }
        sandbox.carton("dataset verify dataset").expect_code(0);
        let report = sandbox.carton("dataset ls dataset --json").expect_code(0).json();
        assert_eq!(report["samples"], 3, "{report}");
    }
}

#[test]
fn caches_of_later_releases_are_left_alone() {
    let sandbox = Sandbox::new();
    let later = sandbox.write("cache/files-v2/1f/anything", "in a format that is not known yet");
    let cache = sandbox.work().join("cache");
    for folder in [cache.clone(), cache.join("files-v2"), cache.join("files-v2/1f")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let note = "a later release of Carton keeps files-v2 in `[CACHE]`, which this one leaves alone";
    for command in ["ls", "verify", "prune"] {
        let answer = with_cache(&sandbox, &cache, &format!("cache {command}")).expect_code(0);
        let stderr = answer.stderr.replace(cache.to_str().unwrap(), "[CACHE]");
        assert!(stderr.contains(note), "{command}: {stderr}");
    }
    let findings = with_cache(&sandbox, &cache, "doctor --json").json()["findings"].clone();
    let found = findings.as_array().unwrap().iter().find(|finding| finding["detail"].to_string().contains("files-v2"));
    assert_eq!(found.unwrap()["status"], "warning", "{findings}");
    // Models run, beside it.
    let digits = crate::sandbox::digits("model.onnx");
    with_cache(&sandbox, &cache, &format!("pack {digits} -o m.carton")).expect_code(0);
    assert_eq!(fs::read_to_string(&later).unwrap(), "in a format that is not known yet");
    assert_eq!(names(&cache.join("files-v2")), ["1f"]);
}
