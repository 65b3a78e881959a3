//! The models by name and version, and their states. A model is swapped only for one that was loaded and has passed what is required of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::served::{LoadError, Served};
use super::spec::ModelSpec;
use crate::failure::{Failure, Reason, in_one_line, quoted};
use crate::metrics::Metrics;

/// The models that a server is configured with.
#[derive(Debug)]
pub(crate) struct Repository {
    models: RwLock<BTreeMap<String, BTreeMap<Version, Entry>>>,
    /// Held while models are loaded or unloaded: two changes at once could undo each other.
    changing: Mutex<()>,
    metrics: Arc<Metrics>,
}

/// A version: numbers are compared as numbers, and other texts come before them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(Option<u64>, String);

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        Self(text.parse().ok(), text.to_owned())
    }
}

#[derive(Debug)]
struct Entry {
    spec: ModelSpec,
    state: State,
}

/// The state of a version of a model.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Loading,
    Ready(Arc<Served>),
    /// Loading failed, for this reason.
    Failed(String),
    Unloaded,
}

/// A line of the repository's index.
#[derive(Clone, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) state: State,
}

impl State {
    /// Whether it is loaded and takes calls.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(served) if served.is_ready())
    }

    /// The state as the protocol names it, and the reason for it.
    pub(crate) fn described(&self) -> (&'static str, String) {
        match self {
            Self::Loading => ("LOADING", String::new()),
            Self::Ready(served) if served.is_ready() => ("READY", String::new()),
            Self::Ready(_) => ("UNAVAILABLE", "its runners keep dying".to_owned()),
            Self::Failed(reason) => ("UNAVAILABLE", reason.clone()),
            Self::Unloaded => ("UNAVAILABLE", "unloaded".to_owned()),
        }
    }
}

