//! TLS by rustls: the server's certificate, and the certificates of clients if they must have one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde::Deserialize;
use tokio_rustls::TlsAcceptor;

/// The files of TLS, in PEM.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The certificate of the server, followed by those that lead to its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The roots of clients' certificates. Connections without a certificate of one of them are refused.
    pub client_roots: Option<PathBuf>,
}

impl TlsFiles {
    /// TLS with this certificate and key, for any client.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), client_roots: None }
    }

    /// Demands a certificate of clients, which one of the roots in this file signed.
    #[must_use]
    pub fn client_roots(mut self, roots: impl Into<PathBuf>) -> Self {
        self.client_roots = Some(roots.into());
        self
    }
}

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("cannot use `{}` for TLS: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason, in words.
        reason: String,
    },
}

/// Makes TLS of files. `protocols` are the protocols that it agrees on (ALPN).
pub(crate) fn acceptor(files: &TlsFiles, protocols: &[&[u8]]) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let invalid = |path: &Path| {
        let path = path.to_path_buf();
        move |error: &dyn std::fmt::Display| TlsError::Invalid { path, reason: error.to_string() }
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| invalid(&files.certificate)(&error))?;
    let builder = match &files.client_roots {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| invalid(path)(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| invalid(path)(&error))?)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|error| invalid(&files.key)(&error))?;
    let config = builder.with_single_cert(certificates(&files.certificate)?, key);
    let mut config = config.map_err(|error| invalid(&files.certificate)(&error))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let invalid = |reason: String| TlsError::Invalid { path: path.to_path_buf(), reason };
    let certificates = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| invalid(error.to_string()))?;
    match certificates.is_empty() {
        true => Err(invalid("it has no certificate in PEM".to_owned())),
        false => Ok(certificates),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_path_buf(), source })
}
