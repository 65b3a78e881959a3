//! The setting of a behaviour's test: a subject that is installed, its models, which are packed once, and its processes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use carton_core::runner::LaunchPolicy;
use carton_core::{Carton, Error, ErrorKind, Load};
use carton_tensor::{DataType, NumericTensor, Tensor};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::log_capture;
use super::subject::{Model, ModelFiles, Subject};
use crate::ordinary_user;
use crate::place::TestPlace;

/// Behaviours that measure this process hold it for writing, all others for reading.
static TURN: RwLock<()> = RwLock::const_new(());

/// Cartons by subject and model. They are shared, because packing is tested elsewhere.
static PACKED: tokio::sync::Mutex<BTreeMap<String, PathBuf>> = tokio::sync::Mutex::const_new(BTreeMap::new());

/// Subjects that were reported as skipped.
static SKIPPED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// An argument of every launcher (spec/sandbox.md). Process 1 of namespaces is a fork of one, and has it too.
const LAUNCHER_ARGUMENT: &str = "__carton-launcher";

/// The variable that distinguishes the processes of a stage from those of other tests.
const MARK: &str = "CARTON_TEST_STAGE";

/// The setting of one test: an installed subject.
pub struct Stage {
    pub subject: &'static dyn Subject,
    place: TestPlace,
    scratch: PathBuf,
    mark: String,
    _turn: Turn,
}

