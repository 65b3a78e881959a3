//! Python models in real environments, made by a real `uv` from the package index. If something for that is missing, the test says so and
//! is skipped.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use crate::sandbox::{Outcome, Sandbox, outcome};

/// A model that needs only the standard library.
const DOUBLE: &str = "class Model:\n    def infer_with_tensors(self, tensors):\n        return {'y': tensors['x'] * 2}\n\n\n\
                      def get_model():\n    return Model()\n";
const DOUBLED: [&str; 4] = ["-i", "x=[1.5, 2.0]", "--json", "-v"];

/// A sandbox with an installed python runner, and the tools to make environments.
pub(crate) struct Site {
    pub(crate) sandbox: Sandbox,
    uv: PathBuf,
    interpreter: PathBuf,
}

impl Site {
    /// Returns `None` if there is no `uv` or no usable Python.
    pub(crate) fn new() -> Option<Self> {
        let beside_python =
            std::env::var_os("CARTON_TEST_PYTHON").map(|python| Path::new(&python).with_file_name("uv"));
        let in_path = std::env::var_os("PATH")
            .into_iter()
            .flat_map(|path| std::env::split_paths(&path).map(|folder| folder.join("uv")).collect::<Vec<_>>());
        let works =
            |uv: &PathBuf| Command::new(uv).arg("--version").output().is_ok_and(|output| output.status.success());
        let Some(uv) = beside_python.into_iter().chain(in_path).find(works) else {
            eprintln!("skipped: there is no uv (scripts/test brings one)");
            return None;
        };
        let sandbox = Sandbox::new();
        let mut install = sandbox.command(["runner", "install", "python", "--without-uv", "--json"]);
        let installed = outcome(install.env("PATH", std::env::var_os("PATH").unwrap_or_default()));
        if installed.code != 0 {
            eprintln!("skipped: there is no Python for the runner: {}", installed.stdout);
            return None;
        }
        let interpreter = installed.json()["source"].as_str().unwrap().into();
        sandbox.write("double.py", DOUBLE);
        let site = Self { sandbox, uv, interpreter };
        // What an earlier test has downloaded. The runner has a cache of its own, wherever the user's is.
        copy_by_links(&downloads(), &site.cache());
        Some(site)
    }

    /// The command, configured with `uv`, an environment folder of its own, and this machine's way to the package index.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(arguments);
        for (name, value) in std::env::vars_os() {
            let text = name.to_string_lossy().to_ascii_uppercase();
            if ["UV_", "PIP_", "SSL_"].iter().any(|start| text.starts_with(start)) || text.ends_with("_PROXY") {
                command.env(name, value);
            }
        }
        command.env("UV", &self.uv).env("CARTON_RUNNER_DATA_DIR", self.data());
        command
    }

    pub(crate) fn carton(&self, arguments: &[&str]) -> Outcome {
        outcome(&mut self.command(arguments))
    }

    fn data(&self) -> PathBuf {
        self.sandbox.work().with_file_name("data")
    }

    fn cache(&self) -> PathBuf {
        self.data().join("python/uv-cache")
    }

    /// The existing environments, complete or not.
    fn environments(&self) -> Vec<PathBuf> {
        let folder = self.data().join("python/environments-v1");
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    }

    /// Packs the model in this folder of `runners/python/tests/models`.
    fn pack(&self, model: &str, options: &[&str]) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runners/python/tests/models").join(model);
        let output = format!("{model}.carton");
        // Not checked, because the tests observe how the environment is made when the carton is run.
        let arguments = ["pack", folder.to_str().unwrap(), "--runner", "python", "--no-check", "-o", &output];
        self.carton(&[&arguments, options].concat()).expect_code(0);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Another test may have done so; what is there stays.
        if !downloads().exists() {
            let new = downloads().with_extension(std::process::id().to_string());
            copy_by_links(&self.cache(), &new);
            let _ = fs::rename(&new, downloads());
        }
    }
}

/// What tests have downloaded.
fn downloads() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-downloads")
}

