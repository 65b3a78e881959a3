//! The setting of each test: a temporary place with a home, the python runner, the model that tries to escape, and a victim.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use carton_core::machine::{SandboxGap, sandbox_support};
use carton_core::metadata::Draft;
use carton_core::runner::LaunchPolicy;
use carton_core::sandbox::{Limits, SandboxMode};
use carton_core::{Carton, Error, Inputs, Load};
use carton_tensor::{DataType, Tensor};
use carton_tests::place::TestPlace;
use serde_json::{Value, json};

use crate::sources::{Sources, copy_folder};
use crate::victim::Victim;

/// Whether the current user is root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// How the model of a setting is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confinement {
    /// Not at all.
    Off,
    /// Without namespaces of its own, as on systems that give this user none.
    Plain,
    /// In namespaces of its own.
    Namespaces,
}

impl Confinement {
    pub(crate) const ALL: [Self; 3] = [Self::Off, Self::Plain, Self::Namespaces];

    pub(crate) fn mode(self) -> SandboxMode {
        if self == Self::Off { SandboxMode::Off } else { SandboxMode::On }
    }

    /// The one of this name in the manner of `Debug`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|confinement| format!("{confinement:?}") == name)
    }
}

/// A place, and a victim in it.
pub(crate) struct Setting {
    confinement: Confinement,
    pub(crate) sources: Sources,
    pub(crate) place: TestPlace,
    pub(crate) victim: Arc<Victim>,
    /// The folder of the user whom the model attacks. The victim's sockets are in it.
    pub(crate) home: PathBuf,
    /// A folder for what the unconfined model makes.
    pub(crate) scratch: PathBuf,
    pub(crate) carton: PathBuf,
    /// What no model may learn.
    pub(crate) secret: String,
    counter: AtomicU64,
}

impl Setting {
    /// Makes a setting whose models have namespaces of their own in the sandbox, where this system has them. Returns `None`, and prints the
    /// reason, if there is no Python.
    pub(crate) async fn new() -> Option<Self> {
        Self::of(if has_namespaces() { Confinement::Namespaces } else { Confinement::Plain }).await
    }

    /// The same with the runner for `confinement`. Returns `None`, and prints the reason, if this system does not have it.
    pub(crate) async fn of(confinement: Confinement) -> Option<Self> {
        if confinement == Confinement::Namespaces && !has_namespaces() {
            eprintln!("skipped: attempts in namespaces, which this user does not get");
            return None;
        }
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let sources = Sources::find()?;
        let place = TestPlace::new(sources.test_runner.to_str().unwrap());
        let [home, scratch] = ["home", "scratch"].map(|name| place.path().join(name));
        fs::create_dir(&home).unwrap();
        fs::create_dir(&scratch).unwrap();
        let secret = format!("secret-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let victim = Arc::new(Victim::start(&sources, &home, &secret));
        install(&place, &sources, confinement);
        let carton = pack(&place, &sources).await;
        Some(Self { confinement, sources, place, victim, home, scratch, carton, secret, counter: AtomicU64::new(0) })
    }

    /// Returns a path in the home that nothing has yet.
    pub(crate) fn new_path(&self) -> PathBuf {
        self.home.join(format!("new-{}", self.number()))
    }

    /// Makes a file of the user with the secret in it.
    pub(crate) fn new_file(&self) -> PathBuf {
        let path = self.home.join(format!("file-{}", self.number()));
        fs::write(&path, &self.secret).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Returns a number that nothing in this setting has yet.
    pub(crate) fn number(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    /// Loads the model with the default limits, which are none.
    pub(crate) async fn load(&self, mode: SandboxMode) -> Model {
        self.load_with(mode, Limits::default(), |load| load).await.unwrap()
    }

    /// Loads the model.
    pub(crate) async fn load_with(
        &self,
        mode: SandboxMode,
        limits: Limits,
        options: impl FnOnce(Load) -> Load,
    ) -> Result<Model, Error> {
        let folder = |path: &Path| path.to_str().unwrap().to_owned();
        let variables = [("TMPDIR".to_owned(), folder(&self.scratch)), ("HOME".to_owned(), folder(&self.home))];
        let mut policy = LaunchPolicy::default().with_variables(variables);
        policy.limits = limits;
        let load = self.place.load(&self.carton).option("infer_fn", "attempt").policy(policy).sandbox(mode);
        let model = Model::new(options(load).await?).await;
        // Otherwise each attempt would fail, and none would say why.
        let is_confined = model.places["no_new_privileges"] == json!(1);
        assert_eq!(
            is_confined,
            mode != SandboxMode::Off,
            "sandbox {mode}: the runner was started without the launcher"
        );
        let is_alone = model.places["parent"] == json!(1);
        let expected = is_confined && self.confinement == Confinement::Namespaces;
        assert_eq!(is_alone, expected, "sandbox {mode}: is the process in namespaces of its own?");
        Ok(model)
    }
}

/// Whether this user gets namespaces of its own.
fn has_namespaces() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let Some(sources) = Sources::find() else { return false };
        let place = TestPlace::new(sources.test_runner.to_str().unwrap());
        let support = sandbox_support(&place.config()).unwrap().unwrap();
        !support.gaps.contains(&SandboxGap::Namespaces) && !support.gaps.contains(&SandboxGap::Proc)
    })
}

