//! Fetches models from a server of MLflow by MLflow's own command, which knows the server, its stores and their credentials.

use std::path::{Path, PathBuf};
use std::process::Command;

use carton_format::context::Context;
use carton_format::error_kind::ErrorKind;
use carton_network::http::Network;

use crate::Error;
use crate::error::{Advice, Failure};
use crate::program::{self, Ended};

/// The command that the package `mlflow` installs.
const PROGRAM: &str = "mlflow";

/// The address of a model that MLflow keeps: `runs:/RUN/NAME`, `models:/NAME/VERSION`, `models:/NAME@ALIAS` or `models:/ID`.
pub(super) struct Address(String);

impl Address {
    /// Reads a path as such an address. `None` if it is none, or if it is the path of a file.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let text = path.to_str()?;
        let is_address = ["runs:/", "models:/"].iter().any(|scheme| text.starts_with(scheme));
        (is_address && !path.exists()).then(|| Self(text.to_owned()))
    }

    /// What a folder with the model is called: the name in the registry, or that in the run.
    fn name(&self) -> &str {
        let name = match self.0.strip_prefix("models:/") {
            Some(rest) => rest.trim_start_matches('/').split(['/', '@']).next(),
            None => self.0.trim_end_matches('/').rsplit('/').next(),
        };
        name.filter(|name| !matches!(*name, "" | "." | "..") && name.len() <= 255).unwrap_or("model")
    }

    /// Whether MLflow may be asked: it reaches for the server itself.
    ///
    /// # Errors
    /// The network is not to be used.
    pub(super) fn check(&self, network: &Network) -> Result<(), Error> {
        match network.is_offline() {
            true => Err(MlflowError { address: self.0.clone(), reason: MlflowFailure::Offline }.into()),
            false => Ok(()),
        }
    }

    /// Fetches the model into the empty folder `into`. Returns the model's own folder in it.
    ///
    /// # Errors
    /// There is no MLflow, it does not have the model, or what it has is no model.
    pub(super) fn fetch(&self, into: &Path, context: &Context) -> Result<PathBuf, Error> {
        let folder = into.join(self.name());
        let mut command = Command::new(PROGRAM);
        command.args(["artifacts", "download", "--artifact-uri", &self.0, "--dst-path"]).arg(&folder);
        tracing::info!("`{PROGRAM}` fetches `{}`", self.0);
        let failed = |reason| Error::from(MlflowError { address: self.0.clone(), reason });
        match program::run(&mut command, None, context.cancel_token())
            .map_err(|error| failed(MlflowFailure::Start(error)))?
        {
            Ended::Exited { status, .. } if status.success() => {}
            Ended::Exited { status, stderr, .. } => {
                // The rest is a traceback.
                let said = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
                return Err(failed(MlflowFailure::Said(said.map_or_else(|| status.to_string(), str::to_owned))));
            }
            Ended::TimedOut | Ended::Interrupted => {
                context.check()?;
                return Err(failed(MlflowFailure::Said("it was stopped".to_owned())));
            }
        }
        // A model of a run is in a folder of its name, one of the registry is not.
        let of_run = folder.join(self.0.trim_end_matches('/').rsplit('/').next().unwrap_or_default());
        let found = [of_run, folder].into_iter().find(|folder| folder.join("MLmodel").is_file());
        found.ok_or_else(|| failed(MlflowFailure::NoModel))
    }
}

/// MLflow does not give a model.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch `{address}` from MLflow")]
struct MlflowError {
    address: String,
    #[source]
    reason: MlflowFailure,
}

impl Failure for MlflowError {
    fn kind(&self) -> ErrorKind {
        if matches!(self.reason, MlflowFailure::Offline) { ErrorKind::Network } else { ErrorKind::InvalidInput }
    }

    fn advice(&self) -> Option<Advice> {
        Some(self.reason.hint().into())
    }
}

/// Why MLflow does not give a model.
#[derive(Debug, thiserror::Error)]
enum MlflowFailure {
    #[error("the network is not to be used, and `{PROGRAM}` would use it")]
    Offline,
    #[error("cannot start the command `{PROGRAM}`")]
    Start(#[source] std::io::Error),
    #[error("{0}")]
    Said(String),
    #[error("it has no file `MLmodel`, which a model of MLflow has")]
    NoModel,
}

impl MlflowFailure {
    fn hint(&self) -> &'static str {
        match self {
            Self::Offline => "allow the network, or pack a folder that MLflow has on this machine",
            Self::Start(_) => {
                "MLflow fetches it: install its package where `mlflow` is in PATH, with the server in MLFLOW_TRACKING_URI"
            }
            Self::Said(_) => {
                "the command asks the server in MLFLOW_TRACKING_URI; the models of a run are runs:/RUN/NAME"
            }
            Self::NoModel => "name the model in the run, as in runs:/RUN/NAME, or models:/NAME/VERSION",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn folders_are_called_as_the_models_are() {
        let check = |text: &str, name: Option<&str>| {
            let address = Address::of(Path::new(text));
            assert_eq!(address.as_ref().map(Address::name), name, "{text}");
        };
        check("runs:/f3c1a0/cities", Some("cities"));
        check("runs:/f3c1a0/best/cities/", Some("cities"));
        check("models:/cities/3", Some("cities"));
        check("models:/cities@champion", Some("cities"));
        check("models:/m-64481079", Some("m-64481079"));
        check("models:/..", Some("model"));
        check("models", None);
        check("./runs:/f3c1a0/cities", None);
        check("s3://bucket/cities", None);
    }
}
