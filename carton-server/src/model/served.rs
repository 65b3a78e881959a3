//! One loaded model: its runners, its queue, and its calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use carton_core::metadata::{Signature, TensorSpec};
use carton_core::self_test::SelfTestReport;
use carton_core::{Carton, DataType, Error, Inputs, NumericTensor, OutputStream, Package, Tensors};

use parking_lot::Mutex;

use super::admission::{Budget, Share, TOO_MANY_CALLS};
use super::availability::Availability;
use super::batch;
use super::call::{Answered, CallResources, QueuePlace, RequestCount};
use super::instance::{Instance, RunningCall};
use super::queue::Queue;
use super::run;
use super::spec::ModelSpec;
use super::widening;
use crate::failure::{Failure, Reason};
use crate::metrics::{ModelMetrics, Totals};
use crate::work::{on_thread_if_large, within};

/// A version of a model that is loaded.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) version: String,
    package: Package,
    input_types: Arc<BTreeMap<String, DataType>>,
    declared_outputs: Option<Arc<[TensorSpec]>>,
    instances: Vec<Arc<Instance>>,
    /// Held while a call chooses an instance: two calls at once would choose the same one.
    choosing: Mutex<()>,
    /// `None` if calls are not joined.
    queue: Option<Arc<Queue>>,
    max_batch: usize,
    /// The inputs that the signature declares.
    n_inputs: usize,
    availability: Arc<Availability>,
    calls: Arc<Budget>,
    metrics: Arc<ModelMetrics>,
    self_tests: Option<SelfTestReport>,
}

/// Why a model is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The model cannot be loaded.
    #[error("cannot load model `{name}`")]
    Load {
        /// The name under which it would be served.
        name: String,
        /// The cause.
        source: Error,
    },
    /// The model loads, and does not pass its self-tests.
    #[error("model `{name}` does not pass its self-tests: {report}{}", problems(report))]
    SelfTests {
        /// The name under which it would be served.
        name: String,
        /// What came out.
        report: SelfTestReport,
    },
    /// Its self-tests are required, and it has none that compares outputs.
    #[error("model `{name}` has no self-tests, which are required")]
    NoSelfTests {
        /// The name under which it would be served.
        name: String,
    },
}

fn problems(report: &SelfTestReport) -> String {
    let problems =
        report.self_tests.iter().flat_map(|test| test.problems().into_iter().map(move |problem| (&test.name, problem)));
    problems.map(|(name, problem)| format!("\n  self-test `{name}`: {problem}")).collect()
}

impl Served {
    /// Loads the model, starts its runners, and runs its self-tests if they are required.
    pub(super) async fn load(spec: &ModelSpec, metrics: Arc<ModelMetrics>) -> Result<Arc<Self>, LoadError> {
        let failed = |source| LoadError::Load { name: spec.name.clone(), source };
        let first = spec.load.clone().await.map_err(failed)?;
        let self_tests = match spec.self_test {
            true => Some(self_test(&spec.name, &first).await?),
            false => None,
        };
        let mut models = vec![first];
        for _ in 1..spec.instances.get() {
            models.push(models[0].start_another().await.map_err(failed)?);
        }
        let package = models[0].package().clone();
        let (label, availability) = (format!("{} {}", spec.name, spec.version), Availability::new());
        let instance = |model| Instance::new(model, &label, &availability, &metrics);
        let instances: Vec<_> = models.into_iter().map(instance).collect();
        let signature = package.metadata().signature();
        let is_batched = spec.batching.max_batch.get() > 1 && signature.and_then(Signature::batch_symbol).is_some();
        let n_inputs = signature.and_then(|signature| signature.inputs.as_ref()).map_or(0, Vec::len);
        let input_types = Arc::new(input_types(&package));
        let declared_outputs = signature.and_then(|signature| signature.outputs.as_ref());
        let declared_outputs = declared_outputs.map(|outputs| outputs.as_slice().into());
        Ok(Arc::new(Self {
            name: spec.name.clone(),
            version: spec.version.clone(),
            input_types,
            declared_outputs,
            queue: is_batched.then(|| Queue::start(spec.batching, &instances, Arc::clone(&availability), &metrics)),
            max_batch: if is_batched { spec.batching.max_batch.get() } else { 0 },
            n_inputs,
            instances,
            choosing: Mutex::new(()),
            availability,
            calls: Budget::new(spec.max_queue),
            metrics,
            self_tests,
            package,
        }))
    }

