//! Makes the models to serve of a configuration.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use carton_core::{Carton, Config, Load, Location, ProgressEvent};

use super::ConfigError;
use super::file::{ModelConfig, ServeConfig};
use super::folder::cartons;
use crate::model::{ModelSpec, check_name};

impl ServeConfig {
    /// The models, with those that are in the folder of cartons now. `config` has the folders, permissions and credentials to load them with.
    ///
    /// # Errors
    /// A model has no location, or a name that cannot be in a URL; the folder of cartons cannot be read.
    pub fn models(&self, config: &Config) -> Result<Vec<ModelSpec>, ConfigError> {
        self.specs(config, |load| load)
    }

    /// As [`models`](Self::models). Loading them reports its progress.
    ///
    /// # Errors
    /// As [`models`](Self::models).
    pub fn models_reporting(
        &self,
        config: &Config,
        on_progress: impl Fn(&ProgressEvent) + Clone + Send + Sync + 'static,
    ) -> Result<Vec<ModelSpec>, ConfigError> {
        self.specs(config, |load| load.progress(on_progress.clone()))
    }

    /// The models, each loaded as `adapt` changes it.
    fn specs(&self, config: &Config, adapt: impl Fn(Load) -> Load) -> Result<Vec<ModelSpec>, ConfigError> {
        let ModelConfig { location, name, expect, .. } = &self.defaults;
        let of_one = [("location", location.is_some()), ("name", name.is_some()), ("expect", expect.is_some())];
        if let Some((key, _)) = of_one.into_iter().find(|(_, is_set)| *is_set) {
            let reason = format!("`{key}` is that of one model, and would be ignored here");
            return Err(ConfigError::Model { model: "[defaults]".to_owned(), reason });
        }
        let mut models = self.models.clone();
        if let Some(folder) = &self.repository {
            let found = cartons(folder).map_err(|source| ConfigError::Read {
                what: "folder of cartons",
                path: folder.clone(),
                source,
            })?;
            models.extend(found.into_iter().map(|carton| ModelConfig {
                location: Some(carton.path.to_string_lossy().into_owned()),
                name: Some(carton.name),
                version: carton.version,
                ..ModelConfig::default()
            }));
        }
        let spec = |(index, model): (usize, ModelConfig)| {
            let spec = model.or(&self.defaults).spec(config, &adapt);
            spec.map_err(|(name, reason)| ConfigError::Model {
                model: name.unwrap_or_else(|| (index + 1).to_string()),
                reason,
            })
        };
        models.into_iter().enumerate().map(spec).collect()
    }
}

impl ModelConfig {
    /// A model at this path or URL.
    #[must_use]
    pub fn at(location: impl Into<String>) -> Self {
        Self { location: Some(location.into()), ..Self::default() }
    }

    /// Fills in what is not set from `defaults`.
    fn or(self, defaults: &Self) -> Self {
        let Self { location, name, version, expect, instances, max_batch, max_delay_ms, max_queue, .. } = self;
        let mut options = defaults.options.clone();
        options.extend(self.options);
        let mut allow = defaults.allow.clone();
        allow.network |= self.allow.network;
        allow.build |= self.allow.build;
        allow.read.extend(self.allow.read);
        let env = [&defaults.env[..], &self.env].concat();
        Self {
            location,
            name,
            version: version.or_else(|| defaults.version.clone()),
            expect,
            instances: instances.or(defaults.instances),
            max_batch: max_batch.or(defaults.max_batch),
            max_delay_ms: max_delay_ms.or(defaults.max_delay_ms),
            max_queue: max_queue.or(defaults.max_queue),
            timeout: self.timeout.or(defaults.timeout),
            self_test: self.self_test.or(defaults.self_test),
            signature_mode: self.signature_mode.or(defaults.signature_mode),
            device: self.device.or_else(|| defaults.device.clone()),
            runner: self.runner.or_else(|| defaults.runner.clone()),
            options,
            sandbox: self.sandbox.or(defaults.sandbox),
            allow,
            env,
            limits: self.limits.or(defaults.limits),
        }
    }