/// Makes a folder of hard links to the files of another one. Does nothing if that is not there; on another file system there are no links, and
/// each test downloads for itself.
fn copy_by_links(from: &Path, to: &Path) {
    if from.exists() && fs::create_dir_all(to.parent().unwrap()).is_ok() {
        let _ = Command::new("cp").arg("-al").args([from, to]).stderr(std::process::Stdio::null()).status();
    }
}

/// The outputs of `--json`, without values that differ from run to run.
fn outputs(outcome: &Outcome) -> Value {
    let mut json = outcome.json();
    json["outputs"].take()
}

#[test]
fn a_model_of_scikit_learn_predicts_what_it_did_in_python() {
    let Some(site) = Site::new() else { return };
    site.pack("iris", &[]);
    let listed = site.carton(&["ls", "iris.carton", "--json"]).expect_code(0);
    assert!(listed.stdout.contains("model/.carton/requirements.lock"), "{listed}");
    site.carton(&["unpack", "iris.carton", "-o", "unpacked"]).expect_code(0);
    let lock = fs::read_to_string(site.sandbox.work().join("unpacked/model/.carton/requirements.lock")).unwrap();
    assert!(lock.contains("\nscikit-learn==1.7.2") && lock.contains("\nnumpy==") && !lock.contains("://"), "{lock}");

    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runners/python/tests/models/iris.json");
    let recorded: Value = serde_json::from_str(&fs::read_to_string(recorded).unwrap()).unwrap();
    let features = format!("features={}", recorded["features"]);
    let run = ["run", "iris.carton", "-i", &features, "--json", "-v"];
    let first = site.carton(&run).expect_code(0);
    assert!(first.stderr.contains("making the Python environment"), "{first}");
    let found = outputs(&first);
    assert_eq!(found["species"]["data"], recorded["species"]);
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()).map(|x| x.as_f64().unwrap()).collect()
    };
    let pairs = numbers(&found["probabilities"]["data"]).into_iter().zip(numbers(&recorded["probabilities"]));
    let largest = pairs.map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max);
    assert!(largest < 1e-9, "largest difference {largest}");

    // The environment exists now, so neither network nor uv is needed.
    let mut again = site.command(&[&run[..], &["--offline"]].concat());
    let again = outcome(again.env("UV", "/nothing")).expect_code(0);
    assert!(!again.stderr.contains("making the Python environment"), "{again}");
    assert_eq!(outputs(&again), found);
}

#[test]
fn bundled_wheels_need_no_network() {
    let Some(site) = Site::new() else { return };
    site.pack("messages", &["--bundle-wheels"]);
    let listed = site.carton(&["ls", "messages.carton"]).expect_code(0);
    let n_wheels =
        listed.stdout.lines().filter(|line| line.contains(".carton/wheels/") && line.ends_with(".whl")).count();
    assert_eq!(n_wheels, 2, "{listed}");
    // [1, 2, 3] and [200, 100] as msgpack writes them.
    let messages = "messages=[[147, 1, 2, 3], [146, 204, 200, 100]]";
    let run = |carton: &str| {
        let mut command = site.command(&["run", carton, "-i", messages, "--offline", "--json"]);
        command.env("UV_OFFLINE", "1").env("HTTPS_PROXY", "http://127.0.0.1:9");
        outcome(&mut command)
    };
    assert_eq!(outputs(&run("messages.carton").expect_code(0))["sums"]["data"], json!([6, 300]));
    site.pack("messages", &[]);
    fs::remove_dir_all(site.data()).unwrap();
    let refused = run("messages.carton").expect_code(7);
    let error = refused.json();
    assert!(refused.stdout.contains("the network must not be used"), "{refused}");
    assert!(error["error"]["hint"].as_str().unwrap().contains("--bundle-wheels"), "{refused}");
    assert!(site.environments().is_empty());
}