#[allow(dead_code, reason = "held for their ends")]
enum Turn {
    Together(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Stage {
    /// Makes a stage that may run beside others. Returns `None`, and prints the reason once, if the subject cannot be tested.
    pub async fn together(subject: &'static dyn Subject, executable: &str, scratch: &str) -> Option<Self> {
        let turn = Turn::Together(TURN.read().await);
        Self::new(subject, executable, scratch, turn)
    }

    /// As [`together`](Self::together), but while no other behaviour is tested in this process.
    pub async fn alone(subject: &'static dyn Subject, executable: &str, scratch: &str) -> Option<Self> {
        let turn = Turn::Alone(TURN.write().await);
        Self::new(subject, executable, scratch, turn)
    }

    fn new(subject: &'static dyn Subject, executable: &str, scratch: &str, turn: Turn) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if let Some(reason) = subject.unavailable() {
            if SKIPPED.lock().unwrap().insert(subject.name()) {
                eprintln!("skipped: all behaviours of {}: {reason}", subject.name());
            }
            return None;
        }
        log_capture::start();
        // The build's folder belongs to the user who built.
        let scratch = if ordinary_user::is_current() { std::env::temp_dir() } else { scratch.into() };
        Some(Self {
            subject,
            place: TestPlace::new(executable),
            scratch: scratch.join("behaviour"),
            mark: format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)),
            _turn: turn,
        })
    }

    /// Prints to the test's output that the subject cannot do something.
    pub fn skip(&self, what: &str) {
        eprintln!("not for {}: {what}", self.subject.name());
    }

    fn policy(&self) -> LaunchPolicy {
        let mut variables = self.subject.variables();
        variables.push((MARK.to_owned(), self.mark.clone()));
        LaunchPolicy::default().with_variables(variables)
    }

    /// Returns the carton of a model.
    pub async fn pack(&self, model: &Model) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        format!("{:?} {}", model.files, model.metadata).hash(&mut hasher);
        self.subject.framework_version().hash(&mut hasher);
        let name = format!("{}-{:016x}", self.subject.name().replace(' ', "-"), hasher.finish());
        let mut packed = PACKED.lock().await;
        if let Some(path) = packed.get(&name) {
            return path.clone();
        }
        let path = match &model.files {
            ModelFiles::Kept(path) => path.clone(),
            ModelFiles::Made(files) => {
                let folder = self.scratch.join(format!("{}-{name}", std::process::id()));
                std::fs::create_dir_all(&folder).unwrap();
                for (name, bytes) in files {
                    std::fs::write(folder.join(name), bytes).unwrap();
                }
                folder
            }
        };
        let output = self.scratch.join(format!("{name}.carton"));
        std::fs::create_dir_all(&self.scratch).unwrap();
        let mut pack = Carton::pack(&path, &output)
            .config(self.subject.config(&self.place))
            .runner(self.subject.runner())
            .metadata(carton_core::metadata::Draft::parse(&model.metadata).unwrap())
            .policy(self.policy())
            .check(false);
        if let Some(version) = self.subject.framework_version() {
            pack = pack.framework_version(version.parse().unwrap());
        }
        if let Err(error) = pack.await {
            panic!("packing for {}: {}", self.subject.name(), chain(&error));
        }
        if let ModelFiles::Made(_) = model.files {
            std::fs::remove_dir_all(path).unwrap();
        }
        packed.insert(name, output.clone());
        output
    }

    /// Loads a model.
    pub async fn load(&self, model: &Model) -> Carton {
        self.loading(model).await.await.unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// Packs a model and returns the builder that loads it with this stage's runner.
    pub async fn loading(&self, model: &Model) -> Load {
        Carton::load(self.pack(model).await)
            .config(self.subject.config(&self.place))
            .options(model.options.clone())
            .policy(self.policy())
    }

    /// The runner processes of this stage: the first below this process that are neither launchers nor process 1 of namespaces.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.started_by(&[std::process::id()])
    }

    /// The living processes of this stage below `parents`, looking through launchers.
    fn started_by(&self, parents: &[u32]) -> Vec<u32> {
        let mark = format!("{MARK}={}", self.mark);
        let (mut launchers, mut found) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse::<u32>().ok()));
            // A dead process that its supervisor has not reaped yet does not count.
            if !parent.is_some_and(|parent| parents.contains(&parent)) || state == Some("Z") {
                continue;
            }
            let has = |file: &str, what: &str| {
                let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
                bytes.split(|&byte| byte == 0).any(|part| part == what.as_bytes())
            };
            if has("cmdline", LAUNCHER_ARGUMENT) {
                launchers.push(id);
            } else if has("environ", &mark) {
                found.push(id);
            }
        }
        if !launchers.is_empty() {
            found.extend(self.started_by(&launchers));
        }
        found
    }

    /// The only runner process of this stage.
    #[must_use]
    pub fn process(&self) -> u32 {
        match self.processes()[..] {
            [process] => process,
            ref processes => panic!("expected one runner process, found {processes:?}"),
        }
    }

    /// Kills every runner of this stage.
    pub fn kill(&self) {
        let processes = self.processes();
        assert!(!processes.is_empty(), "no runner is running");
        for process in &processes {
            kill_process(Pid::from_raw(i32::try_from(*process).unwrap()).unwrap(), Signal::KILL).unwrap();
        }
        // What the launcher has started ends a moment later.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while self.processes().iter().any(|process| processes.contains(process)) && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

/// Checks that the echo `model` returns `tensor` unchanged.
pub(super) async fn check_echo(carton: &Carton, model: &Model, tensor: Tensor) {
    let expected = tensor.clone();
    match carton.infer([("x", tensor)]).await {
        Ok(outputs) => check_same(&outputs.as_tensors()[model.output], &expected),
        Err(error) => panic!("{:?} {:?}: {}", expected.dtype(), expected.shape(), chain(&error)),
    }
}

/// As [`check_echo`]; or, with a `refusal`, checks that the runner refuses the tensor with these words and keeps running.
pub(super) async fn check_echo_or(carton: &Carton, model: &Model, tensor: Tensor, refusal: Option<String>) {
    let Some(words) = refusal else { return check_echo(carton, model, tensor).await };
    match carton.infer([("x", tensor.clone())]).await {
        Ok(_) => panic!("{:?} {:?} was to be refused with `{words}`", tensor.dtype(), tensor.shape()),
        Err(error) => check_refusal(&error, &words),
    }
}

/// Checks that the error is one of this call only, and contains `words`.
pub(super) fn check_refusal(error: &Error, words: &str) {
    assert!(
        error.is_of_model() || error.is_of_signature() || error.kind() == ErrorKind::InvalidInput,
        "{}",
        chain(error)
    );
    assert!(chain(error).contains(words), "expected `{words}` in: {}", chain(error));
}

/// Checks that two tensors are equal in every bit. Prints the first difference, because there may be millions of elements.
pub(super) fn check_same(found: &Tensor, expected: &Tensor) {
    // Compared as whole blocks, because this program is not optimized.
    const BLOCK: usize = 1 << 20;
    if let (Tensor::Numeric(found), Tensor::Numeric(expected)) = (found, expected) {
        assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()));
        let size = expected.dtype().size().unwrap();
        for (block, (found, expected)) in found.bytes().chunks(BLOCK).zip(expected.bytes().chunks(BLOCK)).enumerate() {
            if found != expected {
                let at = found.iter().zip(expected).position(|(a, b)| a != b).unwrap() / size;
                let element = at * size..(at + 1) * size;
                let (found, expected) = (&found[element.clone()], &expected[element]);
                panic!("element {} is {found:02x?}, expected {expected:02x?}", block * BLOCK / size + at);
            }
        }
        return;
    }
    assert!(found == expected, "found {:.2000}, expected {:.2000}", format!("{found:?}"), format!("{expected:?}"));
}

/// Returns the text of an error and its causes.
pub(super) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Returns `n_elements` float32, none equal to its neighbour, and different for each `seed`.
pub(super) fn floats(n_elements: usize, seed: usize) -> Tensor {
    Tensor::from_vec((0..n_elements).map(|i| (i * 7 + seed) as f32).collect(), vec![n_elements]).unwrap()
}

/// Returns a numeric tensor of any dtype with varying elements, small enough for every engine.
pub(super) fn numbers(dtype: DataType, shape: &[usize]) -> Tensor {
    let mut tensor = NumericTensor::zeroed(dtype, shape.to_vec()).unwrap();
    let size = dtype.size().unwrap();
    for (number, element) in tensor.bytes_mut().unwrap().chunks_mut(size).enumerate() {
        // At most three bytes of each element are set, so that int64 fit into int32, and floats are not NaN.
        let bytes = (number as u64 * 2_654_435_761 % 16_777_213).to_le_bytes();
        let n_bytes = size.min(3);
        element[..n_bytes].copy_from_slice(&bytes[..n_bytes]);
    }
    tensor.into()
}
