//! Models that are served. `spec` says what to load, `repository` finds models by name and version, and loads, swaps and unloads them.
//! `served` is one loaded model: `admission` decides whether it takes another call (`call`), `queue` lets it wait for a runner, `run` runs
//! what came together (`batch`), `widening` casts inputs of shorter types, `instance` is one runner, `availability` says whether a model takes
//! calls, and `health` how long it pauses when its runners keep dying. Knows neither HTTP nor gRPC.

pub(crate) mod admission;
mod availability;
mod batch;
pub(crate) mod call;
mod health;
mod instance;
mod queue;
pub(crate) mod repository;
mod run;
pub(crate) mod served;
mod spec;
mod widening;

pub use spec::ModelSpec;
pub(crate) use spec::check_name;
