//! Keeps a number of connections busy for a while, each with one request at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;

use crate::Result;
use crate::case::Case;
use crate::client::{Addresses, Client, Outcome};

/// What a load gave.
#[derive(Default)]
pub(crate) struct Load {
    /// Times from requests to their answers.
    pub(crate) times: Vec<Duration>,
    /// How long the connections were kept busy.
    pub(crate) duration: Duration,
    pub(crate) n_failures: usize,
    /// The first failure.
    pub(crate) failure: Option<String>,
}

/// Sends the requests of a case for `duration`. Nothing is pinned to a processor: server and clients share the machine as they would.
pub(crate) async fn run(
    addresses: Addresses,
    case: &Arc<Case>,
    n_connections: usize,
    duration: Duration,
) -> Result<Load> {
    let barrier = Arc::new(Barrier::new(n_connections + 1));
    let mut clients = Vec::new();
    for _ in 0..n_connections {
        let mut client = Client::connect(addresses, case).await?;
        let barrier = Arc::clone(&barrier);
        clients.push(tokio::spawn(async move {
            barrier.wait().await;
            let mut load = Load::default();
            let end = Instant::now() + duration;
            while Instant::now() < end {
                match client.call().await {
                    Outcome::Right(time) => load.times.push(time),
                    Outcome::Status(status, text) => load.fail(format!("{status}: {text}")),
                    Outcome::Wrong(text) => load.fail(text),
                    Outcome::Broken(text) => {
                        load.fail(text);
                        break;
                    }
                    Outcome::Closed => {
                        load.fail("the server closed the connection".to_owned());
                        break;
                    }
                }
            }
            load
        }));
    }
    barrier.wait().await;
    let start = Instant::now();
    let mut total = Load::default();
    for client in clients {
        total.add(client.await?);
    }
    total.duration = start.elapsed();
    Ok(total)
}

impl Load {
    /// Adds another load of the same kind.
    pub(crate) fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.duration += other.duration;
        self.n_failures += other.n_failures;
        self.failure = self.failure.take().or(other.failure);
    }

    fn fail(&mut self, text: String) {
        self.n_failures += 1;
        self.failure.get_or_insert(text);
    }
}
