//! Sockets that the server listens on: TCP, or a Unix socket.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Where a server listens: `127.0.0.1:8080`, `[::]:8080`, `localhost:8080`, or `unix:/run/carton.sock`. Port 0 is any free port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP socket: host and port.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A text that is not an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT or unix:PATH, found `{0}`")]
pub struct AddressError(pub String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let invalid = || AddressError(text.to_owned());
        match text.strip_prefix("unix:") {
            Some("") => Err(invalid()),
            Some(path) => Ok(Self::Unix(path.into())),
            None if text.contains("://") => Err(invalid()),
            None => {
                let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
                port.and_then(|port| port.parse::<u16>().ok()).map(|_| Self::Tcp(text.to_owned())).ok_or_else(invalid)
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub(crate) struct BindError {
    pub(crate) address: Address,
    pub(crate) source: io::Error,
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    // The file is removed before the socket is closed: afterwards it could be that of a successor.
    Unix { path: SocketFile, listener: UnixListener },
}

/// The file of a Unix socket, which is removed with the listener.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    Tcp(SocketAddr),
    Unix,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// A connection that was accepted.
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Listens on `address`. The file of a Unix socket that no server uses any more is replaced.
    pub(crate) async fn bind(address: &Address) -> Result<Self, BindError> {
        let failed = |source| BindError { address: address.clone(), source };
        match address {
            Address::Tcp(text) => {
                let text = text.clone();
                let resolved = tokio::task::spawn_blocking(move || text.to_socket_addrs()).await;
                let resolved: Vec<_> = resolved.map_err(|error| failed(error.into()))?.map_err(failed)?.collect();
                Ok(Self::Tcp(TcpListener::bind(resolved.as_slice()).await.map_err(failed)?))
            }
            Address::Unix(path) => {
                remove_unused(path).await.map_err(failed)?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                Ok(Self::Unix { path: SocketFile(path.clone()), listener })
            }
        }
    }

    /// Where it listens, with the port that was chosen.
    pub(crate) fn address(&self) -> Option<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| Address::Tcp(address.to_string())),
            Self::Unix { path, .. } => Some(Address::Unix(path.0.clone())),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(Accepted, Client)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // Without this, an answer in two writes waits for the client's acknowledgement of the first.
                stream.set_nodelay(true)?;
                Ok((Accepted::Tcp(stream), Client::Tcp(address)))
            }
            Self::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((Accepted::Unix(stream), Client::Unix))
            }
        }
    }
}

/// Removes the file of a socket that nobody listens on. Another server's socket, and a file that is no socket, stay.
async fn remove_unused(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            use std::os::unix::fs::FileTypeExt;
            match std::fs::symlink_metadata(path)?.file_type().is_socket() {
                true => std::fs::remove_file(path),
                false => Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file is there that is no socket")),
            }
        }
        // Binding reports whatever else is wrong.
        Err(_) => Ok(()),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is left is replaced by the next server.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for text in ["127.0.0.1:8080", "[::1]:0", "localhost:1", "unix:/run/carton.sock"] {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "8080", ":8080", "localhost", "localhost:99999", "localhost:http", "unix:"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError(text.to_owned())));
        }
    }
}
