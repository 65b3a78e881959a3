//! The server: built, bound, run and drained.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::{AccessLog, Hosts, Origins, Scope, Tokens};
use crate::app::App;
use crate::connection::{self, Address, Connections, Listener, TlsError, TlsFiles};
use crate::failure::in_one_line;
use crate::grpc;
use crate::http;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::model::served::LoadError;
use crate::model::{ModelSpec, check_name};

/// How long running calls have to finish when the server ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It cannot listen on an address.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: Address,
        /// The error of the operating system.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A model cannot be served.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It has no address to listen on.
    #[error("the server has no address to listen on")]
    NoAddress,
    /// A limit is zero.
    #[error("the limit `{0}` is zero, and the server would answer nothing; expected more")]
    Limit(&'static str),
    /// A name or version cannot be a part of a URL.
    #[error("{0}")]
    Name(String),
    /// The text of an allowed origin is not an origin.
    #[error("{0}")]
    Origin(String),
    /// The text of an allowed host is not the name of a host.
    #[error("{0}")]
    Host(String),
    /// Two models have one name and version.
    #[error("two models are called `{name}`, version {version}")]
    TwoModels {
        /// The name.
        name: String,
        /// The version.
        version: String,
    },
    /// A bug in this library.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Configures a server. Made by [`Server::builder`].
#[derive(Debug)]
#[must_use = "nothing is served until the server is bound and run"]
pub struct ServerBuilder {
    models: Vec<ModelSpec>,
    http: Vec<Address>,
    grpc: Vec<Address>,
    tls: Option<TlsFiles>,
    tokens: Tokens,
    limits: Limits,
    allowed_origins: Vec<String>,
    allowed_hosts: Vec<String>,
    access_log: Option<AccessLog>,
    repository_api: bool,
    public_pages: bool,
    drain_delay: Duration,
    drain_timeout: Duration,
}

impl ServerBuilder {
    /// Serves this model.
    pub fn model(mut self, model: ModelSpec) -> Self {
        self.models.push(model);
        self
    }

    /// Listens for HTTP here. May be called several times.
    pub fn http(mut self, address: Address) -> Self {
        self.http.push(address);
        self
    }

    /// Listens for gRPC here. May be called several times.
    pub fn grpc(mut self, address: Address) -> Self {
        self.grpc.push(address);
        self
    }

    /// Encrypts all connections, and demands certificates of clients if the files name roots for them.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Demands a bearer token for calls, which is this one, or another that is passed like this.
    pub fn token(mut self, token: &str) -> Self {
        self.tokens.allow(Scope::Calls, token);
        self
    }

    /// Demands a bearer token for administration. It allows calls, too.
    pub fn admin_token(mut self, token: &str) -> Self {
        self.tokens.allow(Scope::Administration, token);
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets pages of this origin call the server from a browser, such as `https://app.example.com`; `*` is every origin. May be called several
    /// times. By default only the server's own pages may.
    pub fn allowed_origin(mut self, origin: impl Into<String>) -> Self {
        self.allowed_origins.push(origin.into());
        self
    }

    /// Lets requests be for this host (their header `Host`, without a port). May be called several times. By default a server that listens on this
    /// machine alone and demands no token for calls answers only requests for addresses and `localhost`; other servers answer for any host, unless
    /// this names some.
    pub fn allowed_host(mut self, host: impl Into<String>) -> Self {
        self.allowed_hosts.push(host.into());
        self
    }

    /// Records requests there.
    pub fn access_log(mut self, log: AccessLog) -> Self {
        self.access_log = Some(log);
        self
    }

    /// Whether clients may load and unload the models of the configuration. Off by default.
    pub fn repository_api(mut self, enabled: bool) -> Self {
        self.repository_api = enabled;
        self
    }

    /// Whether the pages for people, which show the models' cards and examples, need no token where calls need one. Off by default.
    pub fn public_pages(mut self, public: bool) -> Self {
        self.public_pages = public;
        self
    }

    /// Sets how long the server, when it is to end, says that it is not ready before it stops to accept connections; 0 by default.
    pub fn drain_delay(mut self, delay: Duration) -> Self {
        self.drain_delay = delay;
        self
    }

    /// Sets how long running calls have to finish when the server ends; 30 seconds by default.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Begins to listen. Connections are answered when the server is [run](Server::run).
    ///
    /// # Errors
    /// An address is in use, TLS cannot be set up, two models have one name and version, or the text of an allowed origin is
    /// not an origin.
    pub async fn bind(self) -> Result<Server, ServerError> {
        check_names(&self.models)?;
        if self.http.is_empty() && self.grpc.is_empty() {
            return Err(ServerError::NoAddress);
        }
        self.limits.check().map_err(ServerError::Limit)?;
        let origins = Origins::parse(&self.allowed_origins).map_err(ServerError::Origin)?;
        let hosts = Hosts::named(&self.allowed_hosts).map_err(ServerError::Host)?;
        let metrics = Metrics::new().map_err(|error| ServerError::Internal(error.to_string()))?;
        let tls = self.tls.as_ref().map(|files| connection::acceptor(files, &[b"h2", b"http/1.1"])).transpose()?;
        let mut listeners = Vec::new();
        for (face, addresses) in [(Face::Http, &self.http), (Face::Grpc, &self.grpc)] {
            for address in addresses {
                let bound = Listener::bind(address).await;
                let listener =
                    bound.map_err(|error| ServerError::Bind { address: error.address, source: error.source })?;
                listeners.push((face, listener));
            }
        }
        let mut app = App::new(Arc::new(metrics), self.limits);
        let is_open = !self.tokens.are_needed() && is_on_this_machine(listeners.iter().map(|(_, listener)| listener));
        if is_open || !self.allowed_hosts.is_empty() {
            app.hosts = hosts;
        }
        app.tokens = self.tokens;
        app.origins = origins;
        app.access_log = self.access_log;
        app.repository_api = self.repository_api;
        app.public_pages = self.public_pages;
        let (drain_delay, drain_timeout) = (self.drain_delay, self.drain_timeout);
        Ok(Server { app: Arc::new(app), models: self.models, listeners, tls, drain_delay, drain_timeout })
    }
}

/// Whether all listeners are on this machine, and one of them is a port, which pages in its browsers reach.
fn is_on_this_machine<'a>(listeners: impl Iterator<Item = &'a Listener>) -> bool {
    let addresses = listeners.filter_map(|listener| match listener.address()? {
        Address::Tcp(address) => Some(address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())),
        Address::Unix(_) => None,
    });
    let mut addresses = addresses.peekable();
    addresses.peek().is_some() && addresses.all(|is_loopback| is_loopback)
}

