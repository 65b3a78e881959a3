//! Starts a runner without a model, to see whether it starts at all.

use std::time::Duration;

use carton_runner_interface::host::ConnectionOptions;

use super::{complete_policy, start_runner};
use crate::Error;
use crate::config::Config;
use crate::runner::Descriptor;
use crate::runner::launch::{Access, LaunchPolicy};

/// The time that a runner gets to say hello.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the runner, confined as for a model, waits for its hello, and ends it. Its interpreter and its libraries are there if this
/// succeeds. What a single model needs beyond them is not looked at.
///
/// # Errors
/// The runner cannot be started, dies at its start, or does not speak the protocol.
pub async fn try_runner(descriptor: &Descriptor, config: &Config) -> Result<(), Error> {
    let mut policy = LaunchPolicy::default();
    complete_policy(&mut policy, config)?;
    let connection = ConnectionOptions { hello_timeout: PATIENCE, ..ConnectionOptions::default() };
    start_runner(descriptor, &policy, &Access::default(), connection, None).await?;
    Ok(())
}