#[test]
fn eight_processes_make_one_environment() {
    let Some(site) = Site::new() else { return };
    site.carton(&["pack", "double.py", "--runner", "python", "--no-check", "-o", "double.carton"]).expect_code(0);
    for count in [2, 8] {
        let _ = fs::remove_dir_all(site.data());
        let arguments = [&["run", "double.carton"], &DOUBLED[..]].concat();
        let outcomes: Vec<Outcome> = thread::scope(|scope| {
            let commands: Vec<Command> = (0..count).map(|_| site.command(&arguments)).collect();
            let started: Vec<_> =
                commands.into_iter().map(|mut command| scope.spawn(move || outcome(&mut command))).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for outcome in &outcomes {
            assert_eq!(outcome.code, 0, "{outcome}");
            assert_eq!(outputs(outcome)["y"]["data"], json!([3.0, 4.0]));
        }
        let makers = outcomes.iter().filter(|outcome| outcome.stderr.contains("making the Python environment")).count();
        assert_eq!((makers, site.environments().len()), (1, 1));
    }
}

/// The runner process that `host` has started.
fn runner_of(host: u32) -> Option<Pid> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).find_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        if parent == host.to_string() { Pid::from_raw(pid) } else { None }
    })
}

#[test]
fn an_environment_left_by_a_kill_is_made_again() {
    if !cfg!(target_os = "linux") {
        eprintln!("skipped: processes are found in /proc");
        return;
    }
    let Some(site) = Site::new() else { return };
    site.carton(&["pack", "double.py", "--runner", "python", "--no-check", "-o", "double.carton"]).expect_code(0);
    let arguments = [&["run", "double.carton"], &DOUBLED[..]].concat();
    for kills_host in [true, false] {
        let _ = fs::remove_dir_all(site.data());
        let mut host = site.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while !site.environments().iter().any(|folder| folder.join("requirements.txt").exists()) {
            assert!(Instant::now() < end, "no environment was begun");
            thread::sleep(Duration::from_millis(1));
        }
        let runner = runner_of(host.id());
        if kills_host {
            kill_process(Pid::from_child(&host), Signal::KILL).unwrap();
        }
        if let Some(runner) = runner {
            let _ = kill_process_group(runner, Signal::KILL);
        }
        let status = host.wait().unwrap();
        let mut said = String::new();
        host.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        if !kills_host {
            assert_eq!(status.code(), Some(6), "{said}");
        }
        let unfinished = site.environments();
        assert!(unfinished.len() == 1 && !unfinished[0].join("complete").exists(), "it was too late for a kill");
        let again = site.carton(&arguments).expect_code(0);
        assert!(again.stderr.contains("making the Python environment"), "{again}");
        assert_eq!(outputs(&again)["y"]["data"], json!([3.0, 4.0]));
    }
}

#[test]
fn environments_that_cannot_be_made_are_ordinary_failures() {
    let Some(site) = Site::new() else { return };
    site.sandbox.write("m/model.py", DOUBLE);
    site.sandbox.write("m/requirements.txt", "numpy=1.26\n");
    let refused = site.carton(&["pack", "m", "--runner", "python"]).expect_code(1);
    for part in ["cannot prepare the model", "line 1 of requirements.txt is no requirement", "hint: write"] {
        assert!(refused.stderr.contains(part), "{part}: {refused}");
    }
    site.carton(&["pack", "double.py", "--runner", "python", "--no-check", "-o", "double.carton"]).expect_code(0);
    let place = site.data().join("python");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(site.data()).unwrap();
    fs::write(&place, "in the way").unwrap();
    let arguments = [&["run", "double.carton"], &DOUBLED[..]].concat();
    let refused = outcome(&mut site.command(&arguments)).expect_code(1);
    assert!(refused.to_string().contains("with CARTON_RUNNER_DATA_DIR"), "{refused}");
}

