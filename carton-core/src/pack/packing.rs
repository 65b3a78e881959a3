//! Packing in two steps: the first asks the runner what the model is, the second writes the carton.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::digest::Sha256Digest;
use carton_format::manifest::Manifest;
use carton_format::metadata::{Metadata, SelfTest, Signature, TensorSpec};
use carton_format::side::Side;
use carton_format::signature::{Giver, as_declared, check_inputs};
use carton_format::tensor_data::is_tensor_file;
use carton_runner_interface::DeclaredTensor;
use carton_templates::Template;
use carton_tensor::content::Content;
use semver::VersionReq;
use tempfile::TempDir;

use super::check::{TrialCache, Written, check_same_model};
use super::error::PackError;
use super::fetch::{FetchedModel, fetch_model};
use super::input::Input;
use super::recognize::Recognized;
use super::runner_answer::{Asking, complete, declared, doubtful_outputs};
use super::selected::{Searched, select, unused};
use super::warnings::{self, Warnings};
use super::{Pack, RecordSelfTest, other_side, outputs, pointers, readme, recognize};
use crate::blocking::run_blocking;
use crate::config::Config;
use crate::model::Observed;
use crate::package::{NotPacked, Selection};
use crate::packed::{PackCheck, PackWarning, Packed};
use crate::runner::{self, Descriptor, PLATFORM, Requirement, RunnerSources, known_platforms};
use crate::shrink::check_links_of_new;
use crate::variables;
use crate::{Carton, Error, Inputs, Location};

/// A model to be packed, after the runner has described it. Made by [`Pack::prepare`].
pub struct Packing {
    input: Input,
    pack: Pack,
    config: Config,
    /// The model may have been written into these folders, so they are kept until the carton is written.
    scratch: Arc<Scratch>,
    /// The model, if it was on a server.
    fetched: Arc<FetchedModel>,
    not_packed: Vec<NotPacked>,
    /// The model, if it was asked for its signature.
    asked: Option<Asked>,
    /// A call that the model itself gives as an example. It becomes the self-test if there is no other.
    example: Option<RecordSelfTest>,
    /// How the shapes of declared outputs differ from those that the model states. The check finds out which of them hold.
    doubts: Vec<String>,
    warnings: Warnings,
}

/// Temporary folders of one packing.
struct Scratch {
    /// For the runner.
    runner: TempDir,
    /// For the Python model that a template writes.
    template: TempDir,
}

impl Scratch {
    fn new() -> Result<Self, Error> {
        let folder = || tempfile::tempdir().map_err(Error::io("make a folder in", &std::env::temp_dir()));
        Ok(Self { runner: folder()?, template: folder()? })
    }
}

/// A carton without a signature, whose model was loaded to be asked for it. The order of the fields is that in which they are dropped: the cache
/// goes last.
struct Asked {
    model: Carton,
    carton: Written,
    trial: TrialCache,
}

impl std::fmt::Debug for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packing").field("metadata", &self.input.draft).finish_non_exhaustive()
    }
}

impl Packing {
    pub(super) async fn prepare(pack: Pack) -> Result<Self, Error> {
        let mut warnings = Warnings::new(pack.strict);
        warnings.add_mistakes(warnings::mistakes(&pack.metadata))?;
        let fetched = Arc::new(fetched(&pack).await?);
        let prepared = Self::prepare_fetched(pack, Arc::clone(&fetched), warnings).await;
        prepared.map_err(|error| fetched.explain(error))
    }

