//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::access::{AccessLog, Hosts, Origins, Tokens};
use crate::failure::{Failure, Reason};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::model::admission::Budget;
use crate::model::repository::Repository;

/// The state of a server that all its requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) repository: Repository,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    /// The bytes of all calls.
    pub(crate) bytes: Arc<Budget>,
    pub(crate) tokens: Tokens,
    /// The origins whose pages may call the server.
    pub(crate) origins: Origins,
    /// The hosts that requests over HTTP may be for.
    pub(crate) hosts: Hosts,
    pub(crate) access_log: Option<AccessLog>,
    /// Whether clients may load and unload models.
    pub(crate) repository_api: bool,
    /// Whether the pages for people need no token.
    pub(crate) public_pages: bool,
    /// Whether the models of the start are loaded, and the server is not about to end.
    serving: AtomicBool,
}

impl App {
    pub(crate) fn new(metrics: Arc<Metrics>, mut limits: Limits) -> Self {
        // A request that can never fit is too large, and not one to be tried again.
        limits.body_bytes = limits.body_bytes.min(limits.call_bytes);
        Self {
            repository: Repository::new(Arc::clone(&metrics)),
            metrics,
            limits,
            bytes: Budget::new(limits.call_bytes),
            tokens: Tokens::default(),
            origins: Origins::default(),
            hosts: Hosts::default(),
            access_log: None,
            repository_api: false,
            public_pages: false,
            serving: AtomicBool::new(false),
        }
    }

    /// Whether the server and all its models are ready. A server that starts or is about to end is not.
    pub(crate) fn is_ready(&self) -> bool {
        self.serving.load(Ordering::Relaxed) && self.repository.is_ready()
    }

    /// # Errors
    /// The operator did not enable loading and unloading.
    pub(crate) fn check_repository_api(&self) -> Result<(), Failure> {
        match self.repository_api {
            true => Ok(()),
            false => Err(Failure::new(Reason::Forbidden, "the operator did not enable the model repository")),
        }
    }

    /// The models of the start are loaded.
    pub(crate) fn begin(&self) {
        self.serving.store(true, Ordering::Relaxed);
    }

    /// The server is about to end: it is not ready from now on, and goes on answering.
    pub(crate) fn drain(&self) {
        self.serving.store(false, Ordering::Relaxed);
    }
}

/// The name of the server in its metadata.
pub(crate) const SERVER_NAME: &str = "carton";
/// Its version.
pub(crate) const SERVER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The extensions of the protocol that the server has.
pub(crate) const EXTENSIONS: [&str; 4] =
    ["binary_tensor_data", "model_configuration", "statistics", "model_repository"];