fn check_names(models: &[ModelSpec]) -> Result<(), ServerError> {
    for text in models.iter().flat_map(|model| [&model.name, &model.version]) {
        check_name(text).map_err(ServerError::Name)?;
    }
    let mut names = std::collections::BTreeSet::new();
    match models.iter().find(|model| !names.insert((&model.name, &model.version))) {
        Some(model) => Err(ServerError::TwoModels { name: model.name.clone(), version: model.version.clone() }),
        None => Ok(()),
    }
}

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    Http,
    Grpc,
}

/// A server that listens.
///
/// ```no_run
/// use carton_server::{ModelSpec, Server};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().model(ModelSpec::new("digits", "digits.carton")).http("127.0.0.1:8080".parse()?);
/// let server = server.bind().await?;
/// println!("listening on {:?}", server.http_addresses());
/// server.run(std::future::pending()).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is answered until the server is run"]
pub struct Server {
    app: Arc<App>,
    models: Vec<ModelSpec>,
    listeners: Vec<(Face, Listener)>,
    tls: Option<tokio_rustls::TlsAcceptor>,
    drain_delay: Duration,
    drain_timeout: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("models", &self.models)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

/// Changes a server that runs.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    app: Arc<App>,
}

impl ServerHandle {
    /// Whether all models are ready, and the server is not about to end.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.app.is_ready()
    }

    /// Opens the access log again by its path, as programs expect it that rename logs. Until it is opened, lines go to the old file.
    pub fn reopen_access_log(&self) {
        if let Some(log) = &self.app.access_log {
            log.reopen();
        }
    }

    /// Serves exactly these models from now on. Models that are new or changed are loaded first, and no call fails meanwhile. A model that
    /// cannot be loaded, or does not pass the self-tests that are required of it, stays as it was; its error is among those returned.
    pub async fn serve(&self, models: Vec<ModelSpec>) -> Vec<ServerError> {
        if let Err(error) = check_names(&models) {
            return vec![error];
        }
        self.app.repository.serve(models).await.into_iter().map(ServerError::Load).collect()
    }
}