impl Repository {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { models: RwLock::default(), changing: Mutex::default(), metrics }
    }

    /// The model of this name and version; without one, or with an empty one, of the highest version that is loaded.
    ///
    /// # Errors
    /// There is no such model, or it is not loaded.
    pub(crate) fn find(&self, name: &str, version: Option<&str>) -> Result<Arc<Served>, Failure> {
        let version = version.filter(|version| !version.is_empty());
        let models = self.models.read();
        let unknown = || Failure::unknown_model(name, version);
        let versions = models.get(name).ok_or_else(unknown)?;
        let mut states = versions.iter().rev().filter(|(known, _)| version.is_none_or(|version| known.1 == version));
        let mut states = states.by_ref().map(|(_, entry)| &entry.state).peekable();
        if states.peek().is_none() {
            return Err(unknown());
        }
        let served = states.find_map(|state| match state {
            State::Ready(served) => Some(Arc::clone(served)),
            _ => None,
        });
        served.ok_or_else(|| Failure::new(Reason::Unavailable, format!("model {} is not loaded", quoted(name))))
    }

    /// The versions of a model.
    pub(crate) fn versions(&self, name: &str) -> Vec<String> {
        let models = self.models.read();
        models.get(name).into_iter().flat_map(BTreeMap::keys).map(|version| version.1.clone()).collect()
    }

    /// All models, by name and version.
    pub(crate) fn index(&self) -> Vec<IndexEntry> {
        let models = self.models.read();
        let entries = models.iter().flat_map(|(name, versions)| versions.iter().map(move |entry| (name, entry)));
        let index = |(name, (version, entry)): (&String, (&Version, &Entry))| IndexEntry {
            name: name.clone(),
            version: version.1.clone(),
            state: entry.state.clone(),
        };
        entries.map(index).collect()
    }

    /// Whether every model that is loaded is ready. A model that is being added, or could not be, does not count: the others are served.
    pub(crate) fn is_ready(&self) -> bool {
        let models = self.models.read();
        models.values().flat_map(BTreeMap::values).all(|entry| match &entry.state {
            State::Ready(served) => served.is_ready(),
            State::Unloaded | State::Loading | State::Failed(_) => true,
        })
    }

    /// Serves exactly these models: loads those that are new or changed, and then drops those that are not named any more. A model that
    /// cannot be loaded stays as it was, and so do the versions of a name of which no other version could be loaded. Returns the errors.
    pub(crate) async fn serve(&self, specs: Vec<ModelSpec>) -> Vec<LoadError> {
        let _changing = self.changing.lock().await;
        for spec in &specs {
            let mut models = self.models.write();
            let versions = models.entry(spec.name.clone()).or_default();
            versions
                .entry(spec.version.as_str().into())
                .or_insert_with(|| Entry { spec: spec.clone(), state: State::Loading });
        }
        let names: BTreeSet<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        let named: BTreeSet<_> = specs.iter().map(|spec| (spec.name.clone(), spec.version.clone())).collect();
        let mut errors = Vec::new();
        for spec in specs {
            if !self.is_current(&spec) {
                errors.extend(self.load_as(spec).await.err());
            }
        }
        // Dropping a model writes to the cache, which nothing should wait for.
        let mut dropped = Vec::new();
        let mut models = self.models.write();
        for (name, versions) in models.iter_mut() {
            let is_named = |version: &Version| named.contains(&(name.clone(), version.1.clone()));
            let is_served = |(version, entry): (&Version, &Entry)| {
                is_named(version) && matches!(entry.state, State::Ready(_) | State::Unloaded)
            };
            if !names.contains(name) || versions.iter().any(is_served) {
                dropped.extend(versions.extract_if(.., |version, _| !is_named(version)));
            }
        }
        models.retain(|_, versions| !versions.is_empty());
        drop(models);
        for (version, Entry { spec, .. }) in &dropped {
            self.metrics.forget(&spec.name, &version.1);
        }
        errors
    }

    /// Loads a configured model, or loads it again.
    ///
    /// # Errors
    /// There is no such model, or it cannot be loaded: then it stays as it was.
    pub(crate) async fn load(&self, name: &str) -> Result<(), Failure> {
        let _changing = self.changing.lock().await;
        let specs: Vec<ModelSpec> = {
            let models = self.models.read();
            models.get(name).into_iter().flat_map(BTreeMap::values).map(|entry| entry.spec.clone()).collect()
        };
        if specs.is_empty() {
            return Err(Failure::unknown_model(name, None));
        }
        for spec in specs {
            self.load_as(spec).await.map_err(|error| {
                tracing::error!(target: "carton::serve", "{}", in_one_line(&error));
                let message = format!("model {} cannot be loaded; the server's log says why", quoted(name));
                Failure::new(Reason::Unavailable, message)
            })?;
        }
        Ok(())
    }

    /// Unloads a configured model. Its running calls are answered.
    ///
    /// # Errors
    /// There is no such model.
    pub(crate) async fn unload(&self, name: &str) -> Result<(), Failure> {
        let _changing = self.changing.lock().await;
        let mut models = self.models.write();
        let versions = models.get_mut(name).ok_or_else(|| Failure::unknown_model(name, None))?;
        let unloaded = |entry: &mut Entry| std::mem::replace(&mut entry.state, State::Unloaded);
        let _unloaded: Vec<State> = versions.values_mut().map(unloaded).collect();
        // Dropped after the lock.
        drop(models);
        Ok(())
    }

    /// Whether the model is loaded as the spec says.
    fn is_current(&self, spec: &ModelSpec) -> bool {
        let models = self.models.read();
        let entry = models.get(&spec.name).and_then(|versions| versions.get(&spec.version.as_str().into()));
        entry.is_some_and(|entry| match entry.state {
            State::Ready(_) | State::Unloaded => spec.identity.is_some() && entry.spec.identity == spec.identity,
            State::Loading | State::Failed(_) => false,
        })
    }

    /// Loads a model, and puts it in the place of the one of its name and version.
    async fn load_as(&self, spec: ModelSpec) -> Result<(), LoadError> {
        let metrics = Arc::new(self.metrics.model(&spec.name, &spec.version));
        let loaded = Served::load(&spec, metrics).await;
        let mut models = self.models.write();
        let versions = models.entry(spec.name.clone()).or_default();
        let version = spec.version.as_str().into();
        match loaded {
            Ok(served) => {
                tracing::info!(target: "carton::serve", model = spec.name, version = spec.version, "ready");
                let _replaced = versions.insert(version, Entry { spec, state: State::Ready(served) });
                // Dropped after the lock.
                drop(models);
                Ok(())
            }
            Err(error) => {
                if let Some(entry) = versions.get_mut(&version)
                    && matches!(entry.state, State::Loading | State::Failed(_))
                {
                    *entry = Entry { spec, state: State::Failed("it cannot be loaded".to_owned()) };
                }
                Err(error)
            }
        }
    }
}
