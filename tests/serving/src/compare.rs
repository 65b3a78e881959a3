//! The comparison: each server beside a reference, which is measured again right before it, so that other work on the machine
//! changes both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::Result;
use crate::case::{Case, Encoding};
use crate::client::{Client, Outcome};
use crate::load::{self, Load};
use crate::part::Part;
use crate::report::{Measurement, Report, Row};
use crate::server::Server;
use crate::subject::{self, Carton, PEERS};

/// How long a server may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long each server is kept busy before it is measured.
const WARM_UP: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(crate) struct Options {
    /// What to measure: all unless given
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Peers to compare with: all unless given; `none` for none
    #[arg(long, value_delimiter = ',', value_parser = peer_names())]
    peers: Vec<String>,
    /// Leave out `carton serve`
    #[arg(long)]
    without_carton: bool,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    connections: Vec<usize>,
    /// Seconds that each server is measured for at each number of connections
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Pieces that these seconds are cut into; reference and server take turns
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// The program `carton` [default: the one beside this program]
    #[arg(long, env = "CARTON_PROGRAM")]
    carton: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

fn peer_names() -> clap::builder::PossibleValuesParser {
    PEERS.iter().map(|peer| peer.name).chain(["none"]).collect::<Vec<_>>().into()
}

/// Options of `carton serve` for the two ways in which it is measured.
const WITHOUT_BATCHING: [&str; 2] = ["--max-batch", "1"];
const WITH_BATCHING: [&str; 2] = ["--max-batch", "64"];

/// Measures, and prints the result. A server that fails is reported, and does not stop the others.
pub(crate) async fn run(options: Options) -> Result<()> {
    subject::make_models()?;
    let mut comparison = Comparison::new(options)?;
    if !comparison.options.without_carton {
        let carton = Carton::new(comparison.options.carton.clone())?;
        for (name, batching) in [("carton", WITHOUT_BATCHING), ("carton batching", WITH_BATCHING)] {
            let start = || carton.start(&name.replace(' ', "-"), &["digits", "pixels"], &batching);
            comparison.subject(name, start, |_| true).await;
        }
        let is_binary = |encoding| encoding == Encoding::Binary;
        comparison.subject("body kept", || subject::start_bound("http-kept"), is_binary).await;
        comparison.subject("in process", || carton.start_in_process(), is_binary).await;
        comparison.batching(&carton).await?;
    }
    for peer in &PEERS {
        let names = &comparison.options.peers;
        if names.is_empty() || names.iter().any(|name| name == peer.name) {
            // BentoML's program has one model.
            let models: &[&str] = if peer.speaks(Encoding::Binary) { &["digits", "pixels"] } else { &["digits"] };
            comparison.subject(peer.name, || peer.start(models), |encoding| peer.speaks(encoding)).await;
        }
    }
    if comparison.options.json {
        println!("{}", serde_json::to_string_pretty(&comparison.report)?);
    } else {
        comparison.report.print();
    }
    Ok(())
}

struct Comparison {
    options: Options,
    http: Server,
    grpc: Server,
    report: Report,
}

impl Comparison {
    fn new(options: Options) -> Result<Self> {
        let (http, grpc) = (subject::start_bound("http")?, subject::start_bound("grpc")?);
        Ok(Self { options, http, grpc, report: Report::default() })
    }

    fn parts(&self) -> Vec<Part> {
        let is_chosen = |part: &Part| self.options.only.is_empty() || self.options.only.contains(part);
        Part::value_variants().iter().copied().filter(is_chosen).collect()
    }

    /// Measures a server beside the bounds.
    async fn subject(&mut self, name: &str, start: impl FnOnce() -> Result<Server>, speaks: impl Fn(Encoding) -> bool) {
        let mut parts = self.parts();
        parts.retain(|part| *part != Part::Batching && part.case().is_ok_and(|case| speaks(case.encoding)));
        if parts.is_empty() {
            return;
        }
        if let Err(error) = self.parts_of(name, start, parts).await {
            self.report.fail(name, error.to_string());
        }
    }

    async fn parts_of(&mut self, name: &str, start: impl FnOnce() -> Result<Server>, parts: Vec<Part>) -> Result<()> {
        eprintln!("{name}");
        let mut server = start()?;
        for part in parts {
            let case = Arc::new(part.case()?);
            ready(&mut server, &case).await?;
            let bound = if case.encoding == Encoding::Grpc { &self.grpc } else { &self.http };
            for n_connections in self.options.connections.clone() {
                let row = self.row(name, part, &case, n_connections, bound, &server).await?;
                self.report.rows.push(row);
            }
        }
        Ok(())
    }

    /// Measures what batching gains, beside the same server without it.
    async fn batching(&mut self, carton: &Carton) -> Result<()> {
        if !self.parts().contains(&Part::Batching) {
            return Ok(());
        }
        let case = Arc::new(Part::Batching.case()?);
        let mut without = carton.start("layers-without-batching", &["layers"], &WITHOUT_BATCHING)?;
        let mut with = carton.start("layers-with-batching", &["layers"], &WITH_BATCHING)?;
        ready(&mut without, &case).await?;
        ready(&mut with, &case).await?;
        for n_connections in self.options.connections.clone() {
            let row = self.row("carton batching", Part::Batching, &case, n_connections, &without, &with).await?;
            self.report.rows.push(row);
        }
        Ok(())
    }

    async fn row(
        &self,
        name: &str,
        part: Part,
        case: &Arc<Case>,
        n_connections: usize,
        bound: &Server,
        server: &Server,
    ) -> Result<Row> {
        let piece = Duration::from_secs_f64(self.options.seconds / f64::from(self.options.rounds.max(1)));
        let (mut bounds, mut subjects) = (Measured::default(), Measured::default());
        for server in [bound, server] {
            load::run(server.addresses, case, n_connections, WARM_UP).await?;
        }
        for _ in 0..self.options.rounds.max(1) {
            bounds.measure(bound, case, n_connections, piece).await?;
            subjects.measure(server, case, n_connections, piece).await?;
        }
        Ok(Row {
            part,
            server: name.to_owned(),
            connections: n_connections,
            subject: subjects.finish(server)?,
            bound: bounds.finish(bound)?,
        })
    }
}

#[derive(Default)]
struct Measured {
    load: Load,
    processor_time: Duration,
}

impl Measured {
    async fn measure(&mut self, server: &Server, case: &Arc<Case>, n_connections: usize, time: Duration) -> Result<()> {
        let before = server.processor_time()?;
        self.load.add(load::run(server.addresses, case, n_connections, time).await?);
        self.processor_time += server.processor_time()?.saturating_sub(before);
        Ok(())
    }

    fn finish(self, server: &Server) -> Result<Measurement> {
        Ok(Measurement::new(self.load, self.processor_time, server.memory()?))
    }
}

/// Waits until a server gives the right answer.
async fn ready(server: &mut Server, case: &Arc<Case>) -> Result<()> {
    let end = Instant::now() + READY_LIMIT;
    loop {
        let failure = match Client::connect(server.addresses, case).await {
            Ok(mut client) => match client.call().await {
                Outcome::Right(_) => return Ok(()),
                Outcome::Status(status, text) => format!("{status}: {text}"),
                Outcome::Wrong(text) | Outcome::Broken(text) => text,
                Outcome::Closed => "the server closed the connection".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        if server.has_ended() || Instant::now() > end {
            return Err(format!("{} is not served: {failure}", case.model).into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
