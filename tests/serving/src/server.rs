//! A server under measurement: a process and all that it starts, with the processor time and the memory of them all.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::case;
use crate::client::Addresses;

/// How long a server may take to print its addresses. Loading models is part of it.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server. Dropping it ends all its processes.
pub(crate) struct Server {
    child: Child,
    pub(crate) addresses: Addresses,
}

impl Server {
    /// Starts a server that prints `listening on http://ADDRESS` and `listening on grpc://ADDRESS` to standard error, and waits for the
    /// protocols that are asked for. The rest of what it prints goes to a log.
    pub(crate) fn start(name: &str, mut command: Command, http: bool, grpc: bool) -> Result<Self> {
        let mut log = fs::File::create(log(name)?)?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", command.get_program().to_string_lossy()))?;
        let errors = child.stderr.take().ok_or("no standard error")?;
        let mut server = Self { child, addresses: Addresses::default() };
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                // The log is for people who look for the cause of a failure.
                let _ = writeln!(log, "{line}");
                let _ = sender.send(line);
            }
        });
        let end = Instant::now() + START_LIMIT;
        while (http && server.addresses.http.is_none()) || (grpc && server.addresses.grpc.is_none()) {
            let wait = end.saturating_duration_since(Instant::now());
            let line =
                lines.recv_timeout(wait).map_err(|_| format!("{name} does not listen: see {}", log_text(name)))?;
            if let Some(address) = address(&line, "http")? {
                server.addresses.http = Some(address);
            } else if let Some(address) = address(&line, "grpc")? {
                server.addresses.grpc = Some(address);
            }
        }
        Ok(server)
    }

    /// Starts a server that is told its ports.
    pub(crate) fn start_at(name: &str, mut command: Command, addresses: Addresses) -> Result<Self> {
        let log = fs::File::create(log(name)?)?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        Ok(Self { child, addresses })
    }

    /// The first process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the first process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Processor time of all processes so far, those included that have ended and were waited for.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let ticks: u64 = tree(self.id())?.iter().map(|process| process.ticks).sum();
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// Memory of all processes in bytes: the sum of their proportional shares, so that what they share counts once.
    pub(crate) fn memory(&self) -> Result<u64> {
        Ok(tree(self.id())?.iter().map(|process| memory(process.id)).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Looked up before the first process ends: what it has started may outlive it, and is nobody's child then.
        let processes = tree(self.id()).unwrap_or_default();
        signal(self.id(), Signal::TERM);
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end && !self.has_ended() {
            std::thread::sleep(Duration::from_millis(20));
        }
        for process in processes {
            // Another process may have the number by now.
            if stat(process.id).is_some_and(|now| now.start == process.start) {
                signal(process.id, Signal::KILL);
            }
        }
        let _ = self.child.wait();
    }
}

/// A process of a server.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) id: u32,
    parent: u32,
    /// When it was started, which together with the number identifies it.
    start: u64,
    /// Processor time of it and of its children that have ended.
    ticks: u64,
    /// Whether it has ended, and nobody has asked how.
    is_zombie: bool,
}

/// A process and all that descend from it.
pub(crate) fn tree(root: u32) -> Result<Vec<Process>> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(process) = entry?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(stat) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found: Vec<Process> = stat(root).into_iter().collect();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(&process.id).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

/// The processes of a server that have no children. Of `carton serve` these are the runners.
pub(crate) fn leaves(root: u32) -> Result<Vec<Process>> {
    let all = tree(root)?;
    let is_leaf = |process: &&Process| {
        process.id != root && !process.is_zombie && all.iter().all(|other| other.parent != process.id)
    };
    Ok(all.iter().filter(is_leaf).copied().collect())
}

/// Memory of a process in bytes; 0 if it has ended.
pub(crate) fn memory(id: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Ends a process by a signal.
pub(crate) fn signal(id: u32, signal: Signal) {
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may have ended already.
        let _ = kill_process(id, signal);
    }
}

fn stat(id: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, which is the second field, may contain anything. See proc(5) for the numbers of the fields.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        id,
        parent: u32::try_from(number(4)?).ok()?,
        start: number(22)?,
        ticks: number(14)? + number(15)? + number(16)? + number(17)?,
        is_zombie: fields.first() == Some(&"Z"),
    })
}

fn address(line: &str, protocol: &str) -> Result<Option<SocketAddr>> {
    let Some((_, rest)) = line.split_once(&format!("listening on {protocol}://")) else { return Ok(None) };
    let address = rest.split_whitespace().next().unwrap_or(rest);
    Ok(Some(address.parse().map_err(|error| format!("`{line}` names no address: {error}"))?))
}

fn log(name: &str) -> Result<PathBuf> {
    let folder = case::workspace().join("logs");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{name}.log")))
}

fn log_text(name: &str) -> String {
    log(name).map(|path| path.display().to_string()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_lines() {
        let found = |line: &str| address(line, "http").unwrap().map(|address| address.to_string());
        assert_eq!(found("listening on http://127.0.0.1:80"), Some("127.0.0.1:80".to_owned()));
        assert_eq!(found("note: listening on http://[::1]:80 and so on"), Some("[::1]:80".to_owned()));
        assert_eq!(found("listening on grpc://127.0.0.1:80"), None);
        assert!(address("listening on http://somewhere", "http").is_err());
    }

    #[test]
    fn a_server_has_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & echo listening on http://127.0.0.1:1 >&2; wait"]);
        let server = Server::start("children", command, true, false).unwrap();
        let processes = tree(server.id()).unwrap();
        assert_eq!(processes.len(), 2);
        let leaves = leaves(server.id()).unwrap();
        assert_eq!(leaves.len(), 1);
        assert!(server.memory().unwrap() > 0);
        drop(server);
        // The signal was sent; the process takes a moment to end.
        let end = Instant::now() + Duration::from_secs(10);
        while stat(leaves[0].id).is_some_and(|process| process.start == leaves[0].start && !process.is_zombie) {
            assert!(Instant::now() < end, "the child is still there");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
