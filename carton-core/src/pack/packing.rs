//! Packing in its two steps: what the runner says of the model is known after the first, the carton written after the second.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::check::{TrialCache, Written, check_same_model};
use super::input::Input;
use super::runner_answer::{ask_runner, complete};
use super::{PackOptions, Packed, RecordSelfTest};
use crate::blocking::run_blocking;
use crate::config::Config;
use crate::metadata::{SelfTest, TensorSpec};
use crate::progress::{ProgressEvent, Stage};
use crate::runner::{self, Choice, Descriptor, Requirement};
use crate::shrink::check_links_of_new;
use crate::tensor_data::is_tensor_file;
use crate::{Carton, Error, Inputs};

/// A model that is about to be packed: made by [`Carton::prepare_pack`].
pub struct Packing {
    input: Input,
    options: PackOptions,
    config: Config,
    /// The runner may have left the model here, so that it stays until the carton is written.
    scratch: Arc<TempDir>,
}

impl std::fmt::Debug for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packing").field("metadata", &self.input.draft).finish_non_exhaustive()
    }
}

impl Packing {
    pub(super) async fn prepare(path: &Path, runner: &str, options: PackOptions) -> Result<Self, Error> {
        let (config, descriptor) = choose_runner(runner.to_owned(), options.clone()).await?;
        let path = absolute(path)?;
        let scratch = tempfile::tempdir().map_err(|source| Error::Io {
            what: "make a folder in",
            path: std::env::temp_dir(),
            source,
        })?;
        let mut draft = options.metadata.clone();
        draft.opts.extend(options.options.clone());
        let response = ask_runner(&descriptor, &path, scratch.path(), &draft, &config, &options).await?;
        if options.check && !response.mismatches.is_empty() {
            return Err(Error::SignatureMismatch { mismatches: response.mismatches });
        }
        complete(&mut draft, &descriptor, &response, options.framework_version.clone())?;

        let folder = options.metadata_folder.clone().unwrap_or_default();
        let mut input = Input {
            draft,
            model_path: response.path,
            misc: options.misc.clone(),
            tensors: options.tensors.clone(),
            tensor_format: options.tensor_format,
            compression: options.compression,
            progress: options.progress.clone(),
        };
        let input = run_blocking(move |_| input.read_files(&folder).map(|()| input)).await?;
        let packing = Self { input, options, config, scratch: Arc::new(scratch) };
        if !packing.options.record_self_tests.is_empty() {
            packing.declared_inputs()?;
        }
        Ok(packing)
    }

    /// The inputs in order, as the metadata declares them, else as the model does.
    ///
    /// # Errors
    /// [`Error::NoSignature`] when neither does.
    pub fn declared_inputs(&self) -> Result<&[TensorSpec], Error> {
        match (&self.input.draft.inputs, &self.input.draft.outputs) {
            (None, None) => Err(Error::NoSignature),
            (inputs, _) => Ok(inputs.as_deref().unwrap_or_default()),
        }
    }

    /// Records one more self-test, as [`PackOptions::record_self_tests`] do.
    ///
    /// # Errors
    /// [`Error::NoSignature`] when neither the metadata nor the model declares inputs and outputs.
    pub fn record(&mut self, test: RecordSelfTest) -> Result<(), Error> {
        self.declared_inputs()?;
        self.options.record_self_tests.push(test);
        Ok(())
    }