/// A loaded model that tries to escape.
pub(crate) struct Model {
    carton: Carton,
    /// Where its process is.
    pub(crate) places: Value,
}

/// How long a call may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Model {
    async fn new(carton: Carton) -> Self {
        let mut model = Self { carton, places: Value::Null };
        let answer = model.call("where", &json!({})).await.unwrap();
        model.places = serde_json::from_str(answer.strip_prefix("escaped: ").unwrap()).unwrap();
        model
    }

    /// Lets it try one way out, and returns its answer.
    pub(crate) async fn call(&self, attempt: &str, arguments: &Value) -> Result<String, Error> {
        self.call_with(attempt, arguments, [], PATIENCE).await
    }

    /// The same within a time.
    pub(crate) async fn call_within(&self, time: Duration, attempt: &str, arguments: &Value) -> Result<String, Error> {
        self.call_with(attempt, arguments, [], time).await
    }

    /// The same with a tensor that lies in memory which the host lends. Also returns whether the tensor is what it was.
    pub(crate) async fn call_with_region(&self, attempt: &str, arguments: &Value) -> Result<(String, bool), Error> {
        let mut region = self.carton.alloc_dtype(DataType::Uint8, &[1 << 20]).await?;
        region.bytes_mut().unwrap().fill(7);
        let region = Tensor::from(region);
        let answer = self.call_with(attempt, arguments, [("region", region.clone())], PATIENCE).await?;
        Ok((answer, region.as_numeric().unwrap().bytes().iter().all(|&byte| byte == 7)))
    }

    async fn call_with(
        &self,
        attempt: &str,
        arguments: &Value,
        more: impl IntoIterator<Item = (&'static str, Tensor)>,
        time: Duration,
    ) -> Result<String, Error> {
        let text = |text: &str| Tensor::from_strings([text], vec![]).unwrap();
        let own = [("attempt", text(attempt)), ("argument", text(&arguments.to_string()))];
        let inputs: Inputs = own.into_iter().chain(more).collect();
        let outputs = self.carton.infer(inputs).timeout(time).await?;
        Ok(outputs.as_tensors()["result"].as_string().unwrap().elements()[0].clone())
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u64 {
        self.places["pid"].as_u64().unwrap()
    }

    /// The number of its process outside of its namespaces.
    pub(crate) fn outer_pid(&self) -> u64 {
        let scratch = self.path("scratch");
        let is_own = |number: &u64| {
            let read = |name: &str| fs::read(format!("/proc/{number}/{name}")).unwrap_or_default();
            let status = String::from_utf8_lossy(&read("status")).into_owned();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            let has_scratch = String::from_utf8_lossy(&read("environ")).contains(scratch.to_str().unwrap());
            has_scratch && numbers.split_whitespace().next_back() == Some(&self.pid().to_string())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.find(is_own).unwrap()
    }

    /// A path of [`Self::places`].
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.places[name].as_str().unwrap().into()
    }
}

/// A file of the model that it may read. Its contents are not secret.
pub(crate) const WEIGHTS: &str = "weights.txt";

async fn pack(place: &TestPlace, sources: &Sources) -> PathBuf {
    let model = place.path().join("escapes");
    copy_folder(&sources.escapes, &model);
    fs::write(model.join(WEIGHTS), "these are weights").unwrap();
    let output = place.path().join("escapes.carton");
    let metadata = Draft::parse("").unwrap();
    place.pack(&model, "python", &output).metadata(metadata).check(false).await.unwrap();
    output
}

/// Installs the python runner of this checkout, with what the interpreter needs in a sandbox. Models run with the interpreter's packages.
fn install(place: &TestPlace, sources: &Sources, confinement: Confinement) {
    let folders = place.config().runner_dir;
    let folder = folders.join("python");
    fs::create_dir_all(&folder).unwrap();
    let mut read: Vec<&Path> = sources.python_files.iter().map(PathBuf::as_path).collect();
    read.push(&sources.runner_package);
    let of_another = fs::read_to_string(folders.join("noop/runner.toml")).unwrap();
    let fields = of_another.lines().filter(|line| !line.starts_with("args")).collect::<Vec<_>>().join("\n");
    let fields = fields.replace("\"noop\"", "\"python\"");
    let namespaces = confinement == Confinement::Namespaces;
    let descriptor = format!("{fields}\nsandbox = {{ read = {read:?}, namespaces = {namespaces} }}\n");
    fs::write(folder.join("runner.toml"), descriptor).unwrap();
    let run = folder.join("run");
    let text = format!(
        "#!{} -IB\nimport sys\nsys.path += [{:?}, {:?}]\nfrom carton_runner import packing\n\
         packing.pack = lambda path, *_: {{'path': str(path)}}\nfrom carton_runner.__main__ import main\nmain()\n",
        sources.python.display(),
        sources.runner_package.to_str().unwrap(),
        sources.packages.to_str().unwrap(),
    );
    fs::write(&run, text).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
}
