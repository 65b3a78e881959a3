//! Many processes that fetch, load and delete at once, and are killed while they work.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::prune::Carton;
use super::*;

const WORKER: &str = "CARTON_TEST_CACHE_WORKER";
const BEGINS: &str = "begins to work";
const PIECE: usize = 16 * 1024;

/// The work of the child processes of the tests below. An environment variable names the work and the cache.
#[test]
fn worker() {
    let Ok(job) = std::env::var(WORKER) else { return };
    let (job, cache_dir) = job.split_once(' ').unwrap();
    let cache = Cache::open(Path::new(cache_dir)).unwrap();
    println!("{BEGINS}");
    match job {
        "hold" => {
            let _loaded = cartons()[0].load(&cache);
            println!("{BEGINS}");
            let _ = io::stdin().read(&mut [0]);
        }
        "fetch" => {
            let bytes = wanted();
            let fetched = fetch(&cache, &bytes, Duration::from_micros(500));
            std::process::exit(if fetched { 3 } else { 4 });
        }
        "load" => {
            let start = Instant::now();
            let mut random = Random(std::process::id().into());
            while start.elapsed() < Duration::from_millis(1500) {
                let cartons = cartons();
                load_remote(&cache, &cartons[random.below(cartons.len())]);
            }
        }
        prune => {
            let n_deletions = prune.strip_prefix("prune-").unwrap().parse().unwrap();
            DELETIONS_LEFT.store(n_deletions, Ordering::Relaxed);
            cache.prune(&PruneOptions::default()).unwrap();
        }
    }
    // The output of the test harness is not read.
    std::process::exit(0);
}

/// Starts a process, and returns when it has reported that many begun jobs.
fn spawn(job: &str, cache_dir: &Path, n_begins: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["cache::tests::contention::worker", "--exact", "--nocapture"]);
    command.env(WORKER, format!("{job} {}", cache_dir.display()));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let begins = output.lines().filter(|line| line.as_ref().unwrap().contains(BEGINS)).take(n_begins);
    assert_eq!(begins.count(), n_begins);
    child
}

/// Knuth's generator: the moments differ, and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn part_of(&mut self, whole: Duration) -> Duration {
        whole.mul_f64(self.below(1000) as f64 / 1000.0)
    }
}

fn cartons() -> Vec<Carton> {
    vec![
        Carton::new(&[("shared", 300_000), ("one", 100_000), ("small/a", 10)]),
        Carton::new(&[("shared", 300_000), ("two", 200_000), ("small/b", 0)]),
        Carton::new(&[("three", 100_000), ("small/a", 10)]),
    ]
}

fn wanted() -> Vec<u8> {
    (0..2_000_000_u32).flat_map(|number| (number / 3).to_le_bytes()).take(2_000_000).collect()
}

/// Makes a file as a download does: continues an earlier attempt and adopts the file. Returns whether anything had to be done.
fn fetch(cache: &Cache, bytes: &[u8], pause: Duration) -> bool {
    let digest = Sha256Digest::of(bytes);
    let lock = cache.files().lock(&digest, &CancelToken::default()).unwrap();
    if lock.file(&CancelToken::default()).unwrap().is_some() {
        return false;
    }
    let path = lock.download_folder().unwrap().join("data");
    let mut file = File::options().create(true).append(true).read(true).open(&path).unwrap();
    let mut log = File::options().create(true).append(true).open(cache.path().join("log")).unwrap();
    let n_there = usize::try_from(file.seek(SeekFrom::End(0)).unwrap()).unwrap();
    for piece in bytes[n_there..].chunks(PIECE) {
        std::thread::sleep(pause);
        file.write_all(piece).unwrap();
        writeln!(log, "{}", piece.len()).unwrap();
    }
    drop(file);
    assert_eq!(Sha256Digest::of(&fs::read(&path).unwrap()), digest);
    lock.adopt(&path).unwrap();
    true
}

