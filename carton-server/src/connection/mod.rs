//! Connections: where the server listens, TLS, and the limits of HTTP/1 and HTTP/2. Knows no resources.

mod listener;
mod serve;
mod tls;
mod unread;
mod watchdog;

pub use listener::{Address, AddressError};
pub use tls::{TlsError, TlsFiles};

pub(crate) use listener::{Client, Listener};
pub(crate) use serve::{Connections, Service, serve};
pub(crate) use tls::acceptor;