    pub(crate) fn package(&self) -> &Package {
        &self.package
    }

    /// The most elements of a batch; 0 if calls are not joined.
    pub(crate) fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// The results of the self-tests that were run before the model was ready.
    pub(crate) fn self_tests(&self) -> Option<&SelfTestReport> {
        self.self_tests.as_ref()
    }

    /// The dtypes of the inputs that the carton declares, by name.
    pub(crate) fn input_types(&self) -> &Arc<BTreeMap<String, DataType>> {
        &self.input_types
    }

    /// The outputs that the carton declares.
    pub(crate) fn declared_outputs(&self) -> Option<&Arc<[TensorSpec]>> {
        self.declared_outputs.as_ref()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.availability.check().is_ok()
    }

    pub(crate) fn totals(&self) -> Totals {
        self.metrics.totals()
    }

    /// Begins to count a request.
    pub(crate) fn begin_count(&self) -> RequestCount {
        RequestCount::new(Arc::clone(&self.metrics), Instant::now())
    }

    /// Whether the model would take a call in now.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub(crate) fn check_room(&self) -> Result<(), Failure> {
        self.availability.check()?;
        match self.calls.has_room() {
            true => Ok(()),
            false => Err(Failure::new(Reason::Overloaded, TOO_MANY_CALLS)),
        }
    }

    /// Takes a call in, if the model is ready and its queue is not full.
    ///
    /// # Errors
    /// It is not ready, or too many calls wait.
    pub(crate) fn admit(&self) -> Result<QueuePlace, Failure> {
        self.availability.check()?;
        Ok(QueuePlace::new(Share::of_calls(&self.calls)?, &self.metrics))
    }

    /// Memory for an input of a call: shared with a runner, if it is large. The shape must have been compared with what the client sent.
    ///
    /// # Errors
    /// The shared memory stays full, or the runner cannot be restarted.
    pub(crate) async fn alloc(&self, dtype: DataType, shape: &[usize]) -> Result<NumericTensor, Failure> {
        let memory = run::zeroed(self.instance()?, dtype, shape).await.map_err(|error| Failure::from(&error))?;
        memory.ok_or_else(|| Failure::new(Reason::TooLarge, "there is no memory for an input of this shape"))
    }

    /// Casts inputs of shorter types than the declared ones, which hold their every value. What that takes is added to the share.
    ///
    /// # Errors
    /// There is no memory for one.
    pub(crate) async fn widened(&self, mut inputs: Tensors, share: &mut Share) -> Result<Tensors, Failure> {
        let n_bytes = widening::n_bytes(&self.input_types, &inputs);
        if n_bytes == 0 {
            return Ok(inputs);
        }
        share.grow(n_bytes)?;
        let declared = Arc::clone(&self.input_types);
        let widen = move || {
            widening::widen(&declared, &mut inputs).map_err(|reason| Failure::new(Reason::TooLarge, reason))?;
            Ok(inputs)
        };
        on_thread_if_large(n_bytes, widen).await
    }

    /// Runs the model. The deadline ends the wait for the answer, and not the runner, which may be at work on calls of others.
    ///
    /// # Errors
    /// The inputs contradict the signature, the model fails, its runner dies, or the deadline passes.
    pub(crate) async fn infer(
        &self,
        inputs: Tensors,
        deadline: Option<Instant>,
        held: CallResources,
    ) -> Result<Answered, Failure> {
        within(deadline, async {
            // Calls with more inputs than the signature has are not compared with others, which takes the longer the more they are.
            let queue = self.queue.as_ref().filter(|_| inputs.len() <= self.n_inputs);
            match queue.zip(batch::n_rows(&inputs)) {
                Some((queue, n_rows)) => queue.run(inputs, n_rows, deadline, held).await,
                None => self.run_alone(inputs, held).await,
            }
        })
        .await?
    }

    async fn run_alone(&self, inputs: Tensors, held: CallResources) -> Result<Answered, Failure> {
        let (instance, _running) = self.enter()?;
        instance.until_up().await?;
        let ran = instance.infer(inputs).await;
        let (outputs, timings) = ran.map_err(|error| Failure::from(&error))?;
        self.metrics.ran(1, 1, &timings);
        let outputs_memory = held.share_of(&outputs);
        Ok(Answered { outputs, outputs_memory, memory: held.into_memory() })
    }

    /// Runs the model, and returns its outputs as they arrive.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub(crate) async fn stream(
        self: &Arc<Self>,
        inputs: Tensors,
        deadline: Option<Instant>,
    ) -> Result<Answers, Failure> {
        let (instance, running) = self.enter()?;
        let begin = async {
            instance.until_up().await?;
            let begun = instance.model.infer(Inputs::Named(inputs)).stream().await;
            begun.map_err(|error| Failure::from(&error))
        };
        let stream = within(deadline, begin).await??;
        let (metrics, started) = (Arc::clone(&self.metrics), Instant::now());
        Ok(Answers { stream, deadline, metrics, started, _running: running })
    }

    /// Chooses the runner of a call, and counts the call there.
    fn enter(&self) -> Result<(Arc<Instance>, RunningCall), Failure> {
        let _choosing = self.choosing.lock();
        let instance = Arc::clone(self.instance()?);
        let running = instance.enter();
        Ok((instance, running))
    }

    /// The runner with the fewest calls, of those that are up.
    fn instance(&self) -> Result<&Arc<Instance>, Failure> {
        let least = self.instances.iter().min_by_key(|instance| instance.busyness());
        least.ok_or_else(|| Failure::new(Reason::Internal, "the model has no runner"))
    }
}