impl Server {
    /// A server without models, which listens nowhere.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            models: Vec::new(),
            http: Vec::new(),
            grpc: Vec::new(),
            tls: None,
            tokens: Tokens::default(),
            limits: Limits::default(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            access_log: None,
            repository_api: false,
            public_pages: false,
            drain_delay: Duration::ZERO,
            drain_timeout: DRAIN_TIMEOUT,
        }
    }

    /// Where it listens for HTTP, with the ports that were chosen.
    #[must_use]
    pub fn http_addresses(&self) -> Vec<Address> {
        self.addresses(Face::Http)
    }

    /// Where it listens for gRPC.
    #[must_use]
    pub fn grpc_addresses(&self) -> Vec<Address> {
        self.addresses(Face::Grpc)
    }

    fn addresses(&self, face: Face) -> Vec<Address> {
        let listeners = self.listeners.iter().filter(|(found, _)| *found == face);
        listeners.filter_map(|(_, listener)| listener.address()).collect()
    }

    /// A handle for changes while the server runs.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { app: Arc::clone(&self.app) }
    }

    /// Loads the models and answers requests until `stop` is done. Then the server is not ready at once, stops to accept connections, and
    /// lets running calls finish within the drain timeout. Probes are answered while models are loaded.
    ///
    /// # Errors
    /// A model cannot be loaded, or does not pass the self-tests that are required of it. If several cannot, the log has the others.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Self { app, models, listeners, tls, drain_delay, drain_timeout } = self;
        let (stopping, watched) = watch::channel(false);
        let (cutting, cut) = watch::channel(false);
        let connections = Connections::new(app.limits, Arc::clone(&app.metrics));
        let mut serving = JoinSet::new();
        for (face, listener) in listeners {
            let (tls, connections, stopping) = (tls.clone(), connections.clone(), watched.clone());
            match face {
                Face::Http => serving.spawn(connection::serve(
                    listener,
                    tls,
                    http::Face::new(&app),
                    connections,
                    stopping,
                    cut.clone(),
                )),
                Face::Grpc => {
                    let face = grpc::Face::new(&app, watched.clone());
                    serving.spawn(connection::serve(listener, tls, face, connections, stopping, cut.clone()))
                }
            };
        }
        let mut stop = std::pin::pin!(stop);
        tokio::select! {
            errors = app.repository.serve(models) => {
                let mut errors = errors.into_iter();
                if let Some(first) = errors.next() {
                    for error in errors {
                        tracing::error!(target: "carton::serve", "{}", in_one_line(&error));
                    }
                    return Err(first.into());
                }
                app.begin();
                stop.await;
            }
            () = &mut stop => {}
        }
        app.drain();
        tracing::info!(target: "carton::serve", "draining");
        tokio::time::sleep(drain_delay).await;
        stopping.send_replace(true);
        let ended = tokio::time::timeout(drain_timeout, async { while serving.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!(target: "carton::serve", "calls were still running after {} s", drain_timeout.as_secs());
            cutting.send_replace(true);
            while serving.join_next().await.is_some() {}
        }
        if let Some(log) = &app.access_log {
            log.flush().await;
        }
        Ok(())
    }
}