    async fn prepare_fetched(
        mut pack: Pack,
        fetched: Arc<FetchedModel>,
        mut warnings: Warnings,
    ) -> Result<Self, Error> {
        pack.path = fetched.path().to_path_buf();
        pack = pack.papers(&fetched);
        let Chosen { config, descriptor, template } = choose_runner(pack.clone()).await?;
        let given = absolute(&pack.path)?;
        let scratch = Scratch::new()?;
        let mut selection = Selection::of(&given, &pack.exclude).map_err(PackError::Package)?;
        let mut path = given.clone();
        if let Some(template) = &template {
            warnings.extend(template.warnings().iter().map(|text| PackWarning::Template { text: text.clone() }));
            path = scratch.template.path().to_path_buf();
            template.link_into(&path).map_err(PackError::Template)?;
            if let Some(name) = template.name_of(&pack.path) {
                selection = selection.within(name);
            }
        }
        let mut draft = pack.metadata.clone();
        draft.opts.extend(pack.options.clone());
        let variables = variables::take_from_options(&mut draft.opts)?;
        draft.env.extend(variables);
        // Before the runner is asked, which may fail for this reason.
        let mut selected = select(&path, &selection).await?;
        if let Some(template) = template.filter(|_| given.is_dir()) {
            // By the path that the template was made with.
            selected.not_packed.extend(unused(template, &pack.path).await?);
            selected.not_packed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        }
        let secrets = Searched { pack: &pack, selection: &selection, is_folder: given.is_dir() };
        secrets.check(&draft, &selected.files)?;
        warnings.extend(selected.idle.into_iter().map(|pattern| PackWarning::IdlePattern { pattern }));
        let pointers = pointers::find(&selected.files);
        let pointer = |path: PathBuf| {
            let given = path.to_str().map(|path| PathBuf::from(selection.in_given_folder(path)));
            PackWarning::GitLfsPointer { path: given.unwrap_or(path) }
        };
        warnings.extend(pointers.iter().cloned().map(pointer));
        let leave_out = selected.left_out;
        let asking = Asking { descriptor: &descriptor, config: &config, pack: &pack, given: &given, leave_out };
        let mut response = asking.ask(&path, scratch.runner.path(), &draft).await?;
        let doubts = doubtful_outputs(&draft, &response);
        if pack.check && !response.mismatches.is_empty() {
            response.mismatches.extend(doubts);
            return Err(PackError::SignatureMismatch { mismatches: response.mismatches }.into());
        }
        complete(&mut draft, &descriptor, &response, pack.framework_version.clone())?;

        let folder = pack.metadata_folder.clone().unwrap_or_default();
        let mut input = Input {
            draft,
            model_path: response.path,
            selection: selection.clone(),
            misc: pack.misc.clone(),
            tensors: pack.tensors.clone(),
            tensor_format: pack.tensor_format,
            compression: pack.compression,
        };
        let model = given.clone();
        let mut input = run_blocking(None, move |_| {
            readme::keep(&model, &input.selection, &mut input.misc)?;
            input.read_files(&folder)?;
            Ok(input)
        })
        .await?;
        // The runner may have taken files from elsewhere.
        let gathered = select(&input.model_path, &input.selection).await?;
        let mut files = gathered.files.clone();
        // A paper of the model may be one of its files.
        let papers = input.misc.iter().filter(|(_, place)| {
            let place = std::fs::canonicalize(place);
            !selected.files.iter().any(|(_, file)| place.as_ref().is_ok_and(|place| place == file))
        });
        files.extend(papers.map(|(name, place)| (format!("misc/{name}"), place.clone())));
        secrets.check(&input.draft, &files)?;
        let found = pointers::find(&gathered.files).into_iter().filter(|path| !pointers.contains(path));
        warnings.extend(found.map(pointer));
        warnings.add_mistakes(warnings::missing_files(&input.draft, |path| input.misc.contains_key(path)))?;
        input.declare_shown_outputs();
        let mut packing = Self {
            input,
            pack,
            config,
            scratch: Arc::new(scratch),
            fetched,
            not_packed: selected.not_packed,
            asked: None,
            example: None,
            doubts,
            warnings,
        };
        if packing.is_checked() && packing.input.draft.inputs.is_none() && packing.input.draft.outputs.is_none() {
            packing.ask_model().await?;
        }
        packing.declare_recorded_inputs()?;
        Ok(packing)
    }

