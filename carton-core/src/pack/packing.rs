//! Packing in two steps: the first asks the runner what the model is, the second writes the carton.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::check::{TrialCache, Written, check_same_model};
use super::input::Input;
use super::runner_answer::{ask_runner, complete};
use super::{Pack, Packed, RecordSelfTest, pointers, recognize};
use crate::blocking::run_blocking;
use crate::config::Config;
use crate::metadata::{SelfTest, TensorSpec};
use crate::runner::{self, Descriptor, Requirement, RunnerSources};
use crate::shrink::check_links_of_new;
use crate::tensor_data::is_tensor_file;
use crate::{Carton, Error, Inputs};

/// A model to be packed, after the runner has described it. Made by [`Pack::prepare`].
pub struct Packing {
    input: Input,
    pack: Pack,
    config: Config,
    git_lfs_pointers: Vec<PathBuf>,
    /// The runner may have written the model into this folder, so it is kept until the carton is written.
    scratch: Arc<TempDir>,
}

impl std::fmt::Debug for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packing").field("metadata", &self.input.draft).finish_non_exhaustive()
    }
}

impl Packing {
    pub(super) async fn prepare(pack: Pack) -> Result<Self, Error> {
        let (config, descriptor) = choose_runner(pack.clone()).await?;
        let path = absolute(&pack.path)?;
        let scratch = tempfile::tempdir().map_err(|source| Error::Io {
            what: "make a folder in",
            path: std::env::temp_dir(),
            source,
        })?;
        let mut draft = pack.metadata.clone();
        draft.opts.extend(pack.options.clone());
        let response = ask_runner(&descriptor, &path, scratch.path(), &draft, &config, &pack).await?;
        if pack.check && !response.mismatches.is_empty() {
            return Err(Error::SignatureMismatch { mismatches: response.mismatches });
        }
        complete(&mut draft, &descriptor, &response, pack.framework_version.clone())?;

        let folder = pack.metadata_folder.clone().unwrap_or_default();
        let mut input = Input {
            draft,
            model_path: response.path,
            misc: pack.misc.clone(),
            tensors: pack.tensors.clone(),
            tensor_format: pack.tensor_format,
            compression: pack.compression,
        };
        let (mut input, git_lfs_pointers) = run_blocking(None, move |_| {
            input.read_files(&folder)?;
            let pointers = pointers::find(&input.model_path);
            Ok((input, pointers))
        })
        .await?;
        input.declare_shown_outputs();
        let packing = Self { input, pack, config, git_lfs_pointers, scratch: Arc::new(scratch) };
        if !packing.pack.record_self_tests.is_empty() {
            packing.declared_inputs()?;
        }
        Ok(packing)
    }

    /// Returns the inputs in order, as the metadata declares them, or else as the model does.
    ///
    /// # Errors
    /// [`Error::NoSignature`] if neither declares any.
    pub fn declared_inputs(&self) -> Result<&[TensorSpec], Error> {
        match (&self.input.draft.inputs, &self.input.draft.outputs) {
            (None, None) => Err(Error::NoSignature),
            (inputs, _) => Ok(inputs.as_deref().unwrap_or_default()),
        }
    }

    /// Adds one more self-test to be recorded, as [`Pack::record_self_test`] does.
    ///
    /// # Errors
    /// [`Error::NoSignature`] when neither the metadata nor the model declares inputs.
    pub fn record(&mut self, test: impl Into<RecordSelfTest>) -> Result<(), Error> {
        self.declared_inputs()?;
        self.pack.record_self_tests.push(test.into());
        Ok(())
    }

