//! One attempt to leave the sandbox: what the model is told, how its success is judged, and where it cannot succeed anyway.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::setting::{Confinement, Model, Setting, is_root};

/// One attempt.
pub(crate) struct Attempt {
    name: &'static str,
    arguments: Value,
    evidence: Evidence,
    without: Without,
    within: Within,
    /// Errors that contain it, beside [`REFUSALS`].
    errors: &'static [&'static str],
    place: Place,
    needs_region: bool,
    /// The system reports no error although nothing happens.
    is_silent: bool,
}

/// What shows that an attempt succeeded.
enum Evidence {
    /// The model says so.
    Word,
    /// The model's answer has this text, which it cannot know otherwise.
    Text(String),
    /// The test sees it.
    Seen(Box<dyn Fn() -> bool>),
    /// This part of the victim's state (a JSON pointer) has changed.
    Change(&'static str),
}

/// What happens without the sandbox.
enum Without {
    Escapes,
    /// Only root has the right.
    EscapesAsRoot,
    /// Root has nothing to gain, or must not try it on this machine.
    EscapesAsUser,
    /// It is contained by something else than the sandbox.
    Contained,
    /// It cannot be shown here. The reason is for the reader.
    Cannot,
}

/// What happens in the sandbox.
enum Within {
    Contained,
    /// It works in the sandbox too, which spec/sandbox.md says.
    Remains,
    /// The same, but not in namespaces of its own.
    RemainsWithoutNamespaces,
    /// It is contained, but works in namespaces of its own, where it reaches nobody.
    WorksInNamespaces,
    /// It says nothing about the sandbox.
    NotTried,
}

/// Which process tries it.
#[derive(PartialEq, Eq)]
enum Place {
    Any,
    /// Never the runner's process itself, because the attempt would change it.
    Apart,
    /// Not a program, which does not have what the attempt needs.
    NotProgram,
    /// The runner's process alone.
    Runner,
}

/// The process that tries, beginning with the runner itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Itself,
    Child,
    Program,
}

/// How long what must arrive may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the system refuses. Other errors show that the attempt was wrong: the sandbox would not have been needed.
const REFUSALS: &[&str] = &["EACCES", "EPERM", "ENOSYS", "EXDEV", "nothing changed", "killed by SIGSYS"];

/// How namespaces of its own answer: what an attempt is made on is not there.
const ABSENCES: &[&str] = &[
    "ENOENT",
    "ESRCH",
    "EROFS",
    "ECONNREFUSED",
    "ENETUNREACH",
    "the process is not listed",
    "the parent is not visible",
];

impl Attempt {
    /// An attempt that succeeds without the sandbox, by the word of the model, and does not in it.
    pub(crate) fn new(name: &'static str, arguments: Value) -> Self {
        Self {
            name,
            arguments,
            evidence: Evidence::Word,
            without: Without::Escapes,
            within: Within::Contained,
            errors: &[],
            place: Place::Any,
            needs_region: false,
            is_silent: false,
        }
    }

    /// It has succeeded if the answer has this text.
    pub(crate) fn tells(mut self, text: &str) -> Self {
        self.evidence = Evidence::Text(text.to_owned());
        self
    }

    /// It has succeeded if this holds.
    pub(crate) fn seen(mut self, succeeded: impl Fn() -> bool + 'static) -> Self {
        self.evidence = Evidence::Seen(Box::new(succeeded));
        self
    }

    /// It has succeeded if this part of the victim's state has changed.
    pub(crate) fn changes(mut self, pointer: &'static str) -> Self {
        self.evidence = Evidence::Change(pointer);
        self
    }

    /// Only root has the right without the sandbox.
    pub(crate) fn of_root(mut self) -> Self {
        self.without = Without::EscapesAsRoot;
        self
    }

    /// Without the sandbox it is not tried as root.
    pub(crate) fn of_user(mut self) -> Self {
        self.without = Without::EscapesAsUser;
        self
    }

    /// Something else than the sandbox contains it.
    pub(crate) fn contained_anyway(mut self) -> Self {
        self.without = Without::Contained;
        self
    }

