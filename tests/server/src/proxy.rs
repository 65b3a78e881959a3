//! A real proxy: Debian's `tinyproxy` on a free port of the loopback interface, which wants a password.

use std::fs;
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest to wait for the proxy to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running proxy for the user `me` with the password `secret`. It ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    folder: TempDir,
    process: Child,
    port: u16,
}

impl Proxy {
    /// Starts a proxy. Returns `None`, and prints the reason, if it is not installed.
    ///
    /// # Panics
    /// If it does not start, or if it is not installed although this is CI (`CI` is set).
    #[must_use]
    pub fn start() -> Option<Self> {
        if Command::new("tinyproxy").arg("-v").output().is_err() {
            let reason = "this test needs a proxy: `apt-get install tinyproxy-bin`";
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Another process may take the port between its choice and the proxy's start.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the proxy does not start: {log}");
            let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port();
            let path = folder.path().display();
            let configuration = format!(
                "Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 100\nBasicAuth me secret\nLogLevel Connect\nLogFile \"{path}/log\"\n"
            );
            fs::write(folder.path().join("tinyproxy.conf"), configuration).unwrap();
            let mut process = Command::new("tinyproxy")
                .args(["-d", "-c", "tinyproxy.conf"])
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            while process.try_wait().unwrap().is_none() && Instant::now() < deadline {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(Self { folder, process, port });
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The requests so far, such as `CONNECT 192.0.2.2:5000 HTTP/1.1`.
    ///
    /// # Panics
    /// If the log cannot be read.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        let requests = log.lines().filter_map(|line| line.split_once("Request (file descriptor")?.1.split_once("): "));
        requests.map(|(_, request)| request.to_owned()).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An address of this machine that is not of the loopback interface. Returns `None`, and prints the reason, if there is none.
#[must_use]
pub fn outer_address() -> Option<IpAddr> {
    // Nothing is sent: the system chooses the address that a packet would be sent from.
    let socket = UdpSocket::bind("0.0.0.0:0").ok();
    let address = socket.and_then(|socket| {
        socket.connect("203.0.113.1:9").ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    let address = address.filter(|address| !address.is_loopback() && !address.is_unspecified());
    if address.is_none() {
        eprintln!("skipped: this machine has no address but those of the loopback interface");
    }
    address
}