    /// Loads the model, and declares what it states about itself.
    async fn ask_model(&mut self) -> Result<(), Error> {
        let output = self.pack.output.clone();
        let trial = self.trial_cache().await?;
        let carton = self.write_unpublished(&output).await?;
        let model = self.load_checked(&carton, &trial).await?;
        let stated = model.describe().await.map_err(|error| error.in_check("does not state its signature"))?;
        if !stated.inputs.is_empty() || !stated.outputs.is_empty() {
            let specs = |specs: &[DeclaredTensor], optional: &[String]| -> Vec<TensorSpec> {
                let described = |spec: &DeclaredTensor| {
                    let mut described = declared(spec);
                    described.optional = optional.contains(&spec.name).then_some(true);
                    described.description = stated.descriptions.get(&spec.name).cloned();
                    described
                };
                specs.iter().map(described).collect()
            };
            self.input.draft.inputs = Some(specs(&stated.inputs, &stated.optional_inputs));
            // Where the model does not know its outputs, a self-test shows them.
            let outputs = specs(&stated.outputs, &stated.optional_outputs);
            self.input.draft.outputs = (!outputs.is_empty()).then_some(outputs);
            self.example = (!stated.example.is_empty()).then(|| Inputs::Named(stated.example).into());
        }
        self.asked = Some(Asked { model, carton, trial });
        Ok(())
    }

    /// Returns the inputs in order, as the metadata declares them, or else as the model does.
    ///
    /// # Errors
    /// Neither declares any.
    pub fn declared_inputs(&self) -> Result<&[TensorSpec], Error> {
        match (&self.input.draft.inputs, &self.input.draft.outputs) {
            (None, None) => Err(PackError::NoSignature.into()),
            (inputs, _) => Ok(inputs.as_deref().unwrap_or_default()),
        }
    }

    /// Adds one more self-test to be recorded, as [`Pack::record_self_test`] does.
    ///
    /// # Errors
    /// Neither the metadata nor the model declares inputs, and those of the test have no names.
    pub fn record(&mut self, test: impl Into<RecordSelfTest>) -> Result<(), Error> {
        self.pack.record_self_tests.push(test.into());
        self.declare_recorded_inputs()
    }

