//! A real server: nginx on a free port of the loopback interface, with its own folder and configuration.
//!
//! It runs as the user of the test, in one process that ends with the [`Nginx`], and logs every request.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest to wait for the server to start, or to come to rest.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    folder: TempDir,
    process: Option<Child>,
    port: u16,
    configuration: String,
}

/// A request in nginx's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The status of the answer.
    pub status: u16,
    /// The requested `Range`, or `-`.
    pub range: String,
    /// Bytes of the answer's body that nginx sent.
    pub body_bytes: u64,
    /// Bytes of the whole answer that nginx sent.
    pub bytes: u64,
}

impl Nginx {
    /// Starts nginx. `configuration` is added to its `server` block, after the lines that serve [`root`](Self::root).
    ///
    /// Returns `None`, and prints the reason, if nginx is not installed.
    ///
    /// # Panics
    /// If it does not start, or if it is not installed although this is CI (`CI` is set).
    #[must_use]
    pub fn start(configuration: &str) -> Option<Self> {
        let Some(executable) = executable() else {
            let reason = "this test needs nginx: `apt-get install nginx-light`";
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("carton-nginx-").tempdir().unwrap();
        for name in ["root", "temporary"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut nginx = Self { folder, process: None, port: 0, configuration: configuration.to_owned() };
        // Another process may take the port between its choice and nginx's start.
        let deadline = Instant::now() + PATIENCE;
        while !nginx.try_start(&executable, free_port()) {
            assert!(Instant::now() < deadline, "nginx found no free port: {}", nginx.error_log());
        }
        Some(nginx)
    }

    fn try_start(&mut self, executable: &Path, port: u16) -> bool {
        let folder = self.folder.path();
        let configuration = configuration(port, &self.configuration);
        fs::write(folder.join("nginx.conf"), configuration).unwrap();
        let _ = fs::remove_file(folder.join("pid"));
        let mut process = Command::new(executable)
            .arg("-p")
            .arg(folder)
            .arg("-e")
            .arg(folder.join("error.log"))
            .args(["-c", "nginx.conf"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // nginx writes the file once it listens.
        let deadline = Instant::now() + PATIENCE;
        while !fs::metadata(folder.join("pid")).is_ok_and(|metadata| metadata.len() > 0) {
            if process.try_wait().unwrap().is_some() {
                let log = self.error_log();
                assert!(log.contains("Address already in use"), "nginx does not start: {log}");
                return false;
            }
            assert!(Instant::now() < deadline, "nginx does not start: {}", self.error_log());
            std::thread::sleep(Duration::from_millis(2));
        }
        self.process = Some(process);
        self.port = port;
        true
    }

    /// The folder that is served.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// The folder to which paths in the configuration are relative.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of a path below the served folder.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.authority(), path.trim_start_matches('/'))
    }

    /// Writes a file to serve.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let file = self.root().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, bytes).unwrap();
        file
    }

    /// Waits until no request is being answered, and returns every request so far. Requests of clients that went away have only
    /// the bytes that were sent by then.
    ///
    /// # Panics
    /// If requests do not stop.
    #[must_use]
    pub fn requests(&self) -> Vec<Logged> {
        if self.process.is_some() {
            self.wait_for_rest();
        }
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        log.lines().map(Logged::parse).collect()
    }

    /// Returns the requests whose target contains `path`.
    ///
    /// # Panics
    /// As [`requests`](Self::requests).
    #[must_use]
    pub fn requests_for(&self, path: &str) -> Vec<Logged> {
        self.requests().into_iter().filter(|request| request.target.contains(path)).collect()
    }

    /// Forgets all requests so far.
    ///
    /// # Panics
    /// If requests do not stop, or the log cannot be written.
    pub fn forget_requests(&self) {
        self.wait_for_rest();
        // nginx appends, so it continues at the start of an emptied file.
        fs::File::create(self.folder.path().join("access.log")).unwrap();
    }

    /// Kills the server; its port refuses connections from then on.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            process.wait().unwrap();
        }
    }

    /// nginx's error log.
    #[must_use]
    pub fn error_log(&self) -> String {
        fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }

    /// Waits until no request is being answered. A request is logged when it is over, which is after the client has its last byte.
    fn wait_for_rest(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            // The only request being answered is this one.
            if status.contains("Reading: 0 Writing: 1 ") {
                return;
            }
            assert!(Instant::now() < deadline, "nginx is not at rest: {status}\n{}", self.error_log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn status(&self) -> String {
        let mut answer = String::new();
        let mut socket = TcpStream::connect(self.authority()).unwrap();
        socket.write_all(b"GET /.status HTTP/1.0\r\n\r\n").unwrap();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Logged {
    /// The number of requested bytes; `None` if the whole file or its end was requested.
    #[must_use]
    pub fn asked(&self) -> Option<u64> {
        let (first, last) = self.range.strip_prefix("bytes=")?.split_once('-')?;
        Some(last.parse::<u64>().ok()? + 1 - first.parse::<u64>().ok()?)
    }

    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split(' ').collect();
        let [method, target, status, body_bytes, bytes, range @ ..] = fields.as_slice() else { panic!("{line}") };
        Self {
            method: (*method).to_owned(),
            target: (*target).to_owned(),
            status: status.parse().unwrap(),
            range: range.join(" "),
            body_bytes: body_bytes.parse().unwrap(),
            bytes: bytes.parse().unwrap(),
        }
    }
}

fn executable() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("nginx")).find(|file| file.is_file())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the configuration. There is one process, because a master's children outlive it when it is killed. `tcp_nopush` would delay
/// the answers to small requests.
fn configuration(port: u16, server: &str) -> String {
    format!(
        r#"
daemon off;
master_process off;
pid pid;
events {{ worker_connections 512; }}
http {{
    log_format requests "$request_method $request_uri $status $body_bytes_sent $bytes_sent $http_range";
    access_log access.log requests;
    client_body_temp_path temporary;
    proxy_temp_path temporary;
    fastcgi_temp_path temporary;
    uwsgi_temp_path temporary;
    scgi_temp_path temporary;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush off;
    keepalive_timeout 60s;
    keepalive_requests 100000;
    server {{
        listen 127.0.0.1:{port};
        root root;
        location = /.status {{ stub_status; access_log off; }}
        {server}
    }}
}}
"#
    )
}
