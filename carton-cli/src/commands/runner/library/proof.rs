//! Proves that a runner works with the library that was linked: by running models. That all symbols resolve proves nothing.

use std::time::Duration;

use carton_core::runner::Assembled;
use carton_core::{Carton, Config, Error};

use crate::failure::{Exit, Failure};

/// The timeout for starting the runner and loading a model.
const PATIENCE: Duration = Duration::from_secs(120);

/// A model gave wrong outputs.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("; "))]
struct Wrong(Vec<String>);

/// Runs the self-tests in the runner's folder with the runner before it has its name, confined as it will be.
pub(super) fn prove(assembled: &Assembled, config: &Config) -> Result<(), Failure> {
    let mut config = config.clone();
    config.runner_dir = assembled.runner_dir().to_path_buf();
    config.auto_install = false;
    // The cartons are part of the runner, whose hash was compared.
    config.trust = Vec::new();
    let runtime = tokio::runtime::Handle::current();
    for path in assembled.self_tests() {
        let load = Carton::load(path.clone()).config(config.clone()).device("cpu").load_timeout(PATIENCE);
        let report = runtime.block_on(async {
            let model = load.start_timeout(PATIENCE).await?;
            model.self_test().await
        });
        let report = report.map_err(|error: Error| {
            let failure = Failure::from(error);
            failure.instead_of(Exit::Integrity, Exit::Runner)
        })?;
        if !report.passed || report.self_tests.is_empty() {
            let problems = report.self_tests.iter().flat_map(|test| test.problems()).collect();
            return Err(Failure::with_exit(Exit::SelfTest, Wrong(problems)));
        }
    }
    Ok(())
}