    /// Declares the inputs of the calls that are to be recorded, if nothing else declares any.
    ///
    /// # Errors
    /// They have no names.
    fn declare_recorded_inputs(&mut self) -> Result<(), Error> {
        let tests = &self.pack.record_self_tests;
        if tests.is_empty() || self.declared_inputs().is_ok() {
            return Ok(());
        }
        let mut shown = Vec::new();
        for test in tests {
            let Inputs::Named(inputs) = &test.inputs else { return Err(PackError::NoSignature.into()) };
            shown.extend(inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)));
        }
        self.input.draft.inputs = Some(other_side::of_shown(shown));
        Ok(())
    }

    /// Writes the carton, as [`Carton::pack`] does.
    ///
    /// # Errors
    /// As [`Carton::pack`].
    pub async fn write(self) -> Result<Packed, Error> {
        let fetched = Arc::clone(&self.fetched);
        self.write_fetched().await.map_err(|error| fetched.explain(error))
    }

    async fn write_fetched(mut self) -> Result<Packed, Error> {
        let output = std::mem::take(&mut self.pack.output);
        let output = output.as_path();
        if self.pack.record_self_tests.is_empty() && self.input.draft.self_tests.is_empty() {
            self.pack.record_self_tests.extend(self.example.take());
        }
        let records = !self.pack.record_self_tests.is_empty();
        if self.input.lacks_outputs() && !records {
            return Err(PackError::OutputsUnknown.into());
        }
        let checks = self.is_checked();
        // The cache is declared first, so that it is dropped after the models that were loaded with it.
        let (trial, mut carton, mut model) = match self.asked.take() {
            Some(Asked { model, carton, trial }) => (Some(trial), carton, Some(model)),
            None => {
                let trial = if checks || records { Some(self.trial_cache().await?) } else { None };
                (trial, self.write_unpublished(output).await?, None)
            }
        };
        if let (Some(trial), true) = (&trial, records) {
            let loaded = match model.take() {
                Some(model) => model,
                None => carton.load(&self.pack, trial).await?,
            };
            let declared = self.input.draft.outputs.clone();
            self.record_on(&loaded).await?;
            self.input.declare_shown_outputs();
            if self.input.lacks_outputs() {
                return Err(PackError::OutputsUnknown.into());
            }
            let recorded = self.write_unpublished(output).await?;
            check_same_model(carton.manifest(), recorded.manifest())?;
            carton = recorded;
            // Loaded again for the check if the carton declares other outputs now.
            model = (self.input.draft.outputs == declared).then_some(loaded);
        } else if model.is_some() && self.input.draft.inputs.is_some() {
            // The model was loaded before its signature was known.
            model = None;
            carton = self.write_unpublished(output).await?;
        }
        let links = std::mem::take(&mut self.pack.links);
        let known_links = std::mem::take(&mut self.pack.known_links);
        let unmatched = check_links_of_new(carton.manifest(), &links, &known_links, output)?;
        let links = links.merged(&known_links);
        let mut check = None;
        if let (Some(trial), true) = (&trial, checks) {
            let model = match model {
                Some(model) => model,
                None => self.load_checked(&carton, trial).await?,
            };
            check = Some(self.check(&mut carton, model, trial, output).await?);
        }
        let metadata = self.input.draft.clone().validate()?;
        self.warn_of(&metadata, &unmatched, carton.manifest());
        let (warnings, not_packed) = (self.warnings.into_found(), self.not_packed);
        let (path, config) = (output.to_path_buf(), self.config.clone());
        let progress = self.pack.operation.progress().cloned();
        run_blocking(progress.as_ref(), move |context| {
            let manifest = match links.is_empty() {
                true => carton.publish(&config)?,
                // The check ran on a carton with all files, so it fetched nothing.
                false => carton.publish_without(links, &path, &context)?,
            };
            drop(trial);
            Ok(Packed { path, manifest_sha256: manifest.hash(), unmatched, not_packed, warnings, check })
        })
        .await
    }

    /// Runs the self-tests of the carton on `model`, which is loaded; without any, runs it on zeros. If the outputs that the model itself
    /// declares are not those that it returns, writes and loads the carton again with what holds.
    ///
    /// # Errors
    /// A self-test fails ([`ErrorKind::SelfTest`](crate::ErrorKind)); the model states other shapes than the metadata, and no run
    /// shows that those of the metadata hold.
    async fn check(
        &mut self,
        carton: &mut Written,
        model: Carton,
        trial: &TrialCache,
        output: &Path,
    ) -> Result<PackCheck, Error> {
        let runner = model.runner().to_string();
        let report = carton.self_test(&model).await?;
        if report.self_tests.is_empty() {
            let Some((zeros, observed)) = outputs::run_on_zeros(&model).await? else {
                return Ok(PackCheck { runner, zeros: None, report });
            };
            let compared = observed.map_or(Compared::Nothing, |observed| self.compare_zeros(&observed));
            if compared != Compared::Same && !self.doubts.is_empty() {
                return Err(PackError::SignatureMismatch { mismatches: std::mem::take(&mut self.doubts) }.into());
            }
            if compared == Compared::Corrected {
                drop(model);
                *carton = self.write_unpublished(output).await?;
                self.load_checked(carton, trial).await?;
            }
            return Ok(PackCheck { runner, zeros: Some(zeros), report });
        }
        if report.passed {
            return Ok(PackCheck { runner, zeros: None, report });
        }
        if !self.correct_by_self_tests(&model).await? {
            return Err(PackError::SelfTests(report).into());
        }
        drop(model);
        *carton = self.write_unpublished(output).await?;
        let model = self.load_checked(carton, trial).await?;
        let report = carton.self_test(&model).await?;
        match report.passed {
            true => Ok(PackCheck { runner, zeros: None, report }),
            false => Err(PackError::SelfTests(report).into()),
        }
    }

    /// Compares what the model returned for zeros with the declared outputs, and corrects these if they are the model's own.
    fn compare_zeros(&mut self, observed: &Observed) -> Compared {
        let are_the_models = self.are_outputs_the_models();
        let Some(declared) = &mut self.input.draft.outputs else { return Compared::Nothing };
        let before = declared.clone();
        if are_the_models {
            outputs::correct(declared, observed, &mut self.warnings);
        }
        let is_corrected = *declared != before;
        match outputs::compare(declared, observed) {
            Ok(()) if is_corrected => Compared::Corrected,
            Ok(()) => Compared::Same,
            Err(error) => {
                // The sizes of the zeros may be some that the model is not for, so this alone is no error.
                if self.doubts.is_empty() {
                    let differences = error.violations.iter().map(ToString::to_string);
                    self.warnings.extend(differences.map(|difference| PackWarning::OutputDiffers { difference }));
                }
                if is_corrected { Compared::Corrected } else { Compared::Different }
            }
        }
    }

    /// Corrects the declared outputs by what the model returns for the self-tests. Returns whether they were corrected.
    async fn correct_by_self_tests(&mut self, model: &Carton) -> Result<bool, Error> {
        if !self.are_outputs_the_models() {
            return Ok(false);
        }
        let Input { draft, tensors, .. } = &self.input;
        let mut declared = draft.outputs.clone().unwrap_or_default();
        outputs::correct_by_self_tests(model, draft, tensors, &mut declared, &mut self.warnings).await?;
        let is_corrected = draft.outputs.as_ref() != Some(&declared);
        self.input.draft.outputs = Some(declared);
        Ok(is_corrected)
    }

    /// Whether the declared outputs are those that the model declares, and not those of the metadata.
    fn are_outputs_the_models(&self) -> bool {
        self.pack.metadata.outputs.is_none()
    }

    async fn load_checked(&self, carton: &Written, trial: &TrialCache) -> Result<Carton, Error> {
        carton.load(&self.pack, trial).await.map_err(|error| error.in_check("does not load"))
    }

    /// Warns of what is visible only in the finished metadata and files.
    fn warn_of(&mut self, metadata: &Metadata, unmatched: &[Sha256Digest], manifest: &Manifest) {
        self.warnings.extend(
            metadata
                .left_out(&self.input.draft)
                .map(|(input, left_out_by)| PackWarning::OptionalInput { input: input.to_owned(), left_out_by }),
        );
        let has_tensor_file = manifest.iter().any(|(path, _)| is_tensor_file(path));
        self.warnings.extend(PackWarning::of_format(metadata, has_tensor_file));
        if !unmatched.is_empty() {
            self.warnings.add(PackWarning::Unmatched { digests: unmatched.to_vec() });
        }
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

    /// Whether the model is loaded and run before the carton gets its name.
    fn is_checked(&self) -> bool {
        self.pack.check && !self.is_for_no_machine()
    }

    /// Whether the metadata requires platforms, none of which exists ([`PackWarning::UnknownPlatform`]). No machine can check such a model.
    fn is_for_no_machine(&self) -> bool {
        let exists = |platform: &String| platform == PLATFORM || known_platforms().any(|known| known == platform);
        let platforms = &self.input.draft.required_platforms;
        !platforms.is_empty() && !platforms.iter().any(exists)
    }

    async fn trial_cache(&self) -> Result<TrialCache, Error> {
        let config = self.config.clone();
        run_blocking(None, move |_| TrialCache::new(&config)).await
    }

    /// Runs the model on the inputs of the self-tests to be recorded, and adds them with its outputs. Corrects the declared outputs if they
    /// are those that the model itself declares.
    ///
    /// # Errors
    /// The model fails; or its outputs are not those that the metadata declares.
    async fn record_on(&mut self, model: &Carton) -> Result<(), Error> {
        for test in std::mem::take(&mut self.pack.record_self_tests) {
            let mut inputs = model.named(test.inputs)?;
            as_declared(Side::Input, Giver::User, self.input.draft.inputs.as_deref(), &mut inputs)?;
            let mut observed = model.observe(Inputs::Named(inputs.clone()), None).await?;
            if model.package().metadata().signature().is_none() {
                // The model was loaded before its signature was known, so that nothing has checked the inputs.
                let stated = Signature::new(self.input.draft.inputs.clone(), None);
                let given = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor));
                check_inputs(&stated, &mut observed.bindings, given)?;
            }
            let are_the_models = self.are_outputs_the_models();
            if let Some(declared) = &mut self.input.draft.outputs {
                if are_the_models {
                    outputs::correct(declared, &observed, &mut self.warnings);
                }
                outputs::compare(declared, &observed)?;
            }
            let mut self_test = SelfTest::new(self.input.add_tensors(inputs));
            self_test.name = test.name;
            self_test.description = test.description;
            self_test.expected_out = Some(self.input.add_tensors(observed.outputs));
            self.input.draft.self_tests.push(self_test);
        }
        Ok(())
    }
}