/// The dtypes of the declared inputs. Of inputs with one name, which other writers declare, the first counts.
fn input_types(package: &Package) -> BTreeMap<String, DataType> {
    let mut types = BTreeMap::new();
    for spec in package.metadata().inputs() {
        types.entry(spec.name.clone()).or_insert(spec.dtype);
    }
    types
}

impl Drop for Served {
    /// Runs after the last call, because every call holds an `Arc` of this.
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.close();
        }
    }
}

async fn self_test(name: &str, model: &Carton) -> Result<SelfTestReport, LoadError> {
    let failed = |source| LoadError::Load { name: name.to_owned(), source };
    let report = model.self_test().await.map_err(failed)?;
    match (report.passed, report.counts.passed) {
        (false, _) => Err(LoadError::SelfTests { name: name.to_owned(), report }),
        (true, 0) => Err(LoadError::NoSelfTests { name: name.to_owned() }),
        (true, _) => Ok(report),
    }
}

/// The outputs of a streamed call. Dropping it cancels the call.
#[derive(Debug)]
pub(crate) struct Answers {
    stream: OutputStream,
    deadline: Option<Instant>,
    metrics: Arc<ModelMetrics>,
    started: Instant,
    _running: RunningCall,
}

impl Answers {
    /// The next outputs; `None` after the last. An error ends the stream.
    pub(crate) async fn next(&mut self) -> Option<Result<Tensors, Failure>> {
        match within(self.deadline, self.stream.next()).await {
            Ok(Some(Ok(outputs))) => Some(Ok(outputs.into_tensors())),
            Ok(Some(Err(error))) => Some(Err(Failure::from(&error))),
            Ok(None) => {
                self.metrics.streamed(self.started.elapsed());
                None
            }
            Err(failure) => Some(Err(failure)),
        }
    }
}