    /// Writes the carton to `output`, as [`Carton::pack`] does.
    ///
    /// # Errors
    /// As [`Carton::pack`].
    pub async fn write(mut self, output: impl AsRef<Path>) -> Result<Packed, Error> {
        let output = output.as_ref();
        // Dropped after the models that were loaded with it.
        let trial = match self.options.check || !self.options.record_self_tests.is_empty() {
            true => Some(self.trial_cache().await?),
            false => None,
        };
        let mut loaded = None;
        if let (Some(trial), false) = (&trial, self.options.record_self_tests.is_empty()) {
            let unrecorded = self.write_unpublished(output).await?;
            let model = unrecorded.load(&self.options, trial).await?;
            self.record_on(&model).await?;
            loaded = Some((model, unrecorded));
        }
        let carton = self.write_unpublished(output).await?;
        let links = std::mem::take(&mut self.options.links);
        let known_links = std::mem::take(&mut self.options.known_links);
        let unmatched = check_links_of_new(carton.manifest(), &links, &known_links, output)?;
        let links = links.merged(&known_links);
        let check = match (&trial, &loaded) {
            _ if !self.options.check => None,
            // The model is loaded already, from a carton that lacks only what was recorded.
            (_, Some((model, unrecorded))) => {
                check_same_model(unrecorded.manifest(), carton.manifest())?;
                Some(carton.check(model).await?)
            }
            (Some(trial), None) => {
                let model = carton.load(&self.options, trial).await;
                Some(carton.check(&model.map_err(|error| error.in_check("does not load"))?).await?)
            }
            (None, None) => None,
        };
        drop(loaded);
        let nested_options = self.input.draft.clone().validate()?.nested_options();
        let (path, config) = (output.to_path_buf(), self.config.clone());
        let progress = self.options.progress.clone();
        run_blocking(move |abandoned| {
            let manifest = match links.is_empty() {
                true => carton.publish(&config)?,
                // What was checked had all files, and so nothing of it was fetched.
                false => carton.publish_without(links, &path, &|done, total| {
                    if let Some(progress) = &progress {
                        progress(&ProgressEvent::bytes(Stage::Pack, done, total));
                    }
                    abandoned.control()
                })?,
            };
            drop(trial);
            let has_tensor_file = manifest.iter().any(|(path, _)| is_tensor_file(path));
            Ok(Packed { path, manifest_sha256: manifest.hash(), has_tensor_file, nested_options, unmatched, check })
        })
        .await
    }

    /// Writes a carton of what is known now, which does not get its name yet.
    async fn write_unpublished(&self, output: &Path) -> Result<Written, Error> {
        let (input, scratch, output) = (self.input.clone(), Arc::clone(&self.scratch), output.to_path_buf());
        run_blocking(move |abandoned| {
            let _stays_until_it_is_written = scratch;
            Written::new(input.write(&output, &abandoned)?)
        })
        .await
    }

    async fn trial_cache(&self) -> Result<TrialCache, Error> {
        let config = self.config.clone();
        run_blocking(move |_| TrialCache::new(&config)).await
    }

    /// Runs the model on the inputs to be recorded and adds what it returns.
    async fn record_on(&mut self, model: &Carton) -> Result<(), Error> {
        for test in std::mem::take(&mut self.options.record_self_tests) {
            let inputs = model.named(test.inputs)?;
            let outputs = model.infer(Inputs::Named(inputs.clone())).await?;
            let self_test = SelfTest {
                name: test.name,
                description: None,
                inputs: self.input.add_tensors(inputs),
                expected_out: Some(self.input.add_tensors(outputs)),
            };
            self.input.draft.self_tests.push(self_test);
        }
        Ok(())
    }
}

/// The configuration, and the runner that fits what is asked for.
async fn choose_runner(name: String, options: PackOptions) -> Result<(Config, Descriptor), Error> {
    run_blocking(move |abandoned| {
        let config = match options.config {
            Some(config) => config,
            None => Config::load(None)?,
        };
        let requirement = Requirement {
            name,
            framework_version: options.framework_version.or(options.metadata.required_framework_version),
            compat_version: options.metadata.runner_compat_version,
        };
        let wanted = &|| abandoned.control();
        let (install, progress) = (options.install_runners, options.progress.as_ref());
        let descriptor = runner::choose(&requirement, &Choice { config: &config, install, progress, wanted })?;
        Ok((config, descriptor))
    })
    .await
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let io_error = |source| Error::Io { what: "open", path: path.to_path_buf(), source };
    // Opened, so that a file that cannot be read is told before a runner is started.
    let file = std::fs::metadata(path).map_err(io_error)?.is_file();
    if file {
        std::fs::File::open(path).map_err(io_error)?;
    }
    std::path::absolute(path).map_err(io_error)
}