    /// Its success cannot be shown here, for a reason that the caller gives in a comment.
    pub(crate) fn never_works(mut self) -> Self {
        self.without = Without::Cannot;
        self
    }

    /// The same if `condition` holds.
    pub(crate) fn never_works_if(self, condition: bool) -> Self {
        if condition { self.never_works() } else { self }
    }

    /// The sandbox does not contain it.
    pub(crate) fn remains(mut self) -> Self {
        self.within = Within::Remains;
        self
    }

    /// The sandbox contains it only where it has namespaces of its own.
    pub(crate) fn remains_without_namespaces(mut self) -> Self {
        self.within = Within::RemainsWithoutNamespaces;
        self
    }

    /// It works in namespaces of its own, where it reaches nobody.
    pub(crate) fn works_in_namespaces(mut self) -> Self {
        self.within = Within::WorksInNamespaces;
        self
    }

    /// The same if `condition` holds.
    pub(crate) fn works_in_namespaces_if(self, condition: bool) -> Self {
        if condition { self.works_in_namespaces() } else { self }
    }

    /// The sandbox is not meant to contain it: it shows that another attempt is made in the right way.
    pub(crate) fn only_without(mut self) -> Self {
        self.within = Within::NotTried;
        self
    }

    /// It is contained by these errors as well.
    pub(crate) fn or_fails_with(mut self, errors: &'static [&'static str]) -> Self {
        self.errors = errors;
        self
    }

    /// A process of its own tries it, because it would change the runner's.
    pub(crate) fn apart(mut self) -> Self {
        self.place = Place::Apart;
        self
    }

    /// Only the runner's process itself tries it.
    pub(crate) fn by_runner(mut self) -> Self {
        self.place = Place::Runner;
        self
    }

    /// The call has a tensor in memory of the host.
    pub(crate) fn with_region(mut self) -> Self {
        self.needs_region = true;
        self.place = Place::NotProgram;
        self
    }

    /// The system does not say that it refuses it.
    pub(crate) fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }

    fn is_tried(&self, manner: Manner) -> bool {
        match self.place {
            Place::Any => true,
            Place::Apart => manner != Manner::Itself,
            Place::NotProgram => manner != Manner::Program,
            Place::Runner => manner == Manner::Itself,
        }
    }

    /// Whether it must succeed in this mode; `None` if both are right.
    fn must_succeed(&self, confinement: Confinement) -> Option<bool> {
        use Confinement::{Namespaces, Off, Plain};
        match (confinement, &self.without, &self.within) {
            (Off, Without::Escapes, _) => Some(true),
            (Off, Without::EscapesAsRoot, _) => is_root().then_some(true),
            (Off, Without::EscapesAsUser, _) => (!is_root()).then_some(true),
            (Off, Without::Contained, _) => Some(false),
            (Off, Without::Cannot, _) => None,
            (_, _, Within::Contained)
            | (Plain, _, Within::WorksInNamespaces)
            | (Namespaces, _, Within::RemainsWithoutNamespaces) => Some(false),
            (_, Without::Escapes, Within::Remains)
            | (Plain, Without::Escapes, Within::RemainsWithoutNamespaces)
            | (Namespaces, Without::Escapes, Within::WorksInNamespaces) => Some(true),
            (_, _, _) => None,
        }
    }

    /// Lets `model` try it. Returns what is wrong with the outcome.
    async fn check(
        &self,
        setting: &Setting,
        model: &Model,
        confinement: Confinement,
        manner: Manner,
    ) -> Option<String> {
        let (name, arguments) = match manner {
            Manner::Itself => (self.name, self.arguments.clone()),
            Manner::Child | Manner::Program => {
                let mut arguments = self.arguments.clone();
                arguments["attempt"] = json!(self.name);
                (if manner == Manner::Child { "child" } else { "program" }, arguments)
            }
        };
        let must_succeed = self.must_succeed(confinement);
        let before = self.state(setting);
        let answer = if self.needs_region {
            model.call_with_region(name, &arguments).await.map(|(answer, is_intact)| {
                if is_intact { answer } else { format!("escaped: the host's memory has changed. {answer}") }
            })
        } else {
            model.call(name, &arguments).await
        };
        let answer = answer.unwrap_or_else(|error| format!("broken: the call failed: {error}"));
        let says_so = answer.starts_with("escaped: ");
        let succeeded = match &self.evidence {
            Evidence::Word => says_so,
            Evidence::Text(text) => says_so && answer.contains(text.as_str()),
            Evidence::Seen(succeeded) => succeeded(),
            Evidence::Change(_) => {
                // A busy machine delivers packets and signals late.
                let end = Instant::now() + if must_succeed == Some(true) { PATIENCE } else { Duration::ZERO };
                loop {
                    let has_changed = before != self.state(setting);
                    if has_changed || Instant::now() > end {
                        break has_changed;
                    }
                }
            }
        };
        let must_succeed = must_succeed?;
        let is_alone = confinement == Confinement::Namespaces;
        // What is not on this machine either shows nothing.
        let is_there = |path: &str| Path::new(path).parent().is_some_and(Path::exists);
        let absences = if is_alone && self.arguments["path"].as_str().is_none_or(is_there) { ABSENCES } else { &[] };
        let refusals = || REFUSALS.iter().chain(self.errors).chain(absences).copied();
        let problem = if answer.starts_with("broken: ") {
            "the attempt is wrong"
        } else if must_succeed && !succeeded {
            "it did not succeed"
        } else if must_succeed {
            return None;
        } else if succeeded {
            "it succeeded"
        } else if says_so {
            // What is sent in a network of its own is lost in silence.
            if self.is_silent || (is_alone && !matches!(self.evidence, Evidence::Word)) {
                return None;
            }
            "it was not refused"
        } else if !refusals()
            .any(|refusal| answer.strip_prefix("contained: ").is_some_and(|reason| reason.starts_with(refusal)))
        {
            "it failed for a reason that has nothing to do with the sandbox"
        } else {
            return None;
        };
        Some(format!("sandbox {confinement:?}, {manner:?}: {} {}: {problem}: {answer}", self.name, self.arguments))
    }

    fn state(&self, setting: &Setting) -> Option<Value> {
        let Evidence::Change(pointer) = self.evidence else { return None };
        std::thread::sleep(Duration::from_millis(5));
        setting.victim.state().pointer(pointer).cloned()
    }
}