/// The result of comparing what a model returned with what is declared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// The model returned nothing.
    Nothing,
    Same,
    /// The declaration was the model's own, and is corrected.
    Corrected,
    Different,
}

/// Fetches the model if it is on a server.
async fn fetched(pack: &Pack) -> Result<FetchedModel, Error> {
    // A path that is no text is one of this machine.
    let location = pack.path.to_str().map_or_else(|| Location::from(&pack.path), Location::from);
    let mut fetching = fetch_model(location).config(pack.operation.config()?);
    if let Some(progress) = pack.operation.progress().cloned() {
        fetching = fetching.progress(move |event| progress(event));
    }
    fetching.await
}

/// How a model is packed.
struct Chosen {
    config: Config,
    descriptor: Descriptor,
    template: Option<Template>,
}

/// Chooses the runner that fits the caller's requirements, and the template where the model needs one.
async fn choose_runner(pack: Pack) -> Result<Chosen, Error> {
    let progress = pack.operation.progress().cloned();
    run_blocking(progress.as_ref(), move |context| {
        let config = pack.operation.config()?;
        let (name, template) = match pack.runner.or(pack.metadata.runner_name) {
            Some(name) => {
                let template = recognize::template_for(&name, &pack.path)?;
                (name, template)
            }
            None => match recognize::recognize(&pack.path)? {
                Some(Recognized { runner, template }) => (runner.to_owned(), template),
                None => {
                    // Text may be anything.
                    let content = pointers::content(&pack.path).ok().flatten();
                    let content = content.filter(|content| *content != Content::Text);
                    return Err(PackError::RunnerUnknown { path: pack.path, content }.into());
                }
            },
        };
        let requirement = Requirement {
            name,
            framework_version: pack.framework_version.or(pack.metadata.required_framework_version).or_else(|| {
                let version = template.as_ref()?.python()?;
                VersionReq::parse(&format!("={version}")).ok()
            }),
            compat_version: pack.metadata.runner_compat_version,
        };
        let sources = RunnerSources { config: &config, install: pack.install_runners, context: &context };
        let descriptor = runner::choose(&requirement, &sources)?;
        Ok(Chosen { config, descriptor, template })
    })
    .await
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    // Opens the file, so that an unreadable one is reported before a runner is started.
    let file = std::fs::metadata(path).map_err(Error::io("open", path))?.is_file();
    if file {
        pointers::check_file(path)?;
    }
    std::path::absolute(path).map_err(Error::io("open", path))
}