/// Loads a carton whose files are first fetched into the store, and are then read from there.
fn load_remote(cache: &Cache, carton: &Carton) {
    struct Remote<'a>(&'a Cache, &'a Model);
    impl ModelFiles for Remote<'_> {
        type Error = CacheError;
        fn files(&self) -> Vec<ModelFile<'_>> {
            self.1.files()
        }
        fn prepare(&self, indices: &[usize]) -> Result<(), CacheError> {
            for index in indices {
                fetch(self.0, &self.1.files[*index].1, Duration::ZERO);
            }
            Ok(())
        }
        fn feed(&self, index: usize, sink: &mut Sink<'_, CacheError>) -> Result<(), CacheError> {
            let (path, bytes) = &self.1.files[index];
            let file = self.0.files().get(&Sha256Digest::of(bytes))?;
            let mut found = Vec::new();
            file.unwrap_or_else(|| panic!("{path} was deleted")).read_to_end(&mut found).unwrap();
            sink(&found)
        }
    }
    let _lease = carton.lease(cache);
    let folder = model_folder(cache, &carton.hash(), &Remote(cache, &carton.model)).unwrap();
    // A deletion that was decided before the lease would happen now.
    std::thread::sleep(Duration::from_millis(5));
    carton.model.check(folder.path());
    for (path, bytes) in &carton.model.files {
        assert!(bytes.len() < 64 * 1024 || cache.files().has(&Sha256Digest::of(bytes)), "{path} was deleted");
    }
}

#[test]
fn one_process_fetches_and_the_others_wait() {
    let folder = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> = (0..6).map(|_| spawn("fetch", folder.path(), 1)).collect();
    let mut codes: Vec<_> = children.iter_mut().map(|child| child.wait().unwrap().code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [3, 4, 4, 4, 4, 4]);
    let cache = Cache::open(folder.path()).unwrap();
    assert!(cache.files().get(&Sha256Digest::of(&wanted())).unwrap().is_some());
    assert_eq!(count_files(&cache.layout.bucket(DOWNLOADS)), 0);
}

#[test]
fn another_process_goes_on_where_a_killed_one_was() {
    let folder = tempfile::tempdir().unwrap();
    let digest = Sha256Digest::of(&wanted());
    let mut random = Random(1);
    let mut n_killed = 0;
    let mut children: Vec<Child> = (0..3).map(|_| spawn("fetch", folder.path(), 1)).collect();
    let place = folder.path().join(FILES).join(&digest.to_string()[..2]).join(digest.to_string());
    while !place.exists() {
        std::thread::sleep(random.part_of(Duration::from_millis(20)));
        let mut child = children.remove(random.below(children.len()));
        child.kill().unwrap();
        n_killed += usize::from(child.wait().unwrap().code().is_none());
        children.push(spawn("fetch", folder.path(), 1));
    }
    for child in &mut children {
        assert!(matches!(child.wait().unwrap().code(), Some(3 | 4)));
    }
    let cache = Cache::open(folder.path()).unwrap();
    assert!(fs::read(&place).unwrap() == wanted());
    assert!(cache.files().get(&digest).unwrap().is_some());
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let fetched: usize = log.lines().map(|line| line.parse::<usize>().unwrap()).sum();
    println!("killed {n_killed} processes, fetched {fetched} of {} bytes", wanted().len());
    // Bytes that a process wrote but had not logged when it was killed are missing from the log.
    assert!(fetched <= wanted().len(), "{fetched}");
    assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0);
}

#[test]
fn a_model_that_another_process_has_loaded_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = spawn("hold", folder.path(), 2);
    let cache = Cache::open(folder.path()).unwrap();
    let carton = &cartons()[0];
    let check = |n_gone: usize| {
        let pruned = cache.prune(&PruneOptions::default()).unwrap();
        assert_eq!((pruned.cartons.len(), pruned.n_in_use), (n_gone, 1 - n_gone));
        assert_eq!(cache.files().has(&carton.digest("one")), n_gone == 0);
    };
    check(0);
    carton.model.check(&cache.layout.model(&carton.hash()).join("model"));
    child.kill().unwrap();
    child.wait().unwrap();
    check(1);
}

