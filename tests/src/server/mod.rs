//! A server that can be made to misbehave: for each path a function makes the answer to each request, and the answer determines how
//! its bytes are sent. All requests and sent bytes are recorded.
//!
//! [`File`] makes correct answers; a handler that changes them makes wrong ones:
//!
//! ```
//! use carton_tests::server::{File, Server};
//! let server = Server::start();
//! let file = File::new(vec![7; 1000]);
//! // The connection breaks in the first answer only.
//! server.route("/model", move |request| {
//!     let answer = file.answer(request);
//!     if request.number == 0 { answer.cut_after(100) } else { answer }
//! });
//! assert!(server.url("/model").starts_with("http://127.0.0.1:"));
//! ```

#![allow(clippy::unwrap_used, clippy::panic)]

mod answer;
mod file;
mod request;

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use answer::{Answer, Body};
pub use file::{Content, File};
pub use request::Request;

type Handler = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// A running server. It ends, and breaks its connections, when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<std::thread::JoinHandle<()>>,
}

/// A received request, and the record of its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// The status of the answer; 0 if it was no HTTP.
    pub status: u16,
    /// Bytes of the body that were passed to the operating system so far.
    pub written: u64,
    /// Whether the answer has ended.
    pub is_over: bool,
}

#[derive(Default)]
struct Shared {
    routes: Mutex<HashMap<String, Handler>>,
    exchanges: Mutex<Vec<Exchange>>,
    connections: Mutex<Vec<TcpStream>>,
    is_closed: AtomicBool,
}

impl Server {
    /// Starts a server without any path: it answers every request with 404.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Lets `handler` answer the requests for a path; it replaces an earlier one. The path has no query.
    pub fn route(&self, path: &str, handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) {
        lock(&self.shared.routes).insert(path.to_owned(), Arc::new(handler));
    }

    /// Serves a file correctly.
    pub fn serve(&self, path: &str, file: File) {
        self.route(path, move |request| file.answer(request));
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.address, path.trim_start_matches('/'))
    }

    /// Returns all requests so far, in the order in which they were received.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.shared.exchanges).clone()
    }

    /// Returns the requests for one path.
    #[must_use]
    pub fn exchanges_for(&self, path: &str) -> Vec<Exchange> {
        self.exchanges().into_iter().filter(|exchange| exchange.request.path() == path).collect()
    }

    /// Returns the number of bytes of bodies that were sent for one path.
    #[must_use]
    pub fn written_for(&self, path: &str) -> u64 {
        self.exchanges_for(path).iter().map(|exchange| exchange.written).sum()
    }

    /// Forgets all requests so far; their numbers start at 0 again.
    pub fn forget(&self) {
        lock(&self.shared.exchanges).clear();
    }

    /// Waits until `n_requests` for a path were received.
    ///
    /// # Panics
    /// If they are not received within thirty seconds.
    pub fn wait_for_requests(&self, path: &str, n_requests: usize) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.exchanges_for(path).len() < n_requests {
            assert!(Instant::now() < deadline, "{} requests for {path}", self.exchanges_for(path).len());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Breaks every connection and refuses new ones.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.is_closed.store(true, Ordering::SeqCst);
        // Wakes the acceptor, which drops the listener.
        let _ = TcpStream::connect(self.address);
        let _ = acceptor.join();
        for connection in lock(&self.shared.connections).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        if shared.is_closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = connection else { continue };
        let _ = connection.set_nodelay(true);
        if let Ok(clone) = connection.try_clone() {
            lock(&shared.connections).push(clone);
        }
        let shared = Arc::clone(shared);
        std::thread::spawn(move || shared.talk(connection));
    }
}

impl Shared {
    /// Answers requests on one connection until either side ends it.
    fn talk(&self, connection: TcpStream) {
        let mut reader = std::io::BufReader::new(&connection);
        while let Ok(Some(mut request)) = Request::read(&mut reader) {
            let index = {
                let mut exchanges = lock(&self.exchanges);
                request.number = exchanges.iter().filter(|other| other.request.path() == request.path()).count();
                exchanges.push(Exchange { request: request.clone(), status: 0, written: 0, is_over: false });
                exchanges.len() - 1
            };
            let handler = lock(&self.routes).get(request.path()).cloned();
            let answer = handler.map_or_else(|| Answer::status(404), |handler| handler(&request));
            self.update(index, &request, |exchange| exchange.status = answer.status);
            let keep = answer.send(&request, &connection, &|n_bytes| {
                self.update(index, &request, |exchange| exchange.written += n_bytes);
            });
            self.update(index, &request, |exchange| exchange.is_over = true);
            if !keep || self.is_closed.load(Ordering::SeqCst) {
                break;
            }
        }
        // Shut down rather than dropped, because there is a clone of the descriptor.
        let _ = connection.shutdown(Shutdown::Both);
    }

    /// Changes the record of an exchange, unless it was forgotten meanwhile.
    fn update(&self, index: usize, request: &Request, change: impl FnOnce(&mut Exchange)) {
        let mut exchanges = lock(&self.exchanges);
        if let Some(exchange) = exchanges.get_mut(index).filter(|exchange| exchange.request.id == request.id) {
            change(exchange);
        }
    }
}

/// Locks a mutex even if it is poisoned: the records must survive a handler that fails an assertion.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