    /// Writes the carton, as [`Carton::pack`] does.
    ///
    /// # Errors
    /// As [`Carton::pack`].
    pub async fn write(mut self) -> Result<Packed, Error> {
        let output = std::mem::take(&mut self.pack.output);
        let output = output.as_path();
        // Declared first, so that it is dropped after the models that were loaded with it.
        let trial = match self.pack.check || !self.pack.record_self_tests.is_empty() {
            true => Some(self.trial_cache().await?),
            false => None,
        };
        let mut loaded = None;
        if let (Some(trial), false) = (&trial, self.pack.record_self_tests.is_empty()) {
            let unrecorded = self.write_unpublished(output).await?;
            let model = unrecorded.load(&self.pack, trial).await?;
            self.record_on(&model).await?;
            if self.input.lacks_outputs() {
                // The check loads the model again, as the carton declares it now.
                self.input.declare_shown_outputs();
            } else {
                loaded = Some((model, unrecorded));
            }
        }
        if self.input.lacks_outputs() {
            return Err(Error::OutputsUnknown);
        }
        let carton = self.write_unpublished(output).await?;
        let links = std::mem::take(&mut self.pack.links);
        let known_links = std::mem::take(&mut self.pack.known_links);
        let unmatched = check_links_of_new(carton.manifest(), &links, &known_links, output)?;
        let links = links.merged(&known_links);
        let check = match (&trial, &loaded) {
            _ if !self.pack.check => None,
            // The model is already loaded, from a carton that lacks only the recorded self-tests.
            (_, Some((model, unrecorded))) => {
                check_same_model(unrecorded.manifest(), carton.manifest())?;
                Some(carton.check(model).await?)
            }
            (Some(trial), None) => {
                let model = carton.load(&self.pack, trial).await;
                Some(carton.check(&model.map_err(|error| error.in_check("does not load"))?).await?)
            }
            (None, None) => None,
        };
        drop(loaded);
        let nested_options = self.input.draft.clone().validate()?.nested_options();
        let (path, config) = (output.to_path_buf(), self.config.clone());
        let progress = self.pack.operation.progress().cloned();
        let git_lfs_pointers = self.git_lfs_pointers;
        run_blocking(progress.as_ref(), move |context| {
            let manifest = match links.is_empty() {
                true => carton.publish(&config)?,
                // The check ran on a carton with all files, so it fetched nothing.
                false => carton.publish_without(links, &path, &context)?,
            };
            drop(trial);
            let has_tensor_file = manifest.iter().any(|(path, _)| is_tensor_file(path));
            let manifest_sha256 = manifest.hash();
            Ok(Packed { path, manifest_sha256, has_tensor_file, nested_options, unmatched, git_lfs_pointers, check })
        })
        .await
    }

    /// Writes a carton from the present input, without giving it its name yet.
    async fn write_unpublished(&self, output: &Path) -> Result<Written, Error> {
        let (input, scratch, output) = (self.input.clone(), Arc::clone(&self.scratch), output.to_path_buf());
        run_blocking(self.pack.operation.progress(), move |context| {
            let _stays_until_it_is_written = scratch;
            Written::new(input.write(&output, &context)?)
        })
        .await
    }

    async fn trial_cache(&self) -> Result<TrialCache, Error> {
        let config = self.config.clone();
        run_blocking(None, move |_| TrialCache::new(&config)).await
    }

    /// Runs the model on the inputs of the self-tests to be recorded, and adds them with its outputs.
    async fn record_on(&mut self, model: &Carton) -> Result<(), Error> {
        for test in std::mem::take(&mut self.pack.record_self_tests) {
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

/// Returns the configuration, and the runner that fits the caller's requirements.
async fn choose_runner(pack: Pack) -> Result<(Config, Descriptor), Error> {
    let progress = pack.operation.progress().cloned();
    run_blocking(progress.as_ref(), move |context| {
        let config = pack.operation.config()?;
        let name = match pack.runner.or(pack.metadata.runner_name) {
            Some(name) => name,
            None => recognize::runner_for(&pack.path)?.ok_or(Error::RunnerUnknown { path: pack.path })?.to_owned(),
        };
        let requirement = Requirement {
            name,
            framework_version: pack.framework_version.or(pack.metadata.required_framework_version),
            compat_version: pack.metadata.runner_compat_version,
        };
        let sources = RunnerSources { config: &config, install: pack.install_runners, context: &context };
        let descriptor = runner::choose(&requirement, &sources)?;
        Ok((config, descriptor))
    })
    .await
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let io_error = |source| Error::Io { what: "open", path: path.to_path_buf(), source };
    // Opens the file, so that an unreadable one is reported before a runner is started.
    let file = std::fs::metadata(path).map_err(io_error)?.is_file();
    if file {
        pointers::check_file(path)?;
    }
    std::path::absolute(path).map_err(io_error)
}
