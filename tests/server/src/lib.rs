//! HTTP servers for tests: [`nginx`], and [`Server`], which can be made to misbehave. For each path a function makes the answer to each
//! request, and the answer determines how its bytes are sent. All requests and sent bytes are recorded.
//!
//! This crate depends on no crate of the workspace, so that the unit tests of each of them can use it.
//!
//! [`File`] makes correct answers; a handler that changes them makes wrong ones:
//!
//! ```
//! use carton_test_server::{File, Server};
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
mod content;
mod file;
pub mod nginx;
pub mod proxy;
pub mod registry;
mod request;

use std::collections::HashMap;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use answer::{Answer, Body};
pub use content::Content;
pub use file::File;
pub use request::Request;

type Handler = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// A running server. It ends and closes its connections when it is dropped.
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
    /// Answers the paths without a route.
    fallback: Mutex<Option<Handler>>,
    /// Sent in place of all answers.
    greeting: Mutex<Option<Vec<u8>>>,
    exchanges: Mutex<Vec<Exchange>>,
    /// The open connections, by number.
    connections: Mutex<HashMap<usize, TcpStream>>,
    is_closed: AtomicBool,
}

impl Server {
    /// Starts a server without any path: it answers every request with 404.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn start() -> Self {
        Self::start_at("127.0.0.1")
    }

    /// Starts a server that listens at this IP address.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
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

    /// Gives these answers, in this order, to requests for paths without a route. The last one is repeated.
    pub fn answer_in_turn(&self, answers: impl Into<Vec<Answer>>) {
        let (answers, next) = (answers.into(), AtomicUsize::new(0));
        let handler = move |_: &Request| {
            let turn = next.fetch_add(1, Ordering::SeqCst);
            answers.get(turn).or(answers.last()).cloned().unwrap_or_else(|| Answer::status(404))
        };
        *lock(&self.shared.fallback) = Some(Arc::new(handler));
    }

    /// Answers nothing from now on: sends these bytes when a client connects, and ignores what the client sends.
    pub fn greet(&self, bytes: impl Into<Vec<u8>>) {
        *lock(&self.shared.greeting) = Some(bytes.into());
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

    /// Returns all requests so far, in the order of their arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.exchanges().into_iter().map(|exchange| exchange.request).collect()
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
        for (_, connection) in lock(&self.shared.connections).drain() {
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
    for (number, connection) in listener.incoming().enumerate() {
        if shared.is_closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = connection else { continue };
        let _ = connection.set_nodelay(true);
        if let Ok(clone) = connection.try_clone() {
            lock(&shared.connections).insert(number, clone);
        }
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            shared.talk(&connection);
            // Shut down rather than dropped, because there is a clone of the descriptor.
            let _ = connection.shutdown(Shutdown::Both);
            lock(&shared.connections).remove(&number);
        });
    }
}

impl Shared {
    /// Answers requests on one connection until either side ends it.
    fn talk(&self, mut connection: &TcpStream) {
        let greeting = lock(&self.greeting).clone();
        if let Some(greeting) = greeting {
            let _ = connection.write_all(&greeting);
            answer::wait_for_hang_up(connection);
            return;
        }
        let mut reader = std::io::BufReader::new(connection);
        while let Ok(Some(mut request)) = Request::read(&mut reader) {
            let index = {
                let mut exchanges = lock(&self.exchanges);
                let last = exchanges.iter().rev().find(|other| other.request.path() == request.path());
                request.number = last.map_or(0, |last| last.request.number + 1);
                exchanges.push(Exchange { request: request.clone(), status: 0, written: 0, is_over: false });
                exchanges.len() - 1
            };
            let route = lock(&self.routes).get(request.path()).cloned();
            let handler = route.or_else(|| lock(&self.fallback).clone());
            let answer = handler.map_or_else(|| Answer::status(404), |handler| handler(&request));
            self.update(index, &request, |exchange| exchange.status = answer.status);
            let keep = answer.send(&request, connection, &|n_bytes| {
                self.update(index, &request, |exchange| exchange.written += n_bytes);
            });
            self.update(index, &request, |exchange| exchange.is_over = true);
            if !keep || self.is_closed.load(Ordering::SeqCst) {
                return;
            }
        }
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