    fn spec(self, config: &Config, adapt: impl Fn(Load) -> Load) -> Result<ModelSpec, (Option<String>, String)> {
        let text = self.location.as_deref().ok_or_else(|| (self.name.clone(), "it has no `location`".to_owned()))?;
        let location = Location::from(text);
        let name = match &self.name {
            Some(name) => name.clone(),
            None => location.name().ok_or_else(|| {
                (None, format!("`{text}` says no name; set `name`, or write `NAME={text}` as the argument"))
            })?,
        };
        let version = self.version.clone().unwrap_or_else(|| "1".to_owned());
        for part in [&name, &version] {
            check_name(part).map_err(|reason| (Some(format!("`{name}`")), reason))?;
        }
        // What is behind a URL with a hash stays the same.
        let stamp = match location.path() {
            Some(path) => stamp(path),
            None => (self.expect.is_some() || location.is_pinned()).then(String::new),
        };
        let identity = stamp.map(|stamp| format!("{stamp} {self:?}"));
        let load = adapt(self.load(location));
        let mut spec = ModelSpec::of_load(name, load.config(config.clone())).version(version);
        spec.instances = self.instances.unwrap_or(spec.instances);
        spec.batching.max_batch = self.max_batch.unwrap_or(spec.batching.max_batch);
        spec.batching.max_delay = self.max_delay_ms.unwrap_or(spec.batching.max_delay);
        spec.max_queue = self.max_queue.unwrap_or(spec.max_queue);
        spec.self_test = self.self_test.unwrap_or(spec.self_test);
        spec.identity = identity;
        Ok(spec)
    }

    fn load(&self, location: Location) -> Load {
        let bare = location.path().filter(|path| self.expect.is_none() && looks_bare(path)).map(Path::to_path_buf);
        let mut load = match (bare, &self.runner) {
            (Some(path), Some(runner)) => Carton::load_bare(path, runner),
            (_, Some(runner)) => Carton::load(location).runner(runner),
            (_, None) => Carton::load(location),
        };
        load = load.options(self.options.clone()).allow(self.allow.clone()).limits(self.limits);
        load = self.env.iter().fold(load, Load::env);
        if let Some(hash) = self.expect {
            load = load.expect_hash(hash);
        }
        if let Some(mode) = self.signature_mode {
            load = load.signature(mode);
        }
        if let Some(device) = &self.device {
            load = load.device(device);
        }
        if let Some(timeout) = self.timeout {
            load = load.timeout(timeout);
        }
        if let Some(mode) = self.sandbox {
            load = load.sandbox(mode);
        }
        load
    }
}

/// Whether a path is one of a model that is in no carton.
fn looks_bare(path: &Path) -> bool {
    match path.is_dir() {
        true => !path.join("carton.toml").is_file(),
        false => path.is_file() && !Carton::looks_like_one(path),
    }
}

/// What changes when the file at `path` does. `None` for what is not there.
fn stamp(path: &Path) -> Option<String> {
    let file = if path.is_dir() { path.join("MANIFEST") } else { path.to_path_buf() };
    let metadata = std::fs::metadata(file).ok()?;
    Some(format!("{}:{}:{}.{}", metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names() {
        assert!(check_name("resnet-50.v2").is_ok());
        for name in ["", ".", "..", "a/b", "a b", "ä", "a\n", &"x".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn defaults_fill_in() {
        let config = Config::in_folder(Path::new("/nowhere"));
        let serve = ServeConfig {
            defaults: ModelConfig { instances: Some(3.try_into().unwrap()), ..ModelConfig::default() },
            models: vec![
                ModelConfig::at("a.carton"),
                ModelConfig { name: Some("n".to_owned()), ..ModelConfig::at("b.carton") },
            ],
            ..ServeConfig::default()
        };
        let models = serve.models(&config).unwrap();
        assert_eq!((models[0].name.as_str(), models[0].instances.get()), ("a", 3));
        assert_eq!((models[1].name.as_str(), models[1].version.as_str()), ("n", "1"));
        let nameless = ServeConfig { models: vec![ModelConfig::default()], ..ServeConfig::default() };
        assert_eq!(nameless.models(&config).unwrap_err().to_string(), "model 1: it has no `location`");
        let pinned = ServeConfig { defaults: ModelConfig::at("a.carton"), ..ServeConfig::default() };
        let error = pinned.models(&config).unwrap_err().to_string();
        assert_eq!(error, "model [defaults]: `location` is that of one model, and would be ignored here");
        let stats = ModelConfig { name: Some("stats".to_owned()), ..ModelConfig::at("b.carton") };
        let stats = ServeConfig { models: vec![stats], ..ServeConfig::default() };
        assert!(stats.models(&config).unwrap_err().to_string().contains("taken by the statistics"));
    }
}
