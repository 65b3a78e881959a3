//! Several processes at one cache, processes that are killed, and full disks.

use std::fs;
use std::process::{Child, Command};

use super::*;

const CHILD: &str = "CARTON_TEST_CACHE_CHILD";
const BEGINS: &str = "begins with the model";

/// What other processes in the tests below do: make the model in the cache that the variable names.
#[test]
fn child() {
    let Some(cache_dir) = std::env::var_os(CHILD) else { return };
    let limit = std::env::var("CARTON_TEST_FILE_SIZE_LIMIT").ok().map(|limit| limit.parse::<u64>().unwrap());
    if let Some(limit) = limit {
        use rustix::process::{Resource, Rlimit, setrlimit};
        setrlimit(Resource::Fsize, Rlimit { current: Some(limit), maximum: None }).unwrap();
    }
    let cache = Cache::open(Path::new(&cache_dir)).unwrap();
    let model = slow();
    println!("{BEGINS}");
    let result = model_folder(&cache, &model.manifest, &model);
    if limit.is_some() {
        let error = result.unwrap_err();
        assert!(matches!(error, CacheError::Io { .. }) && error.to_string().contains("partial-v1"), "{error}");
        std::process::exit(7);
    }
    model.check(result.unwrap().path());
    std::process::exit(if model.n_fed() > 0 { 3 } else { 4 });
}

fn slow() -> Model {
    let names: Vec<String> = (0..40).map(|number| format!("layers/{}/{number}.bin", number % 7)).collect();
    let files: Vec<(&str, usize)> = names.iter().enumerate().map(|(at, name)| (name.as_str(), 9000 * at)).collect();
    Model { pause: Duration::from_micros(20), ..Model::new("slow", &files) }
}

/// Starts a process and returns when it begins with the model.
fn spawn_child(cache_dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["cache::tests::processes::child", "--exact", "--nocapture"]).env(CHILD, cache_dir);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let output = io::BufReader::new(child.stdout.take().unwrap());
    assert!(io::BufRead::lines(output).any(|line| line.unwrap().contains(BEGINS)));
    child
}

#[test]
fn processes_that_make_the_same_model_agree() {
    let folder = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> = (0..4).map(|_| spawn_child(folder.path())).collect();
    let mut codes: Vec<_> = children.iter_mut().map(|child| child.wait().unwrap().code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [3, 4, 4, 4], "one of them makes it, the others wait");
}

#[test]
fn a_process_killed_at_any_moment_leaves_nothing_half_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = spawn_child(&folder.path().join("whole"));
    let start = std::time::Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let whole = start.elapsed();
    let model = slow();
    let (mut n_made, mut n_leftovers) = (0, 0);
    // A generator of Knuth's: the moments differ, and are the same in every run.
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..40 {
        let cache_dir = folder.path().join(format!("{}", round / 10));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = spawn_child(&cache_dir);
        std::thread::sleep(whole.mul_f64((random >> 40) as f64 / (1_u64 << 24) as f64));
        child.kill().unwrap();
        child.wait().unwrap();
        n_leftovers += usize::from(fs::read_dir(cache_dir.join(PARTIAL)).unwrap().count() > 0);
        let cache = Cache::open(&cache_dir).unwrap();
        assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0, "round {round}");
        for shard in fs::read_dir(cache.layout.bucket(FILES)).unwrap() {
            for file in fs::read_dir(shard.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let digest = Sha256Digest::of(&fs::read(&path).unwrap());
                assert_eq!(path.file_name().unwrap().to_str().unwrap(), digest.to_string());
            }
        }
        if let [made] = cache.models().unwrap()[..] {
            n_made += 1;
            model.check(&cache.layout.model(&made).join("model"));
        }
        if round % 10 == 9 {
            model.folder(&cache);
        }
    }
    println!("killed 40 times: {n_leftovers} left something half-made, {n_made} had the model made");
    assert!(n_leftovers > 0, "no process was killed in the middle of its work");
}

#[test]
fn a_full_disk_is_an_error_that_names_the_path() {
    let folder = tempfile::tempdir().unwrap();
    // The process ignores the signal that comes with the error, as Rust programs do not by themselves.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" cache::tests::processes::child --exact --quiet"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, folder.path())
        .env("CARTON_TEST_FILE_SIZE_LIMIT", "100000")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(7));
    let cache = Cache::open(folder.path()).unwrap();
    assert_eq!(cache.models().unwrap(), []);
    assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0);
    slow().folder(&cache);
}

#[test]
fn a_real_full_disk_is_an_error_that_names_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"])
        .arg(folder.path())
        .stderr(std::process::Stdio::null())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        println!("skipped: mounting a small file system needs root");
        return;
    }
    let cache = Cache::open(folder.path()).unwrap();
    let model = Model::new("large", &[("one.bin", 900_000), ("two.bin", 900_000)]);
    let result = model_folder(&cache, &model.manifest, &model);
    let (models, n_partial) = (cache.models().unwrap(), count_files(&cache.layout.bucket(PARTIAL)));
    let small = Model::new("small", &[("one.bin", 100)]);
    let small_result = model_folder(&cache, &small.manifest, &small).map(|folder| small.check(folder.path()));
    Command::new("umount").arg(folder.path()).status().unwrap();
    let Err(CacheError::Io { path, source, .. }) = result else { panic!("{result:?}") };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    assert!(path.starts_with(folder.path()), "{path:?}");
    assert_eq!((models, n_partial), (Vec::new(), 0));
    small_result.unwrap();
}

#[test]
fn a_cache_that_cannot_be_written_to_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = |arguments: &[&str]| {
        let mut mount = Command::new("mount");
        let mount = mount.args(arguments).arg(folder.path()).stderr(std::process::Stdio::null());
        mount.status().is_ok_and(|status| status.success())
    };
    if !mounted(&["-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs"]) {
        println!("skipped: mounting a small file system needs root");
        return;
    }
    let model = Model::new("model", &[("one.bin", 900_000), ("two.bin", 10)]);
    let cache = Cache::open(folder.path()).unwrap();
    drop(model_folder(&cache, &model.manifest, &model).unwrap());
    assert!(mounted(&["-o", "remount,ro"]));
    let result = Cache::open(folder.path()).and_then(|cache| {
        let found = model_folder(&cache, &model.manifest, &model)?;
        model.check(found.path());
        // What has to be made is an error that says so.
        let other = Model::new("other", &[("one.bin", 100)]);
        Ok(model_folder(&cache, &other.manifest, &other).map(drop))
    });
    Command::new("umount").arg(folder.path()).status().unwrap();
    let error = result.unwrap().unwrap_err();
    assert!(carton_format::causes::in_one_line(&error).contains("Read-only file system"), "{error:?}");
}
