//! A real registry: Debian's `docker-registry` on a free port of this machine, with its own folder and configuration.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest to wait for the registry to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running registry. It ends when it is dropped.
#[derive(Debug)]
pub struct Registry {
    folder: TempDir,
    process: Child,
    address: SocketAddr,
}

/// A request in the registry's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of the answer's body.
    pub body_bytes: u64,
}

impl Registry {
    /// Starts a registry. `configuration` is YAML that is added to its configuration file; `{folder}` in it is the registry's folder. Lines
    /// that begin with two blanks belong to its section `http`.
    ///
    /// Returns `None`, and prints the reason, if the registry is not installed.
    ///
    /// # Panics
    /// If it does not start, or if it is not installed although this is CI (`CI` is set).
    #[must_use]
    pub fn start(configuration: &str) -> Option<Self> {
        Self::start_in(tempfile::Builder::new().prefix("carton-registry-").tempdir().unwrap(), configuration)
    }

    /// Does the same in a folder that the caller has put files into, such as certificates.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_in(folder: TempDir, configuration: &str) -> Option<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), folder, configuration)
    }

    /// Does the same at another address of this machine.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_at(address: IpAddr, folder: TempDir, configuration: &str) -> Option<Self> {
        if Command::new("docker-registry").arg("--version").output().is_err() {
            let reason = "this test needs a registry: `apt-get install docker-registry`";
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
            return None;
        }
        let path = folder.path().display().to_string();
        // Another process may take the port between its choice and the registry's start.
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "the registry does not start: {}", log(folder.path()));
            let address = TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr()).unwrap();
            let text = format!(
                "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {path}/data\n  delete:\n    enabled: \
                 true\nhttp:\n  addr: {address}\n{}\n",
                configuration.replace("{folder}", &path)
            );
            fs::write(folder.path().join("config.yml"), text).unwrap();
            let log = fs::File::create(folder.path().join("log")).unwrap();
            let mut process = Command::new("docker-registry")
                .args(["serve", "config.yml"])
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            while process.try_wait().unwrap().is_none() && Instant::now() < deadline {
                if TcpStream::connect(address).is_ok() {
                    return Some(Self { folder, process, address });
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// `127.0.0.1:PORT`, with the address at which it was started.
    #[must_use]
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// The name of an artifact: `oci://127.0.0.1:PORT/NAME`.
    #[must_use]
    pub fn artifact(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.authority())
    }

    /// The registry's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file that holds a blob.
    #[must_use]
    pub fn blob(&self, sha256: &str) -> PathBuf {
        self.folder.path().join(format!("data/docker/registry/v2/blobs/sha256/{}/{sha256}/data", &sha256[..2]))
    }

    /// Every request so far that was answered, in the order of the answers.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        log(self.folder.path()).lines().filter_map(Request::parse).collect()
    }

    /// Forgets the requests so far.
    ///
    /// # Panics
    /// If the log cannot be changed.
    pub fn forget_requests(&self) {
        // The registry appends to its open file, wherever its end is.
        fs::OpenOptions::new().write(true).open(self.folder.path().join("log")).unwrap().set_len(0).unwrap();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Request {
    /// Reads a line in Apache's format: `… "GET /v2/ HTTP/1.1" 200 2 …`.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once('"')?;
        let (request, rest) = rest.split_once('"')?;
        let mut request = request.split(' ');
        let mut rest = rest.split_whitespace();
        Some(Self {
            method: request.next()?.to_owned(),
            target: request.next().filter(|target| target.starts_with("/v2"))?.to_owned(),
            status: rest.next()?.parse().ok()?,
            body_bytes: rest.next()?.parse().ok()?,
        })
    }
}

fn log(folder: &Path) -> String {
    fs::read(folder.join("log")).map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', "")).unwrap_or_default()
}