/// Where attempts are made.
pub(crate) struct Scene<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) model: &'a Model,
}

/// Makes all attempts without the sandbox, and then in it: by the runner's process, by a child of it, and by a program that it starts. Each
/// of these takes fresh attempts, because an attempt that succeeds uses up what it is made on.
pub(crate) async fn check_all(attempts: impl Fn(&Scene<'_>) -> Vec<Attempt>) {
    let mut problems = String::new();
    let mut n_attempts = 0;
    for confinement in Confinement::ALL {
        // A victim is not what it was after an attempt that succeeded.
        let Some(setting) = Setting::of(confinement).await else { return };
        let model = setting.load(confinement.mode()).await;
        for manner in [Manner::Itself, Manner::Child, Manner::Program] {
            let scene = Scene { setting: &setting, model: &model };
            let all = attempts(&scene);
            n_attempts = all.len();
            let mut is_first = true;
            for attempt in all {
                let is_needed = match (confinement, manner) {
                    (Confinement::Off, Manner::Itself) => attempt.place != Place::Apart,
                    // One attempt shows that other processes can escape as well.
                    (Confinement::Off, Manner::Child) => is_first || attempt.place == Place::Apart,
                    (Confinement::Off, Manner::Program) => is_first,
                    _ => true,
                };
                is_first = false;
                if !is_needed
                    || !attempt.is_tried(manner)
                    || (confinement != Confinement::Off && matches!(attempt.within, Within::NotTried))
                {
                    continue;
                }
                if let Some(problem) = attempt.check(&setting, &model, confinement, manner).await {
                    let _ = writeln!(problems, "{problem}");
                }
            }
        }
    }
    assert!(problems.is_empty(), "of {n_attempts} attempts:\n{problems}");
}