#[test]
fn no_load_fails_because_of_a_prune() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let mut children: Vec<Child> = (0..4).map(|_| spawn("load", folder.path(), 1)).collect();
    DELETION_PAUSE.set(Duration::from_millis(2));
    let (mut n_prunes, mut n_gone) = (0, 0);
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        let options = match n_prunes % 3 {
            0 => PruneOptions { max_size: Some(200_000), ..PruneOptions::default() },
            _ => PruneOptions::default(),
        };
        n_gone += cache.prune(&options).unwrap().cartons.len();
        n_prunes += 1;
    }
    println!("{n_prunes} prunes deleted {n_gone} cartons");
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(n_gone > 10, "{n_gone}");
    cache.prune(&PruneOptions::default()).unwrap();
    for bucket in BUCKETS {
        assert_eq!(count_files(&cache.layout.bucket(bucket)), 0, "{bucket}");
    }
}

/// How many things the process may delete before it exits as if it were killed.
static DELETIONS_LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

thread_local! {
    /// How long this thread waits before each deletion. Work of other processes meanwhile must not matter.
    static DELETION_PAUSE: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

/// Called before each deletion of a prune.
pub(in super::super) fn before_deletion() {
    std::thread::sleep(DELETION_PAUSE.get());
    if DELETIONS_LEFT.fetch_sub(1, Ordering::Relaxed) == 0 {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[test]
fn a_prune_killed_at_any_moment_leaves_a_consistent_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let cartons = cartons();
    let mut n_deletions = 0;
    loop {
        cartons.iter().for_each(|carton| load_remote(&cache, carton));
        let status = spawn(&format!("prune-{n_deletions}"), folder.path(), 1).wait().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0, "{n_deletions}");
        assert_eq!(cache.verify().unwrap().damaged, [], "{n_deletions}");
        if status.success() {
            break;
        }
        assert_eq!(status.code(), None, "killed");
        let carton = &cartons[n_deletions % cartons.len()];
        load_remote(&cache, carton);
        // What was left behind can be deleted, except that.
        let lease = carton.lease(&cache);
        cache.prune(&PruneOptions::default()).unwrap();
        assert_eq!(cache.list().unwrap().n_files, carton.model.files.len(), "{n_deletions}");
        drop(lease);
        n_deletions += 1;
    }
    assert_eq!(count_files(&cache.layout.bucket(FILES)), 0);
    // Three cartons with their models, six files, and records of what was verified.
    assert!(n_deletions > 12, "{n_deletions}");
}

#[test]
fn a_full_disk_can_be_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"])
        .arg(folder.path())
        .stderr(Stdio::null())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        println!("skipped: mounting a small file system needs root");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        let cache = Cache::open(folder.path()).unwrap();
        let carton = Carton::new(&[("large", 600_000)]);
        drop(carton.load(&cache));
        let digest = Sha256Digest::of(b"too large");
        let lock = cache.files().lock(&digest, &CancelToken::default()).unwrap();
        let path = lock.download_folder().unwrap().join("data");
        let error = fs::write(&path, vec![1; 600_000]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        drop(lock);
        // The disk is full to the last page.
        assert_eq!(fs::write(folder.path().join("filler"), [1; 8192]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        let small = Carton::new(&[("small", 10)]);
        let lease = small.lease(&cache);
        let error = model_folder(&cache, &small.hash(), &small.model).unwrap_err();
        assert!(error.to_string().contains(PARTIAL), "{error}");
        assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0);
        drop(lease);
        let pruned = cache.prune(&PruneOptions::default()).unwrap();
        // The small carton could not record the files that it uses, and has no data here to list.
        assert_eq!((pruned.cartons.len(), pruned.downloads.len()), (1, 1));
        drop(Carton::new(&[("large", 900_000)]).load(&cache));
    });
    Command::new("umount").arg(folder.path()).status().unwrap();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