#[test]
fn unused_environments_are_pruned() {
    let Some(site) = Site::new() else { return };
    let flag = site.sandbox.work().join("loaded");
    let sleeping = format!("{DOUBLE}\nimport time\nopen({flag:?}, 'w').close()\ntime.sleep(600)\n");
    site.sandbox.write("sleeping.py", &sleeping);
    site.carton(&["pack", "sleeping.py", "--runner", "python", "--no-check", "-o", "sleeping.carton"]).expect_code(0);
    // A confined model cannot write the flag.
    let arguments = [&["run", "sleeping.carton", "--sandbox", "off"], &DOUBLED[..]].concat();
    let mut host = site.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let prune =
        |options: &[&str]| site.carton(&[&["runner", "prune", "--json"], options].concat()).expect_code(0).json();
    while !flag.exists() {
        assert!(Instant::now() < end, "the model is not loaded");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(prune(&["--dry-run"])["in_use"], json!(1));
    assert_eq!(prune(&[])["environments"], json!([]));
    kill_process(Pid::from_child(&host), Signal::KILL).unwrap();
    host.wait().unwrap();
    while prune(&["--dry-run"])["in_use"] != json!(0) {
        assert!(Instant::now() < end, "the environment is in use for ever");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(prune(&["--older-than", "1h"])["environments"], json!([]));
    assert_eq!(prune(&[])["environments"].as_array().map(Vec::len), Some(1));
    assert_eq!(site.environments(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn without_uv_the_error_names_the_command_that_installs_it() {
    let Some(site) = Site::new() else { return };
    let has_module = Command::new(&site.interpreter).args(["-I", "-m", "uv", "--version"]).output();
    if has_module.is_ok_and(|output| output.status.success()) || site.interpreter.with_file_name("uv").exists() {
        eprintln!("skipped: the interpreter of the runner brings uv");
        return;
    }
    site.carton(&["pack", "double.py", "--runner", "python", "--no-check", "-o", "double.carton"]).expect_code(0);
    let mut run = site.command(&["run", "double.carton", "-i", "x=[1.0]"]);
    let refused = outcome(run.env_remove("UV").env("PATH", "/nothing")).expect_code(5);
    assert!(
        refused.stderr.contains("`uv`, which makes the environments of Python models, is not on this machine"),
        "{refused}"
    );
    let interpreter = site.interpreter.display();
    let hint = format!("hint: install it: `carton runner install python`, `{interpreter} -m pip install uv`");
    assert!(refused.stderr.contains(&hint), "{refused}");
    let mut pack = site.command(&["pack", "double.py", "--runner", "python"]);
    outcome(pack.env_remove("UV").env("PATH", "/nothing")).expect_code(5);
}

#[test]
fn a_carton_of_the_original_brings_its_wheels() {
    let Some(site) = Site::new() else { return };
    let make = r#"
import hashlib, os, platform, sys, zipfile
wheel = "spare_parts-1.0-py3-none-any.whl"
with zipfile.ZipFile(wheel, "w") as file:
    file.writestr("spare_parts/__init__.py", "FACTOR = 3\n")
    file.writestr("spare_parts-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: spare-parts\nVersion: 1.0\n")
    file.writestr("spare_parts-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    file.writestr("spare_parts-1.0.dist-info/RECORD", "spare_parts/__init__.py,,\n")
sha256 = hashlib.sha256(open(wheel, "rb").read()).hexdigest()
bundled = ".carton/bundled_wheels/" + sha256
os.makedirs("m/" + bundled)
os.rename(wheel, "m/" + bundled + "/" + wheel)
open("m/.carton/carton.lock", "w").write(f'''
# THIS FILE IS AUTOGENERATED BY CARTON AND SHOULD NOT BE MANUALLY EDITED

orig_deps_hash = "{"0" * 64}"

[[lockfile]]
os_name = "{os.name}"
sys_platform = "{sys.platform}"
platform_machine = "{platform.machine()}"
platform_python_implementation = "CPython"
python_version = "{sys.version_info[0]}.{sys.version_info[1]}"

[[lockfile.locked_deps]]
sha256 = "{sha256}"
bundled_whl_path = "{bundled}/{wheel}"
''')
open("m/model.py", "w").write('''
from spare_parts import FACTOR

class Model:
    def infer_with_tensors(self, tensors):
        return {"y": tensors["x"] * FACTOR}

def get_model():
    return Model()
''')
"#;
    let work = site.sandbox.work();
    assert!(Command::new(&site.interpreter).args(["-c", make]).current_dir(&work).status().unwrap().success());
    site.carton(&["pack", "m", "--runner", "python", "--no-check", "-o", "m.carton"]).expect_code(0);
    let listed = site.carton(&["ls", "m.carton"]).expect_code(0);
    assert!(!listed.stdout.contains("requirements.lock"), "{listed}");
    let run = ["run", "m.carton", "-i", "x=[1.0, 2.0]", "--json"];
    assert_eq!(outputs(&site.carton(&run).expect_code(0))["y"]["data"], json!([3.0, 6.0]));

    // A wheel that differs from the locked one.
    let lock = work.join("m/.carton/carton.lock");
    let text = fs::read_to_string(&lock).unwrap();
    let (before, hash) = text.split_once("\nsha256 = \"").unwrap();
    let other = if hash.starts_with('1') { '2' } else { '1' };
    fs::write(&lock, format!("{before}\nsha256 = \"{other}{}", &hash[1..])).unwrap();
    fs::remove_dir_all(site.data()).unwrap();
    site.carton(&["pack", "m", "--runner", "python", "--no-check", "-o", "m.carton"]).expect_code(0);
    let refused = site.carton(&run);
    assert_ne!(refused.code, 0);
    assert!(refused.stdout.contains("its hash differs"), "{refused}");
}

#[test]
fn what_is_packed_in_the_originals_conventions_has_the_locks_of_both() {
    let Some(site) = Site::new() else { return };
    site.sandbox.write("m/model.py", DOUBLE.replace("tensors['x'] * 2", "tensors['x'].__imul__(2)"));
    site.sandbox.write("m/requirements.txt", "msgpack\n");
    site.carton(&["pack", "m", "--runner", "python", "-o", "m.carton"]).expect_code(0);
    site.carton(&["unpack", "m.carton", "-o", "u"]).expect_code(0);
    let work = site.sandbox.work();
    let read = |path: &str| fs::read_to_string(work.join(path)).unwrap();
    let theirs = read("u/model/.carton/carton.lock");
    let values = |key: &str| -> Vec<String> {
        let lines = theirs.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = '")?.strip_suffix('\''));
        lines.map(str::to_owned).collect()
    };
    // The SHA-256 of requirements.txt, computed by `sha256sum`.
    assert_eq!(values("orig_deps_hash"), ["dadca4498d695dd880db16130d1ea33f0d2a239646c518a1ca17f84b9859c979"]);
    assert_eq!(theirs.matches("[[lockfile]]").count(), 1, "{theirs}");
    for name in ["os_name", "sys_platform", "platform_machine", "platform_python_implementation", "python_version"] {
        assert_eq!(values(name).len(), 1, "{theirs}");
    }
    let ours = read("u/model/.carton/requirements.lock");
    assert_eq!((values("sha256").len(), values("url").len()), (2, 2), "{theirs}");
    // The same files as in this runner's own lock, from public URLs.
    assert!(values("sha256").iter().all(|sha256| ours.contains(sha256)), "{theirs}");
    let is_plain = |url: &String| url.starts_with("https://") && url.ends_with(".whl") && !url.contains(['@', '?']);
    assert!(values("url").iter().all(is_plain), "{theirs}");
    // The original looks for both names.
    let metadata = read("u/carton.toml");
    for option in ["entrypoint_package = \"model\"", "entrypoint_fn = \"get_model\""] {
        assert!(metadata.contains(option), "{metadata}");
    }
    assert!(metadata.contains("runner_compat_version = 1\n"), "{metadata}");
    let doubled = outputs(&site.carton(&[&["run", "m.carton"], &DOUBLED[..]].concat()).expect_code(0));
    assert_eq!(doubled["y"]["data"], json!([3.0, 4.0]));

    // A structure that only this runner reads has a compat version of its own, for which the runner is installed.
    site.sandbox.write("f/model.py", "def double(x):\n    return {'y': x * 2}\n");
    let pack = ["pack", "f", "--runner", "python", "-o", "f.carton", "--opt", "infer_fn=double"];
    site.carton(&pack).expect_code(0);
    // The runner gives the warning both when it packs and when it loads the packed model.
    let pack = ["pack", "f", "--runner", "python", "-o", "g.carton", "--opt", "infer_fn=double", "--opt", "nonsense=1"];
    let warned = site.carton(&pack);
    assert_eq!(warned.expect_code(0).stderr.matches("unknown option `nonsense`").count(), 1);
    site.carton(&["unpack", "f.carton", "-o", "uf"]).expect_code(0);
    let metadata = read("uf/carton.toml");
    assert!(metadata.contains("runner_compat_version = 2\n"), "{metadata}");
    let ran = site.carton(&[&["run", "f.carton"], &DOUBLED[..]].concat()).expect_code(0);
    assert_eq!(outputs(&ran), doubled);
    // The other compat version is refused, not ignored.
    site.sandbox.write("one.toml", "[runner]\nrunner_compat_version = 1\n");
    let refused = site.carton(&[&pack[..], &["--metadata", "one.toml"]].concat()).expect_code(6);
    assert!(refused.stderr.contains("cannot have `runner_compat_version` 1"), "{refused}");

    // The lock of the original is enough: with it alone the model runs, too, in another environment.
    fs::remove_file(work.join("u/model/.carton/requirements.lock")).unwrap();
    fs::remove_file(work.join("u/model/requirements.txt")).unwrap();
    site.carton(&["pack", "u/model", "--runner", "python", "-o", "theirs.carton"]).expect_code(0);
    let listed = site.carton(&["ls", "theirs.carton"]).expect_code(0);
    assert!(listed.stdout.contains("carton.lock") && !listed.stdout.contains("requirements.lock"), "{listed}");
    fs::remove_dir_all(site.data()).unwrap();
    let again = site.carton(&[&["run", "theirs.carton"], &DOUBLED[..]].concat()).expect_code(0);
    assert!(again.stderr.contains("making the Python environment of the model: 2 packages"), "{again}");
    assert_eq!(outputs(&again), doubled);

    // Bundled wheels are locked with their paths, and need no network.
    site.carton(&["pack", "m", "--runner", "python", "-o", "b.carton", "--bundle-wheels"]).expect_code(0);
    site.carton(&["unpack", "b.carton", "-o", "b"]).expect_code(0);
    fs::remove_dir_all(site.data()).unwrap();
    for file in [".carton/requirements.lock", ".carton/wheels.lock", "requirements.txt"] {
        fs::remove_file(work.join("b/model").join(file)).unwrap();
    }
    site.carton(&["pack", "b/model", "--runner", "python", "-o", "theirs.carton"]).expect_code(0);
    let offline = site.carton(&[&["run", "theirs.carton", "--offline"], &DOUBLED[..]].concat()).expect_code(0);
    assert_eq!(outputs(&offline), doubled);
}

/// A model that looks for a word everywhere a process can see, and reports where it was found.
const LOOKS: &str = r#"
import os

def look(word):
    word = word[()][::-1].encode()
    places = {"os.environ": repr(os.environ).encode()}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open("/proc/%s/stat" % pid).read().rpartition(")")[2].split()
            # What belongs to the runner, but not its host.
            if int(fields[2]) == os.getpgrp():
                places["process " + pid] = open("/proc/%s/environ" % pid, "rb").read()
        except OSError:
            pass
    return {"found": "; ".join(name for name, data in places.items() if word in data), "n": len(places)}
"#;

#[test]
fn credentials_of_package_indexes_do_not_reach_the_model() {
    if !cfg!(target_os = "linux") {
        eprintln!("skipped: processes are looked at in /proc");
        return;
    }
    let Some(site) = Site::new() else { return };
    site.sandbox.write("looks.py", LOOKS);
    site.carton(&["pack", "looks.py", "--runner", "python", "-o", "looks.carton", "--opt", "infer_fn=look"])
        .expect_code(0);
    let _ = fs::remove_dir_all(site.data());
    // The index that uv uses here, so that the one of pip with the secret does not stand for it.
    let configured =
        ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"].into_iter().find_map(|name| std::env::var(name).ok());
    let index = configured.unwrap_or_else(|| "https://pypi.org/simple".to_owned());
    // The first call makes an environment, the second finds it.
    for _ in 0..2 {
        // A confined model sees no process at all.
        let mut command = site.command(&["run", "looks.carton", "-i", "word=\"terces\"", "--json", "--sandbox", "off"]);
        command.env("UV_INDEX_MINE_PASSWORD", "secret").env("PIP_INDEX_URL", "https://me:secret@index.example/simple");
        command.env("UV_DEFAULT_INDEX", &index).env("NETRC", "/home/me/secret").env("FTP_PROXY", "secret");
        command.env("CARTON_TOKEN_index_example", "secret").env("CARTON_RUNNER_INDEX", "/secret.json");
        let looked = outputs(&outcome(&mut command).expect_code(0));
        assert_eq!(looked["found"]["data"], json!(""), "{looked}");
        assert!(looked["n"]["data"].as_i64().unwrap() >= 2, "{looked}");
    }
}

#[test]
fn missing_devices_are_reported_before_anything_is_fetched() {
    let Some(site) = Site::new() else { return };
    site.carton(&["pack", "double.py", "--runner", "python", "-o", "double.carton"]).expect_code(0);
    let _ = fs::remove_dir_all(site.data());
    for (device, expected) in [
        ("foo", "`foo` names no device: expected `cpu`, the index of a GPU, or its name"),
        ("99", "device `99` cannot be used"),
        ("GPU-00000000", "device `GPU-00000000` cannot be used"),
    ] {
        let arguments = [&["run", "double.carton", "--device", device], &DOUBLED[..2]].concat();
        let refused = site.carton(&arguments).expect_code(5);
        assert!(refused.stderr.contains(expected), "{refused}");
        assert!(refused.stderr.contains("hint: use the device `cpu`"), "{refused}");
    }
    assert!(site.environments().is_empty());
    site.carton(&[&["run", "double.carton", "--device", "cpu"], &DOUBLED[..]].concat()).expect_code(0);
}

#[test]
fn errors_in_a_module_are_reported_before_anything_is_fetched() {
    let Some(site) = Site::new() else { return };
    for (source, expected) in [
        ("x = 1\ndef get_model(:\n", "broken.py, line 2: SyntaxError: "),
        ("def get_models(): pass\n", "the module `broken` (broken.py) has no function `get_model`"),
    ] {
        site.sandbox.write("broken.py", source);
        let refused = outcome(site.command(&["pack", "broken.py", "--runner", "python"]).env("UV", "/nothing"));
        let refused = refused.expect_code(6);
        assert!(refused.stderr.contains(expected), "{refused}");
    }
}

/// A model that returns some of its environment variables.
const VARIABLES: &str = "import os\nimport numpy as np\n\ndef predict(x):\n    names = ['GREETING', 'PASSED', 'SECRET', 'CARTON_LAUNCHER_VARIABLES']\n    \
                         return {'y': np.array([os.environ.get(name, '-') for name in names], dtype=object)}\n";

#[test]
fn a_model_gets_the_variables_of_its_carton_and_those_that_are_passed() {
    let Some(site) = Site::new() else { return };
    site.sandbox.write("variables.py", VARIABLES);
    let started = site.sandbox.work().join("started");
    let script = format!("wrapper = [\"/bin/sh\", \"-c\", 'env >> {}; exec \"$@\"', \"sh\"]", started.display());
    let config = site.sandbox.write("config.toml", format!("[sandbox]\n{script}"));
    let carton = |arguments: &str| {
        let mut command = site.command(&arguments.split_whitespace().collect::<Vec<_>>());
        outcome(command.env("SECRET", "1").env("PASSED", "2").env("CARTON_CONFIG_PATH", &config)).expect_code(0)
    };
    let y = |arguments: &str| {
        carton(&format!("run v.carton -i x=1 --json {arguments}")).json()["outputs"]["y"]["data"].take()
    };
    carton("pack variables.py --runner python --opt infer_fn=predict --opt env.GREETING=hello --no-check -o v.carton");
    let _ = fs::remove_file(&started);
    assert_eq!(y(""), json!(["hello", "-", "-", "-"]));
    // The process that makes the environment has the credentials of package indexes, and no variable of a model.
    let environments = fs::read_to_string(&started).unwrap();
    let count = |text: &str| environments.lines().filter(|line| line.starts_with(text)).count();
    assert_eq!((count("CARTON_SANDBOX="), count("CARTON_LAUNCHER_VARIABLES=")), (2, 1), "{environments}");
    assert_eq!(count("GREETING="), 0, "{environments}");
    assert_eq!(y("--env PASSED --env GREETING=bye"), json!(["bye", "2", "-", "-"]));
    assert_eq!(y("--opt env.GREETING=hi --sandbox off"), json!(["hi", "-", "-", "-"]));
}
